// Package streamhttp is the Streamable HTTP transport: a door towards clients
// (Server) and the client half towards servers (Client), for all revisions that
// have it.
//
// The revisions 2025-03-26 to 2025-11-25 have sessions, a standing stream opened
// by GET and streams that continue after an event; 2026-07-28 has none of that but
// headers that mirror the body. What differs comes to the Client with each message
// as transport.Rules and is decided in the Server per request, from mcp's feature
// table. The package knows framing, statuses, headers and sessions, and no method
// but initialize. It answers nothing and translates nothing itself; it never sends
// a request twice.
//
// Sources: §Transports of the legacy revisions, 2026-07-28 §Streamable HTTP.
package streamhttp
