// Package mirror keeps what a message says twice in step: once in its body, once
// in the HTTP headers Mcp-Name and Mcp-Param-* (2026-07-28 §Streamable HTTP,
// "Request Metadata").
//
// It has the encoding of header values, reads which parameters a tool's
// inputSchema wants mirrored, makes their headers from a call's arguments, and
// checks the headers that came with a call. It works on scanned bytes and on
// names and values, knows no HTTP, does no I/O, keeps no state and starts no
// goroutine. It stands below package mcp, so that calls can be described with its
// words.
package mirror
