package catalog

import (
	"slices"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/mcp"
)

// ListReport describes one list of one server. It describes the list for clients that cannot
// answer server requests. If no such client has read the list, it describes the list that was read
// last.
type ListReport struct {
	Server, Method string
	Items          int
	Read           time.Time // time of the last reading without an error; zero for never
	// Stale says that the server's list may be different by now. Either the server has
	// announced a change, or the last reading failed and clients see the last good list.
	Stale    bool
	Reading  bool           // the list is being read now
	CutOff   bool           // the list was too long, and only its beginning is kept
	Rejected []RejectedItem // the first items that are left out or renamed, with the reason
	Failed   string         // why the last reading failed, "" if it did not fail
}

// RejectedItem is an item that clients do not see, or see under an unusual name.
type RejectedItem struct{ Name, Why string }

// Report describes the kept lists of the servers for which show returns true. They are sorted by
// server, in the order of the configuration, and then by method. If show is nil, all servers are
// included.
func (c *Catalog) Report(show Filter) []ListReport {
	var out []ListReport
	for _, u := range (View{c: c, show: show}).Servers() {
		for _, method := range []string{mcp.MethodListTools, mcp.MethodListPrompts, mcp.MethodListResources, mcp.MethodListTemplates} {
			r, items, ok := c.reportOf(method, u)
			if !ok {
				continue
			}
			if show != nil {
				kind := kindOf(method)
				r.Items = len(shownItems(show, kind, r.Server, items))
				r.Rejected = slices.DeleteFunc(r.Rejected, func(x RejectedItem) bool { return !show.Shows(kind, r.Server, x.Name) })
			}
			out = append(out, r)
		}
	}
	return out
}

// reportOf describes one list of one server, and returns its items. ok is false if nobody has
// requested the list.
func (c *Catalog) reportOf(method string, u Source) (r ListReport, items [][]byte, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	p, audience := c.reportedLocked(method, u.Name())
	if p == nil {
		return r, nil, false
	}
	r = ListReport{
		Server: u.Name(), Method: method, Items: len(p.items), Read: p.read, CutOff: p.cutOff, Failed: p.failed,
		Reading: p.reading != nil && p.reading.finished.IsZero(),
		Stale:   p.have && (!p.fresh || p.failed != ""),
	}
	if l := c.merged[mergedListKey{method, audience}]; l != nil {
		for _, x := range l.rejected {
			if x.server == r.Server {
				r.Rejected = append(r.Rejected, x.RejectedItem)
			}
		}
	}
	return r, p.items, true
}

// reportedLocked returns the one list of a server that a report describes, and the audience of that
// list. The list is nil if there is none.
func (c *Catalog) reportedLocked(method, server string) (shown *serverList, audience Audience) {
	shown = c.lists[serverListKey{method, server, Audience{}}]
	if shown != nil && (shown.have || shown.failed != "") {
		return shown, Audience{}
	}
	for key, p := range c.lists {
		if key.method == method && key.server == server && (shown == nil || p.read.After(shown.read)) {
			shown, audience = p, key.audience
		}
	}
	return shown, audience
}
