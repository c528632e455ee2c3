// Package fronttest is a reverse proxy that stands in front of Dragoman in tests, for example to send an API key for a
// client that can't.
//
// It's a httputil.ReverseProxy with full duplex. Without that, net/http closes the body of a request as soon as the
// answer begins. If the proxy hasn't seen the end of the body by then, although it has passed on every byte of it, it
// takes that for a failure and closes its connection to Dragoman, in the middle of an event stream that the client
// waits for. One call in thirty was lost like this on a busy machine.
package fronttest

import (
	"io"
	"log"
	"net/http"
	"net/http/httputil"
)

// Proxy returns a handler that sends each request to where rewrite says. Event streams aren't delayed, and nothing is
// logged.
func Proxy(rewrite func(*httputil.ProxyRequest), modify func(*http.Response) error) http.Handler {
	return handler(&httputil.ReverseProxy{Rewrite: rewrite, ModifyResponse: modify})
}

// ProxyBy is Proxy with a transport, which may choose the connection.
func ProxyBy(transport http.RoundTripper, rewrite func(*httputil.ProxyRequest)) http.Handler {
	return handler(&httputil.ReverseProxy{Rewrite: rewrite, Transport: transport})
}

func handler(proxy *httputil.ReverseProxy) http.Handler {
	proxy.FlushInterval, proxy.ErrorLog = -1, log.New(io.Discard, "", 0)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_ = http.NewResponseController(w).EnableFullDuplex() // HTTP/1.1 can; HTTP/2 needn't
		proxy.ServeHTTP(w, r)
	})
}
