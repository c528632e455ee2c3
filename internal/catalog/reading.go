package catalog

import (
	"bytes"
	"context"
	"errors"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/mcp"
)

// serverListKey is the key of a serverList. The method "" means the server information.
type serverListKey struct {
	method, server string
	audience       Audience
}

// serverList is what one server returned for one method and one audience.
type serverList struct {
	items   [][]byte
	hidden  [][]byte // items that Catalog.Expose hides
	version uint64   // changes whenever items or hidden change; see Items.Version
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
}

// reading is one attempt to read a serverList.
type reading struct {
	started  time.Time
	done     chan struct{} // closed when the reading ends
	finished time.Time     // when the reading ended; zero while it runs
	missed   bool          // true if a request stopped waiting for this reading
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
	key := serverListKey{method, u.Name(), a.Audience}
	p := c.lists[key]
	if p == nil {
		p = &serverList{}
		if c.lists == nil {
			c.lists = make(map[serverListKey]*serverList)
		}
		c.lists[key] = p
	}
	r := p.reading
	old := p.fresh && !p.until.IsZero() && !time.Now().Before(p.until)
	switch {
	case p.fresh && !old || c.lifeLocked().Err() != nil:
		return p, nil
	case r != nil && r.finished.IsZero():
		return p, r
	case r != nil && !p.changed && time.Since(r.finished) < retryReading:
		return p, nil // the last reading ended less than retryReading ago
	}
	again := r != nil && r.missed && r.failed && !p.changed || c.slowFailures[u.Name()] && !p.changed || old && r.slow
	r = &reading{started: time.Now(), done: make(chan struct{}), tell: old}
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

// read runs one reading: it reads a list or the server information from a server.
func (c *Catalog) read(life context.Context, a *knownAudience, method string, u Source, p *serverList, r *reading) {
	ctx, cancel := context.WithTimeout(life, readingLimit)
	defer cancel()
	began := time.Now()
	h, err := u.Hello(mcp.WithPurpose(ctx, "lists"), a.facts)
	var items, hidden [][]byte
	complete := true
	if err == nil && method != "" {
		if h.Capabilities == nil || mcp.LookupMethod(method).OfferedBy(h.Capabilities) {
			items, complete, err = u.List(ctx, a.facts, method)
			items, hidden = splitItems(c.Expose, kindOf(method), u.Name(), items)
		}
	}
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
	announce, cutOff := false, err == nil && !complete && !p.cutOff
	p.failed, p.cause = "", nil
	if err != nil {
		p.failed = mcp.Wire(err).Message
		_ = errors.As(err, &p.cause)
	}
	if err == nil {
		p.read, p.cutOff = r.finished, !complete
		var before [][]byte
		if seen := c.seenLocked(method, u, a); seen != nil {
			before = seen.items
		}
		changed := !sameItems(before, items)
		announce = (r.missed || r.tell) && changed
		if changed && p.have && !p.until.IsZero() {
			// The server does not announce changes, so the lists of the server for other audiences
			// may be outdated too.
			var others []serverListKey
			for key, q := range c.lists {
				if key.method == method && key.server == u.Name() && key.audience != a.Audience && q.have && q.fresh {
					q.fresh = false
					others = append(others, key)
				}
			}
			c.readAgainLocked(others)
		}
		if !p.have || !sameItems(p.items, items) || !sameItems(p.hidden, hidden) {
			p.version = versions.Add(1)
		}
		p.items, p.hidden, p.hello, p.have, p.fresh = items, hidden, h, true, !p.changed
		p.until = time.Time{}
		if method != "" && !tellsOf(h, method) {
			p.until = r.finished.Add(untoldLife)
		}
		for key := range c.merged {
			// An audience whose own list does not exist yet sees the list of the audience
			// everybody.
			// The URIs of resources may depend on the roots of skills.
			same := key.method == method || method == mcp.MethodListSkills && kindOf(key.method).key() != "name"
			if same && (key.audience == a.Audience || a == everybody) {
				delete(c.merged, key)
			}
		}
	}
	c.mu.Unlock()
	close(r.done)
	if cutOff {
		c.lost(u.Name(), method, "the list of the server does not end; clients see the items that were read until now")
	}
	if announce && c.Announce != nil {
		c.Announce(changeOf(method), a.Audience)
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

// seenLocked returns the list of a server that clients of an audience see. If a reading for this
// audience has succeeded, it is the audience's own list. Otherwise, it is the list of the audience
// everybody, so that clients see the server's items even if Dragoman cannot open another session
// for the audience. seenLocked returns nil if there is no such list.
func (c *Catalog) seenLocked(method string, u Source, a *knownAudience) *serverList {
	if p := c.lists[serverListKey{method, u.Name(), a.Audience}]; p != nil && p.have {
		return p
	}
	return c.lists[serverListKey{method, u.Name(), Audience{}}]
}

func (c *Catalog) grace() time.Duration {
	if c.Grace == 0 {
		return defaultGrace
	}
	return c.Grace
}

// await waits for readings. It waits for each reading until the grace time has passed since the
// start of the reading, and at most until ctx ends.
func (c *Catalog) await(ctx context.Context, all []*reading) {
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

// readAll starts a reading for each server whose list is not fresh, unless a reading already runs.
// It returns the running readings.
func (c *Catalog) readAll(a *knownAudience, method string) (all []*reading) {
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
	c.await(ctx, c.readAll(a, method))
}

// settle reads the servers' lists that are not fresh. It waits until all readings have ended or ctx
// ends.
func (c *Catalog) settle(ctx context.Context, a *knownAudience, method string) {
	for _, r := range c.readAll(a, method) {
		select {
		case <-r.done:
		case <-ctx.Done():
			return
		}
	}
}
