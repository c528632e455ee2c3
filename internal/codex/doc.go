// Package codex presents a Codex app-server as an MCP server. An app-server is a program that
// speaks its own JSON-RPC over a pipe, with threads and turns instead of tools. This package
// calls it a worker.
//
// Server represents one configured worker across its restarts. Adapt takes the pipe to a worker
// that has just started, and returns a pipe that speaks legacy MCP, with the tools codex and
// codex-reply. Legacy MCP has live server requests, so the worker's requests for approval are
// forwarded when they arrive. Requests for a modern client are converted elsewhere, as for
// every other legacy server (docs/adr/0009).
//
// The worker's messages are read with package jsonrpc and written as bytes. They are not
// decoded into Go values. Unknown messages from the worker are dropped, because they are for
// editors.
//
// The package was written for Codex 0.50 and 0.169. A Server and its pipes are safe for concurrent
// use. Close of a pipe waits for all goroutines that Adapt has started.
package codex
