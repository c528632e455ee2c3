//go:build !unix

package httplink

import (
	"net/http"
	"net/url"
)

// plainOrigin returns nil, because everything is left to net/http. Package syscall can't look at a
// connection without waiting on this operating system.
func plainOrigin(*url.URL, string, func(*http.Request) (*url.URL, error)) transporter { return nil }
