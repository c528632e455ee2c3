package jsonrpc

import "sync"

// buffers holds buffers for outgoing messages. Every transport copies or writes the
// bytes before it returns, so the buffer can be reused then.
var buffers = sync.Pool{New: func() any { return new([]byte) }}

// maxPooled is the largest buffer that is kept, so that one large message does not
// occupy memory for ever.
const maxPooled = 1 << 20

// GetBuffer returns an empty buffer with room for n bytes, for PutBuffer. Both are safe
// for concurrent use.
func GetBuffer(n int) *[]byte {
	b := buffers.Get().(*[]byte)
	if cap(*b) < n {
		*b = make([]byte, 0, n)
	}
	return b
}

// PutBuffer returns a buffer of GetBuffer to the pool. used is the slice that it has
// become. Neither may be used afterwards. Buffers over maxPooled are left to the
// garbage collector.
func PutBuffer(b *[]byte, used []byte) {
	if cap(used) > maxPooled {
		return
	}
	*b = used[:0]
	buffers.Put(b)
}
