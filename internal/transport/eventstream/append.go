package eventstream

import (
	"bytes"
	"strconv"
	"strings"
	"time"
)

// AppendEvent appends an event. It omits an id or a name that is empty, or that contains a line end
// or NUL. It splits data at line ends into data lines. For empty data, it appends one empty data
// line. An event with an id and empty data prepares the client to reconnect (2025-11-25
// §Transports, "Sending Messages to the Server").
func AppendEvent(dst []byte, id, name string, data []byte) []byte {
	if name != "" && oneLine(name) {
		dst = append(dst, "event: "...)
		dst = append(dst, name...)
		dst = append(dst, '\n')
	}
	if id != "" && oneLine(id) {
		dst = append(dst, "id: "...)
		dst = append(dst, id...)
		dst = append(dst, '\n')
	}
	for {
		i := bytes.IndexByte(data, '\n')
		if j := bytes.IndexByte(data[:max(i, 0)], '\r'); j >= 0 {
			i = j
		} else if i < 0 {
			i = bytes.IndexByte(data, '\r')
		}
		dst = append(dst, "data: "...)
		if i < 0 {
			dst = append(dst, data...)
			return append(dst, '\n', '\n')
		}
		dst = append(dst, data[:i]...)
		dst = append(dst, '\n')
		if data[i] == '\r' && i+1 < len(data) && data[i+1] == '\n' {
			i++
		}
		data = data[i+1:]
	}
}

// AppendComment appends a comment. Readers ignore comments, so a comment can keep a connection
// alive. Line ends in text become spaces.
func AppendComment(dst []byte, text string) []byte {
	dst = append(dst, ':')
	if text != "" {
		dst = append(dst, ' ')
		start := len(dst)
		dst = append(dst, text...)
		for i, c := range dst[start:] {
			if c == '\r' || c == '\n' {
				dst[start+i] = ' '
			}
		}
	}
	return append(dst, '\n', '\n')
}

// AppendRetry appends a line that asks the client to wait for d before it reconnects. The delay
// is rounded to whole milliseconds. The line may come before or between events.
func AppendRetry(dst []byte, d time.Duration) []byte {
	dst = append(dst, "retry: "...)
	dst = strconv.AppendInt(dst, max(d.Milliseconds(), 0), 10)
	return append(dst, '\n')
}

// MaxID is the maximum length in bytes of an event id that ValidID allows.
const MaxID = 1 << 10

// ValidID reports whether an event id may be sent back in a Last-Event-ID header. Such an id has 1
// to MaxID bytes and contains only printable ASCII. It does not begin or end with a space.
func ValidID(id string) bool {
	if id == "" || len(id) > MaxID || id[0] == ' ' || id[len(id)-1] == ' ' {
		return false
	}
	for i := range len(id) {
		if id[i] < ' ' || id[i] > '~' {
			return false
		}
	}
	return true
}

func oneLine(s string) bool { return !strings.ContainsAny(s, "\r\n\x00") }
