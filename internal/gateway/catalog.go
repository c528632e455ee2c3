package gateway

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/dragoman-mcp/dragoman/internal/excerpt"
	"github.com/dragoman-mcp/dragoman/internal/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/mcp"
	"github.com/dragoman-mcp/dragoman/internal/work"
)

// catalog keeps the last good list of each server for each audience, and the merged
// lists. Lists are read in the background: a request waits for a server at most until the
// grace of the reading is over, so a slow or dead server delays nobody for long. The
// catalog knows no client that hears notifications: it is told how many listen, and
// announces changes through a function.
type catalog struct {
	servers  []Upstream // in the order of the configuration
	names    Names
	prefixes map[string]string // of the servers whose prefix is not their name
	wait     time.Duration     // how long a list waits for a server; see grace
	// The callbacks run without the lock. lost hears of items that are left out,
	// renamed of items with another name than usual. announce tells
	// an audience that a list has changed, by the notification that says so.
	lost     func(server, method, why string)
	renamed  func(server, method, name, why string)
	announce func(note, audience string)

	mu        sync.Mutex
	audiences map[string]*audience // by key, without everybody
	listeners map[string]int       // clients that hear of changes, by key of their audience
	parts     map[serverListKey]*serverList
	editions  map[mergedListKey]*mergedList // absent when to be made anew
	// dear are servers whose last failure everybody had to wait for: what fails at
	// once may be waited for again, these not before they have been heard.
	dear map[string]bool
	told map[rejectedItem]struct{} // what was said to be left out or renamed
	ctx  context.Context           // ends with drain; made on first use
	end  context.CancelFunc
	work work.Group // readings
}

// lifeLocked returns the context that ends with drain.
func (c *catalog) lifeLocked() context.Context {
	if c.ctx == nil {
		c.ctx, c.end = context.WithCancel(context.Background())
	}
	return c.ctx
}

// drain cancels readings and starts no more. It does not wait.
func (c *catalog) drain() {
	c.mu.Lock()
	c.lifeLocked()
	end := c.end
	c.mu.Unlock()
	end()
}

// close is drain, and waits for readings.
func (c *catalog) close() {
	c.drain()
	c.work.Wait()
}

// listen counts a client that hears of changes. While an audience has one, its lists are
// read again when a server says that they may have changed.
func (c *catalog) listen(f *mcp.ClientInfo) (stop func()) {
	key := audienceKey(f)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.listeners == nil {
		c.listeners = make(map[string]int)
	}
	c.listeners[key]++
	return func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.listeners[key]--; c.listeners[key] == 0 {
			delete(c.listeners, key)
		}
	}
}

type serverListKey struct{ method, server, audience string }

type mergedListKey struct{ method, audience string }

// serverList is what one server says to one method of one audience. The method "" stands for its Hello.
type serverList struct {
	items   [][]byte
	hello   *mcp.ServerInfo
	have    bool      // it has answered at least once
	fresh   bool      // and nothing has changed since
	read    time.Time // when it was last read well
	failed  string    // why the last reading failed, "" when it did not
	cutOff  bool      // the list had no end
	until   time.Time // fresh no longer than that; zero where changes are told
	changed bool      // while the reading was under way
	reading *reading
}

// reading is one attempt to get a part.
type reading struct {
	started  time.Time
	done     chan struct{} // closed at the end
	finished time.Time     // zero while it runs
	missed   bool          // somebody went away without it
	tell     bool          // somebody has an older one and was told nothing
	slow     bool          // took longer than the grace; set with finished
	failed   bool          // set with finished
}

// mergedList is a joined list as clients see it.
type mergedList struct {
	table *table
	items []listed
	odd   []rejectedItem // at most maxOdd
}

// rejectedItem is an item that clients do not see as it is.
type rejectedItem struct {
	server, method string
	Odd
	lost bool // they do not see it at all
}

// The bounds of what is told of odd items.
const (
	maxOdd  = 100  // of one joined list
	maxTold = 1000 // over all lists, before it is forgotten what was told
)

func (j *mergedList) note(u Upstream, method, name, why string, lost bool) {
	if len(j.odd) < maxOdd {
		j.odd = append(j.odd, rejectedItem{u.Name(), method, Odd{excerpt.Cut(name, maxRepeated), why}, lost})
	}
}

// listed is one item as clients see it.
type listed struct {
	key  string // the offered name or URI
	json []byte
	// directed: a tool of a modern server with tasks, which says nothing of them.
	directed bool
}

// The times of a reading.
const (
	defaultGrace = 1500 * time.Millisecond
	readingLimit = time.Minute
	retryReading = 2 * time.Second
	// untoldLife is how long the list of a server that tells nobody of changes is
	// taken for what it lists now.
	untoldLife = 5 * time.Second
)

// changed says that a server's lists may have changed: kind is "tools", "prompts",
// "resources", or "" for everything, its Hello included. Of everything nobody was
// told, so what has been read is read again and announced if it is another.
func (c *catalog) changed(server, kind string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if kind == "" {
		delete(c.dear, server)
	}
	var again []serverListKey
	for key, p := range c.parts {
		if key.server == server && (kind == "" || key.method != "" && strings.HasPrefix(key.method, kind)) {
			p.fresh, p.changed = false, true
			if kind == "" && p.have {
				again = append(again, key)
			}
		}
	}
	c.tellLocked(again)
}

// tellLocked reads parts again and announces those that have changed. It skips
// audiences without listeners, except everybody: their lists are read when one of their
// clients asks, and no session is opened for them now.
func (c *catalog) tellLocked(again []serverListKey) {
	for _, key := range again {
		at := slices.IndexFunc(c.servers, func(u Upstream) bool { return u.Name() == key.server })
		a := c.knownLocked(key.audience)
		if at < 0 || a == nil || a != everybody && c.listeners[key.audience] == 0 {
			continue
		}
		if _, r := c.readLocked(a, key.method, c.servers[at]); r != nil {
			r.tell = true
		}
	}
}

// readLocked sees to it that a part is being read where it has to be, and returns
// the reading to wait for, nil for none.
func (c *catalog) readLocked(a *audience, method string, u Upstream) (*serverList, *reading) {
	key := serverListKey{method, u.Name(), a.key}
	p := c.parts[key]
	if p == nil {
		p = &serverList{}
		if c.parts == nil {
			c.parts = make(map[serverListKey]*serverList)
		}
		c.parts[key] = p
	}
	r := p.reading
	old := p.fresh && !p.until.IsZero() && !time.Now().Before(p.until)
	switch {
	case p.fresh && !old || c.lifeLocked().Err() != nil:
		return p, nil
	case r != nil && r.finished.IsZero():
		return p, r
	case r != nil && !p.changed && time.Since(r.finished) < retryReading:
		return p, nil // it has just failed
	}
	again := r != nil && r.missed && r.failed && !p.changed || c.dear[u.Name()] && !p.changed || old && r.slow
	r = &reading{started: time.Now(), done: make(chan struct{}), tell: old}
	if again {
		// It has had its grace, and nothing says that it is better now.
		r.started, r.missed = time.Time{}, true
	}
	life := c.lifeLocked()
	if !c.work.Go(func() { c.read(life, a, method, u, p, r) }) {
		return p, nil
	}
	p.reading, p.changed = r, false // the reading waits for our lock before it looks
	return p, r
}

// read gets one part from its server.
func (c *catalog) read(life context.Context, a *audience, method string, u Upstream, p *serverList, r *reading) {
	ctx, cancel := context.WithTimeout(life, readingLimit)
	defer cancel()
	began := time.Now()
	h, err := u.Hello(ctx, a.facts)
	var items [][]byte
	complete := true
	if err == nil && method != "" {
		if capability := mcp.LookupMethod(method).Capability; h.Capabilities == nil || has(h.Capabilities, capability) {
			items, complete, err = u.List(ctx, a.facts, method)
		}
	}
	c.mu.Lock()
	r.finished, r.failed = time.Now(), err != nil
	r.slow = r.finished.Sub(began) > c.grace()
	switch {
	case err == nil:
		delete(c.dear, u.Name())
	case r.finished.Sub(began) > c.grace()/4:
		if c.dear == nil {
			c.dear = make(map[string]bool)
		}
		c.dear[u.Name()] = true
	}
	announce, cutOff := false, err == nil && !complete && !p.cutOff
	p.failed = ""
	if err != nil {
		p.failed = mcp.Wire(err).Message
	}
	if err == nil {
		p.read, p.cutOff = r.finished, !complete
		changed := !sameItems(c.seenLocked(method, u, a), items)
		announce = (r.missed || r.tell) && changed
		if changed && p.have && !p.until.IsZero() {
			// The server tells nobody, so what other audiences have is as old.
			var others []serverListKey
			for key, q := range c.parts {
				if key.method == method && key.server == u.Name() && key.audience != a.key && q.have && q.fresh {
					q.fresh = false
					others = append(others, key)
				}
			}
			c.tellLocked(others)
		}
		p.items, p.hello, p.have, p.fresh = items, h, true, !p.changed
		p.until = time.Time{}
		if method != "" && !tellsOf(h, method) {
			p.until = r.finished.Add(untoldLife)
		}
		for key := range c.editions {
			// Who has none of their own sees everybody's.
			if key.method == method && (key.audience == a.key || a == everybody) {
				delete(c.editions, key)
			}
		}
	}
	c.mu.Unlock()
	close(r.done)
	if cutOff {
		c.lost(u.Name(), method, "the list has no end that could be reached; what was read until then is shown")
	}
	if announce {
		c.announce(changeOf(method), a.key)
	}
}

// tellsOf reports whether a server has said that it tells of changes of a list.
func tellsOf(h *mcp.ServerInfo, method string) bool {
	caps := h.Capabilities
	at := jsonrpc.Find(caps, jsonrpc.Whole(caps), mcp.LookupMethod(method).Capability)
	return string(jsonrpc.Find(caps, at, "listChanged").Of(caps)) == "true"
}

// changeOf returns the notification that says that a list has changed.
func changeOf(method string) string {
	switch method {
	case mcp.MethodListTools:
		return mcp.NoteToolsChanged
	case mcp.MethodListPrompts:
		return mcp.NotePromptsChanged
	}
	return mcp.NoteResourcesChanged
}

func sameItems(a, b [][]byte) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if !bytes.Equal(a[i], b[i]) {
			return false
		}
	}
	return true
}

// seenPartLocked returns what clients of an audience see of a server: its own part, or
// everybody's for as long as there is none. A server that cannot be opened once more
// is shown all the same.
func (c *catalog) seenPartLocked(method string, u Upstream, a *audience) *serverList {
	if p := c.parts[serverListKey{method, u.Name(), a.key}]; p != nil && p.have {
		return p
	}
	return c.parts[serverListKey{method, u.Name(), everybody.key}]
}

func (c *catalog) seenLocked(method string, u Upstream, a *audience) [][]byte {
	if p := c.seenPartLocked(method, u, a); p != nil {
		return p.items
	}
	return nil
}

func (c *catalog) grace() time.Duration {
	if c.wait == 0 {
		return defaultGrace
	}
	return c.wait
}

// await waits for readings, each until its grace is over.
func (c *catalog) await(ctx context.Context, all []*reading) {
	for _, r := range all {
		left := time.Until(r.started.Add(c.grace()))
		t := time.NewTimer(max(left, 0))
		select {
		case <-r.done:
		case <-ctx.Done():
		case <-t.C:
			c.mu.Lock()
			r.missed = true
			c.mu.Unlock()
		}
		t.Stop()
	}
}

// refresh reads what has to be read of a method and waits for it with grace.
func (c *catalog) refresh(ctx context.Context, a *audience, method string) {
	c.mu.Lock()
	var all []*reading
	for _, u := range c.servers {
		if _, r := c.readLocked(a, method, u); r != nil {
			all = append(all, r)
		}
	}
	c.mu.Unlock()
	c.await(ctx, all)
}

// settle reads what has to be read of a method and waits for all of it, as long as
// ctx: for a client that will not ask again.
func (c *catalog) settle(ctx context.Context, a *audience, method string) {
	c.mu.Lock()
	var all []*reading
	for _, u := range c.servers {
		if _, r := c.readLocked(a, method, u); r != nil {
			all = append(all, r)
		}
	}
	c.mu.Unlock()
	for _, r := range all {
		select {
		case <-r.done:
		case <-ctx.Done():
			return
		}
	}
}

// edition returns the joined list of a method as an audience sees it.
func (c *catalog) edition(ctx context.Context, a *audience, method string) *mergedList {
	c.refresh(ctx, a, method)
	c.mu.Lock()
	key := mergedListKey{method, a.key}
	e := c.editions[key]
	var tell []rejectedItem
	if e == nil {
		e = c.buildLocked(a, method)
		if c.editions == nil {
			c.editions = make(map[mergedListKey]*mergedList)
		}
		if c.knownLocked(a.key) == a {
			c.editions[key] = e
		}
		tell = c.untoldLocked(e.odd)
	}
	c.mu.Unlock()
	for _, x := range tell {
		if x.lost {
			c.lost(x.server, x.method, leftOut(x.Name, x.Why))
		} else {
			c.renamed(x.server, x.method, x.Name, x.Why)
		}
	}
	return e
}

// untoldLocked returns what nobody was told of so far: lists are joined anew
// whenever one of them changes.
func (c *catalog) untoldLocked(all []rejectedItem) (out []rejectedItem) {
	if c.told == nil || len(c.told) > maxTold {
		c.told = make(map[rejectedItem]struct{})
	}
	for _, x := range all {
		if _, known := c.told[x]; !known {
			c.told[x] = struct{}{}
			out = append(out, x)
		}
	}
	return out
}

// hellos returns the Hello of each server for an audience, nil for servers that have
// not answered so far.
func (c *catalog) hellos(ctx context.Context, a *audience) []*mcp.ServerInfo {
	c.refresh(ctx, a, "")
	c.mu.Lock()
	defer c.mu.Unlock()
	out := make([]*mcp.ServerInfo, len(c.servers))
	for i, u := range c.servers {
		if p := c.seenPartLocked("", u, a); p != nil {
			out[i] = p.hello
		}
	}
	return out
}

func has(object []byte, key string) bool {
	return !jsonrpc.Find(object, jsonrpc.Whole(object), key).IsZero()
}

// buildLocked makes the table and the items that clients see. Servers come in the order
// of the configuration, items in the order of their server.
func (c *catalog) buildLocked(a *audience, method string) *mergedList {
	j := &mergedList{table: newTable()}
	key := "name"
	switch method {
	case mcp.MethodListResources:
		key = "uri"
	case mcp.MethodListTemplates:
		key = "uriTemplate"
	}
	for _, u := range c.servers {
		p := c.seenPartLocked(method, u, a)
		if p == nil {
			continue
		}
		hello := c.seenPartLocked("", u, a)
		directed := method == mcp.MethodListTools && hello != nil && hello.hello != nil && hello.hello.Tasks() == mcp.DirectedTasks
		for _, raw := range p.items {
			at := jsonrpc.Find(raw, jsonrpc.Whole(raw), key)
			name, ok := jsonrpc.Text(raw, at)
			if !ok || name == "" {
				j.note(u, method, "", "it has no "+key, true)
				continue
			}
			if !utf8.ValidString(name) {
				j.note(u, method, jsonrpc.Shown(name), "its "+key+" has half of a surrogate pair", true)
				continue
			}
			offered, json := name, raw
			if key == "name" {
				offered = c.names.Join(c.prefix(u), name)
				var e jsonrpc.Edits
				e.Replace(mcp.WhyName, at, jsonrpc.AppendQuote(nil, offered))
				json = jsonrpc.Splice(make([]byte, 0, len(raw)+32), raw, &e)
			}
			if !j.table.add(offered, route{u, name}) {
				j.note(u, method, name, taken(j.table.routes[offered], u, name), true)
				continue
			}
			j.items = append(j.items, listed{offered, json, directed && !has(json, "execution")})
			if key == "name" && offered != c.prefix(u)+c.names.separator()+name {
				j.note(u, method, name, "it is too long, has characters that clients refuse, or could be read in two ways; it is offered as "+offered, false)
			}
		}
	}
	return j
}

// taken says why an item is not offered whose name is taken.
func taken(by route, u Upstream, name string) string {
	switch {
	case by.server.Name() != u.Name():
		return fmt.Sprintf("server %q has one that is called so and comes first", by.server.Name())
	case by.name == name:
		return "the server lists it twice, and the first is shown"
	}
	return fmt.Sprintf("it would be called like %q of the same server", excerpt.Cut(by.name, maxRepeated))
}

// find returns where an offered name leads. What an audience's own list does not have
// may stand in everybody's: a name leads to the same place for all, and only the
// server can say whether this client may use it. So a call needs no list of its own
// audience. A name that is not known may belong to a server that has not been heard so
// far: that one is waited for, and no other.
func (c *catalog) find(ctx context.Context, a *audience, method, name string) (route, bool) {
	c.mu.Lock()
	for _, key := range [...]mergedListKey{{method, a.key}, {method, everybody.key}} {
		if e := c.editions[key]; e != nil {
			if r, ok := e.table.routes[name]; ok {
				c.mu.Unlock()
				return r, true
			}
		}
	}
	c.mu.Unlock()
	r, ok := c.edition(ctx, a, method).table.routes[name]
	if ok {
		return r, true
	}
	c.mu.Lock()
	var late []*reading
	for _, u := range c.servers {
		if p, r := c.readLocked(a, method, u); r != nil && !p.have && c.names.mayBe(c.prefix(u), name) {
			late = append(late, r)
		}
	}
	c.mu.Unlock()
	for _, r := range late {
		select {
		case <-r.done:
		case <-ctx.Done():
		}
	}
	if len(late) == 0 {
		return route{}, false
	}
	r, ok = c.edition(ctx, a, method).table.routes[name]
	return r, ok
}

// pageSize is how many items a page of a joined list has.
const pageSize = 500

// list answers a list with one page of the joined one. Its cursor says which page
// of which edition, so that a page asked for after a change is still a page.
func (c *catalog) list(ctx context.Context, call *mcp.Call) (*mcp.Reply, error) {
	start, place := "", 0
	if at := call.Msg.Param("cursor"); !at.IsZero() {
		text, ok := jsonrpc.Text(call.Msg.Raw, at)
		if start, place, ok = openCursor(call.Msg.Method, text, ok); !ok {
			// §Pagination, "Error Handling", all revisions.
			return nil, &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: "cursor is not one of ours"}
		}
	}
	a := c.audience(call.Client)
	if call.Once {
		c.settle(ctx, a, call.Msg.Method)
	}
	j := c.edition(ctx, a, call.Msg.Method)
	if start != "" {
		if i := slices.IndexFunc(j.items, func(x listed) bool { return x.key == start }); i >= 0 {
			place = i + 1
		}
	}
	place = min(place, len(j.items))
	items := j.items[place:]
	more := len(items) > pageSize
	if more {
		items = items[:pageSize]
	}
	out := append(jsonrpc.AppendQuote([]byte{'{'}, call.Method.ListKey), ':', '[')
	for i, x := range items {
		if i > 0 {
			out = append(out, ',')
		}
		if x.directed && call.Client.Revision.Can(mcp.ExperimentalTasks) {
			out = appendOffered(out, x.json)
			continue
		}
		out = append(out, x.json...)
	}
	out = append(out, ']')
	if more {
		out = append(out, `,"nextCursor":`...)
		out = jsonrpc.AppendQuote(out, makeCursor(call.Msg.Method, items[len(items)-1].key, place+len(items)))
	}
	out = c.appendMissing(out, a, call.Msg.Method)
	return mcp.Answer(append(out, '}')), nil
}

// A cursor names the last item of the page before, so that items added between
// two pages shift nothing, and its place in case that one is gone. The sum shows
// that it is ours; there is nothing in it to protect.
func makeCursor(method, after string, place int) string {
	text := method + "\x00" + strconv.Itoa(place) + "\x00" + after
	sum := sha256.Sum256([]byte("drg1\x00" + text))
	return base64.RawURLEncoding.EncodeToString(append(sum[:6], text...))
}

func openCursor(method, cursor string, isText bool) (after string, place int, ok bool) {
	b, err := base64.RawURLEncoding.DecodeString(cursor)
	if err != nil || !isText || len(b) < 6 {
		return "", 0, false
	}
	text, ok := strings.CutPrefix(string(b[6:]), method+"\x00")
	number, after, found := strings.Cut(text, "\x00")
	place, err = strconv.Atoi(number)
	if !ok || !found || err != nil || place < 0 || makeCursor(method, after, place) != cursor {
		return "", 0, false
	}
	return after, place, true
}

// byTemplate returns the server one of whose templates a URI fits: the one with
// the longest literal beginning.
func (c *catalog) byTemplate(ctx context.Context, a *audience, uri string) Upstream {
	j := c.edition(ctx, a, mcp.MethodListTemplates)
	var best Upstream
	length := -1
	for _, t := range j.table.order {
		head, rest, _ := strings.Cut(t, "{")
		tail := rest[strings.LastIndexByte(rest, '}')+1:]
		if strings.HasPrefix(uri, head) && strings.HasSuffix(uri, tail) && len(uri) >= len(head)+len(tail) && len(head) > length {
			best, length = j.table.routes[t].server, len(head)
		}
	}
	return best
}

// notFound returns the error for a name that leads nowhere. Where it has the prefix of a
// server whose list could never be read, nobody can say that the name is wrong: the error
// says why the server cannot be reached. Every name with that prefix gets the same.
func (c *catalog) notFound(a *audience, list, what, name string) error {
	if u, why := c.unread(a, list, name); u != nil {
		return &mcp.Error{
			Origin: mcp.FromGateway, Upstream: u.Name(), Cause: "unavailable", Outcome: mcp.NotSent, Retryable: true,
			Message: why, Op: "find " + what,
		}
	}
	return unknown(what, name)
}

// owner returns the server that a URI belongs to: the one that lists it, else the
// one whose template it fits, else the only one that has resources at all.
func (c *catalog) owner(ctx context.Context, f *mcp.ClientInfo, uri string) (Upstream, error) {
	if uri == "" {
		return nil, &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: "params.uri must be a string"}
	}
	a := c.audience(f)
	if r, ok := c.find(ctx, a, mcp.MethodListResources, uri); ok {
		return r.server, nil
	}
	if u := c.byTemplate(ctx, a, uri); u != nil {
		return u, nil
	}
	if u := c.soleWithResources(ctx, a); u != nil {
		// 2025-06-18 §Tools, "Resource Links": what a tool links to need not be listed.
		return u, nil
	}
	return nil, missing(f, uri)
}

// soleWithResources returns the only server that has resources, nil where there are
// several or none. One that has not been heard so far may have some.
func (c *catalog) soleWithResources(ctx context.Context, a *audience) (sole Upstream) {
	for i, h := range c.hellos(ctx, a) {
		if h != nil && !has(h.Capabilities, "resources") {
			continue
		}
		if sole != nil {
			return nil
		}
		sole = c.servers[i]
	}
	return sole
}

// warm begins to read what clients will ask for first, of the servers that want
// chooses. It does not wait.
func (c *catalog) warm(want func(server string) bool) {
	var wanted []Upstream
	for _, u := range c.servers {
		if want(u.Name()) {
			wanted = append(wanted, u)
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, u := range wanted {
		c.readLocked(everybody, "", u)
		c.readLocked(everybody, mcp.MethodListTools, u)
	}
}

// prefix returns what stands before the names of a server's items.
func (c *catalog) prefix(u Upstream) string {
	if p := c.prefixes[u.Name()]; p != "" {
		return p
	}
	return u.Name()
}
