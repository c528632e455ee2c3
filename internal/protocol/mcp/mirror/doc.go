// Package mirror handles values that a request contains twice: in its body and in the HTTP
// headers Mcp-Name and Mcp-Param-* (2026-07-28 §Streamable HTTP, "Request Metadata").
//
// The package encodes header values, and finds the parameters that a tool's inputSchema mirrors. It
// creates the headers from a call's arguments and checks the headers of a call. It reads JSON that
// package jsonrpc has scanned. It does not use net/http, does no I/O, keeps no state and starts no
// goroutine. Package mcp imports mirror, so mirror must not import mcp.
package mirror
