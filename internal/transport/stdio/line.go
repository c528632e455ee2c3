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
	readBuffer = 32 << 10 // size of one read; a pipe holds 64 KiB
	shownBytes = 256      // how much of a refused line is kept for diagnosis
)

// Errors of lines.next in addition to those of its reader.
var (
	errTooLong      = errors.New("line too long")
	errUnterminated = errors.New("line without newline at the end of the stream")
)

// lines splits a stream at its newlines. It buffers at most limit bytes of a line and
// skips blank ones. The results do not depend on how the stream is split into reads,
// except for when a line over the limit is reported.
type lines struct {
	r       *bufio.Reader
	limit   int
	endless int64           // bytes of one line that are skipped before reading fails
	long    jsonrpc.Salvage // reads a line over the limit
	shown   []byte          // the beginning of that line, until it is reported
	skip    bool            // discard the rest of the current line
	skipped int64           // discarded bytes of it
	stall   *time.Timer     // runs while waiting for the rest of a line over the limit
	giveUp  func()          // called when the rest does not come; unblocks the reader
	err     error           // final
}

// maxStall is how long to wait for the rest of a line over the limit without any data.
// Anything that the other end writes later would be taken for a part of the line.
const maxStall = 10 * time.Second

func newLines(r io.Reader, limit int, giveUp func()) *lines {
	return &lines{r: bufio.NewReaderSize(r, readBuffer), limit: limit, endless: transport.Endless(limit), giveUp: giveUp}
}

// next returns the next line without trailing white space, in new memory.
//
// With errTooLong it returns the first shownBytes of a line over the limit, as soon as
// l.long has decided which request it answers, because such a line may never end. With
// errUnterminated it returns the data after the last newline at the end of the stream.
// Any other error is final.
func (l *lines) next() ([]byte, error) {
	var long []byte // the earlier fragments of this line
	for l.err == nil {
		frag, err := l.read()
		if l.skip {
			if l.discard(frag, err) {
				shown := l.shown
				l.shown = nil
				return shown, errTooLong
			}
			continue
		}
		content := trimRight(frag)
		// Blanks beyond the limit are not kept: either the line ends after them, or the
		// line is too long anyway.
		room := l.limit - len(long)
		if len(content) > room {
			l.shown = join(long, content, shownBytes)
			l.skip, l.skipped = true, 0
			l.long.Reset()
			_, _ = l.long.Write(long)
			long = nil
			if l.discard(frag, err) {
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
// must arrive within maxStall.
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

// discard discards a fragment of a line over the limit; err is what ended it. It
// reports whether the line is to be reported now.
func (l *lines) discard(frag []byte, err error) bool {
	l.skipped += int64(len(frag))
	ended := err != bufio.ErrBufferFull
	switch {
	case err != nil && ended:
		l.err = err
	case !ended && l.skipped > l.endless:
		l.err = transport.ErrEndless
		return false // the error is reported to everybody
	}
	l.skip = !ended
	if l.shown == nil {
		return false
	}
	_, _ = l.long.Write(frag)
	return ended || l.long.Decided()
}

// trimRight removes trailing newlines, carriage returns, blanks and tabs.
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

// join returns the first n bytes of a and b together, in new memory.
func join(a, b []byte, n int) []byte {
	a = a[:min(len(a), n)]
	b = b[:min(len(b), n-len(a))]
	return append(append(make([]byte, 0, len(a)+len(b)), a...), b...)
}
