package fake

import (
	"bytes"
	"io"
	"sync"

	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
)

// capture records messages. A nil capture records nothing.
type capture struct {
	mu  sync.Mutex // held while a line is written, so that lines do not mix
	out io.Writer
}

func newCapture(w io.Writer) *capture {
	if w == nil {
		return nil
	}
	return &capture{out: w}
}

// The directions of a message: to the server, and from the server.
const (
	request  = "request"
	response = "response"
)

// write writes one message as a line. It ignores write errors.
func (c *capture) write(direction string, msg []byte) {
	if c == nil {
		return
	}
	line := append([]byte(nil), `{"capture":{"direction":"`...)
	line = append(line, direction...)
	line = append(line, `","payload":`...)
	if jsonrpc.Valid(msg, jsonrpc.Limits{}) == nil {
		// In valid JSON, line breaks occur only as white space between tokens.
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
