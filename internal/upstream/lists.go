package upstream

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/mcp"
	"github.com/dragoman-mcp/dragoman/internal/mcp/mirror"
	"github.com/dragoman-mcp/dragoman/internal/transport"
)

// The bounds of a list that is walked to its end.
const (
	maxPages     = 1000
	maxListBytes = 16 << 20
)

// List walks a list to its end on behalf of f, who may be nil, and returns the
// items as the server wrote them. complete is false when a bound was hit or the
// cursor went in circles; what was read until then is returned.
func (u *Upstream) List(ctx context.Context, f *mcp.ClientInfo, method string) (items [][]byte, complete bool, err error) {
	return u.ListPages(ctx, f, method, func(*jsonrpc.Message) {})
}

// ListPages is List that shows each page as well, an answer with a result.
func (u *Upstream) ListPages(ctx context.Context, f *mcp.ClientInfo, method string, page func(*jsonrpc.Message)) (items [][]byte, complete bool, err error) {
	shown := false
	show := func(m *jsonrpc.Message) { shown = true; page(m) }
	items, complete, err = u.listPages(ctx, f, nil, method, show)
	if errors.Is(err, transport.ErrStalled) && !shown && ctx.Err() == nil {
		// Its session was set aside, and there is another one.
		items, complete, err = u.listPages(ctx, f, nil, method, show)
	}
	return items, complete, err
}

// listPages is ListPages once. It uses the session via, which somebody else holds, or one of
// its own where via is nil.
func (u *Upstream) listPages(ctx context.Context, f *mcp.ClientInfo, via *session, method string, page func(*jsonrpc.Message)) (items [][]byte, complete bool, err error) {
	info := mcp.LookupMethod(method)
	if info == nil || info.ListKey == "" {
		return nil, false, fmt.Errorf("%s is no list", method)
	}
	s := via
	if s == nil {
		lease, err := u.acquire(ctx, f, false)
		if err != nil {
			return nil, false, err
		}
		defer lease.Release()
		s = lease.s
	}
	left := map[string]string{}
	if method == mcp.MethodListTools {
		defer func() { u.leaveOut(left, err == nil, f != nil && canBeAsked(f)) }()
	}
	seen := map[string]bool{}
	var params []byte
	size := 0
	for n := 0; n < maxPages && size <= maxListBytes; n++ {
		r, err := s.server.Call(ctx, u.ownCall(method, params, f), mcp.NoCaller{})
		if err != nil {
			return nil, false, err
		}
		if r.Code() == jsonrpc.CodeMethodNotFound {
			return nil, true, nil
		}
		if r.Code() != 0 {
			return nil, false, &mcp.Error{
				Origin: mcp.FromUpstream, Upstream: u.spec.Name, Cause: "refused", Outcome: mcp.Failed,
				Message: fmt.Sprintf("server %q refuses %s", u.spec.Name, method), Op: "list " + u.spec.Name,
			}
		}
		page(r.Msg)
		raw := r.Msg.Raw
		size += len(raw)
		strict := method == mcp.MethodListTools && !u.spec.piped() && s.server.Revision().Can(mcp.MirroredHeaders)
		for e := range jsonrpc.Elements(raw, r.Msg.ResultMember(info.ListKey)) {
			if strict && !mayList(raw, e, left) {
				continue
			}
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

// mayList refuses a tool whose x-mcp-header is invalid, as a client of Streamable
// HTTP must (2026-07-28 §Streamable HTTP, "Schema Extension"), and notes why.
func mayList(raw []byte, tool jsonrpc.Span, left map[string]string) bool {
	_, err := mirror.ParseParams(raw, jsonrpc.Find(raw, tool, "inputSchema"))
	if err != nil && len(left) < maxLeftOut {
		name, _ := jsonrpc.Text(raw, jsonrpc.Find(raw, tool, "name"))
		left[name[:min(len(name), maxToolName)]] = err.Error()
	}
	return err == nil
}

// The bounds of what is kept of tools that are left out.
const (
	maxLeftOut  = 100
	maxToolName = 128 // bytes
)

// leaveOut logs which tools are left out and why, each once, because lists are read
// again and again. whole is true when the list was read without an error, so that tools
// that are no longer in it are forgotten. some is true for a list that only some
// clients see, which says nothing about tools that are not in it.
func (u *Upstream) leaveOut(left map[string]string, whole, some bool) {
	u.mu.Lock()
	before := u.leftOut
	if whole && some {
		all := maps.Clone(before)
		if all == nil {
			all = map[string]string{}
		}
		for name, why := range left {
			if len(all) < maxLeftOut || all[name] != "" {
				all[name] = why
			}
		}
		u.leftOut = all
	} else if whole {
		u.leftOut = left
	}
	u.mu.Unlock()
	for _, name := range slices.Sorted(maps.Keys(left)) {
		if before[name] == left[name] || !whole {
			continue
		}
		u.opts.Log.Warn("tool left out: its x-mcp-header is invalid", "server", u.spec.Name, "tool", name, "cause", left[name])
		u.lost(mcp.MethodListTools, "the x-mcp-header of a tool is invalid")
	}
}

// toolSpecs is what the server's tools want mirrored into headers, and what they
// say of tasks.
type toolSpecs struct {
	done   chan struct{} // closed when the others are set
	params map[string][]mirror.Param
	tasks  map[string]mcp.TaskSupport // of those that say anything
}

// forgetTools forgets what is known of the tools, of all clients.
func (u *Upstream) forgetTools() {
	u.mu.Lock()
	u.tools = nil
	u.mu.Unlock()
}

// ToolParams returns which arguments a tool wants mirrored into headers, and
// whether the server has such a tool for the client f, who may be nil. It reads the
// tools once and again after they have changed.
func (u *Upstream) ToolParams(ctx context.Context, f *mcp.ClientInfo, tool string) (params []mirror.Param, known bool) {
	u.lookUpTool(ctx, f, nil, func(t *toolSpecs) bool {
		params, known = t.params[tool]
		return known
	})
	return params, known
}

// lookUpTool calls find with what is known of the tools until it returns true: the tools
// that all clients see, then those for clients with the capabilities of f. What is not
// known is read, through the session via unless that is nil.
func (u *Upstream) lookUpTool(ctx context.Context, f *mcp.ClientInfo, via *session, find func(*toolSpecs) bool) {
	scope := u.scopeOf(f)
	u.mu.Lock()
	own := u.setLocked(f, scope)
	all, mine := u.tools[""], u.tools[own]
	u.mu.Unlock()
	scoped := scope != ""
	if scoped {
		all = nil // other credentials may see other tools
	}
	for _, t := range [...]*toolSpecs{all, mine} {
		if t != nil && isClosed(t.done) && find(t) {
			return
		}
	}
	if !scoped && (via == nil || own == "") {
		if t := u.toolsOf(ctx, nil, via); t != nil && find(t) || f == nil || !canBeAsked(f) {
			return
		}
	}
	if t := u.toolsOf(ctx, f, via); t != nil {
		find(t)
	}
}

// setLocked returns the set of capabilities that a client's sessions are opened with,
// "" for those that declare nothing.
func (u *Upstream) setLocked(f *mcp.ClientInfo, scope string) string {
	if f == nil {
		return ""
	}
	caps := ""
	if u.spec.Isolation != Shared {
		caps = u.canon.of(f.Capabilities)
	}
	if scope != "" {
		return scope + "\x00" + caps
	}
	return caps
}

// maxToolSpecs bounds the sets of capabilities for which tools are known.
const maxToolSpecs = 16

// toolsOf returns what is known of the tools of the clients with the capabilities of
// f, who may be nil. It is nil when ctx ends before. They are read through the session
// via, which the caller holds, or another one where via is nil.
func (u *Upstream) toolsOf(ctx context.Context, f *mcp.ClientInfo, via *session) *toolSpecs {
	scope := u.scopeOf(f)
	u.mu.Lock()
	key := u.setLocked(f, scope)
	t := u.tools[key]
	if t == nil && !u.closed {
		t = &toolSpecs{done: make(chan struct{})}
		if u.tools == nil || len(u.tools) >= maxToolSpecs {
			u.tools = make(map[string]*toolSpecs)
		}
		u.tools[key] = t
		f = f.Own()
		if via != nil {
			via.users++ // its holder may give it back before the list is read
		}
		// Not for as long as its first caller has patience: others wait too.
		u.work.Go(func() {
			ctx, stop := context.WithTimeout(u.life, 30*time.Second)
			defer stop()
			u.loadTools(ctx, f, via, key, t)
			if via != nil {
				u.release(via, false, false)
			}
		})
	}
	u.mu.Unlock()
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

func (u *Upstream) loadTools(ctx context.Context, f *mcp.ClientInfo, via *session, key string, t *toolSpecs) {
	defer close(t.done)
	items, err := u.listTools(ctx, f, via)
	if err != nil {
		u.opts.Log.Debug("tools could not be read", "server", u.spec.Name, "cause", err.Error())
		u.mu.Lock()
		if u.tools[key] == t {
			delete(u.tools, key)
		}
		u.mu.Unlock()
		return
	}
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
			continue
		}
		t.params[name] = params
	}
}

// listTools reads the list of tools through the session via, or another one where via is
// nil or cannot answer.
func (u *Upstream) listTools(ctx context.Context, f *mcp.ClientInfo, via *session) ([][]byte, error) {
	if via != nil {
		items, _, err := u.listPages(ctx, f, via, mcp.MethodListTools, func(*jsonrpc.Message) {})
		if err == nil || !isOver(err) {
			return items, err
		}
	}
	items, _, err := u.List(ctx, f, mcp.MethodListTools)
	return items, err
}

// paramsOf is ToolParams for the headers that we send. A pipe has none.
func (u *Upstream) paramsOf(ctx context.Context, f *mcp.ClientInfo, tool string) ([]mirror.Param, bool) {
	if u.spec.piped() {
		return nil, false
	}
	return u.ToolParams(ctx, f, tool)
}
