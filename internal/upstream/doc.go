// Package upstream looks after one server: it starts or dials it, opens a
// conversation in whatever revision it speaks, keeps as many sessions as its
// clients need kept apart, hears its notices, and brings it back when it dies.
//
// A modern server has no sessions, so one link serves everybody. A legacy one is
// told at initialize what its client can do, so there is a pool of sessions for
// each set of capabilities and each principal: a home session, in which state
// survives between calls, and lanes beside it where a question could otherwise
// not be attributed. Nothing is started before it is needed. A call is sent again
// only when it provably did not arrive or does no harm twice.
//
// The package decides nothing about names or routes; the gateway uses it through
// an interface of its own. All of it is safe for concurrent use.
package upstream
