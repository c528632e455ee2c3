// Package sse is the HTTP+SSE transport of revision 2024-11-05. The server sends its messages on
// one event stream. The first event contains an address, and the client sends each message to this
// address in a POST request. The package contains both a server side and a client side.
//
// On the client side, a connection is a transport.Pipe. A connection lasts as long as its stream.
// Streams are not resumed. To reconnect, call Dial again. The package does not depend on MCP
// methods. Later revisions replaced this transport, but servers will use it for a long time.
//
// Source: 2024-11-05 §Transports, "HTTP with SSE".
package sse
