package gateway

import (
	"time"

	"github.com/dragoman-mcp/dragoman/internal/mcp"
)

// ListReport describes one list of one server. It is the list for clients that cannot
// be asked. If no such client has read it, it is the list that was read last.
type ListReport struct {
	Server, Method string
	Items          int
	Read           time.Time // when it was last read well; zero for never
	// Stale says that the server may list something else by now: it has said so, or
	// the last reading has failed, and what clients see is the last good list.
	Stale    bool
	Reading  bool   // it is being read
	CutOff   bool   // the server's list had no end, and only its beginning is kept
	Collided []Odd  // what is not offered as it is, with the reason; a few of it
	Failed   string // why the last reading failed, "" for nothing
}

// Odd is an item that is left out of what clients see, or offered under another
// name than theirs would be.
type Odd struct{ Name, Why string }

// report returns what is kept of the servers' lists, by server in the order of the
// configuration and by method.
func (c *catalog) report() []ListReport {
	c.mu.Lock()
	defer c.mu.Unlock()
	var out []ListReport
	for _, u := range c.servers {
		for _, method := range []string{mcp.MethodListTools, mcp.MethodListPrompts, mcp.MethodListResources, mcp.MethodListTemplates} {
			p, audience := c.shownLocked(method, u.Name())
			if p == nil {
				continue
			}
			r := ListReport{Server: u.Name(), Method: method, Items: len(p.items), Read: p.read, CutOff: p.cutOff, Failed: p.failed}
			r.Reading = p.reading != nil && p.reading.finished.IsZero()
			r.Stale = p.have && (!p.fresh || p.failed != "")
			if e := c.editions[mergedListKey{method, audience}]; e != nil {
				for _, x := range e.odd {
					if x.server == u.Name() {
						r.Collided = append(r.Collided, x.Odd)
					}
				}
			}
			out = append(out, r)
		}
	}
	return out
}

// shownLocked returns the part that stands for all audiences in a report, nil for
// none, and its audience.
func (c *catalog) shownLocked(method, server string) (shown *serverList, audience string) {
	shown = c.parts[serverListKey{method, server, everybody.key}]
	if shown != nil && (shown.have || shown.failed != "") {
		return shown, everybody.key
	}
	for key, p := range c.parts {
		if key.method == method && key.server == server && (shown == nil || p.read.After(shown.read)) {
			shown, audience = p, key.audience
		}
	}
	return shown, audience
}
