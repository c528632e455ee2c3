package gateway

import (
	"context"
	"crypto/sha256"
	"errors"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/base/pattern"
	"github.com/dragoman-mcp/dragoman/internal/base/tokens"
	"github.com/dragoman-mcp/dragoman/internal/base/work"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
	"github.com/dragoman-mcp/dragoman/internal/relay/catalog"
	"github.com/dragoman-mcp/dragoman/internal/relay/finder"
	"github.com/dragoman-mcp/dragoman/internal/relay/policy"
)

// Find says how clients of Merged find tools. The zero value lists all of them.
type Find struct {
	// Search makes clients search, and Auto those with much to list that don't search themselves.
	Search, Auto bool
	// Always are patterns of tools that are listed nevertheless, as in policy.Rule.
	Always []string
	// Unchecked means that the arguments of calls aren't checked against the schemas of the tools.
	Unchecked bool
	// Hints is catalog.Catalog.Hints.
	Hints map[string]string
	// Trusted reports whether the annotations of a server's tool count, so that call_read_tool may call it. Nil
	// trusts nobody.
	Trusted func(server, name string) bool
}

// These constants are the limits of search mode.
const (
	autoBytes  = 40 << 10        // of definitions; a client with more to list searches with Find.Auto
	maxAlways  = 20              // tools that are listed because of Find.Always
	findPace   = 5 * time.Second // how long we wait for further changes before clients hear of one
	maxViewers = 1000
	maxSent    = 16 // lists of one viewer that are remembered
	listTTL    = "300000"
)

// Finder is the handler of the address at which clients always search. It has the tools of the same gateway.
type Finder struct{ *Merged }

// Hello implements downstream.Handler.
func (g Finder) Hello(ctx context.Context, f *mcp.ClientInfo) (*mcp.ServerInfo, error) {
	return g.hello(ctx, f, true)
}

// Call implements downstream.Handler.
func (g Finder) Call(ctx context.Context, c *mcp.Call, k mcp.Caller) (*mcp.Reply, error) {
	return g.answer(ctx, g, c, k)
}

func (g Finder) resolve(ctx context.Context, c *mcp.Call) (*route, error) {
	return g.resolveFor(ctx, c, true)
}

// Subscribe implements downstream.Handler.
func (g Finder) Subscribe(f *mcp.ClientInfo, s mcp.Subscriber) (detach func()) {
	return g.subscribeFor(f, s, true)
}

// finds reports whether any client may search. always means that its address says so.
func (g *Merged) finds(always bool) bool { return always || g.Find.Search || g.Find.Auto }

// searches reports whether a client searches. always means that its address says so.
func (g *Merged) searches(f *mcp.ClientInfo, tools *catalog.Toolset, always bool) bool {
	if always || g.Find.Search || !g.Find.Auto {
		return always || g.Find.Search
	}
	return tools.Listed() > autoBytes && (f == nil || !finder.Itself(f.Info))
}

// mayFind reports whether a client may call one of the four tools of search mode by a name. A client that lists
// everything because of Find.Auto may have listed less before. If a server has a tool with this name, that one is meant
// then.
func (g *Merged) mayFind(r *route, always bool) bool {
	if !finder.Ours(r.Name) || !g.finds(always) {
		return false
	}
	if !always && !g.Find.Search {
		tools := r.view.KnownTools()
		if _, real := tools.Find(r.Name); real {
			return g.searches(r.Client, tools, false)
		}
	}
	return true
}

// findTools makes the request for a tool of search mode one that we answer, or one for the tool that it names.
func (g *Merged) findTools(ctx context.Context, r *route) error {
	args := r.Args
	if r.Name == finder.Call || r.Name == finder.CallRead {
		return g.callThrough(ctx, r, args)
	}
	answer := finder.Describe
	if r.Name == finder.SearchTools {
		answer = finder.Search
	}
	if !r.Msg.Param("task").IsZero() {
		return &jsonrpc.Error{Code: jsonrpc.CodeMethodNotFound, Message: r.Name + " can't run as a task"} // 2025-11-25 §Tasks, "Tool-Level Negotiation"
	}
	r.own = func() (*mcp.Reply, error) {
		return r.say(answer(args, &found{g.Find.Trusted, r.view.Tools(ctx, false)}))
	}
	return nil
}

// callThrough makes the route that of the tool which call_tool or call_read_tool names: the server gets its name and
// its arguments in place of ours, and from here on the call is one of this tool.
func (g *Merged) callThrough(ctx context.Context, r *route, args jsonrpc.Value) error {
	r.Via = r.Name
	name, inner, bad := finder.Inner(args)
	r.Name, r.Args = name, inner
	if bad != nil {
		return r.instead(*bad)
	}
	t, ok := r.view.Find(ctx, catalog.KindTool, name)
	tools := &found{g.Find.Trusted, r.view.KnownTools()}
	tool, shown := tools.Toolset.Find(name)
	switch {
	case !ok:
		err := r.notFound(catalog.KindTool, name)
		if unknown := (*jsonrpc.Error)(nil); errors.As(err, &unknown) {
			return r.instead(finder.Unknown(name, tools))
		}
		return err
	case !shown: // only for the page of an app
		return r.instead(finder.Unknown(name, tools))
	case r.Via == finder.CallRead && !tools.Reads(name) && !t.SignsIn:
		return r.instead(finder.NotRead(name))
	}
	if !g.Find.Unchecked && !r.retries() {
		if bad := g.checks.Check(name, tool.Definition, inner); bad != nil {
			return r.instead(*bad)
		}
	}
	value := inner.Raw()
	if inner.Absent() || inner.Kind() == 'n' {
		value = []byte("{}")
		r.Args = jsonrpc.ValueOf(value)
	}
	r.Edits.Replace(mcp.WhyThrough, r.Msg.Param("name"), t.Quoted)
	r.Edits.Replace(mcp.WhyThrough, r.Msg.Param("arguments"), value)
	r.setServer(upstreamOf(t))
	r.Name, r.signsIn = t.Name, t.SignsIn
	return nil
}

// retries reports whether the request continues a call that was checked before.
func (r *route) retries() bool {
	return r.Client.Revision.Can(mcp.InputRequired) && !r.Msg.Param("requestState").IsZero()
}

// instead makes an answer of ours the answer to the call.
func (r *route) instead(a finder.Answer) error {
	if r.Server = ""; !r.toolResult() {
		return &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: a.Text}
	}
	r.own = func() (*mcp.Reply, error) { return r.say(a) }
	return nil
}

// say returns an answer as the result of a tool.
func (r *route) say(a finder.Answer) (*mcp.Reply, error) {
	if a.Failed {
		return toolError(a.Text, nil), nil // also for a mistake in the arguments: models read results, not errors (SEP-1303)
	}
	return mcp.Answer(append(textResult(a.Text), '}')), nil
}

// found is a finder.Tools.
type found struct {
	trusted func(server, name string) bool
	*catalog.Toolset
}

func (f *found) Definition(name string) []byte {
	tool, _ := f.Toolset.Find(name)
	return tool.Definition
}

// Reads reports whether a tool says that it only reads, and whether that counts.
func (f *found) Reads(name string) bool {
	tool, ok := f.Toolset.Find(name)
	if !ok || f.trusted == nil {
		return false
	}
	reads, _ := jsonrpc.ValueOf(tool.Definition).Get("annotations", "readOnlyHint").Bool()
	return reads && f.trusted(tool.Server, tool.Own)
}

func (f *found) Servers() (all []finder.Server) {
	for _, s := range f.Toolset.Servers() {
		all = append(all, finder.Server{Name: s.Name, Tools: s.Tools, About: f.About(s)})
	}
	return all
}

func (f *found) Missing() []string {
	starting, failed := f.Toolset.Missing()
	return append(starting, failed...)
}

// viewer is who sees the same tools: a principal with some capabilities.
type viewer struct {
	audience catalog.Audience
	who      string
	revision mcp.Revision
}

func viewerOf(f *mcp.ClientInfo, tools *catalog.Toolset) viewer {
	return viewer{tools.Audience(), f.Who.SeatKey(), f.Revision}
}

// viewers remembers what clients that search have listed. The zero value is ready to use.
type viewers struct {
	mu  sync.Mutex
	all map[viewer]*seenList
}

// seenList is what clients of one viewer know.
type seenList struct {
	servers map[string]finder.Server   // the lines of the directory, as they were when their servers came
	sent    map[[sha256.Size]byte]bool // hashes of the lists that they have got since they were told of a change
	due     bool                       // somebody is about to look whether they must be told of one
}

func (t *viewers) seen(v viewer) *seenList {
	if t.all[v] == nil {
		if t.all == nil || len(t.all) >= maxViewers {
			t.all = make(map[viewer]*seenList)
		}
		t.all[v] = &seenList{servers: make(map[string]finder.Server), sent: make(map[[sha256.Size]byte]bool)}
	}
	return t.all[v]
}

// directory returns the lines for the servers that have tools. A line stays as it was as long as its server has any,
// so that the list changes only when a server comes or goes: models' caches of prompts depend on its bytes.
func (t *viewers) directory(v viewer, tools *catalog.Toolset) (all []finder.Server) {
	now := tools.Servers()
	t.mu.Lock()
	known := t.seen(v).servers
	t.mu.Unlock()
	next := make(map[string]finder.Server, len(now))
	for _, s := range now {
		line, ok := known[s.Name] // nobody changes the map
		if !ok {
			line = finder.Server{Name: s.Name, Tools: s.Tools, About: tools.About(s)}
		}
		next[s.Name] = line
		all = append(all, line)
	}
	t.mu.Lock()
	t.seen(v).servers = next
	t.mu.Unlock()
	return all
}

// list returns the tools that a client which searches lists, as JSON without the brackets around them.
func (g *Merged) list(f *mcp.ClientInfo, tools *catalog.Toolset) []byte {
	l := finder.List{
		Directory:   finder.Directory(g.viewers.directory(viewerOf(f, tools), tools)),
		Annotations: f.Revision.Can(mcp.ToolAnnotations),
		Tasks:       f.Revision.Can(mcp.ExperimentalTasks) && tools.HaveTasks(),
	}
	return g.appendAlways(l.Append(nil), tools)
}

// appendAlways appends the tools that clients list in search mode, too.
func (g *Merged) appendAlways(out []byte, tools *catalog.Toolset) []byte {
	for _, definition := range tools.Some(maxAlways, g.isAlways) {
		if name, _ := jsonrpc.ValueOf(definition).Get("name").Text(); !finder.Ours(name) {
			out = append(append(out, ','), definition...)
		}
	}
	return out
}

// SearchTokens estimates the tokens of what a client lists that searches and sees everything.
func (g *Merged) SearchTokens() (n int) {
	f := &mcp.ClientInfo{Revision: mcp.Latest}
	tools := g.catalog().View(f, nil).KnownTools()
	lines := (&found{nil, tools}).Servers()
	list := g.appendAlways(finder.List{Directory: finder.Directory(lines)}.Append([]byte{'['}), tools)
	list = append(list, ']')
	for tool := range jsonrpc.Elements(list, jsonrpc.Whole(list)) {
		n += tokens.Tool(list, tool)
	}
	return n
}

// isAlways reports whether a tool is listed in search mode, too.
func (g *Merged) isAlways(server, name string) bool {
	return slices.ContainsFunc(g.Find.Always, func(p string) bool { return pattern.Glob(p, server+"/"+policy.Tool(name)) })
}

// listFew makes a request for the list of tools one for the few that a client lists which searches.
func (g *Merged) listFew(ctx context.Context, r *route, always bool) {
	if !g.finds(always) {
		return
	}
	r.own = func() (*mcp.Reply, error) {
		if tools := r.view.Tools(ctx, r.Once); g.searches(r.Client, tools, always) {
			return g.fewTools(r, tools)
		}
		return r.view.Page(ctx, r.Method, r.Msg.At(r.Msg.Param("cursor")), r.Once)
	}
}

// fewTools answers tools/list for a client that searches.
func (g *Merged) fewTools(r *route, tools *catalog.Toolset) (*mcp.Reply, error) {
	if !r.Msg.Param("cursor").IsZero() {
		return nil, &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: "cursor is not valid: the list has only one page"}
	}
	out := g.list(r.Client, tools)
	g.viewers.sent(viewerOf(r.Client, tools), out)
	out = append(append([]byte(`{"tools":[`), out...), ']')
	if r.Client.Revision.Can(mcp.ResultTypes) {
		out = append(out, `,"ttlMs":`+listTTL+`,"cacheScope":"private"`...)
	}
	return mcp.Answer(append(tools.AppendMissing(out), '}')), nil
}

// sent remembers that clients have got a list.
func (t *viewers) sent(v viewer, list []byte) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if x := t.seen(v); len(x.sent) < maxSent {
		x.sent[sha256.Sum256(list)] = true
	}
}

// finding is how a client that may search hears of changes. A nil finding is that of a client that lists all tools.
type finding struct {
	g      *Merged
	client *mcp.ClientInfo
	view   catalog.View
	always bool // its address says that it searches
}

// findingFor returns the finding of a client, or nil if it never searches.
func (g *Merged) findingFor(f *mcp.ClientInfo, v catalog.View, always bool) *finding {
	if !g.finds(always) {
		return nil
	}
	return &finding{g, f, v, always}
}

// hears reports whether the client gets a notification at once. One that searches hears later that a list of tools has
// changed, and only if what it lists has changed.
func (h *finding) hears(method string) bool {
	if h == nil || method != mcp.NoteToolsChanged {
		return true
	}
	g, tools := h.g, h.view.KnownTools()
	if !g.searches(h.client, tools, h.always) {
		return true
	}
	key := viewerOf(h.client, tools)
	g.viewers.mu.Lock()
	x := g.viewers.all[key]
	listed, due := x != nil && len(x.sent) > 0, x != nil && x.due
	if listed {
		x.due = true
	}
	g.viewers.mu.Unlock()
	if listed && !due {
		g.looking.Go(func() { g.look(key, h) })
	}
	return !listed // else it may have listed everything, or asked another process
}

// look waits until the changes are over, and tells the clients of a viewer if they have got another list than they'd
// get now.
func (g *Merged) look(key viewer, of *finding) {
	ctx := g.life()
	if work.Sleep(ctx, findPace) != nil {
		return
	}
	g.viewers.mu.Lock()
	g.viewers.seen(key).due = false // a change from now on begins again
	g.viewers.mu.Unlock()
	tools := of.view.Tools(ctx, false)
	tell, now := !g.searches(of.client, tools, of.always), sha256.Sum256(g.list(of.client, tools))
	g.viewers.mu.Lock()
	x := g.viewers.seen(key)
	if tell = tell || len(x.sent) > 1 || len(x.sent) == 1 && !x.sent[now]; tell {
		clear(x.sent)
	}
	g.viewers.mu.Unlock()
	if !tell {
		return
	}
	for _, h := range g.listeners() {
		if h.find != nil && h.want.Tools && viewerOf(h.client, h.find.view.KnownTools()) == key {
			h.notify(mcp.NoteToolsChanged)
		}
	}
}

// ownInstructions adds to a text, which is a JSON string, what clients that search are told.
func ownInstructions(text []byte) []byte {
	s, _ := jsonrpc.Text(text, jsonrpc.Whole(text))
	return jsonrpc.AppendQuote(nil, strings.TrimSpace(s+"\n\n"+finder.Instructions))
}
