// Package identity represents the caller of a request. A Principal is created when a request
// arrives, and is passed on with the request. So the code that handles the request does not have to
// know how the client connected.
//
// A principal has two identifiers. Subject identifies the owner of credentials. Seat identifies whose
// sessions, pools, quotas, request states and tasks a request uses. A person with two API keys is one
// subject with two seats, of which one may be for less than the other.
//
// The package does no I/O, checks no credentials and does not depend on MCP. Package mcp imports
// it.
package identity

import (
	"net/http"
	"time"
)

// Principal is the caller of a request. A Principal is immutable, so all requests of one client may
// share it. The zero value is an unknown caller.
type Principal struct {
	Subject string    // the owner of credentials
	Seat    string    // identifies whose sessions, pools, quotas, request states and tasks are used
	Name    string    // what people call the caller; "" if nobody has said
	Via     string    // how the caller authenticated, such as none, key or token; for logs and events
	Until   time.Time // the time when the credential expires; zero means that the credential does not expire
	Run     string    // where the caller has started a run, Console or API, or Look; "" for clients of the MCP endpoints
}

// These are the values of Principal.Run.
const (
	Console = "console"
	API     = "api"
	// Look says that it isn't the caller who is there, but an admin who wants to know what the caller gets. Such a
	// client only lists; see runtime.Project.Look.
	Look = "look"
)

// Local is the principal of callers that do not have to authenticate.
var Local = &Principal{Subject: "local", Seat: "local", Via: "none"}

// The local user who has started a run.
var (
	localConsole = &Principal{Subject: Local.Subject, Seat: Local.Seat, Via: Local.Via, Run: Console}
	localAPI     = &Principal{Subject: Local.Subject, Seat: Local.Seat, Via: Local.Via, Run: API}
)

// IsLocal reports whether p is Local, or what Local.Running returns. Nobody else can be.
func (p *Principal) IsLocal() bool {
	return p != nil && (p == Local || p == localConsole || p == localAPI)
}

// Looks reports whether an admin looks as p; see Look.
func (p *Principal) Looks() bool { return p != nil && p.Run == Look }

// Running returns p as the caller of a run that was started at a place, Console or API, or as the one as whom an admin
// looks. It returns nil for nil, and also if an admin would look as the local user: what nobody is asked for isn't
// anybody's to lend.
func (p *Principal) Running(at string) *Principal {
	switch {
	case p == nil, p.IsLocal() && at == Look:
		return nil
	case p.IsLocal() && at == Console:
		return localConsole
	case p.IsLocal():
		return localAPI
	}
	x := *p
	x.Run = at
	return &x
}

// Anyone answers for an HTTP endpoint that is open: whoever asks is [Local]. An endpoint with no
// function at all refuses everybody, so that a forgotten one opens nothing.
func Anyone(*http.Request) (*Principal, error) { return Local, nil }

// Named returns a principal whose Subject and Seat are both subject. It returns nil if subject is
// "".
func Named(subject string) *Principal {
	if subject == "" {
		return nil
	}
	return &Principal{Subject: subject, Seat: subject}
}

// Key returns the key that identifies the person or the program, as people see it. The key is "" for nil
// and for Local.
func (p *Principal) Key() string {
	if p == nil || p.IsLocal() {
		return ""
	}
	return p.Subject
}

// SeatKey returns the key for sessions, pools, quotas, request states and tasks. It is "" for nil and for
// Local.
func (p *Principal) SeatKey() string {
	if p == nil || p.IsLocal() {
		return ""
	}
	return p.Seat
}
