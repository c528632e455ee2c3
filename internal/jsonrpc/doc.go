// Package jsonrpc reads, navigates and edits one JSON-RPC 2.0 message without decoding it as a
// whole.
//
// Scan reads a message. It checks the bytes strictly (UTF-8, exact case, no duplicate member,
// bounded depth and tokens) and records the positions of the members that routing needs. Splice
// is the only way to change a message: it copies every byte that no edit covers. The package does
// not depend on MCP, does no I/O, starts no goroutine and keeps no state except pooled buffers.
// Everything except Edits is safe for concurrent use, as long as nobody modifies the bytes of a
// Message.
package jsonrpc
