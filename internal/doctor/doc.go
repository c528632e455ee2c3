// Package doctor finds faults of MCP servers and of MCP clients. It opens a server in every
// way that clients do. To examine a client, it acts as a server. The result is a list of
// findings with codes, the bytes that prove each finding, and the revisions that work.
//
// The package reads and writes messages as raw bytes, because a proper transport would hide
// faults. Over HTTP each probe has its own session. On a pipe, where a session is a process,
// probes share conversations (course.go). If a finding in a shared conversation is in doubt, it is
// tested again in a new process, and only the second result counts. The number of probes and their
// time are limited, and at most four conversations run at once. A missing answer counts only after
// a second, longer wait.
//
// The package runs only the tool that Options.Call names. Its other requests change nothing:
// lists, one resource that the server offers, one prompt, and methods that no server should have.
// To find out whether Dragoman works with the server, it opens the server with Dragoman's own
// handshake.
//
// All codes are in one table (table.go), from which docs/findings.md is generated. Codes are
// stable: the meaning of a code never changes.
package doctor
