package conn

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/dialect"
	"github.com/dragoman-mcp/dragoman/internal/event"
	"github.com/dragoman-mcp/dragoman/internal/excerpt"
	"github.com/dragoman-mcp/dragoman/internal/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/mcp"
	"github.com/dragoman-mcp/dragoman/internal/transport"
)

// question answers a request of the server, on a goroutine of its own that Close
// waits for. f is the call that it belongs to, nil when that is unknown.
func (s *Conn) question(m *jsonrpc.Message, f *flow) {
	if m.Method == mcp.MethodPing {
		s.respond(jsonrpc.AppendResult(nil, m.ID, []byte("{}")))
		return
	}
	if s.mustNotAsk(m) {
		return
	}
	if f != nil && f.ctx.Err() != nil {
		s.respond(refusal(m, callEnded))
		return
	}
	if m.Method == mcp.MethodElicit {
		if why := mcp.URLProblem(m.Raw, m.Params); why != "" {
			s.opts.Log.Warn("elicitation refused", "server", s.opts.Name, "cause", why)
			s.lose(f.about(), m.Method, why)
			s.respond(jsonrpc.AppendError(nil, m.ID, &jsonrpc.Error{
				Code: jsonrpc.CodeInvalidParams, Message: "the elicitation is not shown to the user: " + why,
			}))
			return
		}
	}
	select {
	case s.slots <- struct{}{}:
	default:
		s.respond(refusal(m, "too many questions are open"))
		return
	}
	size := int64(len(m.Raw))
	if all := s.questionBytes.Add(size); all > maxQuestionBytes && all > size {
		s.questionBytes.Add(-size)
		<-s.slots
		s.respond(refusal(m, "the open questions of this server take up too much memory; answer some of them first"))
		return
	}
	done := func() {
		s.questionBytes.Add(-size)
		<-s.slots
	}
	base := s.life
	if f != nil {
		base = f.ctx
	}
	ctx, cancel := context.WithCancelCause(base)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closing {
		cancel(nil)
		done()
		return
	}
	if s.asked == nil {
		s.asked = make(map[jsonrpc.ID]context.CancelCauseFunc)
	}
	s.asked[m.ID] = cancel
	s.asking.Go(func() {
		defer func() {
			s.mu.Lock()
			delete(s.asked, m.ID)
			s.mu.Unlock()
			cancel(nil)
			done()
		}()
		answer, err := s.ask(ctx, m, f)
		switch {
		case errors.Is(err, errTakenBack):
		case err != nil:
			s.opts.Log.Warn("question refused", "server", s.opts.Name, "method", excerpt.Name(m.Method), "cause", err.Error())
			s.deliver(refusal(m, err.Error()))
		default:
			var lost mcp.Losses
			if opened := s.opening.Load(); opened != nil {
				answer = dialect.ConvertAnswer(f.trail(), opened.Revision, m.Method, answer, &lost)
				for _, l := range lost {
					s.lose(f.about(), l.What, l.Why)
				}
			}
			s.deliver(answer.Raw)
		}
	})
}

// callEnded is why a question is refused whose call ended before it was put.
const callEnded = "the call that it belongs to has ended"

// refuse answers a request of the server that is not given to a client. A ping gets its
// normal answer: it belongs to the connection and not to a call.
func (s *Conn) refuse(m *jsonrpc.Message, why string) {
	switch {
	case m.Method == mcp.MethodPing:
		s.respond(jsonrpc.AppendResult(nil, m.ID, []byte("{}")))
	case !s.mustNotAsk(m):
		s.respond(refusal(m, why))
	}
}

// mustNotAsk reports whether the server may send no requests at all, and logs the
// one that it sent: 2026-07-28 §stdio, §Streamable HTTP: a modern server must not,
// and must not be answered.
func (s *Conn) mustNotAsk(m *jsonrpc.Message) bool {
	opened := s.opening.Load()
	if opened == nil || opened.Revision.Can(mcp.AskedMidCall) {
		return false
	}
	s.opts.Log.Warn("request from a modern server dropped", "server", s.opts.Name, "method", excerpt.Name(m.Method))
	return true
}

var errTakenBack = errors.New("the server took its question back")

func (s *Conn) ask(ctx context.Context, m *jsonrpc.Message, f *flow) (*jsonrpc.Message, error) {
	var answer *jsonrpc.Message
	var err error
	began := time.Now()
	if f != nil {
		f.open.Add(1)
		answer, err = f.sink.Ask(ctx, withoutToken(f.trail(), m))
		f.open.Add(-1)
		f.alive()
	} else if s.opts.Ask != nil {
		answer, err = s.opts.Ask(ctx, m)
	} else {
		err = mcp.ErrCannotAsk
	}
	if s.opts.Events.Wants(event.ServerRequest) {
		s.opts.Events.Publish(event.Asked(s.opts.Name, f.about(), m, answer, began, err))
	}
	if err != nil && errors.Is(context.Cause(ctx), errTakenBack) {
		return nil, errTakenBack
	}
	return answer, err
}

// withoutToken takes a progress token out of a question: tokens live on one hop, and
// the client has no use for the one by which the server says whose question it is.
func withoutToken(t *jsonrpc.Trail, m *jsonrpc.Message) *jsonrpc.Message {
	meta := m.Param(mcp.KeyMeta)
	if jsonrpc.Find(m.Raw, meta, mcp.KeyProgressToken).IsZero() {
		return m
	}
	from, gone := meta, mcp.KeyProgressToken
	if single(jsonrpc.Members(m.Raw, meta)) {
		from, gone = m.Params, mcp.KeyMeta // which held nothing else
	}
	var e jsonrpc.Edits
	e.Object(mcp.WhyProgressToken, m.Raw, from, func(key []byte) bool { return string(key) == gone })
	return mcp.RewriteOrKeep(t, m, &e)
}

func single(members iter.Seq[jsonrpc.Member]) bool {
	n := 0
	for range members {
		n++
	}
	return n == 1
}

// takeBack ends a question that the server cancels (§Cancellation of the legacy
// revisions: either side may).
func (s *Conn) takeBack(m *jsonrpc.Message) {
	id := jsonrpc.ID(m.Param("requestId").Of(m.Raw))
	s.mu.Lock()
	cancel := s.asked[id]
	s.mu.Unlock()
	if cancel != nil {
		cancel(errTakenBack)
	}
}

// The bounds of what waits for a server that does not read beside those that its link keeps.
const (
	maxBacklog      = 512
	maxBacklogBytes = 1 << 20
)

// respond sends an answer to a request of the server, or a cancellation, and does not
// wait for the server: its caller is the goroutine that reads the link or that of a
// call. On a pipe the messages leave in order. A message is dropped when too many wait
// already.
func (s *Conn) respond(body []byte) {
	s.mu.Lock()
	err := error(transport.ErrFull)
	if len(s.backlog) == 0 {
		s.mu.Unlock()
		if err = s.link.tell(body); err == nil {
			return
		}
		s.mu.Lock()
	}
	if errors.Is(err, transport.ErrFull) && !s.closing && len(s.backlog) < maxBacklog && s.backlogBytes+len(body) <= maxBacklogBytes {
		s.backlog = append(s.backlog, body)
		s.backlogBytes += len(body)
		if len(s.backlog) == 1 {
			s.asking.Go(s.deliverBacklog)
		}
		err = nil
	}
	s.mu.Unlock()
	if err != nil {
		s.undelivered(err)
	}
}

// deliverBacklog delivers the answers that respond has kept. An answer stays in the
// backlog until it is delivered.
func (s *Conn) deliverBacklog() {
	for {
		s.mu.Lock()
		body := s.backlog[0]
		s.mu.Unlock()
		s.deliver(body)
		s.mu.Lock()
		s.backlog[0] = nil
		s.backlog = s.backlog[1:]
		s.backlogBytes -= len(body)
		left := len(s.backlog)
		s.mu.Unlock()
		if left == 0 {
			return
		}
	}
}

// deliver answers a request of the server on a goroutine of the answer's own. On a
// pipe it waits for as long as the conversation lasts, since a server that is busy
// reads the answer later; over HTTP it waits for 10 s.
func (s *Conn) deliver(body []byte) {
	if err := s.link.post(s.life, &transport.Outgoing{Body: body, Rules: s.rules()}); err != nil {
		s.undelivered(err)
	}
}

func (s *Conn) undelivered(err error) {
	s.opts.Log.Debug("answer or cancellation was not delivered", "server", s.opts.Name, "cause", err.Error())
}

func refusal(m *jsonrpc.Message, why string) []byte {
	return jsonrpc.AppendError(nil, m.ID, &jsonrpc.Error{
		Code: jsonrpc.CodeMethodNotFound, Message: fmt.Sprintf("%s cannot be answered: %s", excerpt.Name(m.Method), why),
	})
}
