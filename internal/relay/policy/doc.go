// Package policy decides which calls may be sent to servers. A Step sees each call before it is
// sent, and the result of the call afterwards. A Chain is a list of steps. An Auditor stands around
// the chain, and hears of every request and of what became of it.
//
// The gateway runs the chain after it has found the server of a call and before it sends anything.
// So a step sees the caller, the server and the tool, and can refuse the call, or ask the person
// behind the client first. A call whose name leads nowhere never reaches a step. That's why an audit
// trail is an Auditor; a subscriber of events wouldn't do either, because it may miss events.
//
// Rules say which items somebody may use; a project makes both a step and the filter of its lists from
// them. The package does no I/O and starts no goroutine. An empty Chain and a nil Auditor cost nothing.
package policy
