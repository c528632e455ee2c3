package lines

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	wire "github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
)

// maxLine is the maximum size of a message from the client, in bytes.
const maxLine = 32 << 20

// Conn passes messages between a client and the SDK. One goroutine may call Read while others call
// Write.
type Conn struct {
	in  io.Reader
	buf *bufio.Reader
	now []byte // the part of the last result of next that Read has not returned yet

	revision string // the revision that the client requested with initialize
	requests requests

	mu  sync.Mutex // held while one message is written
	out io.Writer

	closing sync.Once
	done    chan struct{} // closed by Close
	closed  error         // the result of Close
}

// drainTime is how long requests may run after the end of the input. The client may have sent a few
// lines from a file, and still read the responses.
const drainTime = 5 * time.Second

var errLongLine = errors.New("the client sent a message that is too long")

// Serve connects server to one client until in ends or ctx ends. It reads the client's messages
// from in, and writes the server's messages to out. When in ends, running requests get a few seconds,
// and Serve returns nil.
func Serve(ctx context.Context, server *sdk.Server, in io.Reader, out io.Writer) error {
	l := New(in, out)
	err := server.Run(ctx, &sdk.IOTransport{Reader: l, Writer: l, MaxLineLength: -1})
	if errors.Is(err, io.EOF) {
		return nil
	}
	return err
}

// New returns a Conn that reads the client's messages from in, and writes the server's messages to
// out.
func New(in io.Reader, out io.Writer) *Conn {
	return &Conn{in: in, out: out, done: make(chan struct{})}
}

// Read returns the next bytes for the SDK: the client's messages, each on its own line.
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

// next reads one line from the client, which contains a message or a batch. It returns the messages
// that the SDK must get, each on its own line, or nil if the SDK must get nothing.
func (l *Conn) next() ([]byte, error) {
	var line []byte
	for {
		part, err := l.buf.ReadSlice('\n')
		if len(line)+len(part) > maxLine {
			_ = l.send(failure(invalid("the message is longer than 32 MiB")))
			return nil, errLongLine
		}
		line = append(line, part...)
		if err == nil {
			break
		}
		if !errors.Is(err, bufio.ErrBufferFull) {
			if len(bytes.TrimSpace(line)) > 0 {
				break // the last line may have no line end
			}
			l.drain()
			return nil, err
		}
	}
	text := bytes.TrimSpace(line)
	switch {
	case len(text) == 0:
		return nil, nil
	case text[0] == '[':
		return l.batch(text)
	}
	passed, refused := l.admit(text, nil)
	if refused != nil {
		return nil, l.send(failure(refused))
	}
	return passed, nil
}

// drain waits until the client has got the responses to all requests, but at most for drainTime.
// After the end of the input, the SDK writes no more responses. Subscriptions do not delay the end.
func (l *Conn) drain() {
	late := time.NewTimer(drainTime)
	defer late.Stop()
	select {
	case <-l.requests.idle():
	case <-late.C:
	case <-l.done:
	}
}

// batch returns those messages of a batch that the SDK must get, each on its own line. The
// responses to the requests of the batch become one array (2025-03-26 §Base, "Batching").
func (l *Conn) batch(text []byte) ([]byte, error) {
	refuse := func(why string) ([]byte, error) { return nil, l.send(failure(invalid(why))) }
	if r, ok := mcp.ParseRevision(l.revision); !ok || !r.Can(mcp.Batches) {
		return refuse("batches are part of revision 2025-03-26 only")
	}
	if !json.Valid(text) {
		return nil, l.send(failure(&jsonrpc.Error{Code: jsonrpc.CodeParse, Message: "the line is not valid JSON"}))
	}
	var all [][]byte
	for at := range jsonrpc.Elements(text, jsonrpc.Whole(text)) {
		if len(all) == maxBatch {
			return refuse("the batch has more than " + strconv.Itoa(maxBatch) + " messages")
		}
		all = append(all, at.Of(text))
	}
	if len(all) == 0 {
		return refuse("the batch is empty")
	}
	var passed []byte
	b := &batch{}
	for _, message := range all {
		line, refused := l.admit(message, b)
		if refused != nil {
			b.refuse(refused)
		}
		passed = append(passed, line...)
	}
	if b.missing == 0 { // the SDK will not respond to any message of the batch
		return passed, l.send(b.line())
	}
	return passed, nil
}

// admit returns the line that the SDK gets for one message of the client, or nil for a notification
// that the SDK need not get. If b is not nil, the message is part of the batch b. If the error is
// not nil, the message must not reach the SDK.
func (l *Conn) admit(text []byte, b *batch) ([]byte, *jsonrpc.Error) {
	m, refused := scan(text)
	if refused != nil || m.Kind == jsonrpc.Result || m.Kind == jsonrpc.Failure {
		// The SDK checks the response to a request of its own.
		if decoded, err := wire.DecodeMessage(text); err == nil && isResponse(decoded) {
			return append(slices.Clone(text), '\n'), nil
		}
		if refused == nil {
			refused = invalid("the SDK cannot read the message")
		}
		return nil, refused
	}
	var edits jsonrpc.Edits
	var number uint64
	switch {
	case m.Kind == jsonrpc.Request && strings.HasPrefix(m.Method, "notifications/"):
		// The SDK would obey the notification.
		return nil, &jsonrpc.Error{Code: jsonrpc.CodeMethodNotFound, Message: m.Method + " is a notification, so it has no id", ID: m.ID}
	case m.Kind == jsonrpc.Request:
		number = l.requests.reserve()
		edits.Replace(mcp.WhyID, m.IDAt, appendOwnID(nil, number))
	case m.Method == mcp.NoteCancelled:
		at := m.Param("requestId")
		if at.IsZero() {
			return nil, nil
		}
		// All revisions, §Cancellation: a request that is not running cannot be cancelled.
		cancelled, ok := l.requests.cancel(at.Of(text))
		if !ok {
			return nil, nil
		}
		edits.Replace(mcp.WhyID, at, appendOwnID(nil, cancelled))
	}
	passed := jsonrpc.Splice(nil, text, &edits)
	decoded, err := wire.DecodeMessage(passed)
	request, ok := decoded.(*wire.Request)
	if err != nil || !ok {
		refused = invalid("the SDK cannot read the message")
		refused.ID = m.ID
		return nil, refused
	}
	if refused := l.check(request, m); refused != nil {
		return nil, refused
	}
	if m.Kind == jsonrpc.Request {
		if refused := l.requests.add(m, number, b); refused != nil {
			return nil, refused
		}
	}
	return append(passed, '\n'), nil
}

func isResponse(m wire.Message) bool {
	_, ok := m.(*wire.Response)
	return ok
}

// scan parses a message from the client.
func scan(text []byte) (*jsonrpc.Message, *jsonrpc.Error) {
	m, err := jsonrpc.Scan(text, jsonrpc.Limits{Bytes: maxLine})
	if refused := (*jsonrpc.Error)(nil); errors.As(err, &refused) {
		return nil, refused
	}
	return m, nil
}

// check returns the error for a request that must not reach the SDK, or nil. For initialize, it
// also stores the requested revision in l.revision.
func (l *Conn) check(request *wire.Request, m *jsonrpc.Message) *jsonrpc.Error {
	var params struct {
		Version string `json:"protocolVersion"`
		Meta    struct {
			Version *string `json:"io.modelcontextprotocol/protocolVersion"`
		} `json:"_meta"`
	}
	if len(request.Params) == 0 || json.Unmarshal(request.Params, &params) != nil {
		return nil // the SDK reports errors in the parameters
	}
	if request.Method == mcp.MethodInitialize && request.IsCall() && l.revision == "" {
		l.revision = params.Version // the SDK refuses a second initialize
	}
	// The SDK treats an unknown version like an old one, and does not recognise server/discover.
	supported := sdk.SupportedProtocolVersions()
	if v := params.Meta.Version; v != nil && request.IsCall() && !slices.Contains(supported, *v) {
		data, _ := json.Marshal(sdk.UnsupportedProtocolVersionData{Supported: supported, Requested: *v})
		return &jsonrpc.Error{Code: sdk.CodeUnsupportedProtocolVersion, Message: "unsupported protocol version", Data: data, ID: m.ID}
	}
	return nil
}

// invalid returns the error for an invalid message. The error has no id.
func invalid(why string) *jsonrpc.Error {
	return &jsonrpc.Error{Code: jsonrpc.CodeInvalidRequest, Message: why}
}

// failure returns e as a JSON-RPC response on its own line. The id is null if e has none.
func failure(e *jsonrpc.Error) []byte {
	id := e.ID
	if id == "" {
		id = "null"
	}
	return append(jsonrpc.AppendError(nil, id, e), '\n')
}

// Write writes one message from the SDK. The SDK passes each message in one call. If the message is
// a response to a request in a batch, Write keeps it until the batch has all its responses.
func (l *Conn) Write(p []byte) (int, error) {
	line, answered := l.requests.pass(p)
	err := l.send(line)
	if answered {
		l.requests.sent()
	}
	if err != nil {
		return 0, err
	}
	return len(p), nil
}

// send writes a line, unless it is empty.
func (l *Conn) send(line []byte) error {
	if len(line) == 0 {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	_, err := l.out.Write(line)
	return err
}

// Close closes the input if it is an io.Closer, so that a pending Read returns. Close may be called
// more than once.
func (l *Conn) Close() error {
	l.closing.Do(func() {
		close(l.done)
		if c, ok := l.in.(io.Closer); ok {
			l.closed = c.Close()
		}
	})
	return l.closed
}
