package lines

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"slices"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/dragoman-mcp/dragoman/internal/mcp"
)

// maxLine is the largest message of a client, in bytes.
const maxLine = 32 << 20

// Conn passes the messages of a client to the SDK. One goroutine may read while others write.
type Conn struct {
	in  io.Reader
	buf *bufio.Reader
	now []byte // the rest of the current line

	revision string // the revision that the client requested with initialize

	mu  sync.Mutex // held while one message is written
	out io.Writer

	closing sync.Once
	closed  error // of Close
}

var errLongLine = errors.New("the client sent a message that is too long")

// Serve lets a server answer one client, whose messages come from in, until in or ctx ends. The end
// of in is not an error.
func Serve(ctx context.Context, server *sdk.Server, in io.Reader, out io.Writer) error {
	l := New(in, out)
	err := server.Run(ctx, &sdk.IOTransport{Reader: l, Writer: l, MaxLineLength: -1})
	if errors.Is(err, io.EOF) {
		return nil
	}
	return err
}

// New returns a Conn for a client whose messages come from in.
func New(in io.Reader, out io.Writer) *Conn { return &Conn{in: in, out: out} }

// Read returns the bytes of the next messages, each on a line of its own.
func (l *Conn) Read(p []byte) (int, error) {
	if l.buf == nil {
		l.buf = bufio.NewReaderSize(l.in, 64<<10)
	}
	for len(l.now) == 0 {
		line, err := l.next()
		if err != nil {
			return 0, err
		}
		l.now = line
	}
	n := copy(p, l.now)
	l.now = l.now[n:]
	return n, nil
}

// next returns the next line if it is a message, with its end. It returns nil for any other line.
func (l *Conn) next() ([]byte, error) {
	var line []byte
	for {
		part, err := l.buf.ReadSlice('\n')
		if len(line)+len(part) > maxLine {
			_, _ = l.Write(failure(nil, -32600, "the message is longer than 32 MiB", nil))
			return nil, errLongLine
		}
		line = append(line, part...)
		if err == nil {
			break
		}
		if !errors.Is(err, bufio.ErrBufferFull) {
			if len(bytes.TrimSpace(line)) > 0 {
				return append(line, '\n'), nil // the last line may lack its end
			}
			return nil, err
		}
	}
	text := bytes.TrimSpace(line)
	if len(text) == 0 {
		return nil, nil
	}
	if refused := l.check(text); refused != nil {
		_, err := l.Write(refused)
		return nil, err
	}
	return append(hideID(text), '\n'), nil
}

// check returns the answer to a message that must not reach the SDK, or nil.
func (l *Conn) check(text []byte) []byte {
	if !json.Valid(text) {
		return failure(nil, -32700, "the line is not valid JSON", nil)
	}
	if text[0] == '[' {
		var all []json.RawMessage
		_ = json.Unmarshal(text, &all)
		if len(all) == 0 {
			return failure(nil, -32600, "the batch is empty", nil)
		}
		if r, ok := mcp.ParseRevision(l.revision); !ok || !r.Can(mcp.Batches) {
			return failure(nil, -32600, "batches are part of revision 2025-03-26 only", nil)
		}
		for _, m := range all {
			if _, err := jsonrpc.DecodeMessage(m); err != nil {
				return failure(nil, -32600, "the batch has an element that is not a JSON-RPC message", nil)
			}
		}
		return nil
	}
	if _, err := jsonrpc.DecodeMessage(text); err != nil {
		return failure(nil, -32600, "the line is not a JSON-RPC message", nil)
	}
	var m struct {
		ID     json.RawMessage `json:"id"`
		Method string          `json:"method"`
		Params json.RawMessage `json:"params"`
	}
	if json.Unmarshal(text, &m) != nil || m.Method == "" {
		return nil
	}
	var params struct {
		Version string `json:"protocolVersion"`
		Meta    struct {
			Version *string `json:"io.modelcontextprotocol/protocolVersion"`
		} `json:"_meta"`
	}
	if len(m.Params) == 0 || json.Unmarshal(m.Params, &params) != nil {
		return nil // the SDK reports errors in the parameters
	}
	if m.Method == "initialize" {
		l.revision = params.Version
	}
	// The SDK treats an unknown version as an old one, and does not recognise server/discover.
	supported := sdk.SupportedProtocolVersions()
	if v := params.Meta.Version; v != nil && len(m.ID) > 0 && !slices.Contains(supported, *v) {
		return failure(m.ID, sdk.CodeUnsupportedProtocolVersion, "unsupported protocol version", sdk.UnsupportedProtocolVersionData{Supported: supported, Requested: *v})
	}
	return nil
}

// failure returns an error on a line.
func failure(id json.RawMessage, code int, text string, data any) []byte {
	e := map[string]any{"code": code, "message": text}
	if data != nil {
		e["data"] = data
	}
	if id == nil {
		id = json.RawMessage("null")
	}
	b, _ := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": id, "error": e})
	return append(b, '\n')
}

// Write writes one message. The SDK passes each message in one call.
func (l *Conn) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if _, err := l.out.Write(showID(p)); err != nil {
		return 0, err
	}
	return len(p), nil
}

// Close closes the input if it is an io.Closer, which ends a pending Read. Close may be called again.
func (l *Conn) Close() error {
	l.closing.Do(func() {
		if c, ok := l.in.(io.Closer); ok {
			l.closed = c.Close()
		}
	})
	return l.closed
}
