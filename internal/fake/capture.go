package fake

import (
	"bytes"
	"io"
	"sync"

	"github.com/dragoman-mcp/dragoman/internal/jsonrpc"
)

// capture writes messages down as they pass. A nil capture writes nothing.
type capture struct {
	mu  sync.Mutex // held while a line is written: nothing else may come between
	out io.Writer
}

func newCapture(w io.Writer) *capture {
	if w == nil {
		return nil
	}
	return &capture{out: w}
}

// The directions of a message: towards the server, and from it.
const (
	request  = "request"
	response = "response"
)

// write writes one message as a line. That its writer fails is not the peer's
// concern.
func (c *capture) write(direction string, msg []byte) {
	if c == nil {
		return
	}
	line := append([]byte(nil), `{"capture":{"direction":"`...)
	line = append(line, direction...)
	line = append(line, `","payload":`...)
	if jsonrpc.Valid(msg, jsonrpc.Limits{}) == nil {
		// Within JSON a line can only end where white space may stand.
		at := len(line)
		line = append(line, bytes.TrimSpace(msg)...)
		for i := at; i < len(line); i++ {
			if line[i] == '\n' || line[i] == '\r' {
				line[i] = ' '
			}
		}
	} else {
		line = jsonrpc.AppendQuote(line, string(msg))
	}
	line = append(line, "}}\n"...)
	c.mu.Lock()
	defer c.mu.Unlock()
	_, _ = c.out.Write(line)
}
