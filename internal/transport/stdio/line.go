package stdio

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"sync"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/transport"
)

const (
	readBuffer = 32 << 10 // size of the read buffer in bytes; a pipe on Linux holds 64 KiB
	shownBytes = 256      // bytes of a refused line that are kept for diagnosis
)

// lines.next returns these errors, in addition to the errors of its reader.
var (
	errTooLong      = errors.New("the line is too long")
	errUnterminated = errors.New("the last line of the stream has no newline")
)

// lines splits a stream at its newlines. It buffers at most limit bytes of a line, and skips
// blank lines. The results do not depend on the chunks in which the stream arrives. Only the time
// at which a line over the limit is reported depends on the chunks.
type lines struct {
	r       *bufio.Reader
	limit   int
	endless int64           // maximum number of bytes to skip in one line
	long    jsonrpc.Salvage // reads a line over the limit to find which request the line answers
	shown   []byte          // the first bytes of a line over the limit, until the line is reported
	skip    bool            // the rest of the current line is discarded
	skipped int64           // number of discarded bytes of the current line
	stall   *time.Timer     // timer that runs while the rest of a line over the limit is missing
	giveUp  func()          // called by stall; unblocks the reader
	err     error           // the error that ended reading
}

// maxStall is how long to wait for more data of a line over the limit. Then reading ends. If the
// sender stopped in the middle of such a line, its later messages would be read as parts of the
// line.
const maxStall = 10 * time.Second

func newLines(r io.Reader, limit int, giveUp func()) *lines {
	return &lines{r: bufio.NewReaderSize(r, readBuffer), limit: limit, endless: transport.Endless(limit), giveUp: giveUp}
}

// next returns the next line without trailing white space, in a new slice.
//
// If the error is errTooLong, next returns the first shownBytes of a line over the limit. A line
// over the limit may never end, so the method next returns as soon as l.long has decided which
// request the line answers. If the error is errUnterminated, next returns the data after the last
// newline at the end of the stream. Any other error is final.
func (l *lines) next() ([]byte, error) {
	var long []byte // the earlier parts of the current line
	defer func() { putLong(long) }()
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
		// Do not keep white space beyond the limit. If the line ends after the white space, the
		// white space is trimmed. Otherwise the line is too long anyway.
		room := l.limit - len(long)
		if len(content) > room {
			l.shown = join(long, content, shownBytes)
			l.skip, l.skipped = true, 0
			l.long.Reset()
			_, _ = l.long.Write(long)
			putLong(long)
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
			if long == nil {
				long = getLong()
			}
			long = append(long, frag[:min(len(frag), room)]...)
		case err == nil && len(long) == 0:
			if len(content) > 0 {
				return bytes.Clone(content), nil
			}
		case err == nil || err == io.EOF:
			if len(content) == 0 {
				long = trimRight(long)
			}
			line := long
			if cap(long) > maxLong { // the buffer is lost to the pool anyway
				line = append(line, content...)
			} else {
				line = join(long, content, len(long)+len(content))
				putLong(long)
			}
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

// read returns the next part of the stream: at most readBuffer bytes, up to a newline. If read
// takes longer than maxStall while a line over the limit is skipped, giveUp is called.
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

// discard discards a part of a line over the limit. err is the error that the method read returned
// together with frag. discard returns true if the method next must report the line now.
func (l *lines) discard(frag []byte, err error) bool {
	l.skipped += int64(len(frag))
	ended := err != bufio.ErrBufferFull
	switch {
	case err != nil && ended:
		l.err = err
	case !ended && l.skipped > l.endless:
		l.err = transport.ErrEndless
		return false // the caller returns this error, which ends the pipe
	}
	l.skip = !ended
	if l.shown == nil {
		return false
	}
	_, _ = l.long.Write(frag)
	return ended || l.long.Decided()
}

// longs is a pool of buffers for what has to be in one piece while it is read or written, and is longer
// than the buffers that a pipe keeps. The collector may take them.
var longs sync.Pool

// maxLong is the maximum capacity of a buffer in longs.
const maxLong = 4 << 20

func getLong() []byte {
	if b, ok := longs.Get().(*[]byte); ok {
		return (*b)[:0]
	}
	return make([]byte, 0, 2*keptBuffer)
}

// putLong gives a buffer back. Nobody may use it, or a part of it, any longer.
func putLong(b []byte) {
	if cap(b) > 0 && cap(b) <= maxLong {
		kept := b // only this allocates
		longs.Put(&kept)
	}
}

// trimRight removes newlines, carriage returns, spaces and tabs at the end of b.
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

// join returns the first n bytes of a followed by b, in a new slice.
func join(a, b []byte, n int) []byte {
	a = a[:min(len(a), n)]
	b = b[:min(len(b), n-len(a))]
	return append(append(make([]byte, 0, len(a)+len(b)), a...), b...)
}
