// Package codex presents a Codex app-server as an MCP server. An app-server is a worker
// that speaks its own JSON-RPC over a pipe, with threads and turns instead of tools.
//
// Server represents one configured worker across its restarts. Adapt takes the pipe to a
// worker that has just started and returns a pipe that speaks legacy MCP, with the tools
// codex and codex-reply. Legacy MCP has live server requests, so the worker's requests
// for approval are forwarded as they arrive. What a modern client needs is handled where
// it is handled for every other legacy server (docs/adr/0009).
//
// The worker's messages are read with package jsonrpc and written as bytes. None is
// decoded into Go values. Unknown messages from the worker are dropped, because they are
// meant for an editor.
//
// Written for Codex 0.50 and 0.169. A Server and its pipes are safe for concurrent use.
// Closing a pipe waits for everything that Adapt has started.
package codex
