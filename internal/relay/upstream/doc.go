// Package upstream manages one server. It starts the server or connects to it, negotiates a
// revision, and opens as many sessions as are needed to isolate its clients. It receives the
// server's notifications and restarts the server when the server exits.
//
// A modern server has no sessions, so all clients of one credential scope share one link. A legacy
// server gets the capabilities of its client at initialize, and keeps them for the session. So each
// combination of capabilities and principal has its own pool of sessions. The home session of a
// pool keeps state between calls. If the server may send requests during a call, the call may need
// an exclusive session, so that the requests can be attributed to the call. A server
// that is not kept open is started only when it is needed. A call is sent again only if the
// server certainly did not execute it, or if the call is safe to repeat.
//
// The package does not handle routes or the names that clients see. Packages bridge, catalog and
// gateway use the package through their own interfaces. Everything is safe for concurrent use.
package upstream
