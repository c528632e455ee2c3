// Package gateway answers clients' requests: it knows which server a name belongs to, joins
// lists, passes notifications on, and says what a client is told that we are.
//
// Single is one server, names untouched; Merged is many behind one endpoint, with names of
// the form server__tool. Both are downstream.Handlers. How a call crosses between the eras
// is package bridge's; servers are reached through the interface Upstream. The reading of a
// list outlives the request that it began with: Close and Drain wait for it. Everything
// exported is safe for concurrent use.
package gateway
