package peer

import "sync"

// scratch holds buffers for messages on their way out. Every link copies or
// writes what it is given before it returns, so a buffer is free again then.
var scratch = sync.Pool{New: func() any { return new([]byte) }}

// maxScratch keeps a single large message from being kept for ever.
const maxScratch = 1 << 20

// take returns an empty buffer with room for n bytes.
func take(n int) *[]byte {
	b := scratch.Get().(*[]byte)
	if cap(*b) < n {
		*b = make([]byte, 0, n)
	}
	return b
}

// give takes a buffer back, in the form in which it was used.
func give(b *[]byte, used []byte) {
	if cap(used) > maxScratch {
		return
	}
	*b = used[:0]
	scratch.Put(b)
}
