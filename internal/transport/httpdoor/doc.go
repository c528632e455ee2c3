// Package httpdoor contains the common code of the HTTP server sides. A Guard refuses foreign hosts
// and origins. Functions read bodies with limits, check the headers of a POST, and write refusals
// as JSON-RPC errors. A Stream sends events to a client that may read slowly or reconnect later.
//
// The package handles HTTP and the outer members of JSON-RPC messages, but not MCP methods,
// revisions or sessions. The server sides of streamhttp and sse use it. The guard also protects
// every other route of the daemon. A Stream starts no goroutine: Run uses the goroutine of its
// caller.
package httpdoor
