// Package httplink is the common part of the HTTP client sides: sending one request to
// one configured address, knowing whether any of its body was sent, redirects within
// the same origin, reading bodies with a limit, and returning failed responses as a
// transport.StatusError.
//
// It knows HTTP but no MCP methods or revisions. It keeps no session, never retries by
// itself, reads no environment variables but those of proxies, and starts no goroutine
// beyond those of net/http. The client sides of streamhttp and sse use it.
package httplink
