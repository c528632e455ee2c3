// Package gateway is the heart of Dragoman: it stands between the conversations
// with clients and the servers behind, and knows which server a name belongs to,
// how a call, a question and a notice cross from one era to the other, and what a
// client is told that we are.
//
// Single is one server, names untouched; Merged is many behind one endpoint, with
// names of the form server__tool. Both are downstream.Handlers. The package does no I/O of
// its own: servers are reached through the interface Upstream. A call that waits
// for its client, a task that is attended and the reading of a list outlive the
// request they began with; Close and Drain wait for them. Everything
// exported is safe for concurrent use.
package gateway
