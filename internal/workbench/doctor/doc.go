// Package doctor finds faults of MCP servers and of MCP clients. It opens a server in all the ways
// in which clients open servers. To examine a client, it acts as a server. The result is a list of
// findings with codes, the bytes that prove each finding, and the revisions that work.
//
// The package reads and writes messages as raw bytes, because a proper transport would hide
// faults. Over HTTP, each probe has its own conversation. On a pipe, each conversation needs a
// process, so probes share conversations (course.go). If a finding from a shared conversation is in
// doubt, the probe runs again in a new process, and only the second result counts. The number and
// the duration of the probes are limited. At most Options.Parallel conversations run at the same
// time. A missing answer counts only after a second, longer wait.
//
// The package calls only the tool that Options.Call names. All other requests change no data on the
// server. For example, they read lists, one resource and one prompt, or use unknown methods. If the server wants
// a sign-in, the package registers a client at its authorization server, as each client does, but doesn't sign in.
// To find out whether Dragoman works with the server, the package also opens the server with
// Dragoman's own handshake.
//
// All codes are in one table (table.go), from which docs/findings.md is generated. Codes are
// stable: the meaning of a code never changes.
package doctor
