// Package httpdoor is the common part of the HTTP server sides: the guard against
// foreign hosts and origins, reading a body with a limit, the headers of a POST,
// refusals as JSON-RPC errors, and the event stream to a client that may read slowly or
// reconnect later.
//
// It knows HTTP and the JSON-RPC envelope, but no MCP methods or revisions, and decides
// nothing about sessions. The server sides of streamhttp and sse use it, and the guard
// protects every other route of the daemon too. A Stream starts no goroutine: its
// caller provides one.
package httpdoor
