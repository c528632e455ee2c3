package transport

import "github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"

// Batch is the error that Pipe.Read returns for an array of messages. The revision 2025-03-26 has
// batches and requires receivers to accept them (§Base Protocol, "Batching"). For that revision,
// pass Raw to jsonrpc.ScanBatch. For all other revisions, refuse the array with the *jsonrpc.Error
// that Unwrap returns, which has CodeInvalidRequest. The transport has checked only the first byte
// and the length of the array.
type Batch struct {
	Raw []byte // the whole array; the caller of Read may keep it
}

var errBatch = &jsonrpc.Error{
	Code:    jsonrpc.CodeInvalidRequest,
	Message: "this protocol revision does not have batches; send one message at a time",
}

func (b *Batch) Error() string { return errBatch.Error() }

// Unwrap returns a *jsonrpc.Error, so that errors.As finds it. All batches share this error, so it
// must not be modified.
func (b *Batch) Unwrap() error { return errBatch }
