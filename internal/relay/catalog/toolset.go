package catalog

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"slices"
	"strings"
	"sync"

	"github.com/dragoman-mcp/dragoman/internal/base/excerpt"
	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
	"github.com/dragoman-mcp/dragoman/internal/relay/ranking"
)

// Toolset has the tools among which a client searches: those that it sees, without those that are only for the
// page of an app. It is a snapshot of the lists.
type Toolset struct {
	v     View
	a     *knownAudience
	list  *mergedList
	shown string // see mergedList.shown
}

// Tools returns the tools among which the client searches. It waits for servers as Page does.
func (v View) Tools(ctx context.Context, all bool) *Toolset {
	a := v.c.audience(v.client)
	if all {
		v.c.settle(ctx, a, mcp.MethodListTools)
	}
	return v.toolset(a, v.c.list(ctx, a, mcp.MethodListTools))
}

// KnownTools does the same with the lists that were read last, and doesn't wait.
func (v View) KnownTools() *Toolset {
	a := v.c.audience(v.client)
	return v.toolset(a, v.c.mergedList(a, mcp.MethodListTools))
}

func (v View) toolset(a *knownAudience, l *mergedList) *Toolset {
	return &Toolset{v: v, a: a, list: l, shown: l.shown(v.show)}
}

func (t *Toolset) index() *toolIndex { return t.v.c.toolIndex(t.a, t.list) }

// toolIndex has what it takes to search the tools of a merged list.
type toolIndex struct {
	parts []toolPart // of the servers that have tools, in the order of the configuration
	app   []bool     // by item: it's only for the page of an app; nil if none is
}

type toolPart struct {
	server string
	about  string // what people say that the server is for, or its title; may be ""
	index  *ranking.Index
}

// toolIndex returns the index of a merged list. It's made when it's first needed, and only of the servers whose
// tools have changed.
func (c *Catalog) toolIndex(a *knownAudience, l *mergedList) *toolIndex {
	l.tools.once.Do(func() {
		x, hellos := &toolIndex{}, c.knownHellos(a)
		for i, u := range c.Sources {
			x.add(c, l, u, aboutServer(c.Hints[u.Name()], u.Name(), hellos[i]))
		}
		l.tools.index = x
	})
	return l.tools.index
}

// add adds the tools of a server.
func (x *toolIndex) add(c *Catalog, l *mergedList, u Source, about string) {
	var tools []ranking.Tool
	prefix := clean(c.prefix(u) + c.Names.separator())
	for i := range l.items {
		y := &l.items[i]
		if y.server != u.Name() {
			continue
		}
		if mcp.AppOnly(y.json) {
			if x.app == nil {
				x.app = make([]bool, len(l.items))
			}
			x.app[i] = true
			continue
		}
		t := ranking.Tool{Name: y.offered, Server: y.server, Hint: about, Definition: y.json}
		if bare, ok := strings.CutPrefix(y.offered, prefix); ok && c.prefix(u) != "" {
			t.Bare = bare
		}
		tools = append(tools, t)
	}
	if len(tools) > 0 {
		x.parts = append(x.parts, toolPart{u.Name(), about, c.ranked.of(tools)})
	}
}

// aboutServer returns what clients are told about a server besides its name: what people say, or else the server's
// title, if it says more than the name.
func aboutServer(hint, server string, hello *mcp.ServerInfo) string {
	if hint != "" || hello == nil {
		return hint
	}
	title, _ := jsonrpc.ValueOf(hello.Info).Get("title").Text()
	title = excerpt.Line(strings.TrimSpace(title), maxTitle)
	for _, word := range strings.FieldsFunc(strings.ToLower(title), func(r rune) bool { return !('a' <= r && r <= 'z' || '0' <= r && r <= '9' || r > 127) }) {
		if word != "mcp" && word != "server" && !strings.Contains(strings.ToLower(server), word) {
			return title
		}
	}
	return ""
}

// maxTitle is how many bytes of a server's title clients are told.
const maxTitle = 80

// ranked keeps the indexes of servers' tools, since merged lists of several audiences mostly have the same.
type ranked struct {
	mu    sync.Mutex
	all   map[[sha256.Size]byte]*rankedTools
	tools int // in all of them
	uses  uint64
}

type rankedTools struct {
	index *ranking.Index
	tools int
	used  uint64
}

// maxRanked is how many tools the kept indexes have. Of 5,000 tools, they have 4 MB.
const maxRanked = 50_000

// of returns the index of the tools of a server.
func (r *ranked) of(tools []ranking.Tool) *ranking.Index {
	key := sumOf(tools)
	if x := r.known(key); x != nil {
		return x
	}
	x := &rankedTools{index: ranking.New(tools), tools: len(tools)} // without the lock, so that nobody waits for it
	r.mu.Lock()
	defer r.mu.Unlock()
	for len(r.all) > 0 && r.tools+x.tools > maxRanked {
		var oldest [sha256.Size]byte
		for k, y := range r.all {
			if o := r.all[oldest]; o == nil || y.used < o.used {
				oldest = k
			}
		}
		r.tools -= r.all[oldest].tools
		delete(r.all, oldest)
	}
	if r.all == nil {
		r.all = make(map[[sha256.Size]byte]*rankedTools)
	}
	if r.all[key] == nil {
		r.uses++
		x.used = r.uses
		r.all[key], r.tools = x, r.tools+x.tools
	}
	return x.index
}

func (r *ranked) known(key [sha256.Size]byte) *ranking.Index {
	r.mu.Lock()
	defer r.mu.Unlock()
	x := r.all[key]
	if x == nil {
		return nil
	}
	r.uses++
	x.used = r.uses
	return x.index
}

// sumOf returns a hash of all that an index is made from.
func sumOf(tools []ranking.Tool) (sum [sha256.Size]byte) {
	h := sha256.New()
	part := func(b []byte) {
		h.Write(binary.LittleEndian.AppendUint64(nil, uint64(len(b))))
		h.Write(b)
	}
	for i := range tools {
		t := &tools[i]
		for _, text := range []string{t.Name, t.Bare, t.Server, t.Hint} {
			part([]byte(text))
		}
		part(t.Definition)
	}
	return [sha256.Size]byte(h.Sum(nil))
}

// item returns the item of a tool of the set, or nil.
func (t *Toolset) item(name string, is func(*item) bool) *item {
	at, ok := t.list.first[name]
	if !ok {
		return nil
	}
	for {
		if x := &t.list.items[at]; t.has(at) && is(x) {
			return x
		}
		if at = t.list.items[at].next; at == 0 {
			return nil
		}
	}
}

// has reports whether the item with an index is in the set.
func (t *Toolset) has(i int) bool {
	app := t.index().app
	return t.lists(i) && (app == nil || !app[i])
}

// lists reports whether the client's list has an item.
func (t *Toolset) lists(i int) bool { return t.shown == "" || t.shown[i/8]&(1<<(i%8)) != 0 }

func anyItem(*item) bool { return true }

// FoundTool is a tool of a [Toolset].
type FoundTool struct {
	Server, Own string // the server, and its own name of the tool
	Definition  []byte // as the client's list has it
}

// Find returns the tool that clients see under a name.
func (t *Toolset) Find(name string) (f FoundTool, ok bool) {
	x := t.item(name, anyItem)
	if x == nil {
		return f, false
	}
	return FoundTool{x.server, x.target.Name, t.definition(x)}, true
}

// definition returns what the client's list has of an item.
func (t *Toolset) definition(x *item) []byte {
	if f := t.v.client; x.mayBeTask && f != nil && f.Revision.Can(mcp.ExperimentalTasks) {
		return appendMayBeTask(nil, x.json)
	}
	return x.json
}

// Some returns the definitions of the tools for which want returns true, in the order of the list, at most n.
func (t *Toolset) Some(n int, want func(server, own string) bool) (all [][]byte) {
	for i := range t.list.items {
		if x := &t.list.items[i]; t.has(i) && want(x.server, x.target.Name) {
			if len(all) == n {
				break
			}
			all = append(all, t.definition(x))
		}
	}
	return all
}

// Count returns the number of tools.
func (t *Toolset) Count() (n int) {
	for i := range t.list.items {
		if t.has(i) {
			n++
		}
	}
	return n
}

// Listed returns how many bytes the definitions have that the client would list, those for the pages of apps
// included.
func (t *Toolset) Listed() (bytes int) {
	for i := range t.list.items {
		if t.lists(i) {
			bytes += len(t.list.items[i].json)
		}
	}
	return bytes
}

// Search returns the n tools that fit a query best; see [ranking.Search]. With a server, it looks only there.
func (t *Toolset) Search(query, server string, n int) []ranking.Hit {
	return ranking.Search(query, t.indexes(server), t.may(), n)
}

// Nearest returns the n names of tools that are most like a name.
func (t *Toolset) Nearest(name string, n int) []string {
	return ranking.Nearest(name, t.indexes(""), t.may(), n)
}

func (t *Toolset) indexes(server string) (all []*ranking.Index) {
	for _, p := range t.index().parts {
		if server == "" || p.server == server {
			all = append(all, p.index)
		}
	}
	return all
}

// may returns what tells the tools of the set from those that only others see, or nil if there are none.
func (t *Toolset) may() func(*ranking.Tool) bool {
	if t.shown == "" {
		return nil
	}
	return func(x *ranking.Tool) bool {
		return t.item(x.Name, func(y *item) bool { return y.server == x.Server }) != nil
	}
}

// ToolServer is a server with tools of a [Toolset].
type ToolServer struct {
	Name  string
	Tools int
	about string
	of    *ranking.Index
}

// Servers returns the servers that have tools of the set, sorted by name.
func (t *Toolset) Servers() (all []ToolServer) {
	for _, p := range t.index().parts {
		n := 0
		if may := t.may(); may == nil {
			n = len(p.index.Tools())
		} else {
			for _, x := range p.index.Tools() {
				if may(x) {
					n++
				}
			}
		}
		if n > 0 {
			all = append(all, ToolServer{p.server, n, p.about, p.index})
		}
	}
	slices.SortFunc(all, func(a, b ToolServer) int { return strings.Compare(a.Name, b.Name) })
	return all
}

// About returns what a server of the set is about: what people or it say, or else the commonest words of those of
// its tools that are in the set.
func (t *Toolset) About(s ToolServer) string {
	if s.about != "" {
		return s.about
	}
	index := s.of
	if may := t.may(); s.Tools < len(index.Tools()) {
		var some []ranking.Tool
		for _, x := range index.Tools() {
			if may(x) {
				some = append(some, *x)
			}
		}
		index = ranking.New(some)
	}
	return strings.Join(index.Words(aboutWords), ", ")
}

// aboutWords is the number of words that say what a server is about.
const aboutWords = 4

// HaveTasks reports whether a server that the client sees runs calls as tasks.
func (t *Toolset) HaveTasks() bool {
	hellos, _ := t.v.mask(t.v.c.knownHellos(t.a))
	return slices.ContainsFunc(hellos, func(h *mcp.ServerInfo) bool { return h != nil && h.Tasks() != mcp.NoTasks })
}

// Missing returns the servers whose tools are not in the set because their lists were never read: those that are
// starting, and those that have failed.
func (t *Toolset) Missing() (starting, failed []string) { return t.v.missing(t.a, mcp.MethodListTools) }

// AppendMissing appends the _meta member with these servers to the result of a list, whose object is open.
func (t *Toolset) AppendMissing(dst []byte) []byte {
	return t.v.appendMissing(dst, t.a, mcp.MethodListTools)
}

// Audience is the audience whose lists the set is made from.
func (t *Toolset) Audience() Audience { return t.a.Audience }
