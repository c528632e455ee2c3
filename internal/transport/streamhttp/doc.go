// Package streamhttp is the Streamable HTTP transport: a server side for clients
// (Server) and a client side for servers (Client), for all revisions that have it.
//
// The revisions 2025-03-26 to 2025-11-25 have sessions, a standing stream opened by
// GET, and resumable streams. 2026-07-28 has none of these, but has headers that mirror
// the body. The Client gets the differences with each message as transport.Rules; the
// Server decides per request, from mcp's feature table. The package knows framing,
// status codes, headers and sessions, and of the methods only initialize. It does not
// answer or translate messages itself, and never retries a request.
//
// Sources: §Transports of the legacy revisions, 2026-07-28 §Streamable HTTP.
package streamhttp
