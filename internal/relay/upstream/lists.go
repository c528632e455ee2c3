package upstream

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/base/failure"
	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp/mirror"
	"github.com/dragoman-mcp/dragoman/internal/relay/conn"
	"github.com/dragoman-mcp/dragoman/internal/transport"
)

// lister reads the lists of the server, and remembers what they said about the tools.
type lister struct {
	*core
	broker interface {
		acquire(context.Context, *mcp.ClientInfo, mcp.Need) (hold, error)
		release(s *session, counted, unused bool)
		replace(s *session, holds int, cause error)
	}

	memory toolMemory
}

// listState is the state of the lister.
type listState struct {
	tools   byAudience[*toolSpecs] // the cached tools
	forgets int                    // how often some of tools were forgotten
	leftOut leftOut                // items that clients do not see
}

// maxPages bounds the pages of one list, and maxListBytes bounds their total length.
const (
	maxPages     = 1000
	maxListBytes = 16 << 20
)

// list reads all pages of a list on behalf of the client f, which may be nil. It returns the items
// as the server wrote them. complete is false if a bound was reached or a cursor was repeated. In
// this case list returns the items that it has read.
func (l *lister) list(ctx context.Context, f *mcp.ClientInfo, method string) (items [][]byte, complete bool, err error) {
	return l.listPages(ctx, f, method, func(*jsonrpc.Message) {})
}

// listPages does the same as List, and also passes each page of the list to the function page. A
// page is a response with a result.
func (l *lister) listPages(ctx context.Context, f *mcp.ClientInfo, method string, page func(*jsonrpc.Message)) (items [][]byte, complete bool, err error) {
	shown := false
	show := func(m *jsonrpc.Message) { shown = true; page(m) }
	items, complete, err = l.readPages(ctx, f, nil, method, show)
	if (errors.Is(err, transport.ErrStalled) || errors.Is(err, conn.ErrSessionLost)) && !shown && ctx.Err() == nil {
		// The session has been taken out of service. Read the list through another session.
		items, complete, err = l.readPages(ctx, f, nil, method, show)
	}
	return items, complete, err
}

// readPages does the same as ListPages, without a retry. The parameter via is the session to use,
// which the caller must have acquired. If via is nil, readPages acquires a session.
func (l *lister) readPages(ctx context.Context, f *mcp.ClientInfo, via *session, method string, page func(*jsonrpc.Message)) (items [][]byte, complete bool, err error) {
	info := mcp.LookupMethod(method)
	if info == nil || info.ListKey == "" {
		return nil, false, fmt.Errorf("%s is not a list method", method)
	}
	s := via
	if s == nil {
		held, err := l.broker.acquire(ctx, f, mcp.Need{Method: method})
		if err != nil {
			return nil, false, err
		}
		defer held.release()
		s = held.s
	}
	left := map[string]string{}
	began := time.Now()
	forgets := get(l.core, func(st *state) int { return st.lists.forgets })
	defer func() {
		if err != nil {
			return
		}
		l.leaveOut(method, left, f != nil && (canBeAsked(f) || l.scopeOf(f) != ""))
		if method == mcp.MethodListTools {
			l.seeTools(f, began, items, complete)
			if complete && via == nil {
				l.keepTools(f, forgets, items)
			}
		}
	}()
	seen := map[string]bool{}
	var params []byte
	for n, size := 0, 0; n < maxPages && size <= maxListBytes; n++ {
		answered := s.steps.list(method)
		r, err := s.server.Call(ctx, l.ownCall(method, params, f), mcp.NoCaller{})
		answered(r, err)
		if errors.Is(err, conn.ErrSessionLost) && via == nil {
			l.broker.replace(s, 1, err)
		}
		if err != nil {
			return nil, false, l.withRemains(s, err)
		}
		if r.Code() == jsonrpc.CodeMethodNotFound {
			return nil, true, nil
		}
		if r.Code() != 0 {
			return nil, false, l.listRefused(method, r)
		}
		raw, list := r.Msg.Raw, r.Msg.ResultMember(info.ListKey)
		if k := jsonrpc.KindOf(raw, list); jsonrpc.KindOf(raw, r.Msg.Result) != '{' || k != '[' && k != 'n' && !list.IsZero() {
			return nil, false, l.noList(method, info.ListKey)
		}
		page(r.Msg)
		noteCut(r.Cut, left)
		size += len(raw)
		for e := range jsonrpc.Elements(raw, list) {
			items = append(items, e.Of(raw))
		}
		cursor := r.Msg.ResultMember("nextCursor")
		if jsonrpc.KindOf(raw, cursor) != '"' {
			return items, true, nil
		}
		c := string(cursor.Of(raw))
		if seen[c] {
			return items, false, nil
		}
		seen[c] = true
		params = append(append([]byte(`{"cursor":`), c...), '}')
	}
	return items, false, nil
}

// listRefused returns the error for a server that answers a list request with an error.
func (l *lister) listRefused(method string, r *mcp.Reply) *mcp.Error {
	e := &mcp.Error{Origin: mcp.FromUpstream, Upstream: l.spec.Name, Cause: "refused", Outcome: mcp.Failed, Op: "list " + l.spec.Name}
	f := l.facts()
	f.Answer, _ = jsonrpc.Text(r.Msg.Raw, jsonrpc.Find(r.Msg.Raw, r.Msg.Error, "message"))
	if after, ok := mcp.OverLimit(jsonrpc.Find(r.Msg.Raw, r.Msg.Error, "data").Of(r.Msg.Raw)); ok {
		// The server is behind another Dragoman, whose answer says which limit it was.
		e.Cause, e.Outcome, e.Retryable, e.RetryAfter = "limit", mcp.NotSent, true, after
		f.Cause, f.Call = e.Cause, true
		f.Sentence = fmt.Sprintf("a limit of the Dragoman that serves %q has refused %s: %q", l.spec.Name, method, f.Answer)
		l.explain(e, failure.Of(e, f))
		return e
	}
	f.Cause, f.Call, f.Sent = e.Cause, true, method
	f.Got = fmt.Sprintf("error %d: %q", r.Code(), f.Answer)
	l.explain(e, failure.Of(nil, f))
	return e
}

// noList returns the error for an answer to a list request that contains something else instead of the
// list. It must not count as an empty list, because the items would be gone without a word, and other
// servers could have their names. Servers that have no items may leave the list out or send null; some
// SDKs do so.
func (l *lister) noList(method, key string) *mcp.Error {
	e := &mcp.Error{Origin: mcp.FromUpstream, Upstream: l.spec.Name, Cause: "bad_response", Outcome: mcp.Failed, Op: "list " + l.spec.Name}
	f := l.facts()
	f.Cause, f.Call, f.Sent = e.Cause, true, method
	f.Got = fmt.Sprintf("its result of %s has no list %q", method, key)
	l.explain(e, failure.Of(nil, f))
	return e
}

// noteCut stores in left the items that were cut out of a page because they exceed a limit.
func noteCut(cut *jsonrpc.Cut, left map[string]string) {
	if cut == nil {
		return
	}
	for _, name := range cut.Names {
		if len(left) < maxLeftOut {
			left[name] = cut.Why
		}
	}
}

// maxLeftOut bounds how many left-out items of a list are stored, and maxToolName bounds the length
// of their names.
const (
	maxLeftOut  = 100
	maxToolName = 128 // in bytes
)

// leftOut contains the items that clients do not see: by the method of the list and the name of the
// item, with the reason as a clause. Its maps are replaced, and never changed.
type leftOut map[string]map[string]string

// leaveOut stores the items that were left out of a list, and logs each of them. It does not log an
// item again when the list is read again. If some is true, only some clients see the list, or left is
// about one page of it. Then the items in left are added to the stored ones. Otherwise they replace
// the stored ones.
func (l *lister) leaveOut(method string, left map[string]string, some bool) {
	before := get(l.core, func(st *state) map[string]string { return st.lists.leaveOut(method, left, some) })
	for _, name := range slices.Sorted(maps.Keys(left)) {
		if before[name] == left[name] {
			continue
		}
		l.opts.Log.Warn("an item of a list is left out", "server", l.spec.Name, "list", method, "name", l.opts.Clean(name), "cause", left[name])
		l.publishLoss(method, "an item of the list is left out")
	}
}

// leaveOut stores the items that were left out of a list, and returns those that were stored before.
func (l *listState) leaveOut(method string, left map[string]string, some bool) (before map[string]string) {
	before = l.leftOut[method]
	all := left
	if some {
		all = make(map[string]string, len(before)+len(left))
		maps.Copy(all, before)
		for name, why := range left {
			if len(all) < maxLeftOut || all[name] != "" {
				all[name] = why
			}
		}
	}
	if len(all) > 0 || len(before) > 0 {
		lists := maps.Clone(l.leftOut)
		if lists == nil {
			lists = leftOut{}
		}
		lists[method] = all
		l.leftOut = lists
	}
	return before
}

// toolSpecs says which parameters of each tool Dragoman mirrors into headers, and whether the tool
// supports tasks.
type toolSpecs struct {
	done    chan struct{} // closed when the other fields are set
	params  map[string][]mirror.Param
	invalid map[string]error           // why a tool's parameters cannot be mirrored
	tasks   map[string]mcp.TaskSupport // contains only the tools that support tasks
}

// forgetTools removes the stored information about the tools for the clients of a scope. For the scope "",
// it does so for all clients.
func (l *lister) forgetTools(scope string) {
	l.update(func(st *state) { st.lists.forgetTools(scope) })
}

func (l *listState) forgetTools(scope string) {
	l.forgets++
	l.tools.forget(scope)
}

// keepTools caches a list of tools that the client f, which may be nil, has just got, so that a call need not read it
// again: its server may be limited, by us or by itself. forgets is what it was before the list was read: if tools were
// forgotten since, the list may be old. Nobody needs it for a server on a pipe, as long as no call may become a task.
func (l *lister) keepTools(f *mcp.ClientInfo, forgets int, items [][]byte) {
	if l.spec.piped() {
		return
	}
	scope := l.scopeOf(f)
	t := &toolSpecs{done: make(chan struct{})}
	t.read(items)
	close(t.done)
	l.update(func(st *state) {
		if key := l.audienceKey(st, f, scope); st.lists.forgets == forgets && st.lists.tools.get(key) == nil && !st.ops.closed {
			st.lists.tools.put(key, t)
		}
	})
}

// toolParams returns the parameters of a tool that must be mirrored into headers. known says
// whether the server has the tool for the client f, which may be nil, and the error why it cannot be
// called. toolParams reads the tool list only if the list is not cached.
func (l *lister) toolParams(ctx context.Context, f *mcp.ClientInfo, tool string) (params []mirror.Param, known bool, err error) {
	l.lookUpTool(ctx, f, nil, func(t *toolSpecs) bool {
		if params, known = t.params[tool]; !known {
			err = t.invalid[tool]
		}
		return known || err != nil
	})
	return params, known, err
}

// lookUpTool calls the function find with cached tools until find returns true. It starts with the
// tools that all clients see, and continues with the tools for clients with the capabilities of f.
// If a tool list is not cached, lookUpTool reads it through the session via. If via is nil, it
// acquires a session.
func (l *lister) lookUpTool(ctx context.Context, f *mcp.ClientInfo, via *session, find func(*toolSpecs) bool) {
	scope := l.scopeOf(f)
	var own string
	var all, mine *toolSpecs
	l.update(func(st *state) {
		own = l.audienceKey(st, f, scope)
		all, mine = st.lists.tools.get(""), st.lists.tools.get(own)
	})
	scoped := scope != ""
	if scoped {
		all = nil // the server may list other tools for other credentials
	}
	for _, t := range [...]*toolSpecs{all, mine} {
		if t != nil && isClosed(t.done) && find(t) {
			return
		}
	}
	if !scoped && (via == nil || own == "") {
		if t := l.toolsOf(ctx, nil, via); t != nil && find(t) || f == nil || !canBeAsked(f) {
			return
		}
	}
	if t := l.toolsOf(ctx, f, via); t != nil {
		find(t)
	}
}

// audienceKey returns the key in listState.tools of the tools that a client sees. The key consists of
// the client's credential scope and the canonical form of the client's capabilities. It is "" for a
// client without either.
func (l *lister) audienceKey(st *state, f *mcp.ClientInfo, scope string) string {
	if f == nil {
		return ""
	}
	caps := ""
	if l.spec.Isolation != Shared {
		caps = st.pools.canon.of(f.Capabilities)
	}
	if scope != "" {
		return scope + "\x00" + caps
	}
	return caps
}

// toolsOf returns the cached tools for clients with the capabilities of f, which may be nil. If
// they are not cached, toolsOf reads them through the session via, which the caller must have
// acquired. If via is nil, toolsOf acquires a session. It returns nil if ctx ends before the tools
// have been read.
func (l *lister) toolsOf(ctx context.Context, f *mcp.ClientInfo, via *session) *toolSpecs {
	scope := l.scopeOf(f)
	t := get(l.core, func(st *state) *toolSpecs {
		key := l.audienceKey(st, f, scope)
		t := st.lists.tools.get(key)
		if t != nil || st.ops.closed {
			return t
		}
		t = &toolSpecs{done: make(chan struct{})}
		st.lists.tools.put(key, t)
		f := f.Own()
		if via != nil {
			via.users++ // the caller may release the session before the list is read
		}
		// This goroutine must not use the caller's ctx, because other callers may also wait for the
		// tools.
		l.work.Go(func() {
			ctx, stop := context.WithTimeout(l.life, 30*time.Second)
			defer stop()
			l.loadTools(ctx, f, via, key, t)
			if via != nil {
				l.broker.release(via, false, false)
			}
		})
		return t
	})
	if t == nil {
		return nil
	}
	select {
	case <-t.done:
		return t
	case <-ctx.Done():
		return nil
	}
}

func (l *lister) loadTools(ctx context.Context, f *mcp.ClientInfo, via *session, key string, t *toolSpecs) {
	defer close(t.done)
	items, err := l.listTools(ctx, f, via)
	if err != nil {
		l.opts.Log.Debug("tools could not be read", "server", l.spec.Name, "cause", err.Error())
		l.update(func(st *state) {
			if st.lists.tools.get(key) == t {
				delete(st.lists.tools.all, key)
			}
		})
		return
	}
	t.read(items)
}

// read sets what a list says.
func (t *toolSpecs) read(items [][]byte) {
	t.params = make(map[string][]mirror.Param, len(items))
	t.tasks = make(map[string]mcp.TaskSupport)
	for _, raw := range items {
		var at [2]jsonrpc.Span
		jsonrpc.FindAll(raw, jsonrpc.Whole(raw), []string{"name", "inputSchema"}, at[:])
		name, ok := jsonrpc.Text(raw, at[0])
		if !ok {
			continue
		}
		if support := mcp.ReadTaskSupport(raw, jsonrpc.Whole(raw)); support != mcp.TaskForbidden {
			t.tasks[name] = support
		}
		params, err := mirror.ParseParams(raw, at[1])
		if err != nil {
			if t.invalid == nil {
				t.invalid = make(map[string]error)
			}
			t.invalid[name] = err
			continue
		}
		t.params[name] = params
	}
}

// listTools reads the tool list. The parameter via is the session to use. If via is nil or has
// ended, listTools uses another session.
func (l *lister) listTools(ctx context.Context, f *mcp.ClientInfo, via *session) ([][]byte, error) {
	if via != nil {
		items, _, err := l.readPages(ctx, f, via, mcp.MethodListTools, func(*jsonrpc.Message) {})
		if err == nil || !isOver(err) {
			return items, err
		}
	}
	items, _, err := l.list(ctx, f, mcp.MethodListTools)
	return items, err
}

// paramsOf returns the parameters of a tool that Dragoman mirrors into headers. It returns nil for
// a server on a pipe, which has no headers.
func (l *lister) paramsOf(ctx context.Context, f *mcp.ClientInfo, tool string) ([]mirror.Param, bool, error) {
	if l.spec.piped() {
		return nil, false, nil
	}
	return l.toolParams(ctx, f, tool)
}
