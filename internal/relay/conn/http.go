package conn

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/base/trails"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
	"github.com/dragoman-mcp/dragoman/internal/transport"
	"github.com/dragoman-mcp/dragoman/internal/transport/streamhttp"
)

// Poster is the client side of Streamable HTTP, as this package uses it.
type Poster interface {
	Do(ctx context.Context, out *transport.Outgoing, in transport.Inbox) (*jsonrpc.Message, error)
	// Session returns the session id that the server has assigned, or "" if there is none.
	Session() string
	Post(ctx context.Context, out *transport.Outgoing) error
	// Listen keeps the standalone SSE stream of legacy revisions open until ctx ends. It
	// returns earlier if the server has no such stream.
	Listen(ctx context.Context, rules *transport.Rules, in transport.Inbox) error
	// Terminate ends the session, if there is one.
	Terminate(ctx context.Context, rules *transport.Rules) error
	// Close closes the connections to the server that are idle, now or later.
	Close()
}

// httpConn is a connection on which each call has a separate HTTP exchange. The stream on which
// a message arrives shows which call it belongs to.
type httpConn struct {
	server    *Conn
	http      Poster
	listening sync.WaitGroup
	courier   *transport.Courier // sends messages without waiting for their responses

	asking chan struct{} // semaphore of confirmLost
	alive  time.Time     // time of the last answer to a ping; guarded by asking
	lost   bool          // the session is lost; guarded by asking
	doubts atomic.Int32  // calls in a row that got status 404 although pings were answered

	mu     sync.Mutex
	calls  map[*flow]struct{} // the calls in flight
	flows  map[*flow]struct{} // the same; empty if the revision has no standalone stream
	closed bool               // close has begun, and ends every call
}

func newHTTPConn(c *Conn, h Poster) *httpConn {
	c.opts.Posts = true
	l := &httpConn{server: c, http: h, asking: make(chan struct{}, 1), calls: make(map[*flow]struct{})}
	l.courier = transport.NewCourier(func(ctx context.Context, b []byte) error {
		return l.http.Post(ctx, &transport.Outgoing{Body: b, Rules: c.rules()})
	}, c.undelivered)
	c.link = l
	c.sessions.join(l)
	return l
}

// Exchange sends a request of the handshake; see handshake.Link.
func (l *httpConn) Exchange(ctx context.Context, method string, params []byte, rules *transport.Rules) (*jsonrpc.Message, error) {
	id := jsonrpc.IntID(l.server.newID())
	return l.http.Do(ctx, &transport.Outgoing{
		Body: jsonrpc.AppendRequest(nil, id, method, params), ID: id, Method: method, Rules: rules,
	}, func(m *jsonrpc.Message) {
		if m.Kind == jsonrpc.Result || m.Kind == jsonrpc.Failure {
			l.server.unaskedMessage(m)
		}
	})
}

// Post sends a notification of the handshake; see handshake.Link.
func (l *httpConn) Post(ctx context.Context, method string, params []byte, rules *transport.Rules) error {
	return l.http.Post(ctx, &transport.Outgoing{
		Body: jsonrpc.AppendNotification(nil, method, params), Method: method, Rules: rules,
	})
}

func (l *httpConn) call(ctx context.Context, out *transport.Outgoing, f *flow) (*jsonrpc.Message, error) {
	l.enter(f, out.Rules.Sessions)
	defer l.leave(f)
	m, err := l.http.Do(ctx, out, f.take)
	if m != nil {
		f.received(m.Raw, out.Response)
	}
	if err != nil && errors.Is(context.Cause(ctx), errClosed) {
		return nil, errClosed
	}
	if err == nil && l.server.answerSaysLost(m) && l.confirmLost(ctx, 0) {
		return nil, streamhttp.ErrSessionLost
	}
	if err == nil {
		if l.doubts.Load() != 0 {
			l.doubts.Store(0)
		}
		return m, nil
	}
	return l.refusal(ctx, out, f, err)
}

// refusal returns the result of a call that has failed with err.
func (l *httpConn) refusal(ctx context.Context, out *transport.Outgoing, f *flow, err error) (*jsonrpc.Message, error) {
	// If the answer is missing, the server has accepted the request, and a status is about a GET that
	// should have resumed the stream.
	var status *transport.StatusError
	if errors.Is(err, streamhttp.ErrNoAnswer) || !errors.As(err, &status) {
		return nil, err
	}
	f.received(status.Body, out.Response)
	if l.statusSaysLost(status) && l.confirmLost(ctx, status.Status) {
		return nil, fmt.Errorf("%w: %w", streamhttp.ErrSessionLost, err)
	}
	if status.Msg != nil && status.Msg.Kind == jsonrpc.Failure && !transient(status.Status) {
		// An error response is an answer, whatever its HTTP status.
		f.status = status.Status
		return answerTo(f.call.Trail, status.Msg, out.ID)
	}
	return nil, err
}

func (l *httpConn) silence() (time.Duration, bool) { return 0, false }

// enter adds a call. streamed says whether the server may send its messages on the standalone stream.
func (l *httpConn) enter(f *flow, streamed bool) {
	l.mu.Lock()
	l.calls[f] = struct{}{}
	if streamed {
		if l.flows == nil {
			l.flows = make(map[*flow]struct{})
		}
		l.flows[f] = struct{}{}
	}
	closed := l.closed
	l.mu.Unlock()
	if closed {
		f.cancel(errClosed)
	}
}

// endCalls ends all calls, and those that begin later.
func (l *httpConn) endCalls() {
	l.mu.Lock()
	l.closed = true
	all := slices.Collect(maps.Keys(l.calls))
	l.mu.Unlock()
	for _, f := range all {
		f.cancel(errClosed)
	}
}

func (l *httpConn) leave(f *flow) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.calls, f)
	delete(l.flows, f)
}

// takeRequest handles a server request from the standalone stream.
func (l *httpConn) takeRequest(m *jsonrpc.Message) {
	switch n, where := l.server.ownerOf(m, l, func(n int64) bool { return l.waiting(n) != nil }); where {
	case here:
		if f := l.waiting(n); f != nil {
			l.server.serveRequest(m, f, l.peersOf(m, f))
			return
		}
		l.server.refuseOrDrop(m, ended)
	case nowhere:
		l.server.serveRequest(m, nil, nil)
	default:
		l.server.refuseOrDrop(m, where)
	}
}

// peers implements clientTransport. It returns nil, because a request on the stream of a call
// belongs to that call.
func (l *httpConn) peers(*jsonrpc.Message, *flow) []*flow { return nil }

// peersOf does the same as peers for a request on the standalone stream.
func (l *httpConn) peersOf(m *jsonrpc.Message, f *flow) []*flow {
	if namesCall(m, f.n) {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return peersAmong(maps.Keys(l.flows), f)
}

// waiting returns the call in flight with the number n, or nil if there is none.
func (l *httpConn) waiting(n int64) *flow {
	l.mu.Lock()
	defer l.mu.Unlock()
	for f := range l.flows {
		if f.n == n {
			return f
		}
	}
	return nil
}

// addCallsTo implements member. abandoned is always false, because messages about an abandoned call
// can arrive only on the stream of that call, which is closed.
func (l *httpConn) addCallsTo(t *attribution) (abandoned bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for f := range l.flows {
		t.add(f.n, f.call)
	}
	return false
}

// transient reports whether a status was probably sent by a proxy, or describes a temporary
// condition.
func transient(status int) bool {
	switch status {
	case 401, 403, 407, 429, 502, 503, 504:
		return true
	}
	return false
}

// answerTo adds the request's id to an error response that has no id.
func answerTo(t *trails.Trail, m *jsonrpc.Message, id jsonrpc.ID) (*jsonrpc.Message, error) {
	if !m.IDAt.IsZero() {
		return m, nil
	}
	var e jsonrpc.Edits
	e.Object(mcp.WhyID, m.Raw, jsonrpc.Whole(m.Raw), nil, jsonrpc.Field{Key: "id", Value: []byte(id)})
	return mcp.Rewrite(t, m, &e)
}

func (l *httpConn) post(ctx context.Context, out *transport.Outgoing) error {
	ctx, stop := context.WithTimeout(ctx, transport.AnswerTimeout)
	defer stop()
	return l.http.Post(ctx, out)
}

func (l *httpConn) notify(body []byte) error { return l.courier.Put(body) }

// cancels implements clientTransport. It returns false for modern servers, because closing the stream
// cancels the call.
func (l *httpConn) cancels() bool { return !l.server.rules().CloseIsCancel }

func (l *httpConn) stalled() (d time.Duration, midway bool) { return 0, false }

func (l *httpConn) sent() int { return 0 }

func (l *httpConn) withdraw() {}

// listen opens the standalone SSE stream. A legacy server uses it for messages that belong to
// no call (2025-03-26 §Transports, "Listening for Messages from the Server").
func (l *httpConn) listen() {
	if !l.server.rules().Sessions {
		return
	}
	l.listening.Go(func() {
		err := l.http.Listen(l.server.life, l.server.rules(), func(m *jsonrpc.Message) {
			switch {
			case m.Kind == jsonrpc.Request:
				l.takeRequest(m)
			case m.Kind == jsonrpc.Result, m.Kind == jsonrpc.Failure:
				l.server.unaskedMessage(m)
			case m.Kind == jsonrpc.Notification && m.Method == mcp.NoteCancelled:
				l.server.cancelRequest(m)
			case m.Kind == jsonrpc.Notification && m.Method == mcp.NoteProgress:
				// The notification should arrive on the stream of its request, but some servers
				// send it on the standalone stream.
				n, ok := number(m.Raw, m.Param("progressToken"))
				if f := l.waiting(n); ok && f != nil {
					f.take(m)
				} else {
					l.server.strayProgress(m)
				}
			case m.Kind == jsonrpc.Notification && l.server.opts.Notice != nil:
				l.server.opts.Notice(m, 0)
			}
		})
		if err != nil && l.server.life.Err() == nil {
			l.server.opts.Log.Debug("cannot use the server's standalone SSE stream", "server", l.server.opts.Name, "cause", l.server.opts.Clean(err.Error()))
		}
	})
}

// closeTimeout is how long the method close waits for queued messages, and then for the response to
// the DELETE request.
const closeTimeout = 2 * time.Second

// close ends the session with a DELETE request. The context of the connection has already ended, so
// close uses a new context with a short timeout.
func (l *httpConn) close() error {
	defer l.http.Close()
	l.endCalls()
	l.listening.Wait()
	l.server.sessions.leave(l)
	l.courier.Close(closeTimeout)
	if !l.server.rules().Sessions {
		return nil
	}
	ctx, stop := context.WithTimeout(context.Background(), closeTimeout)
	defer stop()
	_ = l.http.Terminate(ctx, l.server.rules())
	return nil
}
