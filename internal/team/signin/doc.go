// Package signin signs people in to the servers that they use, and keeps what they get for it fresh.
//
// A [Desk] belongs to a process. A [Server] of it signs the requests to one MCP server (it's an
// upstream.Credentials, which this package doesn't import). A [Flow] is one sign-in: discovery, a client at the
// issuer, a browser, the callback, the token. Nothing of it is in the process alone: the flow is a sealed row of
// the store, and the kernel's bind of the callback port says which process hears the browser. So whoever has
// the port can finish the flows of all, and if that process is killed, another one takes the port and the same
// tab completes (docs/adr/0039).
//
// A credential is on the disk before anybody uses it. Reading a fresh one takes no lock. It's renewed by one
// goroutine of one process at a time, which has a lease in the store. Only the issuer's own refusal signs
// anybody out; a timeout, a 5xx or a page of HTML never does.
//
// The package opens the store when it's first needed, so who uses servers without sign-in has none. It speaks
// OAuth through package oauth, and reaches the network through package egress.
package signin
