package jsonrpc

import "sync"

// buffers holds buffers for messages on their way out. Every transport copies or
// writes what it is given before it returns, so a buffer is free again then.
var buffers = sync.Pool{New: func() any { return new([]byte) }}

// maxPooled keeps a single large message from being kept for ever.
const maxPooled = 1 << 20

// GetBuffer returns an empty buffer with room for n bytes. PutBuffer takes it back. Both
// are safe for concurrent use.
func GetBuffer(n int) *[]byte {
	b := buffers.Get().(*[]byte)
	if cap(*b) < n {
		*b = make([]byte, 0, n)
	}
	return b
}

// PutBuffer takes back a buffer of GetBuffer; used is the slice that it has become. Neither
// may be used afterwards. Large buffers are left to the garbage collector.
func PutBuffer(b *[]byte, used []byte) {
	if cap(used) > maxPooled {
		return
	}
	*b = used[:0]
	buffers.Put(b)
}
