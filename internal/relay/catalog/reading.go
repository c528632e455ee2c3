package catalog

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
)

// serverListKey is the key of a serverList. The method "" means the server information.
type serverListKey struct {
	method, server string
	audience       Audience
}

// serverList is what one server returned for one method and one audience.
type serverList struct {
	items   [][]byte
	names   map[string]struct{} // the names of items; made by has
	hidden  [][]byte            // items that Catalog.Expose hides
	left    []HiddenItem        // items that Catalog.Vet hides
	version uint64              // changes whenever items, hidden or left change; see Items.Version
	hello   *mcp.ServerInfo
	have    bool       // true if at least one reading of the list has succeeded
	fresh   bool       // true if the server has announced no change since the last successful reading began
	read    time.Time  // when the last successful reading ended
	failed  string     // why the last reading failed; "" if it did not fail
	cause   *mcp.Error // the error of the last reading, if it is an *mcp.Error; else nil
	cutOff  bool       // true if the list was too long, so that only its beginning was read
	until   time.Time  // when the list stops being fresh; zero if the server announces changes
	changed bool       // true if the server announced a change after the last reading started
	reading *reading
	// kept is when an earlier process read items, which clients see until the first reading
	// succeeds. It is zero if the list does not come from an earlier process; see Keeper.
	kept     time.Time
	recalled bool // the kept list was requested from the Keeper; only for the audience everybody
}

// reading is one attempt to read a serverList.
type reading struct {
	key      serverListKey
	started  time.Time
	done     chan struct{} // closed when the reading ends
	finished time.Time     // when the reading ended; zero while it runs
	missed   bool          // true if a request stopped waiting for this reading
	outdated bool          // true if a request waits for this reading although the list has changed since it began
	tell     bool          // true if clients have an older list and must be notified if this reading finds a different one
	slow     bool          // true if the reading took longer than the grace time; set together with finished
	failed   bool          // set with finished
}

// These constants are time limits of readings.
const (
	defaultGrace = 1500 * time.Millisecond
	readingLimit = time.Minute
	retryReading = 2 * time.Second
	// untoldLife is how long a list stays fresh if its server does not announce changes.
	untoldLife = 5 * time.Second
)

// readLocked returns a server's list. If the list is not fresh, readLocked also returns a reading
// for which the caller can wait. This is the running reading, or a new one that readLocked starts.
// The reading is nil if the list is fresh or cannot be read now.
func (c *Catalog) readLocked(a *knownAudience, method string, u Source) (*serverList, *reading) {
	key := serverListKey{method, u.Name(), a.at(u.Name())}
	p := c.listLocked(key)
	r := p.reading
	old := p.fresh && !p.until.IsZero() && !time.Now().Before(p.until)
	switch {
	case p.fresh && !old || c.lifeLocked().Err() != nil:
		return p, nil
	case r != nil && r.finished.IsZero():
		r.outdated = r.outdated || p.changed
		return p, r
	case r != nil && !p.changed && time.Since(r.finished) < retryReading:
		return p, nil // the last reading ended less than retryReading ago
	}
	again := r != nil && r.missed && r.failed && !p.changed || c.slowFailures[u.Name()] && !p.changed || old && r.slow
	r = &reading{key: key, started: time.Now(), done: make(chan struct{}), tell: old}
	if again {
		// An earlier reading already used up the grace time of this server, so requests do not wait
		// for this reading.
		r.started, r.missed = time.Time{}, true
	}
	life := c.lifeLocked()
	if !c.work.Go(func() { c.read(life, a, method, u, p, r) }) {
		return p, nil
	}
	p.reading, p.changed = r, false // no race: the goroutine locks c.mu before it uses these fields
	return p, r
}

// listLocked returns the list with the given key. If necessary, it creates an empty list.
func (c *Catalog) listLocked(key serverListKey) *serverList {
	p := c.lists[key]
	if p == nil {
		p = &serverList{}
		if c.lists == nil {
			c.lists = make(map[serverListKey]*serverList)
		}
		c.lists[key] = p
	}
	return p
}

// answer is what a reading got from a server.
type answer struct {
	hello *mcp.ServerInfo
	vetted
	complete bool
}

// errOtherScope means that the list may belong to another audience.
var errOtherScope = errors.New("the credentials with which the list was read have been replaced; it will be read again")

// request requests a list or the server information from a server.
func (c *Catalog) request(ctx context.Context, a *knownAudience, method string, u Source) (got answer, err error) {
	ctx, cancel := context.WithTimeout(ctx, readingLimit)
	defer cancel()
	got.complete = true
	f := a.factsAt(u.Name())
	got.hello, err = u.Hello(mcp.WithPurpose(ctx, "lists"), f)
	if err != nil || method == "" {
		return got, err
	}
	if caps := got.hello.Capabilities; caps == nil || mcp.LookupMethod(method).OfferedBy(caps) {
		var all [][]byte
		all, got.complete, err = u.List(ctx, f, method)
		got.vetted = c.vet(method, u.Name(), got.hello.Revision, all)
	}
	if scope := a.scopes[u.Name()]; err == nil && scope != "" && u.Scope(f) != scope {
		return answer{}, errOtherScope
	}
	return got, err
}

// read runs one reading: it reads a list or the server information from a server.
func (c *Catalog) read(life context.Context, a *knownAudience, method string, u Source, p *serverList, r *reading) {
	c.recall(u, method)
	began := time.Now()
	got, err := c.request(life, a, method, u)
	c.mu.Lock()
	r.finished, r.failed = time.Now(), err != nil
	r.slow = r.finished.Sub(began) > c.grace()
	switch {
	case err == nil:
		delete(c.slowFailures, u.Name())
	case r.finished.Sub(began) > c.grace()/4:
		if c.slowFailures == nil {
			c.slowFailures = make(map[string]bool)
		}
		c.slowFailures[u.Name()] = true
	}
	changed, to, cutOff := false, r.key.audience, err == nil && !got.complete && !p.cutOff
	signIn := p.mustSignIn()
	p.failed, p.cause = "", nil
	if err != nil {
		p.failed = mcp.Wire(err).Message
		_ = errors.As(err, &p.cause)
		if life.Err() == nil && c.dropKeptLocked(u, method, err) { // a drained catalog says nothing about the server
			changed, to = true, Audience{}
		}
		if errors.Is(err, errOtherScope) {
			c.forgetLocked(a) // the next request of its clients brings the credentials of one of them
		}
	} else {
		changed = c.storeLocked(a, method, u, p, got)
		got.passed = c.withoutTakenLocked(method, u, got.passed)
	}
	if signIn != p.mustSignIn() {
		c.forgetMergedLocked(method, u, r.key.audience)
		changed = changed || method == mcp.MethodListTools && (signIn || !p.have) // the tool SignIn comes or goes
	}
	announce := changed && (r.missed || r.tell)
	if r.outdated && err == nil {
		c.readAgainLocked([]serverListKey{r.key}) // and tell those who got this list
	}
	c.mu.Unlock()
	close(r.done)
	if cutOff {
		c.lost(u.Name(), method, "the list of the server does not end; clients see the items that were read until now")
	}
	if announce && c.Announce != nil {
		c.Announce(changeOf(method), u.Name(), to)
	}
	if err == nil && r.key.audience == (Audience{}) {
		keep(u, method, got, r.finished)
	}
}

// storeLocked stores what the reading p.reading got. It reports whether clients saw another list before.
func (c *Catalog) storeLocked(a *knownAudience, method string, u Source, p *serverList, got answer) (changed bool) {
	p.read, p.cutOff = p.reading.finished, !got.complete
	var before [][]byte
	if seen := c.seenLocked(method, u, a); seen != nil {
		before = seen.items
	}
	changed = !sameItems(before, got.items)
	if changed && p.have && !p.until.IsZero() {
		// The server does not announce changes, so the lists of the server for other audiences
		// may be outdated too.
		var others []serverListKey
		for key, q := range c.lists {
			if key.method == method && key.server == u.Name() && q != p && q.have && q.fresh {
				q.fresh = false
				others = append(others, key)
			}
		}
		c.readAgainLocked(others)
	}
	sameLeft := slices.EqualFunc(p.left, got.left, func(a, b HiddenItem) bool { return a.Why == b.Why && bytes.Equal(a.JSON, b.JSON) })
	if !p.have || !sameLeft || !sameItems(p.items, got.items) || !sameItems(p.hidden, got.hidden) {
		p.version = versions.Add(1)
		c.offerLocked()
	}
	p.items, p.names, p.hidden, p.left, p.hello, p.have, p.fresh, p.kept = got.items, nil, got.hidden, got.left, got.hello, true, !p.changed, time.Time{}
	p.until = time.Time{}
	if method != "" && !tellsOf(got.hello, method) {
		p.until = p.read.Add(untoldLife)
	}
	c.forgetMergedLocked(method, u, p.reading.key.audience)
	return changed
}

// forgetMergedLocked removes the merged lists that may contain a server's list for the audience to.
func (c *Catalog) forgetMergedLocked(method string, u Source, to Audience) {
	for key := range c.merged {
		// The URIs of resources may depend on the roots of skills.
		same := key.method == method || method == mcp.MethodListSkills && kindOf(key.method).key() != "name"
		if a := c.knownLocked(key.audience); same && (a == nil || a.at(u.Name()).sees(to)) {
			c.dropMergedLocked(key)
		}
	}
}

// tellsOf reports whether a server declares listChanged for the list of a method.
func tellsOf(h *mcp.ServerInfo, method string) bool {
	caps := h.Capabilities
	at := jsonrpc.Find(caps, jsonrpc.Whole(caps), mcp.LookupMethod(method).Capability)
	return string(jsonrpc.Find(caps, at, "listChanged").Of(caps)) == "true"
}

// changeOf returns the method of the notification that announces a change of a list. method is the
// method that reads the list.
func changeOf(method string) string {
	switch method {
	case mcp.MethodListTools:
		return mcp.NoteToolsChanged
	case mcp.MethodListPrompts:
		return mcp.NotePromptsChanged
	}
	return mcp.NoteResourcesChanged
}

func sameItems(a, b [][]byte) bool { return slices.EqualFunc(a, b, bytes.Equal) }

// seenLocked returns the list of a server that clients of an audience see. If a reading for this
// audience has succeeded, it is the audience's own list. Otherwise, it is the list for clients without
// capabilities, so that clients see the server's items even if Dragoman cannot open another session
// for the audience. seenLocked returns nil if there is no such list.
func (c *Catalog) seenLocked(method string, u Source, a *knownAudience) *serverList {
	own := a.at(u.Name())
	if p := c.lists[serverListKey{method, u.Name(), own}]; p != nil && p.have {
		return p
	}
	return c.lists[serverListKey{method, u.Name(), own.fallback()}]
}

func (c *Catalog) grace() time.Duration {
	if c.Grace == 0 {
		return defaultGrace
	}
	return c.Grace
}

// await waits for readings. It waits for each reading until the grace time has passed since the
// start of the reading, and at most until ctx ends. If whole is true, it waits longer for a reading
// without which a server would be missing: until the reading ends.
func (c *Catalog) await(ctx context.Context, all []*reading, whole bool) {
	for _, r := range all {
		left := time.Until(r.started.Add(c.grace()))
		t := time.NewTimer(max(left, 0))
		select {
		case <-r.done:
		case <-ctx.Done():
		case <-t.C:
			c.mu.Lock()
			longer := whole && !c.keptLocked(r.key)
			if !longer {
				c.missedLocked(r)
			}
			c.mu.Unlock()
			if longer {
				select {
				case <-r.done:
				case <-ctx.Done():
				}
			}
		}
		t.Stop()
	}
}

// missedLocked records that a request no longer waits for a reading. The client sees the list for
// clients without capabilities until then, so it also has to learn when that list changes.
func (c *Catalog) missedLocked(r *reading) {
	r.missed = true
	p := c.lists[serverListKey{r.key.method, r.key.server, r.key.audience.fallback()}]
	if p != nil && !p.have && p.reading != nil && p.reading.finished.IsZero() {
		p.reading.missed = true
	}
}

// readAll starts a reading for each server whose list is not fresh, unless a reading already runs.
// It returns the running readings.
func (c *Catalog) readAll(a *knownAudience, method string) (all []*reading) {
	c.recallAll(method)
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, u := range c.Sources {
		if _, r := c.readLocked(a, method, u); r != nil {
			all = append(all, r)
		}
	}
	return all
}

// refresh reads the servers' lists that are not fresh. It waits for the readings for at most the
// grace time.
func (c *Catalog) refresh(ctx context.Context, a *knownAudience, method string) {
	c.await(ctx, c.readAll(a, method), false)
}

// settle reads the servers' lists that are not fresh. It waits until the readings have ended or ctx
// ends. For a server with a kept list, it waits for at most the grace time.
func (c *Catalog) settle(ctx context.Context, a *knownAudience, method string) {
	c.await(ctx, c.readAll(a, method), true)
}
