package transport

import "github.com/dragoman-mcp/dragoman/internal/jsonrpc"

// Batch is the error by which a Pipe's Read returns an array instead of a message.
// 2025-03-26 has batches and requires receivers to accept them (§Base Protocol,
// "Batching"); for that revision pass Raw to jsonrpc.ScanBatch. For all others it
// unwraps to a refused frame, a *jsonrpc.Error with CodeInvalidRequest. Only the first
// byte and the length of the array have been checked.
type Batch struct {
	Raw []byte // the whole array; the receiver may keep it
}

var errBatch = &jsonrpc.Error{
	Code:    jsonrpc.CodeInvalidRequest,
	Message: "batches do not exist in this protocol revision",
}

func (b *Batch) Error() string { return errBatch.Error() }

// Unwrap lets errors.As find the *jsonrpc.Error, which is shared and must not be
// changed.
func (b *Batch) Unwrap() error { return errBatch }
