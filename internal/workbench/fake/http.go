package fake

import (
	"context"
	"errors"
	"io"
	"mime"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"

	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/transport"
)

// The URL paths of the HTTP transports.
const (
	mcpPath      = "/mcp"
	eventsPath   = "/sse"
	messagesPath = "/messages"
)

// Path returns the URL path that clients connect to: /sse in 2024-11-05, and /mcp in later
// revisions.
func (s *Server) Path() string {
	if s.part.ed.has(streamable) {
		return mcpPath
	}
	return eventsPath
}

// Handler serves HTTP: Streamable HTTP at /mcp in the revisions that have it, and HTTP+SSE at
// /sse and /messages in the revisions with a handshake. Handshake revisions after 2024-11-05 allow
// HTTP+SSE for older clients. All requests end when Close is called.
func (s *Server) Handler() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		done, ok := s.begin()
		if !ok {
			if errors.Is(context.Cause(s.ctx), ErrDied) {
				panic(http.ErrAbortHandler) // the server has crashed
			}
			http.Error(w, "the server is closed", http.StatusServiceUnavailable)
			return
		}
		defer done()
		if s.part.twist.open != nil {
			s.opened.Do(func() { s.part.twist.open(s.ctx, nil) })
		}
		s.route(w, r)
		if errors.Is(context.Cause(s.ctx), ErrDied) {
			panic(http.ErrAbortHandler)
		}
	})
}

func (s *Server) route(w http.ResponseWriter, r *http.Request) {
	ed := s.part.ed
	if wrong := foreign(r); wrong != "" {
		// 2025-11-25 §Transports, "Security Warning".
		s.violate("HTTP", "%s", wrong)
		http.Error(w, wrong, http.StatusForbidden)
		return
	}
	switch {
	case r.URL.Path == mcpPath && ed.has(mirrored):
		s.serveModern(w, r)
	case r.URL.Path == mcpPath && ed.has(streamable):
		s.serveLegacy(w, r)
	case r.URL.Path == eventsPath && ed.has(handshake):
		s.serveEvents(w, r)
	case r.URL.Path == messagesPath && ed.has(handshake):
		s.servePosted(w, r)
	default:
		http.NotFound(w, r)
	}
}

// foreign returns why a request may come from the web page of another site: its Origin names another
// machine or, on a loopback address, its Host names another machine. It returns "" for all other
// requests.
func foreign(r *http.Request) string {
	if origin := r.Header.Get("Origin"); origin != "" {
		u, err := url.Parse(origin)
		if err != nil || !transport.IsLoopback(u.Hostname()) {
			return "the Origin " + clip(origin) + " is not this machine"
		}
	}
	addr, _ := r.Context().Value(http.LocalAddrContextKey).(net.Addr)
	if addr == nil {
		return ""
	}
	at, err := netip.ParseAddrPort(addr.String())
	if err != nil || !at.Addr().Unmap().IsLoopback() {
		return ""
	}
	host := r.Host
	if h, _, err := net.SplitHostPort(host); err == nil {
		host = h
	}
	if !transport.IsLoopback(strings.Trim(host, "[]")) {
		return "the Host " + clip(r.Host) + " is not this machine"
	}
	return ""
}

// only reports whether the HTTP method is one of methods. If not, the function answers the request
// with an error.
func (s *Server) only(w http.ResponseWriter, r *http.Request, methods ...string) bool {
	for _, m := range methods {
		if r.Method == m {
			return true
		}
	}
	w.Header().Set("Allow", strings.Join(methods, ", "))
	http.Error(w, "this endpoint accepts "+strings.Join(methods, ", "), http.StatusMethodNotAllowed)
	return false
}

// accepts reports whether the Accept header lists all the types. Wildcards do not match. If a type
// is missing, the function answers the request with an error.
func (s *Server) accepts(w http.ResponseWriter, r *http.Request, types ...string) bool {
	have := map[string]bool{}
	for part := range strings.SplitSeq(strings.Join(r.Header.Values("Accept"), ","), ",") {
		t, _, err := mime.ParseMediaType(part)
		have[t] = err == nil
	}
	for _, t := range types {
		if !have[t] {
			s.violate("HTTP", "Accept does not list %s", t)
			http.Error(w, "Accept must list "+strings.Join(types, " and "), http.StatusNotAcceptable)
			return false
		}
	}
	return true
}

// body reads the body of a POST. If the media type is wrong or the body is too large, the function
// answers the request with an error and returns false.
func (s *Server) body(w http.ResponseWriter, r *http.Request) ([]byte, bool) {
	if t, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || t != "application/json" {
		s.violate("HTTP", "the Content-Type is not application/json")
		http.Error(w, "the Content-Type must be application/json", http.StatusUnsupportedMediaType)
		return nil, false
	}
	raw, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxMessage))
	var large *http.MaxBytesError
	switch {
	case errors.As(err, &large):
		http.Error(w, "the message is too large", http.StatusRequestEntityTooLarge)
		return nil, false
	case err != nil:
		panic(http.ErrAbortHandler) // the client has disconnected
	}
	s.capture.write(request, raw)
	return raw, true
}

// fail answers an HTTP request with a status and with msg, which is a JSON-RPC error response.
func (s *Server) fail(w http.ResponseWriter, status int, msg []byte) {
	s.capture.write(response, msg)
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(msg)
}

// deny answers an HTTP request with a status and the error bad. m is the message in the request, or
// nil.
func (s *Server) deny(w http.ResponseWriter, status int, m *jsonrpc.Message, bad *jsonrpc.Error) {
	id := jsonrpc.ID("")
	if m != nil && m.Kind == jsonrpc.Request {
		id = m.ID
	} else if s.part.ed.has(nullIDs) {
		id = "null"
	}
	s.fail(w, status, jsonrpc.AppendError(nil, id, bad))
}
