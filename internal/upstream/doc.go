// Package upstream manages one server. It starts the server or connects to it, negotiates a
// revision, and keeps as many sessions as the isolation of its clients requires. It receives
// the server's notifications and restarts the server when it exits.
//
// A modern server has no sessions, so all clients of one credential scope share one link. A
// legacy server gets its client's capabilities at initialize. So there is a pool of sessions
// for each set of capabilities and each principal. The home session of a pool keeps state
// between calls. A call during which the server may send requests needs an exclusive session if
// the requests could not be attributed otherwise. Nothing is started before it is needed. A
// call is retried only if it certainly did not arrive or is safe to repeat.
//
// The package knows neither the names that clients see nor the routes. Packages bridge, catalog
// and gateway use it through interfaces of their own. Everything is safe for concurrent use.
package upstream
