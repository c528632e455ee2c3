// Package sse is the HTTP+SSE transport of revision 2024-11-05: one long-lived event
// stream from the server, whose first event contains an address, and a POST to that
// address for each message to the server. It has a server side for clients and a client
// side for servers.
//
// A connection is a transport.Pipe and lives as long as its stream. Nothing is resumed;
// to reconnect, dial again. The package knows no MCP methods. Later revisions replaced
// this transport, but servers will use it for a long time.
//
// Source: 2024-11-05 §Transports, "HTTP with SSE".
package sse
