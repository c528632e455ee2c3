// Package httpdoor contains the common parts of the HTTP server sides. These are the guard
// against foreign hosts and origins, reading a body with a limit, the headers of a POST,
// refusals as JSON-RPC errors, and the event stream to a client that may read slowly or
// reconnect later.
//
// The package handles HTTP and the outer members of JSON-RPC messages, but not MCP methods,
// revisions or sessions. The server sides of streamhttp and sse use it. The guard also protects
// every other route of the daemon. A Stream does not start a goroutine: its caller provides one.
package httpdoor
