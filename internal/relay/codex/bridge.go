package codex

import (
	"context"
	"errors"
	"io"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/base/excerpt"
	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/base/work"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
	"github.com/dragoman-mcp/dragoman/internal/relay/handshake"
	"github.com/dragoman-mcp/dragoman/internal/transport"
	"github.com/dragoman-mcp/dragoman/internal/transport/inmem"
)

// bridge is an MCP server that uses one worker. One goroutine reads from the client, and another
// goroutine reads from the worker. Tool calls and requests from the worker run on further
// goroutines, so the two readers never wait for the other side.
type bridge struct {
	server *Server
	worker *worker
	client transport.Pipe // one end of the in-memory pipe; Adapt returns this end
	side   transport.Pipe // the other end of the in-memory pipe, which the bridge uses
	begun  time.Time

	life    context.Context // ends when the client closes the pipe or the worker ends
	end     context.CancelCauseFunc
	running work.Group

	greeting atomic.Pointer[greeting] // the last handshake; nil before initialize
	events   chan string              // the names in {"event":…} lines that arrive during the handshake

	mu       sync.Mutex
	closing  bool // Close was called, so no new goroutine may start
	opening  bool // a handshake is running or has succeeded
	complete bool // the handshake has succeeded
	counted  bool // the method count has reported the end of the worker
	forms    bool // the client supports form elicitation
	urls     bool // the client supports URL elicitation
	calls    map[jsonrpc.ID]*turn
	threads  map[string]*turn // the running turn of each thread, by thread id
	children map[string]*turn // the turn of the subagent that opened a thread, by thread id
	asks     map[int64]chan *jsonrpc.Message
	lastAsk  int64
	open     map[jsonrpc.ID]context.CancelCauseFunc // cancel functions of the open requests from the worker, by request id
	// answering is the number of answers to the worker that are being written. It does not
	// include answers to requests in open.
	answering int
}

// These constants are limits for each worker.
const (
	maxTurns     = 64
	maxQuestions = 64
	maxAnswers   = 64
	maxChildren  = 256
	maxID        = 256 // maximum length in bytes of an id from a worker
)

var (
	errClosed   = errors.New("the pipe was closed")
	errResolved = errors.New("the Codex app-server no longer waits for the answer")
	errGivenUp  = errors.New("the client cancelled the call")
)

// Adapt takes over the pipe to a worker that has just started. It returns a pipe that speaks
// MCP 2025-11-25. The caller must close that pipe. The handshake with the worker starts when
// the client sends initialize.
func (s *Server) Adapt(p transport.Pipe) transport.Pipe {
	client, side := inmem.PipeOf(2*s.o.Message + 64<<10) // a result contains the worker's text twice
	b := &bridge{
		server: s, worker: newWorker(p), client: client, side: side, begun: time.Now(),
		events: make(chan string, 8), calls: map[jsonrpc.ID]*turn{}, threads: map[string]*turn{}, children: map[string]*turn{},
		asks: map[int64]chan *jsonrpc.Message{}, open: map[jsonrpc.ID]context.CancelCauseFunc{},
	}
	b.life, b.end = context.WithCancelCause(context.Background())
	b.worker.receive = b.receive
	b.worker.event = func(name string) {
		select {
		case b.events <- name:
		default:
		}
	}
	b.running.Go(func() {
		err := b.worker.read()
		b.end(err)
		b.count()
		_ = b.side.Close()
	})
	b.running.Go(func() {
		b.serve()
		b.end(errClosed)
		_ = b.worker.pipe.Close()
	})
	return &pipe{Pipe: client, b: b}
}

// pipe is the client's end of a bridge.
type pipe struct {
	transport.Pipe
	b *bridge
}

// Read returns the next message from the bridge. After the worker has ended, it returns an error
// with the reason.
func (p *pipe) Read() (*jsonrpc.Message, error) {
	m, err := p.Pipe.Read()
	if errors.Is(err, io.EOF) {
		if cause := context.Cause(p.b.life); cause != nil && !errors.Is(cause, errClosed) {
			err = cause
		}
	}
	return m, err
}

// Steps returns the steps of the last handshake with the worker. See upstream.Stepper.
func (p *pipe) Steps() handshake.Trace {
	g := p.b.greeting.Load()
	if g == nil {
		return nil
	}
	return g.steps()
}

// Stalled returns how long the worker has not read from its stdin. The bridge itself never stops
// reading.
func (p *pipe) Stalled() (d time.Duration, midway bool) { return p.b.worker.pipe.Stalled() }

// Close ends the bridge, and waits for all goroutines that the bridge has started.
func (p *pipe) Close() error {
	b := p.b
	b.mu.Lock()
	b.closing = true
	b.running.Close()
	b.mu.Unlock()
	b.end(errClosed)
	_ = b.client.Close()
	_ = b.side.Close()
	err := b.worker.pipe.Close()
	b.running.Wait()
	b.count()
	return err
}

// count reports the end of the worker to the Server. Only the first call has an effect.
func (b *bridge) count() {
	b.mu.Lock()
	counted, complete := b.counted, b.complete
	b.counted = true
	b.mu.Unlock()
	if counted {
		return
	}
	ours := errors.Is(context.Cause(b.life), errClosed)
	b.server.ended(complete, !complete || !ours && time.Since(b.begun) < steady)
}

// start runs f on a goroutine. Close waits until f has returned. After Close, start does not run f
// and returns false.
func (b *bridge) start(f func()) bool {
	return b.running.Go(f)
}

// serve handles the client's messages.
func (b *bridge) serve() {
	for {
		m, err := b.side.Read()
		var refused *jsonrpc.Error
		switch {
		case errors.As(err, &refused):
			b.say(jsonrpc.AppendError(nil, refused.ID, refused))
			continue
		case err != nil:
			return
		}
		switch m.Kind {
		case jsonrpc.Request:
			b.request(m)
		case jsonrpc.Notification:
			if m.Method == mcp.NoteCancelled {
				b.mu.Lock()
				t := b.calls[jsonrpc.ID(m.Param("requestId").Of(m.Raw))]
				b.mu.Unlock()
				if t != nil {
					t.cancel(errGivenUp)
				}
			}
		default:
			b.answered(m)
		}
	}
}

// say sends a message to the client. It ignores errors. An error means that the client has
// disconnected, or that the message is too large for the pipe.
func (b *bridge) say(raw []byte) { _ = b.side.Write(raw) }

// answer answers a call. If the result is too large for the pipe, it sends an error instead.
func (b *bridge) answer(m *jsonrpc.Message, result []byte) {
	err := b.side.Write(jsonrpc.AppendResult(nil, m.ID, result))
	if err != nil && !errors.Is(err, io.ErrClosedPipe) {
		b.refuse(m, jsonrpc.CodeInternal, "the turn has ended, but its result is too large")
	}
}

func (b *bridge) refuse(m *jsonrpc.Message, code int64, why string) {
	b.say(jsonrpc.AppendError(nil, m.ID, &jsonrpc.Error{Code: code, Message: why}))
}

func (b *bridge) request(m *jsonrpc.Message) {
	switch m.Method {
	case mcp.MethodInitialize:
		b.mu.Lock()
		busy := b.opening
		b.opening = true
		b.mu.Unlock()
		if busy {
			b.refuse(m, jsonrpc.CodeInvalidRequest, "initialize was already sent")
			return
		}
		b.start(func() { b.initialize(m) })
	case mcp.MethodPing:
		b.say(jsonrpc.AppendResult(nil, m.ID, nil))
	case mcp.MethodListTools:
		b.say(jsonrpc.AppendResult(nil, m.ID, toolList))
	case mcp.MethodCallTool:
		b.callTool(m)
	default:
		b.refuse(m, jsonrpc.CodeMethodNotFound, "method not found")
	}
}

// initialize performs the handshake with the worker and then answers the client. After a failed
// handshake, the client may send initialize again on the same pipe.
func (b *bridge) initialize(m *jsonrpc.Message) {
	capable := jsonrpc.Find(m.Raw, m.Param("capabilities"), "elicitation")
	if jsonrpc.KindOf(m.Raw, capable) == '{' {
		// 2025-11-25 §Elicitation, "Capabilities": an empty object means that the client
		// supports forms.
		form, url := jsonrpc.Find(m.Raw, capable, "form"), jsonrpc.Find(m.Raw, capable, "url")
		b.mu.Lock()
		b.forms, b.urls = !form.IsZero() || url.IsZero(), !url.IsZero()
		b.mu.Unlock()
	}
	answer, err := b.greet(b.life, introduction(m))
	if err != nil {
		b.mu.Lock()
		b.opening = false
		b.mu.Unlock()
		b.refuse(m, jsonrpc.CodeInternal, err.Error())
		return
	}
	b.mu.Lock()
	b.complete = true
	b.mu.Unlock()
	version := "unknown"
	if answer != nil {
		version = versionOf(text(answer.Raw, answer.Result, "userAgent"))
	}
	result := append([]byte(`{"protocolVersion":"`+mcp.LatestLegacy.String()+`","capabilities":{"tools":{}},"serverInfo":{"name":"codex","title":"Codex","version":`), jsonrpc.AppendQuote(nil, version)...)
	result = jsonrpc.AppendQuote(append(result, `},"instructions":`...), instructions)
	b.say(jsonrpc.AppendResult(nil, m.ID, append(result, '}')))
}

// introduction returns the clientInfo for the worker. It contains only name and version,
// because workers may refuse other members.
func introduction(m *jsonrpc.Message) []byte {
	info := m.Param("clientInfo")
	name, version := text(m.Raw, info, "name"), text(m.Raw, info, "version")
	if name == "" {
		name = "dragoman"
	}
	if version == "" {
		version = "0"
	}
	return new(object).text("name", name).text("version", version).json()
}

// versionOf returns the version in a user agent such as "x/0.169.0 (Linux)".
func versionOf(agent string) string {
	_, after, _ := strings.Cut(agent, "/")
	version, _, _ := strings.Cut(after, " ")
	if version = excerpt.Line(version, 40); version == "" {
		return "unknown"
	}
	return version
}

// receive handles notifications and requests from the worker. It runs on the goroutine that reads from
// the worker.
func (b *bridge) receive(m *jsonrpc.Message) {
	if m.Kind == jsonrpc.Request {
		b.handleRequest(m)
		return
	}
	switch m.Method {
	case "serverRequest/resolved":
		b.mu.Lock()
		cancel := b.open[jsonrpc.ID(m.Param("requestId").Of(m.Raw))]
		b.mu.Unlock()
		if cancel != nil {
			cancel(errResolved)
		}
		return
	case "thread/started":
		b.adopt(m)
		return
	}
	w := words(current{})
	if isOlder(m) {
		w = older{}
	}
	if e, ok := w.hear(m); ok {
		if t := b.turnOf(e.thread, e.turn); t != nil {
			t.take(w, &e)
		}
	}
}

// adopt assigns the thread of a subagent to the turn that started the subagent. So approval
// requests from this thread reach the right client.
func (b *bridge) adopt(m *jsonrpc.Message) {
	thread := m.Param("thread")
	id, parent := text(m.Raw, thread, "id"), text(m.Raw, thread, "parentThreadId")
	if id == "" || parent == "" || len(id) > maxID {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	t := b.threads[parent]
	if t == nil {
		t = b.children[parent]
	}
	if t != nil && len(b.children) < maxChildren {
		b.children[id] = t
	}
}

// turnOf returns the running turn of a thread. If thread is "", turnOf looks for a turn with the
// given id.
func (b *bridge) turnOf(thread, id string) *turn {
	b.mu.Lock()
	defer b.mu.Unlock()
	if thread != "" {
		return b.threads[thread]
	}
	for _, t := range b.threads {
		if id != "" && t.is(id) {
			return t
		}
	}
	return nil
}

// asker returns the turn that runs in a thread, or the turn whose subagent opened the thread. It
// returns nil if there is no such turn.
func (b *bridge) asker(thread string) *turn {
	b.mu.Lock()
	defer b.mu.Unlock()
	if t := b.threads[thread]; t != nil {
		return t
	}
	return b.children[thread]
}
