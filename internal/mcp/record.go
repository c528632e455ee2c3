package mcp

import "time"

// Record follows one call for people who read about it later. A Call has one or nil. The
// methods must not block. They may be called by several goroutines, except Routed, which
// is called first.
type Record interface {
	// Routed is called when the server of the call is known, before anything is sent to it.
	// The attempt has no server if none or several answer, or if the call is refused.
	Routed(a *Attempt)
	// Resumed says that the call continues the one that had the number before: its client
	// has come back with answers.
	Resumed(c *Call, number uint64)
	// Answered is called with the answer, before it is encoded for the client.
	Answered(a *Attempt, how Ending)
}

// Ending is how a call ended, for a Record.
type Ending struct {
	Reply   *Reply // nil for an error of ours
	To      Revision
	Outcome Outcome
	Cause   string // of an error of ours; see Error.Cause
	Code    int64  // of the error that the client gets, 0 for a result
	Took    time.Duration
	Trace   string // the client's W3C trace id
}

// Resume makes c continue the call with a number: their events have one number, and they
// are one call in a Record.
func (c *Call) Resume(number uint64) {
	if number == c.Number {
		return
	}
	c.Number = number
	if c.Record != nil {
		c.Record.Resumed(c, number)
	}
}
