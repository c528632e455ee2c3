package jsonrpc

import "sync"

// buffers is a pool of buffers for outgoing messages. Every transport copies or writes the bytes of
// a message before it returns. After that, the caller can reuse the buffer.
var buffers = sync.Pool{New: func() any { return new([]byte) }}

// maxPooled is the size in bytes of the largest buffer that the pool keeps. The collector may take
// them, but larger ones would occupy too much memory until then.
const maxPooled = 4 << 20

// GetBuffer returns an empty buffer with room for n bytes. The caller should return it with
// PutBuffer. Both functions are safe for concurrent use.
func GetBuffer(n int) *[]byte {
	b := buffers.Get().(*[]byte)
	if cap(*b) < n {
		*b = make([]byte, 0, n)
	}
	return b
}

// PutBuffer returns a buffer from GetBuffer to the pool. used is the slice that the caller got by
// appending to the buffer. After the call, the caller must not use the slice or the buffer.
// PutBuffer does not keep buffers larger than maxPooled.
func PutBuffer(b *[]byte, used []byte) {
	if cap(used) > maxPooled {
		return
	}
	*b = used[:0]
	buffers.Put(b)
}
