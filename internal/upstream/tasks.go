package upstream

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/mcp"
)

// A task of a legacy server belongs to the session in which it was created, and on stdio to the
// process. So sessions have numbers, a request about a task goes to the session of the task, and a
// session with tasks does not end because it is idle.

// firstNumber returns the first session number of an upstream. The number is different after a
// restart of the program or a change of settings, so that old task ids do not match new sessions.
func firstNumber() uint64 { return uint64(time.Now().UnixMilli()) << 10 }

// These constants say how long a session is kept for its tasks: the default for a task without
// a TTL, the maximum, and the minimum after each request about a task.
const (
	taskLife    = time.Hour
	taskMaxLife = 4 * time.Hour
	taskRest    = 15 * time.Minute
)

// knownForms contains the task forms that the sessions of a server have declared.
type knownForms struct{ seen atomic.Uint32 }

func (k *knownForms) add(f mcp.TaskForm) { k.seen.Or(1 << f) }

// Tasks returns the form in which the server supports tasks for the client f. It opens the
// server if necessary. If that fails, it returns mcp.NoTasks.
func (u *Upstream) Tasks(ctx context.Context, f *mcp.ClientInfo) mcp.TaskForm {
	if u.forms.seen.Load() == 1<<mcp.NoTasks {
		return mcp.NoTasks // the usual case: no session has declared tasks
	}
	l, err := u.Acquire(ctx, f, mcp.Need{})
	if err != nil {
		return mcp.NoTasks
	}
	defer l.Release()
	return l.Tasks()
}

// acquireSession returns a lease on the session whose number a client gives. It returns nil if the
// session has ended or belongs to another principal, because a client could guess the number.
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

// remember stores in the reply which session of a legacy server has answered. It also keeps this
// session for the task in the answer. r is nil if no answer arrived.
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

// related returns a Caller for a session with tasks. The Caller adds the session to the task id
// in server requests.
func (s *session) related(t *jsonrpc.Trail, caller mcp.Caller) mcp.Caller {
	if s.tasks != mcp.RequestedTasks {
		return caller
	}
	return relatedCaller{caller, s, t}
}

type relatedCaller struct {
	mcp.Caller
	session *session
	trail   *jsonrpc.Trail
}

func (r relatedCaller) Ask(ctx context.Context, m *jsonrpc.Message) (*jsonrpc.Message, error) {
	return r.session.askRelated(ctx, r.trail, m, r.Caller.Ask)
}

// askRelated sends a server request with the function ask. If the request is about a task,
// askRelated adds the session to the task id. In the answer it restores the server's task id
// (2025-11-25 §Tasks, "Associating Task-Related Messages").
func (s *session) askRelated(ctx context.Context, t *jsonrpc.Trail, m *jsonrpc.Message, ask func(context.Context, *jsonrpc.Message) (*jsonrpc.Message, error)) (*jsonrpc.Message, error) {
	at := mcp.RelatedTask(m.Raw, m.Param(mcp.KeyMeta))
	if s.tasks != mcp.RequestedTasks || jsonrpc.KindOf(m.Raw, at) != '"' {
		return ask(ctx, m)
	}
	id := at.Of(m.Raw)
	answer, err := ask(ctx, s.withSession(t, m, at))
	if err != nil {
		return nil, err
	}
	if there := mcp.RelatedTask(answer.Raw, answer.ResultMember(mcp.KeyMeta)); !there.IsZero() {
		return spliced(t, answer, there, id), nil
	}
	return answer, nil
}

// withSession returns m with the session added to the task id at the given position.
func (s *session) withSession(t *jsonrpc.Trail, m *jsonrpc.Message, at jsonrpc.Span) *jsonrpc.Message {
	id, _ := jsonrpc.Text(m.Raw, at)
	return spliced(t, m, at, jsonrpc.AppendQuote(nil, mcp.TaskRef{Session: s.number, ID: id}.String()))
}

// spliced returns m with one value replaced.
func spliced(t *jsonrpc.Trail, m *jsonrpc.Message, at jsonrpc.Span, with []byte) *jsonrpc.Message {
	var e jsonrpc.Edits
	e.Replace(mcp.WhyTaskID, at, with)
	return mcp.RewriteOrKeep(t, m, &e)
}
