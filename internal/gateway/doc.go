// Package gateway answers clients' requests. For each it resolves a route (which server,
// under which name, through which view of the lists), then runs it, and publishes how it
// went. It also passes servers' notifications on to the clients that want them.
//
// Single is one server, names untouched; Merged is many behind one endpoint, with names of
// the form server__tool. Both are downstream.Handlers and differ in how they resolve. The
// lists and who sees what of them are package catalog's, how a call crosses between the
// eras is package bridge's; servers are reached through the interface Upstream. Drain ends
// listens, Close also waits for readings of lists. Everything exported is safe for
// concurrent use.
package gateway
