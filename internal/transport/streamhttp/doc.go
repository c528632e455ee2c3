// Package streamhttp is the Streamable HTTP transport, for all revisions that have it. Server is
// the server side for clients, and Client is the client side for servers.
//
// The revisions 2025-03-26 to 2025-11-25 have sessions, an event stream that a GET opens, and
// resumable streams. The revision 2026-07-28 has none of these, but has headers that mirror the
// body. The Client gets the rules of the revision with each message, as transport.Rules. The Server
// uses the feature table of mcp for each request. The package handles framing, status codes,
// headers and sessions. It treats only the method initialize specially. It does not answer or
// translate messages, and never retries a request.
//
// Sources: §Transports of the legacy revisions, 2026-07-28 §Streamable HTTP.
package streamhttp
