// Package gateway answers clients' requests. For each request it resolves a route (which
// server, under which name, through which view of the lists), runs it, and publishes the
// outcome. It also forwards servers' notifications to the clients that want them.
//
// Single is one server with its names unchanged; Merged is many servers behind one
// endpoint, with names of the form server__tool. Both are downstream.Handlers and differ in
// how they resolve. Package catalog has the lists and the filters; package bridge carries
// calls across the eras; servers are reached through the interface Upstream. Drain ends
// listens; Close also waits for reads of lists. Everything exported is safe for concurrent
// use.
package gateway
