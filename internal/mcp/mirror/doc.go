// Package mirror handles values that a request has twice: in its body and in the HTTP
// headers Mcp-Name and Mcp-Param-* (2026-07-28 §Streamable HTTP, "Request Metadata").
//
// It encodes header values, reads which parameters a tool's inputSchema mirrors, makes
// their headers from a call's arguments, and checks the headers of a call. It works on
// scanned bytes and on names and values. It knows no HTTP, does no I/O, keeps no state
// and starts no goroutine. It is below package mcp, which uses its types in calls.
package mirror
