package catalog

import (
	"cmp"
	"slices"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
)

// ListReport describes one list of one server. This is the list for clients that cannot answer
// server requests. If the catalog has not read that list, it is the list that was read last for
// other clients.
type ListReport struct {
	Server, Method string
	Items          int
	Read           time.Time // when the last successful reading ended; zero if there was none
	// Kept is when an earlier process read the list that clients see. It is zero if this process has
	// read the list itself, or if there is no such list; see Keeper.
	Kept time.Time
	// Stale is true if the server's current list may differ from this list. Either the server has
	// announced a change, or the last reading failed and clients see the last list that was read.
	Stale    bool
	Reading  bool           // true while the catalog reads the list
	CutOff   bool           // true if the list was too long, so that the catalog keeps only its beginning
	Rejected []RejectedItem // the first items that some clients do not see or see under an unusual name, each with the reason
	Failed   string         // why the last reading failed; "" if it did not fail
}

// RejectedItem is an item that clients do not see, or that they see under an unusual name. Why is
// the reason.
type RejectedItem struct{ Name, Why string }

// Report describes the lists that the catalog keeps. The reports are in the order of the servers in the
// configuration, and for each server in the order of the methods for tools, prompts, resources and
// templates.
func (c *Catalog) Report() []ListReport {
	var out []ListReport
	methods := []string{mcp.MethodListTools, mcp.MethodListPrompts, mcp.MethodListResources, mcp.MethodListTemplates, mcp.MethodListSkills}
	for _, method := range methods {
		if c.hasRead(method) {
			c.mergedList(everybody, method) // only merged lists say what was left out, and perhaps no client has asked for one
		}
	}
	for _, u := range (View{c: c}).Servers() {
		for _, method := range methods {
			r, ok := c.reportOf(method, u)
			if ok && (method != mcp.MethodListSkills || r.Items > 0 || r.Failed != "") {
				out = append(out, r)
			}
		}
	}
	return out
}

// reportOf returns the report about one list of one server. ok is false if the list was never requested.
func (c *Catalog) reportOf(method string, u Source) (r ListReport, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	p := c.reportedLocked(method, u.Name())
	if p == nil {
		return r, false
	}
	r = ListReport{
		Server: u.Name(), Method: method, Items: len(p.items), Read: p.read, Kept: p.kept, CutOff: p.cutOff, Failed: p.failed,
		Reading: p.reading != nil && p.reading.finished.IsZero(),
		Stale:   p.have && (!p.fresh || p.failed != ""),
	}
	r.Rejected = c.rejectedLocked(method, r.Server)
	return r, true
}

// hasRead reports whether the catalog has read a list of a method for clients without capabilities.
func (c *Catalog) hasRead(method string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	for key, p := range c.lists {
		if key.method == method && key.audience == (Audience{}) && p.have {
			return true
		}
	}
	return false
}

// rejectedLocked returns the items of a server that clients of any audience do not see or see under
// an unusual name. Those that concern clients without capabilities come first.
func (c *Catalog) rejectedLocked(method, server string) (out []RejectedItem) {
	var all []mergedListKey
	for key := range c.merged {
		if key.method == method {
			all = append(all, key)
		}
	}
	slices.SortFunc(all, func(a, b mergedListKey) int {
		return cmp.Or(cmp.Compare(a.audience.scope, b.audience.scope), cmp.Compare(a.audience.caps, b.audience.caps))
	})
	known := make(map[RejectedItem]bool)
	for _, key := range all {
		for _, x := range c.merged[key].rejected {
			if x.server == server && len(out) < maxRejected && (key == all[0] || !known[x.RejectedItem]) {
				known[x.RejectedItem] = true
				out = append(out, x.RejectedItem)
			}
		}
	}
	return out
}

// reportedLocked returns the list that describes a server in a report. If no audience has a list of
// the server, it returns nil.
func (c *Catalog) reportedLocked(method, server string) (shown *serverList) {
	shown = c.lists[serverListKey{method, server, Audience{}}]
	if shown != nil && (shown.have || shown.failed != "") {
		return shown
	}
	for key, p := range c.lists {
		if key.method == method && key.server == server && (shown == nil || p.read.After(shown.read)) {
			shown = p
		}
	}
	return shown
}
