// Package demo contains two small MCP servers for `dragoman serve --demo`. One server supports only
// the legacy revisions. The other server supports only the modern revisions. Both servers have tools
// that wait, ask the user and report progress. Play acts as two clients of these servers.
//
// Both servers refuse requests that their era does not define, and declare only features that they
// implement. The servers write no files, open no network connections and do not know about Dragoman.
// A call that has to wait runs in its own goroutine. All other requests are answered immediately and
// in order. When Serve returns, all its goroutines have ended.
package demo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"

	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
	"github.com/dragoman-mcp/dragoman/internal/transport/stdio"
)

// The eras that Serve supports.
const (
	Legacy = "legacy"
	Modern = "modern"
)

// maxRunning is the maximum number of calls and subscriptions that run at the same time.
const maxRunning = 64

// errGone and errCancelled are causes with which the context of a call is cancelled. Other causes
// are errors of the connection and the cause of Serve's context.
var (
	errGone      = errors.New("the client disconnected")
	errCancelled = errors.New("the client cancelled the request")
)

// Serve runs the server of one era for one client. version is the program's version. Serve returns
// nil at the end of the input, the cause of ctx if ctx ends first, or an error of the connection.
//
// Serve closes its input and its output if they have a method Close. If they are stdin and stdout of
// the process, Serve closes only duplicates of them. If closing the input does not unblock a read,
// Serve returns only after the next line of input. If the output cannot be closed, a client that
// does not read blocks Serve.
func Serve(ctx context.Context, era string, in io.Reader, out io.Writer, version string) error {
	l := &line{running: map[jsonrpc.ID]*runningCall{}}
	var s server
	switch era {
	case Legacy:
		s = newLegacy(l, version)
	case Modern:
		s = newModern(l, version)
	default:
		return fmt.Errorf("cannot serve the demo: unknown era %q, expected %s or %s", era, Legacy, Modern)
	}
	if in == os.Stdin && out == os.Stdout {
		pipe, err := stdio.Std(stdio.Options{})
		if err != nil {
			return fmt.Errorf("cannot open the standard streams: %w", err)
		}
		l.pipe = pipe
	} else {
		w, ok := out.(io.WriteCloser)
		if !ok {
			w = unclosed{out}
		}
		l.pipe = stdio.NewPipe(in, w, stdio.Options{})
	}
	return l.run(ctx, s)
}

type unclosed struct{ io.Writer }

func (unclosed) Close() error { return nil }

// server has the methods that differ between the eras. Only the goroutine that reads messages calls
// open and receive. That goroutine also runs the step that the method open returns, unless waits is
// true in the step.
type server interface {
	// open returns the step that handles a request, or an error.
	open(c *call) (step, *jsonrpc.Error)
	// wrap builds a result object from its members.
	wrap(c *call, members string) string
	// receive handles notifications and responses.
	receive(m *jsonrpc.Message)
	// speaks returns the negotiated revision, or Unknown.
	speaks() mcp.Revision
}

// call is one request. It is not safe for concurrent use.
type call struct {
	m          *jsonrpc.Message
	rev        mcp.Revision
	args       jsonrpc.Span // the arguments of a tool; absent if there are none
	token      jsonrpc.Span // the progress token; absent if the client wants no progress
	mayAsk     bool         // the client supports form elicitation
	resultType string       // the resultType of a modern result; "" means complete
	listen     bool         // the call is subscriptions/listen, so its result must contain the subscription id
}

// step handles a request. run returns the members of the result, or an error: a toolError, a
// *jsonrpc.Error, or the error of ctx. If waits is true, run has its own goroutine.
type step struct {
	waits bool
	run   func(ctx context.Context, c *call) (string, error)
}

// line is the connection to the client, with the running calls of that client.
type line struct {
	pipe *stdio.Pipe
	fail context.CancelCauseFunc // ends run and cancels all calls
	wg   sync.WaitGroup

	mu      sync.Mutex
	ended   bool // no new call may start
	live    int  // the number of goroutines in wg
	running map[jsonrpc.ID]*runningCall
}

type runningCall struct{ cancel context.CancelCauseFunc }

func (l *line) run(ctx context.Context, s server) error {
	ctx, l.fail = context.WithCancelCause(ctx)
	var closer sync.WaitGroup
	closer.Go(func() {
		<-ctx.Done()
		l.mu.Lock()
		l.ended = true
		l.mu.Unlock()
		l.wg.Wait() // wait while subscriptions send their last message
		_ = l.pipe.Close()
	})
	l.fail(l.read(ctx, s))
	closer.Wait()
	if cause := context.Cause(ctx); cause != errGone {
		return cause
	}
	return nil
}

// read handles messages until the connection ends. At the end of the input, read returns errGone.
func (l *line) read(ctx context.Context, s server) error {
	for {
		m, err := l.pipe.Read()
		var bad *jsonrpc.Error
		switch {
		case err == nil:
			l.take(ctx, s, m)
		case errors.As(err, &bad):
			id := bad.ID
			if id == "" && s.speaks().Can(mcp.NullIDErrors) {
				id = "null" // in older revisions, an error without a known request id has the id null
			}
			l.send(jsonrpc.AppendError(nil, id, bad))
		case errors.Is(err, io.EOF), errors.Is(err, io.ErrClosedPipe):
			return errGone
		default:
			return fmt.Errorf("cannot read from the client: %w", err)
		}
	}
}

// take handles one message.
func (l *line) take(ctx context.Context, s server, m *jsonrpc.Message) {
	if m.Kind != jsonrpc.Request {
		s.receive(m)
		return
	}
	c := &call{m: m, token: jsonrpc.Find(m.Raw, m.Param(mcp.KeyMeta), mcp.KeyProgressToken)}
	st, bad := s.open(c)
	switch {
	case bad != nil:
	case st.waits:
		bad = l.begin(ctx, m.ID, func(ctx context.Context) []byte {
			members, err := st.run(ctx, c)
			if context.Cause(ctx) == errCancelled || err != nil && ctx.Err() != nil {
				return nil
			}
			return answer(s, c, members, err)
		})
	default:
		members, err := st.run(ctx, c)
		l.send(answer(s, c, members, err))
	}
	if bad != nil {
		l.send(jsonrpc.AppendError(nil, m.ID, bad))
	}
}

func answer(s server, c *call, members string, err error) []byte {
	var fault toolError
	switch {
	case errors.As(err, &fault):
		members = text(string(fault)) + `,"isError":true`
	case err != nil:
		return jsonrpc.AppendError(nil, c.m.ID, mcp.Wire(err))
	}
	return jsonrpc.AppendResult(nil, c.m.ID, []byte(s.wrap(c, members)))
}

// begin runs f in a goroutine. cancel(id) cancels the context of f. When f returns, the goroutine
// removes id from running, and then sends the result of f. begin returns an error if id is in use,
// if too many calls are running, or if the connection has ended.
func (l *line) begin(ctx context.Context, id jsonrpc.ID, f func(context.Context) []byte) *jsonrpc.Error {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.running[id] != nil:
		return refusal(jsonrpc.CodeInvalidRequest, "a request with this id is still running")
	case l.ended || l.live >= maxRunning:
		return refusal(jsonrpc.CodeInternal, "too many requests are running; try again")
	}
	ctx, cancel := context.WithCancelCause(ctx)
	fl := &runningCall{cancel}
	l.running[id] = fl
	l.live++
	l.wg.Go(func() {
		last := f(ctx)
		cancel(nil)
		l.mu.Lock()
		if l.running[id] == fl {
			delete(l.running, id)
		}
		l.mu.Unlock()
		l.send(last)
		l.mu.Lock()
		l.live--
		l.mu.Unlock()
	})
	return nil
}

// cancel cancels the call with the given id. It does nothing if the call is not running.
func (l *line) cancel(id jsonrpc.ID) {
	l.mu.Lock()
	fl := l.running[id]
	delete(l.running, id)
	l.mu.Unlock()
	if fl != nil {
		fl.cancel(errCancelled)
	}
}

// send writes one message. It ignores an empty message. If the write fails, run ends.
func (l *line) send(b []byte) {
	if len(b) == 0 {
		return
	}
	if err := l.pipe.Write(b); err != nil {
		l.fail(fmt.Errorf("cannot write to the client: %w", err))
	}
}

func (l *line) notify(method, params string) {
	l.send(jsonrpc.AppendNotification(nil, method, []byte(params)))
}
