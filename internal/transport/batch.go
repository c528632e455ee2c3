package transport

import "github.com/dragoman-mcp/dragoman/internal/jsonrpc"

// Batch is the error with which a Pipe's Read hands over an array where a
// message was due. 2025-03-26 has batches and must receive them (§Base Protocol,
// "Batching"); whoever speaks that revision takes Raw to jsonrpc.ScanBatch. For
// everybody else it is what it unwraps to: a refused frame, a *jsonrpc.Error with
// CodeInvalidRequest. Nothing of the array has been checked but its first byte
// and its length.
type Batch struct {
	Raw []byte // the whole array; the receiver's to keep
}

var errBatch = &jsonrpc.Error{
	Code:    jsonrpc.CodeInvalidRequest,
	Message: "batches do not exist in this protocol revision",
}

func (b *Batch) Error() string { return errBatch.Error() }

// Unwrap makes errors.As find the *jsonrpc.Error, which is shared and must not be
// changed.
func (b *Batch) Unwrap() error { return errBatch }
