// Package sse is the HTTP+SSE transport of revision 2024-11-05: one standing
// stream of events from the server, whose first event names an address, and a POST
// to that address for each message to the server. It has a door towards clients and
// a client half towards servers.
//
// A link is a transport.Pipe and lives as long as its stream: nothing is resumed,
// and whoever wants the server again dials again. The package knows no method of
// MCP. Later revisions replaced this transport; servers that speak it will be
// around for long.
//
// Source: 2024-11-05 §Transports, "HTTP with SSE".
package sse
