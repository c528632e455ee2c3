// Package identity says who makes a request. A Principal is made where a request comes
// in and is passed along with it; later layers do not ask how the client came in.
//
// A principal has two names, for two questions. Subject answers who owns credentials,
// sealed state and kept tasks. Seat answers who uses up sessions, pools and quotas. One
// person with two keys is one subject at two seats.
//
// The package does no I/O, checks no credential and does not know MCP. It lies below
// mcp, which points to it.
package identity

import "time"

// Principal is who asks. It is not written to after it was made, so it may be shared by
// all requests of one client. The zero value is nobody in particular.
type Principal struct {
	Subject string    // whose things are: credentials, seals, tasks
	Seat    string    // who through what: sessions, pools and quotas belong to it
	Via     string    // how they came in: none, key, token …; for logs and events
	Until   time.Time // when the credential ends; zero for never
}

// Local is everybody who may call without saying who they are: the one person of a
// loopback address or a pipe.
var Local = &Principal{Subject: "local", Seat: "local", Via: "none"}

// Named returns the principal of somebody who has one way in: one subject at one seat. It
// is nil for "".
func Named(subject string) *Principal {
	if subject == "" {
		return nil
	}
	return &Principal{Subject: subject, Seat: subject}
}

// Key returns what things of the principal are bound to. It is "" for nil and for Local:
// nobody had to say who they are, so there is nothing to bind to, and what is given out
// outlives this process.
func (p *Principal) Key() string {
	if p == nil || p == Local {
		return ""
	}
	return p.Subject
}

// SeatKey is Key for what takes up room.
func (p *Principal) SeatKey() string {
	if p == nil || p == Local {
		return ""
	}
	return p.Seat
}
