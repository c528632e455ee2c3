// Package upstream manages one server. It starts or dials the server, negotiates a
// revision, keeps as many sessions as its clients need kept apart, receives its
// notifications, and restarts it when it exits.
//
// A modern server has no sessions, so one link per credential scope serves all clients. A
// legacy server gets its client's capabilities at initialize, so there is a pool of
// sessions for each set of capabilities and each principal: a home session, which keeps
// state between calls, and exclusive sessions for calls whose server requests could
// otherwise not be attributed. Nothing is started before it is needed. A call is retried
// only if it provably did not arrive or is safe to repeat.
//
// The package does not know names or routes; the gateway uses it through an interface of
// its own. Everything is safe for concurrent use.
package upstream
