// Package policy decides which calls may be sent to servers. A Step sees each call before it is
// sent, and the result of the call afterwards. A Chain is a list of steps.
//
// The gateway runs the chain after it has found the server of a call and before it sends anything.
// So a step sees the caller, the server and the tool, and can refuse the call. Code that must see
// every call, such as an audit trail, should be a step, because a subscriber of events may miss
// events. The package does no I/O and starts no goroutine. An empty Chain has no cost.
package policy
