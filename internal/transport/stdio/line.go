package stdio

import (
	"bufio"
	"bytes"
	"errors"
	"io"
)

const (
	readBuffer = 32 << 10 // what one read takes at most; a pipe holds 64 KiB
	shownBytes = 256      // of a refused line, for those who look into it
)

// Errors of lines.next beside those of its reader.
var (
	errTooLong      = errors.New("line too long")
	errUnterminated = errors.New("line without newline at the end of the stream")
)

// lines splits a stream at its newlines. It buffers no more than limit bytes of a
// line and skips blank ones. What it returns does not depend on how the stream
// was cut into reads.
type lines struct {
	r     *bufio.Reader
	limit int
	skip  bool  // the rest of the current line is to be discarded
	err   error // final
}

func newLines(r io.Reader, limit int) *lines {
	return &lines{r: bufio.NewReaderSize(r, readBuffer), limit: limit}
}

// next returns the next line without the white space at its end, in memory of
// its own.
//
// With errTooLong it returns the first shownBytes of a line whose content goes
// beyond the limit, as soon as that is certain: such a line may never end. With
// errUnterminated it returns what stood after the last newline when the stream
// ended. Any other error is final.
func (l *lines) next() ([]byte, error) {
	var long []byte // what earlier fragments of this line held
	for l.err == nil {
		frag, err := l.r.ReadSlice('\n')
		if l.skip {
			l.skip = err == bufio.ErrBufferFull
			if err != nil && err != bufio.ErrBufferFull {
				l.err = err
			}
			continue
		}
		content := trimRight(frag)
		// Blanks beyond the limit are not kept: they are either the line's end, or
		// what follows them is too much anyway.
		room := l.limit - len(long)
		if len(content) > room {
			l.skip = err == bufio.ErrBufferFull
			if err != nil && err != bufio.ErrBufferFull {
				l.err = err
			}
			return join(long, content, shownBytes), errTooLong
		}
		switch {
		case err == bufio.ErrBufferFull:
			long = append(long, frag[:min(len(frag), room)]...)
		case err == nil && len(long) == 0:
			if len(content) > 0 {
				return bytes.Clone(content), nil
			}
		case err == nil || err == io.EOF:
			line := trimRight(append(long, content...))
			long = nil
			if err != nil {
				l.err = err
				err = errUnterminated
			}
			if len(line) > 0 {
				return line, err
			}
		default:
			l.err = err
		}
	}
	return nil, l.err
}

// trimRight cuts off newline, carriage return, blanks and tabs.
func trimRight(b []byte) []byte {
	for len(b) > 0 {
		switch b[len(b)-1] {
		case '\n', '\r', ' ', '\t':
			b = b[:len(b)-1]
			continue
		}
		break
	}
	return b
}

// join returns the first n bytes of a and b together, in memory of its own.
func join(a, b []byte, n int) []byte {
	a = a[:min(len(a), n)]
	b = b[:min(len(b), n-len(a))]
	return append(append(make([]byte, 0, len(a)+len(b)), a...), b...)
}
