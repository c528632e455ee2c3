package gateway

import (
	"context"

	"github.com/dragoman-mcp/dragoman/internal/bridge"
	"github.com/dragoman-mcp/dragoman/internal/catalog"
	"github.com/dragoman-mcp/dragoman/internal/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/mcp"
)

// Filtered shows only a part of a server. What is hidden is not listed, and is
// answered to as what does not exist.
type Filtered struct {
	Upstream
	// Shows reports whether an item is shown; kind is "tools", "prompts" or
	// "resources", name is the server's own: a URI for resources, and the template
	// for templates.
	Shows func(kind, name string) bool
}

// Acquire returns a lease that answers for what is hidden and takes it out of lists.
func (u *Filtered) Acquire(ctx context.Context, f *mcp.ClientInfo, need mcp.Need) (bridge.Lease, error) {
	l, err := u.Upstream.Acquire(ctx, f, need)
	if err != nil {
		return nil, err
	}
	return &filteredLease{l, u}, nil
}

type filteredLease struct {
	bridge.Lease
	u *Filtered
}

func (l *filteredLease) Call(ctx context.Context, c *mcp.Attempt, s mcp.Caller) (*mcp.Reply, error) {
	u := l.u
	switch c.Msg.Method {
	case mcp.MethodCallTool:
		if !u.Shows("tools", c.Name) {
			return nil, catalog.Unknown(catalog.KindTool, c.Name)
		}
	case mcp.MethodGetPrompt:
		if !u.Shows("prompts", c.Name) {
			return nil, catalog.Unknown(catalog.KindPrompt, c.Name)
		}
	case mcp.MethodReadResource:
		if !u.Shows("resources", c.Name) {
			return nil, catalog.Missing(c.Client, c.Name)
		}
	case mcp.MethodComplete:
		if err := u.complete(c.Call); err != nil {
			return nil, err
		}
	}
	reply, err := l.Lease.Call(ctx, c, s)
	if err == nil && c.Method != nil && c.Method.ListKey != "" {
		u.cut(c.Method, reply)
	}
	return reply, err
}

func (u *Filtered) complete(c *mcp.Call) error {
	raw, ref := c.Msg.Raw, c.Msg.Param("ref")
	if name, ok := jsonrpc.Text(raw, jsonrpc.Find(raw, ref, "name")); ok && !u.Shows("prompts", name) {
		return catalog.Unknown(catalog.KindPrompt, name)
	}
	if uri, ok := jsonrpc.Text(raw, jsonrpc.Find(raw, ref, "uri")); ok && !u.Shows("resources", uri) {
		return catalog.Missing(c.Client, uri)
	}
	return nil
}

// itemsOf returns the kind of a list's items and the member that names them.
func itemsOf(m *mcp.Method) (kind, key string) {
	switch m.Name {
	case mcp.MethodListResources:
		return "resources", "uri"
	case mcp.MethodListTemplates:
		return "resources", "uriTemplate"
	case mcp.MethodListPrompts:
		return "prompts", "name"
	}
	return "tools", "name"
}

func (u *Filtered) shows(m *mcp.Method, raw []byte, item jsonrpc.Span) bool {
	kind, key := itemsOf(m)
	name, _ := jsonrpc.Text(raw, jsonrpc.Find(raw, item, key))
	return u.Shows(kind, name)
}

// cut takes what is hidden out of one page. A list that was filtered is for this
// client alone, whatever the server says of it (2026-07-28 §Caching, "Choosing a
// Cache Scope").
func (u *Filtered) cut(m *mcp.Method, reply *mcp.Reply) {
	raw := reply.Msg.Raw
	shows := func(item jsonrpc.Span) bool { return u.shows(m, raw, item) }
	if m.Name == mcp.MethodListTools {
		keepTools(reply, shows, nil)
	} else {
		cutItems(raw, reply.Msg.ResultMember(m.ListKey), &reply.Edits, func(item jsonrpc.Span) jsonrpc.Reason {
			if shows(item) {
				return jsonrpc.NoReason
			}
			return mcp.WhyHidden
		})
	}
	keepPrivate(reply)
}

// List leaves out what is hidden.
func (u *Filtered) List(ctx context.Context, f *mcp.ClientInfo, method string) (items [][]byte, complete bool, err error) {
	items, complete, err = u.Upstream.List(ctx, f, method)
	m := mcp.LookupMethod(method)
	if err != nil || m == nil {
		return items, complete, err
	}
	shown := make([][]byte, 0, len(items))
	for _, raw := range items {
		if u.shows(m, raw, jsonrpc.Whole(raw)) {
			shown = append(shown, raw)
		}
	}
	return shown, complete, nil
}

// Subscribe keeps updates of hidden resources from being asked for.
func (u *Filtered) Subscribe(f *mcp.ClientInfo, deliver func(*jsonrpc.Message), asker mcp.Subscriber) Subscriber {
	return &filteredStanding{u.Upstream.Subscribe(f, deliver, asker), u, f}
}

type filteredStanding struct {
	Subscriber
	u     *Filtered
	facts *mcp.ClientInfo
}

func (w *filteredStanding) Subscribe(ctx context.Context, uri string) (*mcp.Reply, error) {
	if !w.u.Shows("resources", uri) {
		return nil, catalog.Missing(w.facts, uri)
	}
	return w.Subscriber.Subscribe(ctx, uri)
}

func (w *filteredStanding) Watch(ctx context.Context, want mcp.SubscriptionFilter) (mcp.SubscriptionFilter, error) {
	all := want.URIs
	want.URIs = make(map[string]bool, len(all))
	for uri := range all {
		if w.u.Shows("resources", uri) {
			want.URIs[uri] = true
		}
	}
	return w.Subscriber.Watch(ctx, want)
}
