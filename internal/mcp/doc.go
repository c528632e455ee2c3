// Package mcp is the vocabulary of the Model Context Protocol as Dragoman uses
// it: revisions and what a peer of each can do, methods, reserved _meta keys,
// error codes, and the neutral forms of a call, its reply and a notice.
//
// It holds facts, not behaviour: no I/O, no state, no goroutine. The feature
// table in revision.go is the only place in the program where the dates of
// revisions are compared; everybody else asks what a peer Can do. Sources are the
// specification's pages and schemas of 2024-11-05, 2025-03-26, 2025-06-18,
// 2025-11-25 and 2026-07-28.
package mcp
