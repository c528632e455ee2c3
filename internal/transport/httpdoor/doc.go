// Package httpdoor holds what every door towards HTTP clients does alike: the
// guard against foreign hosts and origins, reading a body within bounds, the
// headers that decide about a POST, refusals as JSON-RPC errors, and the stream
// of events on its way to a client that may read slowly or come back later.
//
// It knows HTTP and JSON-RPC's envelope, no method of MCP and no revision; it
// decides nothing about sessions. It is the base of the server halves of
// streamhttp and sse, and the guard stands before every other route of the
// daemon too. A Stream starts no goroutine: whoever serves it lends one.
package httpdoor
