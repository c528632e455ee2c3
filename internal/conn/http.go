package conn

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/mcp"
	"github.com/dragoman-mcp/dragoman/internal/transport"
	"github.com/dragoman-mcp/dragoman/internal/transport/streamhttp"
)

// Poster is the client half of Streamable HTTP as a conversation uses it.
type Poster interface {
	Do(ctx context.Context, out *transport.Outgoing, in transport.Inbox) (*jsonrpc.Message, error)
	Post(ctx context.Context, out *transport.Outgoing) error
	// Listen keeps the standing stream of legacy revisions open until ctx ends or
	// the server has none.
	Listen(ctx context.Context, rules *transport.Rules, in transport.Inbox) error
	// Terminate ends the session, where there is one.
	Terminate(ctx context.Context, rules *transport.Rules) error
}

// httpConn is a link on which each call has an exchange of its own, so that the
// stream tells what belongs to it.
type httpConn struct {
	server    *Conn
	http      Poster
	listening sync.WaitGroup
	open      context.Context // ends with close, and with it every call
	shut      context.CancelFunc
	courier   *transport.Courier // of what nobody waits for

	asking chan struct{} // has room for who asks whether the session is still there
	alive  time.Time     // when it last said so; belongs to whoever is asking

	mu    sync.Mutex
	flows map[*flow]struct{} // calls in flight, where the server may ask beside them
}

func newPosted(s *Conn, h Poster) *httpConn {
	l := &httpConn{server: s, http: h, asking: make(chan struct{}, 1)}
	l.courier = transport.NewCourier(func(ctx context.Context, b []byte) error {
		return l.http.Post(ctx, &transport.Outgoing{Body: b, Rules: s.rules()})
	}, s.undelivered)
	l.open, l.shut = context.WithCancel(context.Background())
	s.link = l
	s.sessions.join(l)
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
	if out.Rules.Sessions {
		l.enter(f)
		defer l.leave(f)
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(l.open, func() { cancel(errClosed) })()
	m, err := l.http.Do(ctx, out, f.take)
	if err != nil && errors.Is(context.Cause(ctx), errClosed) {
		return nil, errClosed
	}
	if err == nil && l.server.lostAnswer(m) && l.isLost(ctx) {
		return nil, streamhttp.ErrSessionLost
	}
	var status *transport.StatusError
	// 2025-03-26 §Transports, "Session Management": 404 needs no second word.
	if errors.As(err, &status) && l.server.lost(status) && (status.Status == 404 || l.isLost(ctx)) {
		return nil, fmt.Errorf("%w: %w", streamhttp.ErrSessionLost, err)
	}
	if status != nil && status.Msg != nil && status.Msg.Kind == jsonrpc.Failure && !transient(status.Status) {
		// An error answer is an answer, whatever its status.
		f.status = status.Status
		return answerTo(f.call.Trail, status.Msg, out.ID)
	}
	return m, err
}

func (l *httpConn) silence() (time.Duration, bool) { return 0, false }

func (l *httpConn) enter(f *flow) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.flows == nil {
		l.flows = make(map[*flow]struct{})
	}
	l.flows[f] = struct{}{}
}

func (l *httpConn) leave(f *flow) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.flows, f)
}

// asked takes a request of the server that came on the standing stream.
func (l *httpConn) asked(m *jsonrpc.Message) {
	switch n, where := l.server.whose(m, l, func(n int64) bool { return l.waiting(n) != nil }); where {
	case here:
		if f := l.waiting(n); f != nil {
			l.server.question(m, f)
			return
		}
		l.server.passOver(m, ended)
	case nowhere:
		l.server.question(m, nil)
	default:
		l.server.passOver(m, where)
	}
}

// waiting returns the call with the number n that is in flight, nil for none.
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

// tallyInto implements member. What is said of a call comes on the call's stream, so
// that none which was given up is spoken of elsewhere.
func (l *httpConn) tallyInto(t *attribution) (abandoned bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for f := range l.flows {
		t.add(f.n, f.call)
	}
	return false
}

// transient reports statuses that speak for the way, not for the server.
func transient(status int) bool {
	switch status {
	case 401, 403, 407, 429, 502, 503, 504:
		return true
	}
	return false
}

// answerTo gives an error that came without an id the one of its request.
func answerTo(t *jsonrpc.Trail, m *jsonrpc.Message, id jsonrpc.ID) (*jsonrpc.Message, error) {
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

func (l *httpConn) tell(body []byte) error { return l.courier.Put(body) }

// cancels implements link; a modern server has seen its stream closed.
func (l *httpConn) cancels() bool { return !l.server.rules().CloseIsCancel }

func (l *httpConn) stalled() (d time.Duration, midway bool) { return 0, false }

func (l *httpConn) sent() int { return 0 }

func (l *httpConn) withdraw() {}

// listen opens the standing stream on which a legacy server says what belongs to
// no call (2025-03-26 §Transports, "Listening for Messages from the Server").
func (l *httpConn) listen() {
	if !l.server.rules().Sessions {
		return
	}
	l.listening.Go(func() {
		err := l.http.Listen(l.server.life, l.server.rules(), func(m *jsonrpc.Message) {
			switch {
			case m.Kind == jsonrpc.Request:
				l.asked(m)
			case m.Kind == jsonrpc.Result, m.Kind == jsonrpc.Failure:
				l.server.unaskedMessage(m)
			case m.Kind == jsonrpc.Notification && m.Method == mcp.NoteCancelled:
				l.server.takeBack(m)
			case m.Kind == jsonrpc.Notification && m.Method == mcp.NoteProgress:
				// It belongs on the stream of its request, but there are servers on
				// which the standing stream may be faster to take it.
				if n, ok := number(m.Raw, m.Param("progressToken")); ok {
					if f := l.waiting(n); f != nil {
						f.take(m)
					}
				}
			case m.Kind == jsonrpc.Notification && l.server.opts.Notice != nil:
				l.server.opts.Notice(m, 0)
			}
		})
		if err != nil && l.server.life.Err() == nil {
			l.server.opts.Log.Debug("no standing stream", "server", l.server.opts.Name, "cause", err.Error())
		}
	})
}

// farewell is how long close waits for what was queued and for the server's answer to
// the DELETE.
const farewell = 2 * time.Second

// close ends the session in good order. The conversation's context has ended by now, so
// this has a short time of its own.
func (l *httpConn) close() error {
	l.shut()
	l.listening.Wait()
	l.server.sessions.leave(l)
	l.courier.Close(farewell)
	if !l.server.rules().Sessions {
		return nil
	}
	ctx, stop := context.WithTimeout(context.Background(), farewell)
	defer stop()
	_ = l.http.Terminate(ctx, l.server.rules())
	return nil
}
