// Package httpdoor contains the common parts of the HTTP server sides. These are the guard
// against foreign hosts and origins, reading a body with a limit, the headers of a POST,
// refusals as JSON-RPC errors, and the event stream to a client that may read slowly or
// reconnect later.
//
// It knows HTTP and the outer members of JSON-RPC messages, but no MCP methods or revisions,
// and does not handle sessions. The server sides of streamhttp and sse use it. The guard
// protects every other route of the daemon too. A Stream starts no goroutine; its caller
// provides one.
package httpdoor
