package downstream

import (
	"context"
	"maps"
	"slices"

	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
	"github.com/dragoman-mcp/dragoman/internal/transport"
)

// A legacy session whose process is lost can go on in another one: what a client has said at its handshake, and what
// it has set since, is all that a Session needs.

// resubscribed is how many resources a client is subscribed to at once. Each part has a request at a time at its server.
const resubscribed = 100

// extras are what a client has set in its session. A Session has none until the client sets something.
type extras struct {
	level string
	uris  map[string]struct{}
	size  int // bytes of uris
}

// factKeys are the members of facts, and extraKeys those of extras.
var (
	factKeys  = []string{"revision", "info", "capabilities"}
	extraKeys = []string{"level", "uris"}
)

// Facts implements transport.Heritable.
func (c *Session) Facts() []byte {
	f := c.info.Load()
	if f == nil || f.Info == nil {
		if f = c.settled.Load(); f == nil {
			return nil
		}
	}
	out := jsonrpc.AppendQuote([]byte(`{"revision":`), f.Revision.String())
	out = append(append(out, `,"info":`...), f.Info...)
	if f.Capabilities != nil {
		out = append(append(out, `,"capabilities":`...), f.Capabilities...)
	}
	return append(out, '}')
}

// note keeps what a call has set in a legacy session.
func (c *Session) note(call *mcp.Call) {
	out, ok := c.out.(transport.Keeper)
	if !ok || !out.Keeps() {
		return
	}
	raw := call.Msg.Raw
	uri, _ := jsonrpc.Text(raw, call.Msg.Param("uri"))
	c.mu.Lock()
	x := c.extras
	if x == nil {
		x = &extras{uris: map[string]struct{}{}}
	}
	_, there := x.uris[uri]
	switch call.Msg.Method {
	case mcp.MethodSetLevel:
		x.level, _ = jsonrpc.Text(raw, call.Msg.Param("level"))
	case mcp.MethodSubscribe:
		if there || x.size+len(uri) > mcp.MaxWatchedBytes {
			c.mu.Unlock()
			return
		}
		x.uris[uri] = struct{}{}
		x.size += len(uri)
	case mcp.MethodUnsubscribe:
		if !there {
			c.mu.Unlock()
			return
		}
		delete(x.uris, uri)
		x.size -= len(uri)
	}
	c.extras = x
	c.mu.Unlock()
	out.Keep(c.Extras)
}

// Extras implements transport.Heritable.
func (c *Session) Extras() []byte {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.extras == nil {
		return nil
	}
	out := jsonrpc.AppendQuote([]byte(`{"level":`), c.extras.level)
	out = jsonrpc.AppendStrings(append(out, `,"uris":`...), slices.Sorted(maps.Keys(c.extras.uris)))
	return append(out, '}')
}

// Inherit implements transport.Heritable. Whoever could write the extras has the client's rights at most: they're set by
// requests like the client's own.
func (c *Session) Inherit(facts, extras []byte) (rev mcp.Revision, restore func(context.Context), ok bool) {
	var at [3]jsonrpc.Span
	jsonrpc.FindAll(facts, jsonrpc.Whole(facts), factKeys, at[:])
	date, _ := jsonrpc.Text(facts, at[0])
	rev, ok = mcp.ParseRevision(date)
	if !ok || !rev.Legacy() || jsonrpc.KindOf(facts, at[1]) != '{' {
		return mcp.Unknown, nil, false
	}
	f := &mcp.ClientInfo{Revision: rev, Info: at[1].Of(facts), Who: c.who, Conversation: c.number, Remote: c.remote}
	if jsonrpc.KindOf(facts, at[2]) == '{' {
		f.Capabilities = at[2].Of(facts)
	}
	c.info.Store(f)
	c.attach()
	for _, method := range []string{mcp.NoteToolsChanged, mcp.NotePromptsChanged, mcp.NoteResourcesChanged} {
		_ = c.out.Send(jsonrpc.AppendNotification(nil, method, nil))
	}
	if extras == nil {
		return rev, nil, true
	}
	x := readExtras(extras)
	c.mu.Lock()
	c.extras = x
	c.mu.Unlock()
	level, uris := x.level, slices.Sorted(maps.Keys(x.uris))
	return rev, func(ctx context.Context) { c.restore(ctx, level, uris) }, true
}

func readExtras(raw []byte) *extras {
	var at [2]jsonrpc.Span
	jsonrpc.FindAll(raw, jsonrpc.Whole(raw), extraKeys, at[:])
	x := &extras{uris: map[string]struct{}{}}
	x.level, _ = jsonrpc.Text(raw, at[0])
	for e := range jsonrpc.Elements(raw, at[1]) {
		if uri, ok := jsonrpc.Text(raw, e); ok {
			x.uris[uri] = struct{}{}
			x.size += len(uri)
		}
	}
	return x
}

// restore sets again what the client had set. The client doesn't ask for its resources once more, so they're no calls
// of its own: a limit must not refuse them, and a server that doesn't answer now gets them later.
func (c *Session) restore(ctx context.Context, level string, uris []string) {
	if level != "" {
		params := append(jsonrpc.AppendQuote([]byte(`{"level":`), level), '}')
		c.Request(ctx, transport.Incoming{Msg: jsonrpc.NewRequest(`"dragoman-restore"`, mcp.MethodSetLevel, params)}, mute{})
	}
	for part := range slices.Chunk(uris, resubscribed) {
		if ctx.Err() == nil {
			c.endpoint.Handler.Resubscribe(ctx, c.info.Load(), part)
		}
	}
}

// mute is the Responder of a request that nobody has sent.
type mute struct{}

func (mute) Event([]byte) error         { return nil }
func (mute) Finish([]byte, int64) error { return nil }

var _ transport.Heritable = (*Session)(nil)
