// Package jsonrpc reads and edits a JSON-RPC 2.0 message, and finds members in it, without decoding
// the whole message.
//
// Scan reads a message. It checks the bytes strictly: UTF-8, exact case of names, no duplicate
// members, limited depth and number of tokens. Scan also records the positions of the members that
// routing needs. Splice is the only way to change a message. It copies every byte that no edit
// covers. The package does not depend on MCP, does no I/O, starts no goroutine and keeps no state
// except pooled buffers. Everything except Edits is safe for concurrent use, as long as nobody
// modifies the bytes of a Message.
package jsonrpc
