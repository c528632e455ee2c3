// Package httplink contains the common parts of the HTTP client sides. It sends one request to
// a configured address and determines whether any of the body was sent. It follows redirects
// within the same origin, reads bodies with a limit, and returns failed responses as a
// transport.StatusError.
//
// It knows HTTP but no MCP methods or revisions. It keeps no session, never retries by itself,
// reads only the environment variables for proxies, and starts no goroutine itself. The client
// sides of streamhttp and sse use it.
package httplink
