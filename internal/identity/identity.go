// Package identity represents who makes a request. A Principal is created when a
// request arrives and is passed along with it. Later layers need not know how the
// client connected.
//
// A principal has two identifiers. Subject is the owner of credentials, sealed state
// and kept tasks. Seat is the unit for sessions, pools and quotas. One person with two
// keys is one subject with two seats.
//
// The package does no I/O, checks no credentials and does not know MCP. It is below
// mcp, which refers to it.
package identity

import "time"

// Principal is the caller of a request. It is immutable, so all requests of one client
// may share it. The zero value is an unknown caller.
type Principal struct {
	Subject string    // the owner of credentials, seals and tasks
	Seat    string    // the unit for sessions, pools and quotas
	Via     string    // how the caller authenticated: none, key, token …; for logs and events
	Until   time.Time // when the credential ends; zero for never
}

// Local is the principal of callers that need not authenticate: the one user of a
// loopback address or a pipe.
var Local = &Principal{Subject: "local", Seat: "local", Via: "none"}

// Named returns a principal whose subject and seat are the same. It is nil for "".
func Named(subject string) *Principal {
	if subject == "" {
		return nil
	}
	return &Principal{Subject: subject, Seat: subject}
}

// Key returns what the principal's objects are bound to. It is "" for nil and for
// Local: without authentication there is nothing to bind to, and task ids stay valid
// after this process ends.
func (p *Principal) Key() string {
	if p == nil || p == Local {
		return ""
	}
	return p.Subject
}

// SeatKey is Key for sessions, pools and quotas.
func (p *Principal) SeatKey() string {
	if p == nil || p == Local {
		return ""
	}
	return p.Seat
}
