package jsonrpc

import (
	"bytes"
	"strconv"
)

// MaxBatch is the maximum number of messages in a batch that ScanBatch accepts.
const MaxBatch = 100

// Item is one element of a batch. It contains either a Message whose Raw is a copy of the element,
// or the *Error that Scan returned for the element. Because Raw is a copy, an Item does not keep
// the whole batch in memory.
type Item struct {
	Message *Message
	Err     error
}

// IsBatch reports whether the first byte of b after white space starts an array. Only 2025-03-26
// has batches (§Base Protocol, "Batching"). Scan refuses a batch; ScanBatch reads it.
func IsBatch(b []byte) bool {
	i := skipSpace(b, 0)
	return i < len(b) && b[i] == '['
}

// ScanBatch scans an array of 1 to MaxBatch messages. lim.Bytes and lim.Tokens apply to the whole
// array. If b is not JSON, exceeds a limit, is not an array or is empty, ScanBatch returns an
// *Error and no items. If a single element is not a valid message, the Item of the element contains
// the error.
func ScanBatch(b []byte, lim Limits) ([]Item, error) {
	s := scannerOf(b, &lim)
	defer s.release()
	i := s.value(0)
	if i >= 0 {
		i = s.finish(i)
	}
	if i < 0 {
		return nil, s.err
	}
	whole := Whole(b)
	if b[whole.Start] != '[' {
		return nil, invalid("batch is not an array")
	}
	n := 0
	for range Elements(b, whole) {
		if n++; n > MaxBatch {
			return nil, invalid("batch has more than " + strconv.Itoa(MaxBatch) + " messages")
		}
	}
	if n == 0 {
		return nil, invalid("batch is empty") // JSON-RPC 2.0 §6
	}
	items := make([]Item, 0, n)
	for at := range Elements(b, whole) {
		m, err := Scan(bytes.Clone(at.Of(b)), lim)
		items = append(items, Item{m, err})
	}
	return items, nil
}
