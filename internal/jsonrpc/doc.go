// Package jsonrpc reads, navigates and edits one JSON-RPC 2.0 message without decoding
// it as a whole.
//
// Scan is the only entry. It checks the bytes strictly (UTF-8, exact case, no duplicate
// member, bounded depth and tokens) and records where the members lie that routing
// needs. Splice is the only way to change a message: it copies every byte that no edit
// covers. The package knows no MCP, does no I/O, starts no goroutine and keeps no state
// but pooled buffers. Everything but Edits is safe for concurrent use as long as nobody
// writes to a Message's bytes.
package jsonrpc
