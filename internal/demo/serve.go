// Package demo holds two small MCP servers that come with the binary, so that
// `dragoman serve --demo` has something to bridge: one that knows only the
// revisions that open with initialize, one that knows only those that do not.
// Their tools wait, ask, remember and report progress, each in the way of its era.
//
// Both are strict: what their era does not have they refuse, and they declare
// nothing that they do not do. They keep no file, open no connection and know
// nothing of the bridge before them. A call that has to wait runs in a goroutine
// of its own; everything else is answered at once and in order. Nothing is left
// running when Serve returns.
package demo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"

	"github.com/dragoman-mcp/dragoman/internal/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/mcp"
	"github.com/dragoman-mcp/dragoman/internal/transport/stdio"
)

// The eras that Serve knows.
const (
	Legacy = "legacy"
	Modern = "modern"
)

// maxRunning bounds the calls and subscriptions that wait at a time.
const maxRunning = 64

// Why what is running is to end, beside the cause of Serve's own context.
var (
	errGone      = errors.New("the client is gone")
	errCancelled = errors.New("the client has cancelled the request")
)

// Serve is the server of one era towards one client. version is the program's
// own. It returns nil when in has ended, the cause of ctx when that ended first,
// and otherwise what broke the link.
//
// It closes in and out where they can be closed, and hands descriptors of their
// own to the process's standard streams. Where closing does not unblock in, ctx
// ends Serve only with the next line; where out cannot be closed, a client that
// reads nothing keeps it.
func Serve(ctx context.Context, era string, in io.Reader, out io.Writer, version string) error {
	l := &line{running: map[jsonrpc.ID]*flight{}}
	var s server
	switch era {
	case Legacy:
		s = newLegacy(l, version)
	case Modern:
		s = newModern(l, version)
	default:
		return fmt.Errorf("serve the demo: no era %q, there are %s and %s", era, Legacy, Modern)
	}
	if in == os.Stdin && out == os.Stdout {
		pipe, err := stdio.Std(stdio.Options{})
		if err != nil {
			return fmt.Errorf("open the standard streams: %w", err)
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

// server is what differs between the eras. The line's reader is the only one to
// call open and hear, and calls what open returns too where that does not wait.
type server interface {
	// open finds what is to be done for a request, or why nothing is.
	open(c *call) (step, *jsonrpc.Error)
	// wrap makes a result object of its members.
	wrap(c *call, members string) string
	// hear takes notifications and responses.
	hear(m *jsonrpc.Message)
	// speaks is the revision that was agreed on, Unknown before.
	speaks() mcp.Revision
}

// call is one request. Whoever runs its step owns it.
type call struct {
	m          *jsonrpc.Message
	rev        mcp.Revision
	args       jsonrpc.Span // of a tool, absent when there are none
	token      jsonrpc.Span // of its progress, absent when none is wanted
	mayAsk     bool         // the client shows forms
	resultType string       // of the modern era; "" means complete
	listen     bool         // it is a subscription, and its result says so
}

// step does what a request asks for and returns the members of its result. Its
// errors are a toolError, a *jsonrpc.Error, or that of the context.
type step struct {
	waits bool
	run   func(ctx context.Context, c *call) (string, error)
}

// line is the link with what is running on it.
type line struct {
	pipe *stdio.Pipe
	fail context.CancelCauseFunc // ends everything
	wg   sync.WaitGroup

	mu      sync.Mutex
	ended   bool // nothing may begin any more
	live    int  // goroutines of wg
	running map[jsonrpc.ID]*flight
}

type flight struct{ cancel context.CancelCauseFunc }

func (l *line) run(ctx context.Context, s server) error {
	ctx, l.fail = context.WithCancelCause(ctx)
	var closer sync.WaitGroup
	closer.Go(func() {
		<-ctx.Done()
		l.mu.Lock()
		l.ended = true
		l.mu.Unlock()
		l.wg.Wait() // subscriptions say goodbye
		_ = l.pipe.Close()
	})
	l.fail(l.read(ctx, s))
	closer.Wait()
	if cause := context.Cause(ctx); cause != errGone {
		return cause
	}
	return nil
}

// read hands on what arrives until the link ends, and returns why it did.
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
				id = "null" // the older spelling of none
			}
			l.send(jsonrpc.AppendError(nil, id, bad))
		case errors.Is(err, io.EOF), errors.Is(err, io.ErrClosedPipe):
			return errGone
		default:
			return fmt.Errorf("read from the client: %w", err)
		}
	}
}

// take serves one message.
func (l *line) take(ctx context.Context, s server, m *jsonrpc.Message) {
	if m.Kind != jsonrpc.Request {
		s.hear(m)
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
	var said toolError
	switch {
	case errors.As(err, &said):
		members = text(string(said)) + `,"isError":true`
	case err != nil:
		return jsonrpc.AppendError(nil, c.m.ID, mcp.Wire(err))
	}
	return jsonrpc.AppendResult(nil, c.m.ID, []byte(s.wrap(c, members)))
}

// begin runs f under an id by which it can be cancelled, and sends what f returns
// once the id is free again.
func (l *line) begin(ctx context.Context, id jsonrpc.ID, f func(context.Context) []byte) *jsonrpc.Error {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.running[id] != nil:
		return refusal(jsonrpc.CodeInvalidRequest, "a request with this id is still running")
	case l.ended || l.live >= maxRunning:
		return refusal(jsonrpc.CodeInternal, "too much is running; try again")
	}
	ctx, cancel := context.WithCancelCause(ctx)
	fl := &flight{cancel}
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

// cancel ends what runs under an id, if anything does.
func (l *line) cancel(id jsonrpc.ID) {
	l.mu.Lock()
	fl := l.running[id]
	delete(l.running, id)
	l.mu.Unlock()
	if fl != nil {
		fl.cancel(errCancelled)
	}
}

// send writes one message; nothing for an empty one. A client that cannot be
// written to is gone.
func (l *line) send(b []byte) {
	if len(b) == 0 {
		return
	}
	if err := l.pipe.Write(b); err != nil {
		l.fail(fmt.Errorf("write to the client: %w", err))
	}
}

func (l *line) notify(method, params string) {
	l.send(jsonrpc.AppendNotification(nil, method, []byte(params)))
}
