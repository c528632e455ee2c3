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
	version uint64   // changes with items and hidden; see Catalog.Items
	hello   *mcp.ServerInfo
	have    bool       // the list has been read at least once
	fresh   bool       // the list has not changed since it was read
	read    time.Time  // time of the last reading without an error
	failed  string     // why the last reading failed, "" if it did not fail
	cause   *mcp.Error // the error of the last reading, if it is an *mcp.Error
	cutOff  bool       // the list was too long, and only its beginning was read
	until   time.Time  // the list is fresh until this time; zero if the server announces changes
	changed bool       // the server announced a change during the reading
	reading *reading
}

// reading is one attempt to read a serverList.
type reading struct {
	started  time.Time
	done     chan struct{} // closed when the reading ends
	finished time.Time     // zero while the reading runs
	missed   bool          // a request stopped waiting for this reading
	tell     bool          // clients have an older list, and nobody announced a change to them
	slow     bool          // the reading took longer than the grace; set with finished
	failed   bool          // set with finished
}

// These constants are time limits of readings.
const (
	defaultGrace = 1500 * time.Millisecond
	readingLimit = time.Minute
	retryReading = 2 * time.Second
	// untoldLife is how long a list counts as fresh if its server does not announce changes.
	untoldLife = 5 * time.Second
)

// readLocked returns a server's list. If the list is not fresh, it starts a reading, or finds the
// running one. It returns the reading, so that the caller can wait for it.
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
		return p, nil // the last reading has just failed
	}
	again := r != nil && r.missed && r.failed && !p.changed || c.slowFailures[u.Name()] && !p.changed || old && r.slow
	r = &reading{started: time.Now(), done: make(chan struct{}), tell: old}
	if again {
		// The server has used up its grace time, and has not answered since then.
		r.started, r.missed = time.Time{}, true
	}
	life := c.lifeLocked()
	if !c.work.Go(func() { c.read(life, a, method, u, p, r) }) {
		return p, nil
	}
	p.reading, p.changed = r, false // the goroutine waits for c.mu before it uses these fields
	return p, r
}

// read reads one list from its server.
func (c *Catalog) read(life context.Context, a *knownAudience, method string, u Source, p *serverList, r *reading) {
	ctx, cancel := context.WithTimeout(life, readingLimit)
	defer cancel()
	began := time.Now()
	h, err := u.Hello(mcp.WithPurpose(ctx, "lists"), a.facts)
	var items, hidden [][]byte
	complete := true
	if err == nil && method != "" {
		if capability := mcp.LookupMethod(method).Capability; h.Capabilities == nil || has(h.Capabilities, capability) {
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
			// The server does not announce changes, so the lists of other audiences may be
			// outdated too.
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
			// An audience without a list of its own sees the list of the audience everybody.
			if key.method == method && (key.audience == a.Audience || a == everybody) {
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

// tellsOf reports whether a server has declared listChanged for a list.
func tellsOf(h *mcp.ServerInfo, method string) bool {
	caps := h.Capabilities
	at := jsonrpc.Find(caps, jsonrpc.Whole(caps), mcp.LookupMethod(method).Capability)
	return string(jsonrpc.Find(caps, at, "listChanged").Of(caps)) == "true"
}

// changeOf returns the method of the notification about a changed list.
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

// seenLocked returns the list that clients of an audience see of a server. It is the list that was
// read for this audience. Until that list exists, it is the list of the audience everybody. So a
// server's items are shown even if no further session can be opened for the audience. seenLocked
// returns nil if neither list was requested.
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

// await waits for readings, each at most for the grace time.
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

// readAll starts to read those lists of a method that are not fresh, and returns the readings
// that run.
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

// refresh reads those lists of a method that are not fresh, and waits at most for the grace
// time.
func (c *Catalog) refresh(ctx context.Context, a *knownAudience, method string) {
	c.await(ctx, c.readAll(a, method))
}

// settle reads those lists of a method that are not fresh, and waits until all are read or ctx
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
