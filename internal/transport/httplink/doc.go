// Package httplink contains the common parts of the HTTP client sides. It sends one request to
// a configured address and determines whether any of the body was sent. It follows redirects
// within the same origin, reads bodies with a limit, and returns failed responses as a
// transport.StatusError.
//
// It handles HTTP, but not MCP methods, revisions or sessions. It does not retry by itself or start
// goroutines. The only environment variables that it reads are those for proxies. The client sides
// of streamhttp and sse use it.
package httplink
