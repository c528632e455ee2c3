package upstream

import (
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/base/failure"
	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
	"github.com/dragoman-mcp/dragoman/internal/relay/handshake"
)

// Report describes the state of a server for operators. It contains no secrets. But Principal may
// identify people, and texts may repeat output of the server.
type Report struct {
	Status
	Transport string // "stdio", "http", "sse" or "inmem"; "" if not yet known
	Isolation Isolation
	Restarts  int             // number of starts after the first one
	Fault     Fault           // the last fault; the zero Fault if there was none
	Trace     []string        // the last handshake, one line per step
	Steps     handshake.Trace // the last handshake with its messages; must not be modified
	TracedAt  time.Time
	Sessions  []SessionReport
	// LeftOut has the items that clients do not see: by the method of the list and the name of the
	// item, with the reason as a clause.
	LeftOut map[string]map[string]string
	Opening int // number of sessions that are being opened
	Hearers int // number of subscribers
	// Listen is the filter of the listen in the credential scope "", or nil if there is no listen.
	Listen *mcp.SubscriptionFilter
}

// Fault describes a failure of the server and when it happened.
type Fault struct {
	Text    string
	At      time.Time
	Failure *failure.Failure // the failure whose sentence is Text; nil for the zero Fault
}

// same reports whether the failure g repeats the fault f. It compares all values in the log record
// except the evidence, which may contain times and process ids.
func (f Fault) same(g *failure.Failure) bool {
	return f.Failure != nil && f.Failure.Class == g.Class && f.Failure.Cause == g.Cause && f.Failure.Status == g.Status && f.Text == g.Sentence && f.Failure.Action == g.Action
}

// Role says what a session is used for.
type Role string

// These are the roles of a session.
const (
	Home Role = "home" // the session that holds the server's state for the clients of a pool
	Lane Role = "lane" // an exclusive session of a pool, for calls during which the server may send requests
	Once Role = "call" // a session for one call
	Link Role = "link" // the connection to a modern server, which has no sessions
)

// SessionReport describes one session with a server.
type SessionReport struct {
	Principal    string   // the seat of the principal, or the credential scope of a link; "" for anonymous clients
	Capabilities []string // names of the capabilities that were declared to the server
	Role         Role
	Revision     mcp.Revision
	PID          int // process id of the child, 0 for none
	Opened       time.Time
	Running      int       // number of calls in flight
	Idle         time.Time // time of the last use; zero while in use
	Hearers      int       // number of subscribers
	Watched      int       // number of watched resources
}

// maxShownNames bounds the capability names in one SessionReport.
const maxShownNames = 16

// Report returns the state of the server. Report.Sessions begins with the links, sorted by
// credential scope. The sessions of each pool follow, with the home session first. Sessions that
// are out of service come last.
func (u *Upstream) Report() Report {
	r := Report{Status: u.Status(), Isolation: u.spec.Isolation}
	if r.Isolation == "" {
		r.Isolation = Auto
	}
	u.update(func(st *state) {
		r.Transport = u.transport(st)
		r.Restarts = max(0, st.health.starts-1)
		r.Fault, r.Steps, r.TracedAt = st.health.fault, st.dial.trace, st.dial.tracedAt
		u.reportSessions(st, &r)
		r.LeftOut = maps.Clone(st.lists.leftOut) // leaveOut replaces the maps in it and never changes them
		if l := st.pools.links[""]; l != nil && l.listen != nil && !l.listen.refused {
			all := u.hub.union(st, l)
			r.Listen = &all
		}
	})
	if len(r.Steps) > 0 {
		r.Trace = strings.Split(strings.TrimSuffix(r.Steps.String(), "\n"), "\n")
	}
	return r
}

// transport returns the value of Report.Transport.
func (u *Upstream) transport(st *state) string {
	switch {
	case u.spec.Pipe != nil:
		return "inmem"
	case u.spec.Command != "":
		return "stdio"
	case st.dial.sse || u.spec.Kind == "sse":
		return "sse"
	case st.health.up || u.spec.Kind == "http":
		return "http"
	}
	return ""
}

func (u *Upstream) reportSessions(st *state, r *Report) {
	for _, l := range st.pools.openLinks() {
		x := l.session.report(Link)
		x.Principal = l.scope
		r.Sessions = append(r.Sessions, x)
	}
	for _, key := range slices.Sorted(maps.Keys(st.pools.byKey)) {
		p := st.pools.byKey[key]
		r.Hearers += len(p.subscribers)
		if p.opening != nil {
			r.Opening++
		}
		watched := map[string]bool{}
		for _, w := range p.subscribers {
			for uri := range w.want.URIs {
				watched[uri] = true
			}
		}
		for i, s := range p.sessions {
			role := Lane
			switch {
			case u.spec.Isolation == PerCall:
				role = Once
			case i == 0:
				role = Home
			}
			x := s.report(role)
			x.Principal, x.Capabilities = p.seat, capabilityNames(p.declared)
			if i == 0 {
				x.Hearers, x.Watched = len(p.subscribers), len(watched)
			}
			r.Sessions = append(r.Sessions, x)
		}
	}
	for _, s := range st.pools.leaving {
		role := Lane
		if s.pool == nil {
			role = Link
		}
		r.Sessions = append(r.Sessions, s.report(role))
	}
}

func (s *session) report(role Role) SessionReport {
	x := SessionReport{Role: role, Revision: s.server.Revision(), Opened: s.opened, Running: s.server.Running()}
	if s.child != nil {
		x.PID = s.child.PID()
	}
	if s.users == 0 {
		x.Idle = s.idle
	}
	return x
}

// capabilityNames returns the sorted names of a client's capabilities. Clients choose the names
// freely, so only a few short printable names are returned.
func capabilityNames(caps []byte) []string {
	var names []string
	for m := range jsonrpc.Members(caps, jsonrpc.Whole(caps)) {
		name, ok := jsonrpc.Text(caps, m.Key)
		if ok && len(name) <= 32 && !strings.ContainsFunc(name, func(r rune) bool { return r < ' ' || r > '~' }) && len(names) < maxShownNames {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// setFault stores f as the last fault.
func (h *healthState) setFault(f *failure.Failure) {
	h.fault = Fault{Text: f.Sentence, At: time.Now(), Failure: f}
}
