package streamhttp

import (
	"context"
	"errors"
	"net/http"

	"github.com/dragoman-mcp/dragoman/internal/base/identity"
	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
	"github.com/dragoman-mcp/dragoman/internal/transport"
	"github.com/dragoman-mcp/dragoman/internal/transport/httpdoor"
)

// forward passes a request on if err is a *transport.Elsewhere. It returns false if it is not, or if
// nobody forwards requests.
func (s *Server) forward(w http.ResponseWriter, r *http.Request, who *identity.Principal, body []byte, err error) bool {
	var to *transport.Elsewhere
	if s.opts.Forward == nil || !errors.As(err, &to) || !s.opts.Forward.Reaches(r, to) {
		return false
	}
	var f flight
	if !s.flights.add(&f) {
		s.stopping(w, r, body, "")
		return true
	}
	defer f.remove()
	s.pass(w, r, who, body, to)
	return true
}

// pass passes a request on, and records it if it gets lost on the way.
func (s *Server) pass(w http.ResponseWriter, r *http.Request, who *identity.Principal, body []byte, to *transport.Elsewhere) (done bool) {
	defer func() { // Forward panics if it can't end an answer
		if to.Failed != nil {
			in := transport.Incoming{Version: r.Header.Get(mcp.HeaderVersion), Params: paramHeaders(r.Header), HTTP: true, Request: requestOf(r), Failed: to.Failed}
			transport.Record(context.WithoutCancel(r.Context()), s.opts.Acceptor, s.peer(r, who), body, in)
		}
	}()
	return s.opts.Forward.Forward(w, r, body, to)
}

// stopping refuses a request that comes after the last. Another process that has passed it on to us looks again where it
// goes.
func (s *Server) stopping(w http.ResponseWriter, r *http.Request, body []byte, id jsonrpc.ID) {
	if f := s.opts.Forward; f == nil || !f.Forward(w, r, body, &transport.Elsewhere{Again: true}) {
		s.limited(w, id, httpdoor.Stopping)
	}
}

// misplaced returns a *transport.Elsewhere if the headers name a session of another process. Modern
// requests ignore the session.
func (s *Server) misplaced(h headers) error {
	if rev, _ := mcp.ParseRevision(h.version); h.session == "" || rev.Modern() {
		return nil
	}
	if s.seats != nil && s.table.has(h.session) {
		return nil
	}
	if home := s.opts.Places.Of(h.session); home != "" {
		return &transport.Elsewhere{Home: home}
	}
	return nil
}

// Forward records that the request goes to another process; see transport.Forwarding. serve passes it
// on when the conversation has let go of it.
func (res *response) Forward(to *transport.Elsewhere) bool {
	if f := res.server.opts.Forward; f == nil || !f.Reaches(res.r, to) {
		return false
	}
	res.mu.Lock()
	defer res.mu.Unlock()
	if res.state != undecided {
		return false
	}
	res.state, res.to = finished, to
	return true
}
