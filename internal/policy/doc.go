// Package policy says which calls may go out, and hears how they ended. A Step looks at one
// call before anything is sent and after its answer; a Chain is several steps in order.
//
// The gateway runs the chain between finding out where a call goes and sending it, so a step
// sees who asks, which server and which tool, and can refuse the call before a byte leaves.
// Code that must see every call, such as an audit trail, is a step: subscribers of events may
// miss some. The package does no I/O and starts no goroutine. An empty Chain costs nothing.
package policy
