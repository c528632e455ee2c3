// Package codex presents a Codex app-server as an MCP server. An app-server is a program that
// speaks its own JSON-RPC over a pipe, with threads and turns instead of tools. This package
// calls it a worker.
//
// Server represents one configured worker across its restarts. Adapt takes the pipe to a worker
// that has just started, and returns a pipe that speaks legacy MCP, with the tools codex and
// codex-reply. A legacy server may send requests to its client during a call, so the pipe forwards
// the worker's requests for approval when they arrive. Package bridge converts these requests for a
// modern client, as for every other legacy server (docs/adr/0009).
//
// This package reads the worker's messages with package jsonrpc and builds its own messages as
// bytes. It does not decode messages into Go values. It drops unknown messages from the worker,
// because they are meant for editors.
//
// The package was written for Codex 0.50 and 0.169. A Server and its pipes are safe for concurrent
// use. Closing a pipe waits for all goroutines that Adapt has started.
package codex
