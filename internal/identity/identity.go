// Package identity represents the caller of a request. A Principal is created when a request
// arrives, and is passed on with the request. So later layers do not have to know how the client
// connected.
//
// A principal has two identifiers. Subject identifies the owner of credentials, encrypted request
// state and stored tasks. Seat identifies the unit for sessions, pools and quotas. A person with
// two API keys is one subject with two seats.
//
// The package does no I/O, checks no credentials and does not know MCP. Package mcp imports
// it.
package identity

import "time"

// Principal is the caller of a request. It is immutable, so all requests of one client
// may share it. The zero value is an unknown caller.
type Principal struct {
	Subject string    // the owner of credentials, encrypted request state and tasks
	Seat    string    // the unit for sessions, pools and quotas
	Via     string    // how the caller authenticated, such as none, key or token; for logs and events
	Until   time.Time // the time when the credential expires; zero means that it does not expire
}

// Local is the principal of callers that do not have to authenticate. Such a caller is the only
// user of a loopback address or a pipe.
var Local = &Principal{Subject: "local", Seat: "local", Via: "none"}

// Named returns a principal with the same subject and seat. It returns nil for "".
func Named(subject string) *Principal {
	if subject == "" {
		return nil
	}
	return &Principal{Subject: subject, Seat: subject}
}

// Key returns the key to which the principal's objects are bound. It is "" for nil and for
// Local. Task ids without a key stay valid after this process ends.
func (p *Principal) Key() string {
	if p == nil || p == Local {
		return ""
	}
	return p.Subject
}

// SeatKey returns the key for sessions, pools and quotas, with the same rules as Key.
func (p *Principal) SeatKey() string {
	if p == nil || p == Local {
		return ""
	}
	return p.Seat
}
