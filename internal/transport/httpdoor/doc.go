// Package httpdoor contains the common code of the HTTP server sides. A Guard refuses foreign hosts
// and origins. Functions read bodies with limits, check the headers of a POST, and write refusals
// as JSON-RPC errors. A Stream sends events to a client that may read slowly or reconnect later.
//
// The package handles HTTP and the outer members of JSON-RPC messages, but not MCP methods,
// revisions or sessions. The server sides of streamhttp and sse use it. The guard also protects
// every other route of the daemon.
//
// A Server waits for its idle connections and streams in one goroutine, on systems where it can
// (docs/adr/0027). Run and Serve of a Connection write the events of a Stream: Run on the goroutine
// of its caller, Serve on one that runs only while there is something to write.
package httpdoor
