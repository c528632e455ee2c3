// Package doctor finds what is wrong with an MCP server. It opens the server in every
// way that clients do. It can also play a server to find what is wrong with a client.
// The result is a list of coded findings, each with the bytes that prove it, and the
// revisions that work.
//
// It reads and writes messages as raw bytes, because a proper transport would hide what
// it looks for. Each probe has its own conversation, with a fresh process or session, so
// probes do not affect each other. Probes are bounded in number and in time, and a few
// run at once.
//
// It never runs a tool unless it is told which one. Everything else it sends changes
// nothing: lists, one resource that the server offers, one prompt, and methods that no
// server should have. To find out what Dragoman makes of the server, it opens it with
// the handshake that the bridge itself uses.
//
// All codes are in one table (table.go), from which docs/findings.md is generated. Codes
// are stable: the meaning of a code never changes.
package doctor
