package upstream

import (
	"context"
	"slices"
	"sync/atomic"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/base/trails"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
)

// A task of a legacy server exists only in the session that created it, and on stdio only in the
// session's process. So sessions have numbers, and a request about a task goes to the session of
// the task. A session with tasks does not end because it is idle.

// firstNumber returns the first session number of an upstream. Each upstream begins with a
// different number, even after a restart of Dragoman, so that old task ids do not match new
// sessions.
func firstNumber() uint64 { return uint64(time.Now().UnixMilli()) << 10 }

// These constants say how long a session is kept open because of its tasks. taskLife is the time
// for a task without a TTL, taskMaxLife is the maximum, and taskRest is the minimum after each
// request about a task.
const (
	taskLife    = time.Hour
	taskMaxLife = 4 * time.Hour
	taskRest    = 15 * time.Minute
)

// maxTaskOwners is the maximum number of tasks of one session whose owners are known.
const maxTaskOwners = 1000

// knownForms is the set of the task forms of all sessions that the server has had.
type knownForms struct{ seen atomic.Uint32 }

func (k *knownForms) add(f mcp.TaskForm) { k.seen.Or(1 << f) }

// Tasks returns the form in which the server supports tasks for the client f. It opens the server
// if necessary. If the server cannot be opened, it returns mcp.Notasks.
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

// acquireSession holds the session with the number need.Session. The number comes from
// the client, which could have guessed it. So if the session is for another principal,
// the second result is false. It is also false if the session has ended.
func (b *broker) acquireSession(f *mcp.ClientInfo, need mcp.Need) (h hold, ok bool) {
	b.update(func(st *state) {
		for _, p := range st.pools.byKey {
			if p.seat != "" && p.seat != f.Who.SeatKey() {
				continue
			}
			i := slices.IndexFunc(p.sessions, func(s *session) bool { return s.number == need.Session })
			if i >= 0 {
				h, ok = hold{b: b, s: p.sessions[i], counted: b.use(st, p.sessions[i], f, need)}, true
				return
			}
		}
	})
	return h, ok
}

// remember stores the number of the session s in the reply r, if s is a session of a legacy server.
// If the call has created a task or is about a task, remember also keeps the session open for the
// task, and records whose task it is. r is nil if no answer arrived.
func (b *broker) remember(s *session, a *mcp.Attempt, r *mcp.Reply) {
	if r == nil || s.pool == nil {
		return
	}
	r.Session = s.number
	if s.tasks == mcp.NoTasks {
		return
	}
	life, id := taskRest, a.Name
	if at := r.CreatedTask(); !at.IsZero() {
		life = taskLife
		id, _ = jsonrpc.Text(r.Msg.Raw, jsonrpc.Find(r.Msg.Raw, at, "taskId"))
		if ttl, ok := mcp.Millis(r.Msg.Raw, jsonrpc.Find(r.Msg.Raw, at, "ttl")); ok {
			life = min(ttl, taskMaxLife)
		}
	} else if a.Method == nil || !a.Method.Task {
		return
	}
	b.update(func(st *state) {
		if until := time.Now().Add(life); until.After(s.keep) {
			s.keep = until
		}
		if r.Msg.Kind == jsonrpc.Result && a.Client != nil {
			s.own(id, a.Client.Conversation)
		}
		if a.Msg.Method == mcp.MethodListTasks {
			r.OwnTasks = make(map[string]bool)
			for id, owner := range s.taskOwners {
				r.OwnTasks[id] = r.OwnTasks[id] || owner != 0 && owner == a.Client.Conversation
			}
		}
	})
}

// hasTasks reports whether the session is kept open for its tasks.
func (s *session) hasTasks() bool { return s.keep.After(time.Now()) }

// own records that a conversation has a task, because it created the task or knows its id,
// which nobody can guess. 0 stands for a client without a conversation, which gets no notifications
// outside calls.
func (s *session) own(id string, conversation uint64) {
	if id == "" || conversation == 0 {
		return
	}
	if s.taskOwners == nil || len(s.taskOwners) >= maxTaskOwners {
		s.taskOwners = make(map[string]uint64) // tasks whose owner is unknown are not announced
	}
	s.taskOwners[id] = conversation
}

// related returns a Caller that adds the session number to the task ids in server requests. If the
// session has no tasks, it returns caller.
func (s *session) related(t *trails.Trail, k mcp.Caller) mcp.Caller {
	if s.tasks != mcp.RequestedTasks {
		return k
	}
	return relatedCaller{k, s, t}
}

type relatedCaller struct {
	mcp.Caller
	session *session
	trail   *trails.Trail
}

func (r relatedCaller) Ask(ctx context.Context, m *jsonrpc.Message) (*jsonrpc.Message, error) {
	return r.session.askRelated(ctx, r.trail, m, r.Caller.Ask)
}

// askRelated sends a server request with the function ask. If the request is about a task,
// askRelated adds the session number to the task id, and removes it from the task id in the answer
// (2025-11-25 §Tasks, "Associating Task-Related Messages").
func (s *session) askRelated(ctx context.Context, t *trails.Trail, m *jsonrpc.Message, ask func(context.Context, *jsonrpc.Message) (*jsonrpc.Message, error)) (*jsonrpc.Message, error) {
	at := mcp.RelatedTask(m.Raw, m.Param(mcp.KeyMeta))
	if jsonrpc.KindOf(m.Raw, at) != '"' || s.tasks != mcp.RequestedTasks { // in this order: s.tasks isn't set yet if the server asks right after its handshake
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

// withSession returns m with the session number added to the task id at the given position.
func (s *session) withSession(t *trails.Trail, m *jsonrpc.Message, at jsonrpc.Span) *jsonrpc.Message {
	id, _ := jsonrpc.Text(m.Raw, at)
	return spliced(t, m, at, jsonrpc.AppendQuote(nil, mcp.TaskRef{Session: s.number, ID: id}.String()))
}

// spliced returns m with the value at the given position replaced.
func spliced(t *trails.Trail, m *jsonrpc.Message, at jsonrpc.Span, with []byte) *jsonrpc.Message {
	var e jsonrpc.Edits
	e.Replace(mcp.WhyTaskID, at, with)
	return mcp.RewriteOrKeep(t, m, &e)
}
