package config

import (
	"net/url"

	"github.com/dragoman-mcp/dragoman/internal/transport"
)

// OwnSignIn says whether clients sign in at our own authorization server, and which may.
type OwnSignIn struct {
	On             bool
	Known          bool     // only those whose documents Dragoman knows
	Only           []string // ids or hosts of clients; empty for all
	NoRegistration bool     // clients may not register themselves
}

// readOwnSignIn reads access.signIn and access.clients.
func (c *compiler) readOwnSignIn(o *object, s *Snapshot) {
	x := &s.Access.Own
	x.On = o.choice("signIn", []string{"none", "own"}, 0) == 1
	if m := o.object("clients"); m != nil {
		if n := m.get("allow"); n != nil && n.kind == sequenceKind {
			x.Only = m.texts("allow")
			if len(x.Only) == 0 {
				c.problem(n, m.at("allow"), "is empty, so no client could sign in", "write any, known, or a list of client ids and hosts")
			}
		} else {
			x.Known = m.choice("allow", []string{"any", "known"}, 0) == 1
		}
		dcr := true
		m.boolean("dcr", &dcr)
		x.NoRegistration = !dcr
		m.done()
	}
	if !x.On {
		return
	}
	n := o.get("signIn")
	if u, err := url.Parse(s.PublicURL); s.PublicURL != "" && (err != nil || u.Scheme != "https" && !transport.IsLoopback(u.Hostname())) {
		c.problem(n, o.at("signIn"), "is own, which needs https", "set "+join(c.home, "publicURL")+" to an https URL")
	}
	switch {
	case s.AllowUnauthenticatedNetworkAccess:
		c.warning(n, o.at("signIn"), "has no effect, because everybody is let in", "remove allowUnauthenticatedNetworkAccess")
	case s.openToAll():
		c.warning(n, o.at("signIn"), "has no effect, because everybody is let in at "+s.Listen, "add "+o.at("loopback")+": keys")
	}
}

// ownSignIn prints how clients sign in here.
func (p *printer) ownSignIn(x *OwnSignIn) {
	if x.On {
		p.text(2, "signIn", "own")
	}
	if !x.Known && len(x.Only) == 0 && !x.NoRegistration {
		return
	}
	p.line(2, "clients:")
	switch {
	case x.Known:
		p.text(3, "allow", "known")
	case len(x.Only) > 0:
		p.list(3, "allow", x.Only)
	}
	if x.NoRegistration {
		p.line(3, "dcr: false")
	}
}

// any reports whether there is something to print.
func (x *OwnSignIn) any() bool { return x.On || x.Known || len(x.Only) > 0 || x.NoRegistration }
