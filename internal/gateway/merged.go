package gateway

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/bridge"
	"github.com/dragoman-mcp/dragoman/internal/excerpt"
	"github.com/dragoman-mcp/dragoman/internal/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/mcp"
)

// maxRepeated bounds what is repeated of a client or a server in an answer or a
// log, in bytes.
const maxRepeated = 128

// Merged presents many servers as one: names of the form server__tool, URIs routed
// by owner, lists joined. A server that is slow or dead is left out of them and
// delays nobody.
type Merged struct {
	Bridge *bridge.Bridge
	// Listens bounds the subscriptions/listen of all endpoints together; nil
	// bounds those of this one alone.
	Listens *ListenQuota
	// Renamed is told of an item that clients see under another name than the usual
	// one, and why. It must not block. Nil hears nothing.
	Renamed   func(server, list, name, why string)
	Upstreams []Upstream // in the order of the configuration
	Names     Names
	// Prefixes are the prefixes of the servers that have another than their name.
	Prefixes map[string]string
	Face     Identity
	// Grace is how long a joined answer waits for a server, counted from when it
	// was first needed. Zero means 1.5 s.
	Grace time.Duration

	notices
	catalog catalog
}

// Hello introduces Dragoman with what the servers behind can really do.
func (g *Merged) Hello(ctx context.Context, f *mcp.ClientInfo) (*mcp.ServerInfo, error) {
	names := make([]string, len(g.Upstreams))
	for i, u := range g.Upstreams {
		names[i] = u.Name()
	}
	h := g.Face.hello(ctx, names, g.hellos(ctx, g.audience(f)))
	return h, nil
}

// Call answers one request.
func (g *Merged) Call(ctx context.Context, c *mcp.Call, s mcp.Caller) (*mcp.Reply, error) {
	if c.Method != nil && c.Method.Task {
		return g.Bridge.Tasks(ctx, servers(g.Upstreams), c, s)
	}
	switch c.Msg.Method {
	case mcp.MethodListTools, mcp.MethodListPrompts, mcp.MethodListResources, mcp.MethodListTemplates:
		return g.list(ctx, c)
	case mcp.MethodCallTool:
		return g.named(ctx, c, s, mcp.MethodListTools, "tool")
	case mcp.MethodGetPrompt:
		return g.named(ctx, c, s, mcp.MethodListPrompts, "prompt")
	case mcp.MethodReadResource:
		u, err := g.owner(ctx, c.Client, c.Name)
		if err != nil {
			return nil, err
		}
		return g.Bridge.Exchange(ctx, u, c, s)
	case mcp.MethodSubscribe, mcp.MethodUnsubscribe:
		uri, _ := jsonrpc.Text(c.Msg.Raw, c.Msg.Param("uri"))
		u, err := g.owner(ctx, c.Client, uri)
		if err != nil {
			return nil, err
		}
		return g.subscribe(ctx, c, u)
	case mcp.MethodComplete:
		return g.complete(ctx, c, s)
	case mcp.MethodSetLevel:
		return g.setLevel(ctx, c)
	case mcp.MethodListen:
		leave, err := g.admit(g.Listens, c)
		if err != nil {
			return nil, err
		}
		defer leave()
		return g.listen(ctx, g.Bridge, c, s, g.Upstreams, func(uri string) Upstream {
			u, _ := g.owner(ctx, c.Client, uri)
			return u
		})
	}
	if len(g.Upstreams) == 1 {
		return g.Bridge.Exchange(ctx, g.Upstreams[0], c, s)
	}
	return nil, &jsonrpc.Error{Code: jsonrpc.CodeMethodNotFound, Message: "Method not found: " + excerpt.Cut(c.Msg.Method, maxRepeated)}
}

// named relays a call that a name routes. Unknown and hidden names get the same
// answer.
func (g *Merged) named(ctx context.Context, c *mcp.Call, s mcp.Caller, list, what string) (*mcp.Reply, error) {
	at := c.Msg.Param("name")
	if c.Name == "" {
		return nil, &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: "params.name must be a string"}
	}
	r, ok := g.find(ctx, g.audience(c.Client), list, c.Name)
	if !ok {
		return nil, g.notFound(g.audience(c.Client), list, what, c.Name)
	}
	c.Edits.Replace(mcp.WhyName, at, jsonrpc.AppendQuote(nil, r.name))
	c.Name = r.name
	return g.Bridge.Exchange(ctx, r.server, c, s)
}

// notFound returns the error for a name that leads nowhere. Where it has the prefix of a
// server whose list could never be read, nobody can say that the name is wrong: the error
// says why the server cannot be reached. Every name with that prefix gets the same.
func (g *Merged) notFound(a *audience, list, what, name string) error {
	if u, why := g.unread(a, list, name); u != nil {
		return &mcp.Error{
			Origin: mcp.FromGateway, Upstream: u.Name(), Cause: "unavailable", Outcome: mcp.NotSent, Retryable: true,
			Message: why, Op: "find " + what,
		}
	}
	return unknown(what, name)
}

func unknown(what, name string) error {
	// 2025-11-25 and 2026-07-28 §Tools, "Error Handling"; likewise prompts.
	return &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: fmt.Sprintf("Unknown %s: %s", what, excerpt.Cut(name, maxRepeated))}
}

// complete routes completion/complete by what it refers to.
func (g *Merged) complete(ctx context.Context, c *mcp.Call, s mcp.Caller) (*mcp.Reply, error) {
	raw, ref, a := c.Msg.Raw, c.Msg.Param("ref"), g.audience(c.Client)
	if name := jsonrpc.Find(raw, ref, "name"); !name.IsZero() {
		text, _ := jsonrpc.Text(raw, name)
		r, ok := g.find(ctx, a, mcp.MethodListPrompts, text)
		if !ok {
			return nil, unknown("prompt", text)
		}
		c.Edits.Replace(mcp.WhyName, name, jsonrpc.AppendQuote(nil, r.name))
		return g.Bridge.Exchange(ctx, r.server, c, s)
	}
	uri, ok := jsonrpc.Text(raw, jsonrpc.Find(raw, ref, "uri"))
	if !ok {
		return nil, &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: "params.ref must name a prompt or a resource"}
	}
	if r, ok := g.find(ctx, a, mcp.MethodListTemplates, uri); ok {
		return g.Bridge.Exchange(ctx, r.server, c, s)
	}
	u, err := g.owner(ctx, c.Client, uri)
	if err != nil {
		return nil, err
	}
	return g.Bridge.Exchange(ctx, u, c, s)
}

// setLevel tells every server that has a log; one that does not answer keeps
// nobody from the others.
func (g *Merged) setLevel(ctx context.Context, c *mcp.Call) (*mcp.Reply, error) {
	if s, ok := jsonrpc.Text(c.Msg.Raw, c.Msg.Param("level")); !ok {
		return nil, &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: "params.level must be a string"}
	} else if _, ok := mcp.ParseLogLevel(s); !ok {
		return nil, &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: "params.level is no log level"}
	}
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	var wait sync.WaitGroup
	for _, u := range g.Upstreams {
		wait.Go(func() { _, _ = u.SetLevel(ctx, c) })
	}
	wait.Wait()
	return mcp.Answer([]byte("{}")), nil
}

// Notify passes a client's notification on to all servers.
func (g *Merged) Notify(_ context.Context, f *mcp.ClientInfo, m *jsonrpc.Message) {
	raw := onward(m)
	for _, u := range g.Upstreams {
		u.Forward(f, raw, m.Method)
	}
}

// Subscribe lets a legacy client hear the standing notices of all servers.
func (g *Merged) Subscribe(f *mcp.ClientInfo, s mcp.Subscriber) (detach func()) {
	return g.attach(f, g.Bridge, s, g.Upstreams, g.Bridge.TaskNames(f, false), true)
}

// owner returns the server that a URI belongs to: the one that lists it, else the
// one whose template it fits, else the only one that has resources at all.
func (g *Merged) owner(ctx context.Context, f *mcp.ClientInfo, uri string) (Upstream, error) {
	if uri == "" {
		return nil, &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: "params.uri must be a string"}
	}
	a := g.audience(f)
	if r, ok := g.find(ctx, a, mcp.MethodListResources, uri); ok {
		return r.server, nil
	}
	if u := g.byTemplate(ctx, a, uri); u != nil {
		return u, nil
	}
	if u := g.soleWithResources(ctx, a); u != nil {
		// 2025-06-18 §Tools, "Resource Links": what a tool links to need not be listed.
		return u, nil
	}
	return nil, missing(f, uri)
}

// soleWithResources returns the only server that has resources, nil where there are
// several or none. One that has not been heard so far may have some.
func (g *Merged) soleWithResources(ctx context.Context, a *audience) (sole Upstream) {
	for i, h := range g.hellos(ctx, a) {
		if h != nil && !has(h.Capabilities, "resources") {
			continue
		}
		if sole != nil {
			return nil
		}
		sole = g.Upstreams[i]
	}
	return sole
}

// Warm begins to read what clients will ask for first, of the servers that want
// chooses. It does not wait.
func (g *Merged) Warm(want func(server string) bool) {
	var wanted []Upstream
	for _, u := range g.Upstreams {
		if want(u.Name()) {
			wanted = append(wanted, u)
		}
	}
	g.catalog.mu.Lock()
	defer g.catalog.mu.Unlock()
	for _, u := range wanted {
		g.readLocked(everybody, "", u)
		g.readLocked(everybody, mcp.MethodListTools, u)
	}
}

// prefix returns what stands before the names of a server's items.
func (g *Merged) prefix(u Upstream) string {
	if p := g.Prefixes[u.Name()]; p != "" {
		return p
	}
	return u.Name()
}

// Close ends what goes on in the background and waits for it.
func (g *Merged) Close() {
	g.Drain()
	g.catalog.work.Wait()
}
