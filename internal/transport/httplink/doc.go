// Package httplink contains the common code of the HTTP client sides. A Link sends requests to a
// configured address and determines whether any bytes of a body were sent. It follows redirects
// within the same origin, reads bodies with a limit, and returns failed responses as a
// transport.StatusError.
//
// Plain HTTP to a server without a proxy goes through an exchange of our own: one write for a
// request, and no goroutine unless the server takes the request slowly. HTTPS, proxies and HTTP/2
// are left to net/http. Replicas use the same exchange over TLS, with connections that they make
// themselves: see Origin. See docs/adr/0030.
//
// The package handles HTTP, but not MCP methods, revisions or sessions. It does not repeat requests
// of which a byte of the body has left. The only environment variables that it reads are those for
// proxies. The client sides of streamhttp and sse use the package.
package httplink
