// Package upstream manages one server. It starts the server or connects to it, negotiates a revision,
// opens as many sessions as are needed to isolate its clients, passes on its notifications, and
// restarts it when it exits.
//
// A modern server has no sessions, so all clients of one credential scope share one link. A legacy
// server keeps the capabilities of its client for a whole session, so each combination of capabilities
// and principal has its own pool of sessions. The home session of a pool keeps state between calls; a
// call during which the server may ask something may need a session for itself. A call is sent again
// only if the server certainly didn't execute it, or if it's safe to repeat.
//
// Upstream is a façade. The broker lends sessions to calls, the dialer opens them, the healer knows
// how the server is and opens it again, the watchdog finds sessions that hang, the hub keeps
// subscriptions, the lister reads lists, and the operator stops and restarts. What they know of the
// server and its sessions stands in one struct, state, behind one door, core.update: one lock and not
// one for each part, because what must hold spans the parts. Whoever has a *state is under this lock,
// and does nothing there that may block; state.later leaves it for after the unlock. settle and check
// (invariants.go) say what must hold.
//
// The package knows neither routes nor the names that clients see: bridge, catalog and gateway use it
// through interfaces of their own. Everything is safe for concurrent use.
package upstream
