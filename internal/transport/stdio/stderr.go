package stdio

import (
	"bytes"
	"errors"
	"io"
	"os"
	"strconv"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"
)

const (
	defaultStderr = 1 << 20
	// maxLine is the maximum number of bytes of one line of stderr that are shown or passed to
	// OnStderr. The ring keeps the whole line.
	maxLine = 4 << 10
)

// ring keeps the last bytes that were written to it. It holds up to size bytes, and is safe for
// concurrent use.
type ring struct {
	mu   sync.Mutex
	size int
	buf  []byte
	at   int // position of the oldest byte in a full buf; the next byte overwrites it
}

func (r *ring) write(b []byte) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(b) > r.size {
		b = b[len(b)-r.size:]
	}
	if room := r.size - len(r.buf); room > 0 {
		n := min(room, len(b))
		r.buf = append(r.buf, b[:n]...)
		b = b[n:]
	}
	for len(b) > 0 {
		n := copy(r.buf[r.at:], b)
		r.at = (r.at + n) % r.size
		b = b[n:]
	}
}

// bytes returns a copy of the bytes in the ring, oldest first.
func (r *ring) bytes() []byte {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append(append(make([]byte, 0, len(r.buf)), r.buf[r.at:]...), r.buf[:r.at]...)
}

// drain reads r to its end. It writes all data to keep, and calls each for every line unless each
// is nil. Only reading r and calling each can block drain.
func drain(r io.Reader, keep *ring, each func(line []byte)) error {
	buf := make([]byte, readBuffer)
	var line []byte // the beginning of the current line, at most maxLine bytes
	for {
		n, err := r.Read(buf)
		keep.write(buf[:n])
		if each != nil {
			for b := buf[:n]; len(b) > 0; {
				part, rest, ended := bytes.Cut(b, []byte{'\n'})
				line = append(line, part[:min(len(part), maxLine-len(line))]...)
				if ended {
					each(trimRight(line))
					line = line[:0]
				}
				b = rest
			}
		}
		if err != nil {
			if each != nil && len(line) > 0 {
				each(trimRight(line))
			}
			if err == io.EOF || errors.Is(err, os.ErrDeadlineExceeded) || errors.Is(err, os.ErrClosed) {
				return nil
			}
			return err
		}
	}
}

// tail returns the last n non-blank lines of b, made safe for a terminal.
func tail(b []byte, n int) []string {
	var last []string
	for len(b) > 0 && len(last) < n {
		b = bytes.TrimRight(b, "\r\n")
		i := bytes.LastIndexByte(b, '\n')
		if line := Printable(b[i+1:]); line != "" {
			last = append(last, line)
		}
		b = b[:max(i, 0)]
	}
	for i, j := 0, len(last)-1; i < j; i, j = i+1, j-1 {
		last[i], last[j] = last[j], last[i]
	}
	return last
}

// Printable makes a line from a child safe for a terminal or a log. It keeps only the text after
// the last carriage return, removes escape sequences, and escapes invisible characters and invalid
// UTF-8. It cuts the line after 4 KiB.
func Printable(line []byte) string {
	line = trimRight(line)
	if i := bytes.LastIndexByte(line, '\r'); i >= 0 {
		line = line[i+1:] // text before a carriage return was overwritten, for example by a progress bar
	}
	var s strings.Builder
	for len(line) > 0 {
		if s.Len() >= maxLine {
			s.WriteString("…")
			break
		}
		if line[0] == 0x1b {
			line = line[escapeLen(line):]
			continue
		}
		r, size := utf8.DecodeRune(line)
		switch {
		case r == utf8.RuneError && size == 1:
			s.WriteString(`\x` + strconv.FormatUint(uint64(line[0])|0x100, 16)[1:])
		case r == '\t' || unicode.IsPrint(r):
			s.WriteRune(r)
		case unicode.Is(unicode.Zs, r):
			s.WriteByte(' ')
		default:
			q := strconv.QuoteRuneToASCII(r)
			s.WriteString(q[1 : len(q)-1])
		}
		line = line[size:]
	}
	return strings.TrimRight(s.String(), " \t")
}

// escapeLen returns the length of the escape sequence at the start of b (ECMA-48: CSI, the
// strings OSC, DCS, SOS, PM and APC, and short sequences).
func escapeLen(b []byte) int {
	if len(b) < 2 {
		return len(b)
	}
	switch b[1] {
	case '[':
		for i := 2; i < len(b); i++ {
			if b[i] >= 0x40 && b[i] <= 0x7e {
				return i + 1
			}
			if b[i] < 0x20 || b[i] > 0x7e {
				return i // the sequence is incomplete
			}
		}
		return len(b)
	case ']', 'P', 'X', '^', '_':
		for i := 2; i < len(b); i++ {
			if b[i] == 0x07 {
				return i + 1
			}
			if b[i] == 0x1b {
				if i+1 < len(b) && b[i+1] == '\\' {
					return i + 2
				}
				return i
			}
		}
		return len(b)
	}
	i := 1
	for i < len(b) && b[i] >= 0x20 && b[i] <= 0x2f {
		i++
	}
	if i < len(b) && b[i] >= 0x30 && b[i] <= 0x7e {
		i++
	}
	return i
}
