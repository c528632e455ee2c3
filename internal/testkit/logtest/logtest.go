// Package logtest has a buffer for what a test lets others write: log records, the standard error of a process, the
// messages that a fake server has seen.
//
// The writers are other goroutines, mostly, and still run when the test looks. So a bytes.Buffer is a data race, and each
// test used to have a mutex around one. A test that wants more of its log puts a Buffer into a struct of its own.
package logtest

import (
	"bytes"
	"sync"
)

// Buffer is a buffer that several goroutines may use at the same time. The zero value is empty and ready to use.
type Buffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

// Write implements io.Writer. It never fails.
func (b *Buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

// String returns all that was written.
func (b *Buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

// Take returns what was written since the last Take.
func (b *Buffer) Take() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	defer b.b.Reset()
	return b.b.String()
}

// Count returns how often any of these texts occurs. Unlike String, it doesn't copy the buffer, which in some tests
// grows to several megabytes.
func (b *Buffer) Count(texts ...string) (n int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, text := range texts {
		n += bytes.Count(b.b.Bytes(), []byte(text))
	}
	return n
}
