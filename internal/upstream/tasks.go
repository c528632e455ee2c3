package upstream

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/mcp"
)

// A task of a legacy server lives in the session, and on stdio in the process, in
// which it was made. So sessions are numbered, what is asked of a task goes to the
// session that has it, and a session with tasks is not ended for being idle.

// firstNumber returns where the numbers of an upstream's sessions begin. Those of
// another run of the program, or of a server with other settings, are others, so
// that a task of then is not taken for one of now.
func firstNumber() uint64 { return uint64(time.Now().UnixMilli()) << 10 }

// The times for which a session is kept for its tasks: that of a task which does not
// say how long it lives, the most that any gets, and the least after each request
// about one.
const (
	taskLife    = time.Hour
	taskMaxLife = 4 * time.Hour
	taskRest    = 15 * time.Minute
)

// knownForms are the forms of tasks that sessions of a server were opened with.
type knownForms struct{ seen atomic.Uint32 }

func (k *knownForms) add(f mcp.TaskForm) { k.seen.Or(1 << f) }

// Tasks returns in which form the server has tasks for the client f. It opens the server
// where that is needed to know, and answers none where it cannot be opened.
func (u *Upstream) Tasks(ctx context.Context, f *mcp.ClientInfo) mcp.TaskForm {
	if u.forms.seen.Load() == 1<<mcp.NoTasks {
		return mcp.NoTasks // nearly always
	}
	l, err := u.Acquire(ctx, f, mcp.Need{})
	if err != nil {
		return mcp.NoTasks
	}
	defer l.Release()
	return l.Tasks()
}

// acquireSession returns the session that a client means by its number, nil when it is
// over or another principal's: numbers can be guessed.
func (u *Upstream) acquireSession(f *mcp.ClientInfo, need mcp.Need) *Lease {
	u.mu.Lock()
	defer u.mu.Unlock()
	for _, p := range u.pools {
		if p.seat != "" && p.seat != f.Who.SeatKey() {
			continue
		}
		for _, s := range p.sessions {
			if s.number != need.Session {
				continue
			}
			s.users++
			u.watchStallLocked(s)
			if s.reap != nil {
				s.reap.Stop()
				s.reap = nil
			}
			if need.ForCall {
				s.owner = f.Conversation
				s.calls++
			}
			l := u.newLease(s, f, need.ForCall)
			l.need = need
			return l
		}
	}
	return nil
}

// remember notes in which session a legacy server has answered, and keeps that for
// the task that the answer is about. r is nil where there is none.
func (u *Upstream) remember(s *session, c *mcp.Attempt, r *mcp.Reply) {
	if r == nil || s.pool == nil {
		return
	}
	r.Session = s.number
	if s.tasks == mcp.NoTasks {
		return
	}
	life := taskRest
	if at := r.CreatedTask(); !at.IsZero() {
		life = taskLife
		if ttl, ok := mcp.Millis(r.Msg.Raw, jsonrpc.Find(r.Msg.Raw, at, "ttl")); ok {
			life = min(ttl, taskMaxLife)
		}
	} else if c.Method == nil || !c.Method.Task {
		return
	}
	u.mu.Lock()
	if until := time.Now().Add(life); until.After(s.keep) {
		s.keep = until
	}
	u.mu.Unlock()
}

// related returns a sink for the calls of a session that has tasks: the task that a
// question names is named together with the session.
func (s *session) related(t *jsonrpc.Trail, sink mcp.Caller) mcp.Caller {
	if s.tasks != mcp.RequestedTasks {
		return sink
	}
	return relatedCaller{sink, s, t}
}

type relatedCaller struct {
	mcp.Caller
	session *session
	trail   *jsonrpc.Trail
}

func (r relatedCaller) Ask(ctx context.Context, m *jsonrpc.Message) (*jsonrpc.Message, error) {
	return r.session.askRelated(ctx, r.trail, m, r.Caller.Ask)
}

// askRelated puts a question that may be about a task. The answer names the task as
// the server does (2025-11-25 §Tasks, "Associating Task-Related Messages").
func (s *session) askRelated(ctx context.Context, t *jsonrpc.Trail, m *jsonrpc.Message, ask func(context.Context, *jsonrpc.Message) (*jsonrpc.Message, error)) (*jsonrpc.Message, error) {
	at := mcp.RelatedTask(m.Raw, m.Param(mcp.KeyMeta))
	if s.tasks != mcp.RequestedTasks || jsonrpc.KindOf(m.Raw, at) != '"' {
		return ask(ctx, m)
	}
	id := at.Of(m.Raw)
	answer, err := ask(ctx, s.named(t, m, at))
	if err != nil {
		return nil, err
	}
	if there := mcp.RelatedTask(answer.Raw, answer.ResultMember(mcp.KeyMeta)); !there.IsZero() {
		return spliced(t, answer, there, id), nil
	}
	return answer, nil
}

// named says a task id at a place of m together with the session.
func (s *session) named(t *jsonrpc.Trail, m *jsonrpc.Message, at jsonrpc.Span) *jsonrpc.Message {
	id, _ := jsonrpc.Text(m.Raw, at)
	return spliced(t, m, at, jsonrpc.AppendQuote(nil, mcp.TaskRef{Session: s.number, ID: id}.String()))
}

// spliced returns m with one value replaced.
func spliced(t *jsonrpc.Trail, m *jsonrpc.Message, at jsonrpc.Span, with []byte) *jsonrpc.Message {
	var e jsonrpc.Edits
	e.Replace(mcp.WhyTaskID, at, with)
	return mcp.RewriteOrKeep(t, m, &e)
}
