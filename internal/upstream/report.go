package upstream

import (
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/mcp"
)

// Report is all that can be told of a server to whoever looks after it. Nothing of
// it is a secret by itself, but Principal names people, and the texts repeat what a
// server or its program has said.
type Report struct {
	Status
	Transport string // "stdio", "http", "sse" or "inmem"; "" while it is not found out
	Isolation Isolation
	Restarts  int       // how often it came up again after it had been up
	Retry     time.Time // it is not opened before; zero for at once
	Fault     Fault     // the last that went wrong; the zero Fault for nothing
	Trace     []string  // the last handshake, a line for each step
	TracedAt  time.Time
	Sessions  []SessionReport
	LeftOut   map[string]string // tools that clients do not see, and why
	Opening   int               // sessions that are being opened
	Hearers   int               // clients that stand at it or listen
	// Listen is what the one subscriptions/listen asks for, nil where there is none.
	Listen *mcp.SubscriptionFilter
}

// Fault is something that went wrong.
type Fault struct {
	Text string
	At   time.Time
}

// Role says what a session is for.
type Role string

// The roles of a session.
const (
	Home Role = "home" // holds what the server remembers of its clients
	Lane Role = "lane" // for calls in which the server may ask something
	Once Role = "call" // for one call
	Link Role = "link" // to a modern server, which has no sessions
)

// SessionReport is one session with a server.
type SessionReport struct {
	Principal    string   // whose it is; "" for nobody in particular
	Capabilities []string // what the server was told that its client can do, by name
	Role         Role
	Revision     mcp.Revision
	PID          int // of the child, 0 for none
	Opened       time.Time
	Running      int       // calls in flight
	Idle         time.Time // since when nobody uses it; zero while somebody does
	Hearers      int       // clients that stand at it
	Watched      int       // resources that it was asked to watch
}

// maxTold bounds the names of capabilities that are told of one client.
const maxTold = 16

// Report returns how the server is. Sessions are in a settled order: by principal
// and capabilities, the home session before its lanes.
func (u *Upstream) Report() Report {
	r := Report{Status: u.Status(), Isolation: u.spec.Isolation}
	if r.Isolation == "" {
		r.Isolation = Auto
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	switch {
	case u.spec.Pipe != nil:
		r.Transport = "inmem"
	case u.spec.Command != "":
		r.Transport = "stdio"
	case u.sse || u.spec.Kind == "sse":
		r.Transport = "sse"
	case u.up || u.spec.Kind == "http":
		r.Transport = "http"
	}
	r.Restarts = max(0, u.starts-1)
	if time.Now().Before(u.notBefore) {
		r.Retry = u.notBefore
	}
	r.Fault, r.TracedAt = u.fault, u.tracedAt
	if len(u.trace) > 0 {
		r.Trace = strings.Split(strings.TrimSuffix(u.trace.String(), "\n"), "\n")
	}
	for _, l := range u.linksLocked() {
		x := l.session.reportLocked(Link)
		x.Principal = l.scope
		r.Sessions = append(r.Sessions, x)
	}
	for _, key := range slices.Sorted(maps.Keys(u.pools)) {
		p := u.pools[key]
		r.Hearers += len(p.standing)
		if p.opening != nil {
			r.Opening++
		}
		watched := map[string]bool{}
		for _, w := range p.standing {
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
			x := s.reportLocked(role)
			x.Principal, x.Capabilities = p.seat, capabilityNames(p.declared)
			if i == 0 {
				x.Hearers, x.Watched = len(p.standing), len(watched)
			}
			r.Sessions = append(r.Sessions, x)
		}
	}
	for _, s := range u.leaving {
		role := Lane
		if s.pool == nil {
			role = Link
		}
		r.Sessions = append(r.Sessions, s.reportLocked(role))
	}
	r.LeftOut = maps.Clone(u.leftOut)
	if l := u.links[""]; l != nil && l.listen != nil && !l.listen.refused {
		all := u.unionLocked(l)
		r.Listen = &all
	}
	return r
}

func (s *session) reportLocked(role Role) SessionReport {
	x := SessionReport{Role: role, Revision: s.server.Revision(), Opened: s.opened, Running: s.server.Running()}
	if s.child != nil {
		x.PID = s.child.PID()
	}
	if s.users == 0 {
		x.Idle = s.idle
	}
	return x
}

// capabilityNames returns the names of what a client declares, sorted. They are a
// stranger's words, so only a few are told, and only short and plain ones.
func capabilityNames(caps []byte) []string {
	var names []string
	for m := range jsonrpc.Members(caps, jsonrpc.Whole(caps)) {
		name, ok := jsonrpc.Text(caps, m.Key)
		if ok && len(name) <= 32 && !strings.ContainsFunc(name, func(r rune) bool { return r < ' ' || r > '~' }) && len(names) < maxTold {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// faultLocked keeps what went wrong last.
func (u *Upstream) faultLocked(text string) { u.fault = Fault{Text: text, At: time.Now()} }
