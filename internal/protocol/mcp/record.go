package mcp

import "time"

// Record gets the steps of one call, for people who look at the call later. A Call has at most one
// Record. The methods must not block. Several goroutines may call them, but Routed is called first,
// and only by one goroutine.
type Record interface {
	// Routed is called when the server of the call is known, before a request is sent to the
	// server. The attempt has no server if the answer comes from several servers or from none, or
	// if the call is refused.
	Routed(a *Attempt)
	// Resumed is called when the client retries an earlier call with answers to server requests. c
	// is the retry, and number is the number of the earlier call.
	Resumed(c *Call, number uint64)
	// Answered is called before the answer is encoded for the client.
	Answered(a *Attempt, how Ending)
}

// Ending describes how a call ended, for a Record.
type Ending struct {
	Reply   *Reply // nil if Dragoman answers with its own error
	To      Revision
	Outcome Outcome
	Cause   string // why Dragoman answered with an error; see Error.Cause
	Code    int64  // code of the error that the client gets, 0 for a result
	Took    time.Duration
}

// Resume makes c a continuation of the earlier call that has the given number. Then the events of
// both calls have the same number, and a Record treats both as one call.
func (c *Call) Resume(number uint64) {
	if number == c.Number {
		return
	}
	c.Number = number
	if c.Record != nil {
		c.Record.Resumed(c, number)
	}
}
