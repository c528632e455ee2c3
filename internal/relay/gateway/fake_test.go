package gateway

import (
	"context"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/base/identity"
	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/base/work"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp/mirror"
	"github.com/dragoman-mcp/dragoman/internal/relay/bridge"
	"github.com/dragoman-mcp/dragoman/internal/relay/catalog"
)

// fake is an Upstream whose answers a test sets.
type fake struct {
	name  string
	hello mcp.ServerInfo
	// call answers calls. If call is nil, the answer is an empty result of 2025-11-25.
	call func(context.Context, *mcp.Attempt, mcp.Caller) (*mcp.Reply, error)
	// list answers list requests. If list is nil, the answer is the entry of lists for the method.
	list  func(ctx context.Context, method string) ([][]byte, error)
	lists map[string][]string
	// listFor returns the tools for a client, if it is not nil.
	listFor func(f *mcp.ClientInfo) []string
	// scope returns the credential scope of a client, if it is not nil.
	scope  func(f *mcp.ClientInfo) string
	level  func(context.Context, *mcp.Call) (*mcp.Reply, error)
	params map[string][]mirror.Param
	honour mcp.SubscriptionFilter
	greet  func() error // the error of Hello, if it is not nil
	// support says whether the tools support tasks. The zero value means TaskOptional.
	support mcp.TaskSupport
	stood   func(*fakeStanding)
	seen    seen
}

// seen has the calls that a fake got, with all edits applied, and the number of its list requests.
type seen struct {
	mu    sync.Mutex
	calls []string
	reads int
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

func (s *seen) lists() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.reads
}

func (u *fake) Name() string { return u.name }

func (u *fake) Scope(f *mcp.ClientInfo) string {
	if u.scope == nil {
		return ""
	}
	return u.scope(f)
}

func (u *fake) Hello(context.Context, *mcp.ClientInfo) (*mcp.ServerInfo, error) {
	if u.greet != nil {
		if err := u.greet(); err != nil {
			return nil, err
		}
	}
	return &u.hello, nil
}

func (u *fake) Acquire(_ context.Context, f *mcp.ClientInfo, _ mcp.Need) (bridge.Lease, error) {
	return &fakeLease{u}, nil
}

// fakeLease is a lease of the session of a fake. Its revision is that of fake.hello, or 2025-11-25
// if hello has none.
type fakeLease struct{ u *fake }

func (l *fakeLease) Revision() mcp.Revision {
	if l.u.hello.Revision != mcp.Unknown {
		return l.u.hello.Revision
	}
	return mcp.R20251125
}

func (l *fakeLease) Tasks() mcp.TaskForm { return l.u.hello.Tasks() }

func (l *fakeLease) Tool(_ context.Context, name string) mcp.ToolFacts {
	facts := mcp.ToolFacts{Support: l.u.support}
	if facts.Support == mcp.TaskForbidden {
		facts.Support = mcp.TaskOptional
	}
	facts.Params, facts.Known = l.u.params[name]
	return facts
}

func (l *fakeLease) Call(ctx context.Context, a *mcp.Attempt, k mcp.Caller) (*mcp.Reply, error) {
	l.u.seen.add(a)
	if l.u.call == nil {
		return resultReply(mcp.R20251125, `{}`), nil
	}
	return l.u.call(ctx, a, k)
}

func (l *fakeLease) Release() {}

// setList replaces the field list. Other goroutines may call List at the same time.
func (u *fake) setList(list func(ctx context.Context, method string) ([][]byte, error)) {
	u.seen.mu.Lock()
	defer u.seen.mu.Unlock()
	u.list = list
}

func (u *fake) Tasks(context.Context, *mcp.ClientInfo) mcp.TaskForm { return u.hello.Tasks() }

func (u *fake) List(ctx context.Context, f *mcp.ClientInfo, method string) ([][]byte, bool, error) {
	if u.listFor != nil && method == mcp.MethodListTools {
		return items(u.listFor(f)...), true, nil
	}
	u.seen.mu.Lock()
	u.seen.reads++
	list := u.list
	u.seen.mu.Unlock()
	if list != nil {
		items, err := list(ctx, method)
		return items, err == nil, err
	}
	return items(u.lists[method]...), true, nil
}

func (u *fake) SetLevel(ctx context.Context, c *mcp.Call) (*mcp.Reply, error) {
	u.seen.add(mcp.NewAttempt(c))
	if u.level != nil {
		return u.level(ctx, c)
	}
	return mcp.Answer([]byte("{}")), nil
}

func (u *fake) Forward(*mcp.ClientInfo, []byte, string) {}

func (u *fake) Renewed(string) {}

func (u *fake) Subscribe(_ *mcp.ClientInfo, deliver func(*jsonrpc.Message), _ mcp.Subscriber) Subscriber {
	w := &fakeStanding{u: u, deliver: deliver}
	if u.stood != nil {
		u.stood(w)
	}
	return w
}

type fakeStanding struct {
	u       *fake
	deliver func(*jsonrpc.Message)
	mu      sync.Mutex
	want    mcp.SubscriptionFilter
	closed  bool
}

func (w *fakeStanding) Lists(tools, prompts, resources bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.want = mcp.SubscriptionFilter{Tools: tools, Prompts: prompts, Resources: resources, URIs: w.want.URIs}
}

func (w *fakeStanding) Resume(uris []string) {
	for _, uri := range uris {
		_, _ = w.Subscribe(context.Background(), uri)
	}
}

func (w *fakeStanding) Subscribe(_ context.Context, uri string) (*mcp.Reply, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.want.URIs == nil {
		w.want.URIs = map[string]bool{}
	}
	w.want.URIs[uri] = true
	return mcp.Answer([]byte("{}")), nil
}

func (w *fakeStanding) Unsubscribe(context.Context, string) (*mcp.Reply, error) {
	return mcp.Answer([]byte("{}")), nil
}

func (w *fakeStanding) Watch(ctx context.Context, want mcp.SubscriptionFilter) (mcp.SubscriptionFilter, error) {
	w.Lists(want.Tools, want.Prompts, want.Resources)
	for uri := range want.URIs {
		_, _ = w.Subscribe(ctx, uri)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	h := mcp.SubscriptionFilter{
		Tools: w.want.Tools && w.u.honour.Tools, Prompts: w.want.Prompts && w.u.honour.Prompts,
		Resources: w.want.Resources && w.u.honour.Resources, URIs: map[string]bool{},
	}
	for uri := range w.want.URIs {
		if w.u.honour.URIs[uri] {
			h.URIs[uri] = true
		}
	}
	return h, nil
}

func (w *fakeStanding) Close() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.closed = true
}

// recordingCaller is an mcp.Caller for tests. It records notifications and answers server requests
// with ask.
type recordingCaller struct {
	mu    sync.Mutex
	heard []string
	ask   func(context.Context, *jsonrpc.Message) (*jsonrpc.Message, error)
}

func (e *recordingCaller) Notify(n *mcp.Note) {
	b := n.Bytes(nil)
	e.mu.Lock()
	defer e.mu.Unlock()
	e.heard = append(e.heard, string(b))
}

func (e *recordingCaller) all() []string {
	e.mu.Lock()
	defer e.mu.Unlock()
	return slices.Clone(e.heard)
}

func (e *recordingCaller) Ask(ctx context.Context, m *jsonrpc.Message) (*jsonrpc.Message, error) {
	if e.ask == nil {
		return nil, mcp.ErrCannotAsk
	}
	return e.ask(ctx, m)
}

func (e *recordingCaller) ClientInfo() *mcp.ClientInfo {
	return &mcp.ClientInfo{Revision: mcp.R20251125}
}

func items(all ...string) [][]byte {
	out := make([][]byte, len(all))
	for i, s := range all {
		out[i] = []byte(s)
	}
	return out
}

// resultReply returns a reply with this result. from is the revision of the server.
func resultReply(from mcp.Revision, result string) *mcp.Reply {
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

// modern returns a call from a modern client that can answer server requests.
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

// merged returns a gateway for several servers. It closes the gateway when the test ends.
func merged(t testing.TB, all ...*fake) *Merged {
	t.Helper()
	g := &Merged{Bridge: &bridge.Bridge{}, Identity: catalog.Identity{Name: "dragoman", Version: "1"}}
	for _, u := range all {
		g.Upstreams = append(g.Upstreams, u)
	}
	t.Cleanup(func() {
		g.Close()
		g.Bridge.Close()
	})
	return g
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

// listNames reads all pages of a merged list and returns the names (or URIs) of the items.
func listNames(t testing.TB, g *Merged, method string) []string {
	t.Helper()
	return listNamesFor(t, g, method, asksAll)
}

// listNamesFor is like listNames, but for a client with these capabilities.
func listNamesFor(t testing.TB, g *Merged, method, capabilities string) []string {
	t.Helper()
	var names []string
	params := "{}"
	for {
		c := modern(t, method, params)
		c.Client.Capabilities = []byte(capabilities)
		r, err := g.Call(t.Context(), c, &recordingCaller{})
		if err != nil {
			t.Fatal(err)
		}
		key := "name"
		switch method {
		case mcp.MethodListResources:
			key = "uri"
		case mcp.MethodListTemplates:
			key = "uriTemplate"
		}
		for e := range jsonrpc.Elements(r.Msg.Raw, r.Msg.ResultMember(c.Method.ListKey)) {
			s, _ := jsonrpc.Text(r.Msg.Raw, jsonrpc.Find(r.Msg.Raw, e, key))
			names = append(names, s)
		}
		next := text(t, r, "nextCursor")
		if next == "" {
			return names
		}
		params = string(append(jsonrpc.AppendQuote([]byte(`{"cursor":`), next), '}'))
	}
}

// after waits for d and returns items, as a slow server would.
func after(ctx context.Context, d time.Duration, items [][]byte) ([][]byte, error) {
	if err := work.Sleep(ctx, d); err != nil {
		return nil, err
	}
	return items, nil
}

func shows(t *testing.T, got []string, want string) {
	t.Helper()
	if s := strings.Join(got, " "); s != want {
		t.Errorf("got %q, want %q", s, want)
	}
}

// Copies of constants of package bridge. The documentation gives these values.
const (
	stateTTL    = 10 * time.Minute
	maxAttended = 256
	idStart     = "drgt2."
	keptTaskID  = "drgk1."
)

// exchange sends a to the server u through b and returns the answer.
func exchange(ctx context.Context, b *bridge.Bridge, u Upstream, a *mcp.Attempt, k mcp.Caller) (*mcp.Reply, error) {
	res, err := b.Open(u, a.Call)
	if err != nil {
		return nil, err
	}
	return b.Exchange(ctx, u, a, res, k)
}

// taskIDFor returns the id that an anonymous client gets for a task.
func taskIDFor(b *bridge.Bridge, server string, ref mcp.TaskRef) string {
	m := jsonrpc.NewNotification(mcp.NoteTaskStatus, append(jsonrpc.AppendQuote([]byte(`{"taskId":`), ref.String()), '}'))
	var e jsonrpc.Edits
	b.TaskNames(&mcp.ClientInfo{}, false)(server, m, &e)
	raw := jsonrpc.Splice(nil, m.Raw, &e)
	id, _ := jsonrpc.Text(raw, jsonrpc.Find(raw, jsonrpc.Find(raw, jsonrpc.Whole(raw), "params"), "taskId"))
	return id
}
