package stdio

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/transport"
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
// was cut into reads, but for when a line over the limit is reported.
type lines struct {
	r       *bufio.Reader
	limit   int
	endless int64           // bytes of one line that are skipped before the stream is given up
	long    jsonrpc.Salvage // of a line over the limit
	shown   []byte          // the beginning of that line, until it is reported
	skip    bool            // the rest of the current line is to be discarded
	skipped int64           // bytes of it that were
	stall   *time.Timer     // runs while the rest of a line over the limit is awaited
	giveUp  func()          // called when it has not come; unblocks the reader
	err     error           // final
}

// maxStall is how long the rest of a line over the limit is waited for when nothing
// of it comes. Whatever the other end writes next would be taken for a part of it.
const maxStall = 10 * time.Second

func newLines(r io.Reader, limit int, giveUp func()) *lines {
	return &lines{r: bufio.NewReaderSize(r, readBuffer), limit: limit, endless: transport.Endless(limit), giveUp: giveUp}
}

// next returns the next line without the white space at its end, in memory of
// its own.
//
// With errTooLong it returns the first shownBytes of a line whose content goes
// beyond the limit, as soon as l.long has decided whose it is: such a line may
// never end. With errUnterminated it returns what stood after the last newline when
// the stream ended. Any other error is final.
func (l *lines) next() ([]byte, error) {
	var long []byte // what earlier fragments of this line held
	for l.err == nil {
		frag, err := l.read()
		if l.skip {
			if l.pass(frag, err) {
				shown := l.shown
				l.shown = nil
				return shown, errTooLong
			}
			continue
		}
		content := trimRight(frag)
		// Blanks beyond the limit are not kept: they are either the line's end, or
		// what follows them is too much anyway.
		room := l.limit - len(long)
		if len(content) > room {
			l.shown = join(long, content, shownBytes)
			l.skip, l.skipped = true, 0
			l.long.Reset()
			_, _ = l.long.Write(long)
			long = nil
			if l.pass(frag, err) {
				shown := l.shown
				l.shown = nil
				return shown, errTooLong
			}
			continue
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

// read returns the next fragment, up to a newline. The rest of a line over the limit
// must come within maxStall.
func (l *lines) read() ([]byte, error) {
	if l.skip {
		if l.stall == nil {
			l.stall = time.AfterFunc(maxStall, l.giveUp)
		} else {
			l.stall.Reset(maxStall)
		}
		defer l.stall.Stop()
	}
	return l.r.ReadSlice('\n')
}

// pass discards a fragment of a line over the limit; err is what ended it. It
// reports whether the line is to be reported now.
func (l *lines) pass(frag []byte, err error) bool {
	l.skipped += int64(len(frag))
	ended := err != bufio.ErrBufferFull
	switch {
	case err != nil && ended:
		l.err = err
	case !ended && l.skipped > l.endless:
		l.err = transport.ErrEndless
		return false // this is the reason for everybody
	}
	l.skip = !ended
	if l.shown == nil {
		return false
	}
	_, _ = l.long.Write(frag)
	return ended || l.long.Decided()
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
