// Package sse is the HTTP+SSE transport of revision 2024-11-05. The server sends a long event
// stream, whose first event contains an address. The client sends each message as a POST to
// that address. The package has a server side for clients and a client side for servers.
//
// A connection is a transport.Pipe and lives as long as its stream. Streams are not resumed. To
// reconnect, call Dial again. The package does not depend on MCP methods. Later revisions replaced
// this transport, but servers will use it for a long time.
//
// Source: 2024-11-05 §Transports, "HTTP with SSE".
package sse
