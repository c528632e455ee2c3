package upstream

import (
	"time"

	"github.com/dragoman-mcp/dragoman/internal/base/failure"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
)

// State describes a server in one word.
type State string

// These are the values of State.
const (
	Idle     State = "idle"     // the server is not open; the next call opens it
	Starting State = "starting" // the server is being opened
	Ready    State = "ready"
	// Broken means that the last open failed, or that the server is kept open and has ended; see
	// Status.Reason. A new attempt does not change the state until it succeeds.
	Broken State = "failed"
	// Unresponsive means that the server does not answer a ping, or does not read its input; see
	// Status.Reason. Dragoman pings a server if calls are waiting and no message arrives. If
	// Spec.Ping is set, it also pings an idle server.
	Unresponsive State = "unresponsive"
	// Stopped means that an operator has stopped the server. Only Start, Restart and Probe open
	// it again.
	Stopped State = "stopped"
)

// Status describes the state of a server for users.
type Status struct {
	Name  string
	State State
	// Since is when the state began. A server that is ready stays in this state while sessions
	// for other clients are opened and closed.
	Since  time.Time
	Reason string // one sentence that explains the state, such as why the server failed; may be ""
	// Failure describes Reason in more detail. It may be nil. It must not be modified.
	Failure  *failure.Failure
	Attempts int       // number of consecutive failures; 0 if the server is ready or stopped
	Retry    time.Time // when the next attempt in the background begins, or else when calls may open the server again; zero for neither
	Revision mcp.Revision
	Sessions int
	Running  int // number of calls in flight
	// Unasked counts the answers that match no open request. Odd counts the messages that could not
	// be used, except those that Unasked and Late count. Broadcasts says that the server sends
	// messages for one session to all of its sessions.
	Unasked    int64
	Odd        int64
	Late       int64 // progress notifications for requests that had already ended
	Broadcasts bool
	// Readiness is the result of Adapter.Readiness, or "" without an adapter. Version and Cause
	// are the results of Adapter.Negotiated.
	Readiness, Version, Cause string
	// Handshakes is the result of Adapter.Handshakes, or nil without an adapter.
	Handshakes map[[2]string]uint64
}

// Status returns the current state of the server.
func (u *Upstream) Status() Status {
	var s Status
	var adapter Adapter
	u.update(func(st *state) { s, adapter = u.status(st), st.dial.adapter })
	if adapter != nil {
		s.Readiness, s.Handshakes = adapter.Readiness(), adapter.Handshakes()
		s.Version, s.Cause = adapter.Negotiated()
	}
	return s
}

func (u *Upstream) status(st *state) Status {
	s := st.health.status
	s.Late = u.sessions.LateProgress()
	s.Unasked, s.Odd, s.Broadcasts = u.sessions.Unasked(), u.sessions.Odd(), u.sessions.Broadcasts()
	if s.State != Ready && s.State != Stopped {
		s.Attempts = st.health.backoff.Failures()
		s.Retry = st.health.nextTry
		if s.Retry.IsZero() && time.Now().Before(st.health.notBefore) {
			s.Retry = st.health.notBefore
		}
	}
	if s.State == Starting && u.spec.Runner != "" && time.Since(s.Since) >= slowRunner {
		s.Reason = u.spec.downloading()
	}
	for _, x := range st.pools.all() {
		s.Sessions++
		s.Running += x.server.Running()
	}
	st.pools.reportSolo(&s)
	st.pools.reportRoots(&s)
	u.watchdog.reportHung(st, &s)
	u.watchdog.reportStalls(st, &s)
	return s
}

// slowRunner is how long a package runner takes to start a server whose package it has already.
const slowRunner = 3 * time.Second

// longDownload is when we tell a client's user about a download; see dialer.noteDownload.
const longDownload = 10 * time.Second

// downloading says what a package runner probably does if the server has not answered after slowRunner.
func (s *Spec) downloading() string { return s.Runner + " may be downloading the package" }

func (h *healthState) setState(word State, reason string) {
	if h.status.State != word || h.status.Reason != reason {
		h.status.State, h.status.Reason, h.status.Since = word, reason, time.Now()
	}
	h.status.Failure = nil
}

// setFailed sets the state, with the failure f as its reason.
func (h *healthState) setFailed(word State, f *failure.Failure) {
	h.setState(word, f.Sentence)
	h.status.Failure = f
}
