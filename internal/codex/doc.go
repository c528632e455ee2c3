// Package codex makes an MCP server of a Codex app-server: a worker that speaks
// JSON-RPC of its own over a pipe, with threads and turns in place of tools.
//
// Server stands for one configured worker and outlives its restarts. Its Adapt
// takes the pipe to a worker that has just been started and returns one that
// speaks MCP of the older era, with the tools codex and codex-reply. That era has
// live questions, so a worker's requests for approval go out as they come, and
// whatever a client of the newer era needs is done where it is done for every
// other legacy server (docs/adr/0009).
//
// The worker's messages are read by package jsonrpc and written as bytes; none of
// them is decoded into values. What a worker says that nobody here understands
// is dropped, for it speaks to an editor and not to us.
//
// Written against Codex 0.50 and 0.169. A Server and its pipes are safe for
// concurrent use; Close of a pipe waits for all that Adapt has started.
package codex
