// Package httplink holds what every client half that speaks HTTP does alike: one
// request to one configured address, the knowledge whether any of its body has
// left, redirects that stay with the same origin, bodies read within bounds, and
// answers that are no success as a transport.StatusError.
//
// It knows HTTP, no method of MCP and no revision. It keeps no session, never
// retries by itself, reads no environment but that of proxies, and starts no
// goroutine beyond those of net/http. It is the base of the client halves of
// streamhttp and sse.
package httplink
