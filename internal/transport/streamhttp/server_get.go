package streamhttp

import (
	"net/http"

	"github.com/dragoman-mcp/dragoman/internal/base/identity"
	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
	"github.com/dragoman-mcp/dragoman/internal/transport/httpdoor"
)

// sessionOf returns the acquired session of a GET or DELETE. If there is no such session, sessionOf
// refuses the request and returns nil. It also refuses modern clients, which do not use GET or
// DELETE (2026-07-28 §Streamable HTTP, "Earlier Streamable HTTP Revisions").
func (s *Server) sessionOf(w http.ResponseWriter, r *http.Request, who *identity.Principal) *session {
	h, ok := s.readHeaders(w, r)
	if !ok {
		return nil
	}
	if rev, _ := mcp.ParseRevision(h.version); h.session == "" || rev.Modern() {
		s.counts.refused.Add(1)
		httpdoor.RefuseMethod(w, "POST")
		return nil
	}
	return s.enter(w, r, who, h)
}

// get serves the stream of messages that do not belong to a request, or resumes another stream
// (2025-11-25 §Transports, "Listening for Messages from the Server", "Resumability and
// Redelivery").
func (s *Server) get(w http.ResponseWriter, r *http.Request, who *identity.Principal) {
	ses := s.sessionOf(w, r, who)
	if ses == nil {
		return
	}
	attach := s.attachment(w, r, ses)
	f := &flight{seat: ses.seat}
	if attach != nil && (s.draining.Load() || !s.flights.add(f)) {
		s.limited(w, "", httpdoor.Stopping)
		attach = nil
	}
	if attach == nil {
		s.leave(ses)
		return
	}
	s.counts.streams.Add(1)
	ses.hearing.Add(1)
	attach().Serve(w, r, func() {
		f.remove()
		ses.hearing.Add(-1)
		s.leave(ses)
	})
}

// attachment returns a function that attaches r to its stream. If r is refused, attachment returns
// nil.
func (s *Server) attachment(w http.ResponseWriter, r *http.Request, ses *session) func() *httpdoor.Connection {
	if _, events := httpdoor.Accepts(r.Header); !events {
		s.refuse(w, http.StatusNotAcceptable, "", jsonrpc.CodeInvalidRequest, "the Accept header must contain text/event-stream")
		return nil
	}
	last, twice := only(r.Header[mcp.HeaderLastEvent])
	if last == "" {
		stream := ses.stream()
		return func() *httpdoor.Connection { return stream.Attach(w, r) }
	}
	stream, seen, ok := ses.find(last)
	if !ok || twice {
		// Do not answer 404, because a 404 would end the session for the client.
		s.refuse(w, http.StatusBadRequest, "", jsonrpc.CodeInvalidRequest, "the stream of this Last-Event-ID cannot be resumed; open a new stream")
		return nil
	}
	return func() *httpdoor.Connection {
		s.counts.resumed.Add(1)
		return stream.Resume(w, r, seen)
	}
}

// delete ends a client's session (2025-11-25 §Transports, "Session Management" 5).
func (s *Server) delete(w http.ResponseWriter, r *http.Request, who *identity.Principal) {
	ses := s.sessionOf(w, r, who)
	if ses == nil {
		return
	}
	defer s.leave(ses)
	if s.table.take(ses) {
		s.end(ses, errDeleted)
	}
	w.WriteHeader(http.StatusNoContent)
}
