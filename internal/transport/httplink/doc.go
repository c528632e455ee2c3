// Package httplink contains the common code of the HTTP client sides. A Link sends requests to a
// configured address and determines whether any bytes of a body were sent. It follows redirects
// within the same origin, reads bodies with a limit, and returns failed responses as a
// transport.StatusError.
//
// The package handles HTTP, but not MCP methods, revisions or sessions. It does not retry requests
// and starts no goroutines. The only environment variables that it reads are those for proxies. The
// client sides of streamhttp and sse use the package.
package httplink
