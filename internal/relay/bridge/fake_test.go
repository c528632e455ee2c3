package bridge

import (
	"context"
	"slices"
	"sync"
	"testing"

	"github.com/dragoman-mcp/dragoman/internal/base/identity"
	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp/mirror"
)

// fake is a server whose methods are functions that a test sets.
type fake struct {
	name  string
	hello mcp.ServerInfo
	// call answers calls. If it is nil, the result is {} in the form of 2025-11-25.
	call   func(context.Context, *mcp.Attempt, mcp.Caller) (*mcp.Reply, error)
	params map[string][]mirror.Param
	// support says whether the tools support tasks. The zero value means that tasks are
	// optional.
	support mcp.TaskSupport
	seen    seen
}

// seen has the messages that a fake got, in the form of the fake's revision.
type seen struct {
	mu    sync.Mutex
	calls []string
}

func (s *seen) add(a *mcp.Attempt) {
	s.mu.Lock()
	defer s.mu.Unlock()
	e := a.Edits
	if len(a.Retry) > 0 {
		e.Object(jsonrpc.NoReason, a.Msg.Raw, a.Msg.Params, nil, a.Retry...)
	}
	s.calls = append(s.calls, string(e.Splice(nil, a.Msg.Raw)))
}

func (s *seen) all() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.calls)
}

func (u *fake) Name() string { return u.name }

func (u *fake) Hello(context.Context, *mcp.ClientInfo) (*mcp.ServerInfo, error) { return &u.hello, nil }

func (u *fake) Acquire(_ context.Context, f *mcp.ClientInfo, _ mcp.Need) (Lease, error) {
	return &fakeLease{u}, nil
}

// fakeLease is the only session of a fake. It is legacy unless the field hello says otherwise.
type fakeLease struct{ u *fake }

func (l *fakeLease) Revision() mcp.Revision {
	if l.u.hello.Revision != mcp.Unknown {
		return l.u.hello.Revision
	}
	return mcp.R20251125
}

func (l *fakeLease) Tasks() mcp.TaskForm { return l.u.hello.Tasks() }

func (l *fakeLease) Tool(_ context.Context, name string) mcp.ToolFacts {
	tool := mcp.ToolFacts{Support: l.u.support}
	if tool.Support == mcp.TaskForbidden {
		tool.Support = mcp.TaskOptional
	}
	tool.Params, tool.Known = l.u.params[name]
	return tool
}

func (l *fakeLease) Call(ctx context.Context, a *mcp.Attempt, k mcp.Caller) (*mcp.Reply, error) {
	l.u.seen.add(a)
	if l.u.call == nil {
		return said(mcp.R20251125, `{}`), nil
	}
	return l.u.call(ctx, a, k)
}

func (l *fakeLease) Release() {}

func (u *fake) Tasks(context.Context, *mcp.ClientInfo) mcp.TaskForm { return u.hello.Tasks() }

// ear is the client side of a test. It records notifications and answers server requests with
// the function ask.
type ear struct {
	mu    sync.Mutex
	heard []string
	ask   func(context.Context, *jsonrpc.Message) (*jsonrpc.Message, error)
}

func (e *ear) Notify(n *mcp.Note) {
	b := n.Bytes(nil)
	e.mu.Lock()
	defer e.mu.Unlock()
	e.heard = append(e.heard, string(b))
}

func (e *ear) all() []string {
	e.mu.Lock()
	defer e.mu.Unlock()
	return slices.Clone(e.heard)
}

func (e *ear) Ask(ctx context.Context, m *jsonrpc.Message) (*jsonrpc.Message, error) {
	if e.ask == nil {
		return nil, mcp.ErrCannotAsk
	}
	return e.ask(ctx, m)
}

func (e *ear) ClientInfo() *mcp.ClientInfo { return &mcp.ClientInfo{Revision: mcp.R20251125} }

// said returns a reply with a result, as from a server of a revision.
func said(from mcp.Revision, result string) *mcp.Reply {
	r := mcp.Answer([]byte(result))
	r.From = from
	return r
}

func message(t testing.TB, raw string) *jsonrpc.Message {
	t.Helper()
	m, err := jsonrpc.Scan([]byte(raw), jsonrpc.Limits{Bytes: len(raw) + 1})
	if err != nil {
		t.Fatalf("%v: %.200s", err, raw)
	}
	return m
}

const asksAll = `{"elicitation":{},"sampling":{},"roots":{}}`

// modern returns a call of a modern client, and legacy a call of a legacy client. Both clients can
// answer server requests.
func modern(t testing.TB, method, params string) *mcp.Call {
	return request26(t, "alice", method, params)
}

func request26(t testing.TB, principal, method, params string) *mcp.Call {
	t.Helper()
	m := message(t, `{"jsonrpc":"2.0","id":7,"method":"`+method+`","params":`+params+`}`)
	return mcp.NewCall(m, m.Param(mcp.KeyMeta), &mcp.ClientInfo{
		Revision: mcp.R20260728, Capabilities: []byte(asksAll), Who: identity.Named(principal),
	})
}

func legacy(t testing.TB, method, params string) *mcp.Call {
	t.Helper()
	c := request26(t, "alice", method, params)
	c.Client = &mcp.ClientInfo{Revision: mcp.R20251125, Capabilities: []byte(asksAll), Who: identity.Named("alice"), Conversation: 1}
	return c
}

func code(err error) int64 {
	if err == nil {
		return 0
	}
	return mcp.Wire(err).Code
}

func text(t testing.TB, r *mcp.Reply, key string) string {
	t.Helper()
	raw := r.Edits.Splice(nil, r.Msg.Raw)
	m := message(t, string(raw))
	s, _ := jsonrpc.Text(m.Raw, m.ResultMember(key))
	return s
}

func result(t testing.TB, r *mcp.Reply) string {
	t.Helper()
	m := message(t, string(r.Edits.Splice(nil, r.Msg.Raw)))
	return string(m.Result.Of(m.Raw))
}

// relay opens the requestState of a call and runs Exchange.
func relay(ctx context.Context, b *Bridge, u Server, c *mcp.Call, k mcp.Caller) (*mcp.Reply, error) {
	res, err := b.Open(u, c)
	if err != nil {
		return nil, err
	}
	return b.Exchange(ctx, u, mcp.NewAttempt(c), res, k)
}
