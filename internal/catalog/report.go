package catalog

import (
	"slices"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/mcp"
)

// ListReport describes one list of one server. This is the list for clients that cannot answer
// server requests. If the catalog has not read that list, it is the list that was read last for
// other clients.
type ListReport struct {
	Server, Method string
	Items          int
	Read           time.Time // when the last successful reading ended; zero if there was none
	// Stale is true if the server's current list may differ from this list. Either the server has
	// announced a change, or the last reading failed and clients see the last list that was read.
	Stale    bool
	Reading  bool           // true while the catalog reads the list
	CutOff   bool           // true if the list was too long, so that the catalog keeps only its beginning
	Rejected []RejectedItem // the first items that clients do not see or see under an unusual name, each with the reason
	Failed   string         // why the last reading failed; "" if it did not fail
}

// RejectedItem is an item that clients do not see, or that they see under an unusual name. Why is
// the reason.
type RejectedItem struct{ Name, Why string }

// Report describes the lists that the catalog keeps. show selects the servers and items; nil
// selects all. The reports are in the order of the servers in the configuration, and for each
// server in the order of the methods for tools, prompts, resources and templates.
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

// reportOf returns the report about one list of one server, and the items of the list. ok is false
// if the list was never requested.
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

// reportedLocked returns the list that describes a server in a report, and the audience of this
// list. If no audience has a list of the server, shown is nil.
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
