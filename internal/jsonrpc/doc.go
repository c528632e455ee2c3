// Package jsonrpc reads, finds its way around in and edits one JSON-RPC 2.0
// message without ever decoding it as a whole.
//
// Scan is the only way in: it checks the bytes strictly (UTF-8, exact case, no
// duplicate member, bounded depth and tokens) and remembers where the few
// members that others route on lie. Splice is the only way to change a message:
// it copies every byte that no edit covers. The package knows no MCP, does no
// I/O, keeps nothing but pooled scratch memory and starts no goroutine; all of it
// but Edits is safe for concurrent use as long as nobody writes to a Message's
// bytes.
package jsonrpc
