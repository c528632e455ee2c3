// Package doctor finds what is wrong with an MCP server. It opens the server in every
// way that clients do. It can also play a server to find what is wrong with a client.
// The result is a list of coded findings, each with the bytes that prove it, and the
// revisions that work.
//
// It reads and writes messages as raw bytes, because a proper transport would hide what
// it looks for. Over HTTP each probe has its own session. On a pipe, where a session is a
// process, probes share conversations (course.go). What is in doubt there is repeated in a
// fresh process, and only that counts. Probes are bounded in number and in time, and four
// conversations run at once. Silence counts only after a second, longer wait.
//
// It never runs a tool unless it is told which one. Everything else it sends changes
// nothing: lists, one resource that the server offers, one prompt, and methods that no
// server should have. To find out what Dragoman makes of the server, it opens it with
// the handshake that the bridge itself uses.
//
// All codes are in one table (table.go), from which docs/findings.md is generated. Codes
// are stable: the meaning of a code never changes.
package doctor
