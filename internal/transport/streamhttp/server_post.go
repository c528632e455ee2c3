package streamhttp

import (
	"context"
	"errors"
	"net/http"

	"github.com/dragoman-mcp/dragoman/internal/base/identity"
	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/base/trails"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
	"github.com/dragoman-mcp/dragoman/internal/transport"
	"github.com/dragoman-mcp/dragoman/internal/transport/httpdoor"
)

// post serves one message, or a batch.
func (s *Server) post(w http.ResponseWriter, r *http.Request, who *identity.Principal) {
	if !httpdoor.IsJSON(r.Header) {
		s.refuse(w, http.StatusUnsupportedMediaType, "", jsonrpc.CodeInvalidRequest, "the Content-Type header must be application/json, in UTF-8")
		return
	}
	if json, events := httpdoor.Accepts(r.Header); !json || !events {
		s.refuse(w, http.StatusNotAcceptable, "", jsonrpc.CodeInvalidRequest, "the Accept header must contain application/json and text/event-stream")
		return
	}
	h, ok := s.readHeaders(w, r)
	if !ok {
		return
	}
	body, held, ok := httpdoor.ReadBody(w, r, s.bodyLimits())
	if !ok {
		s.counts.refused.Add(1)
		return
	}
	defer held.Give()
	h.body = body
	if jsonrpc.IsBatch(body) {
		s.batch(w, r, who, h, body)
		return
	}
	m, err := jsonrpc.Scan(body, scanLimits(body))
	if err != nil {
		if s.forward(w, r, who, body, s.misplaced(h)) {
			return // the message may be an answer that its session must hear of
		}
		s.refuseAnswer(h, who, transport.Refused(body, err))
		s.refuseScan(w, r, h, who, err)
		return
	}
	if m.Kind != jsonrpc.Request && m.Kind != jsonrpc.Notification {
		s.answer(w, r, who, h, m)
		return
	}
	o, bad := mcp.Classify(m, h.version, true)
	switch {
	case bad != nil:
		s.counts.refused.Add(1)
		s.reportRefused(r, who, m.Method, m, bad)
		httpdoor.Refuse(w, http.StatusBadRequest, bad.ID, bad)
	case o.Revision.Modern():
		// In modern requests, the session header of earlier revisions must be ignored. Responses
		// must never contain it (2026-07-28 §Streamable HTTP, "Earlier Streamable HTTP Revisions").
		s.modern(w, r, who, h, m, o)
	default:
		s.legacy(w, r, who, h, m, o)
	}
}

// refuseScan answers an invalid message with an error. If the id of the message is unknown, some
// revisions require a null id in the error. In the other revisions, the error has no id.
func (s *Server) refuseScan(w http.ResponseWriter, r *http.Request, h headers, who *identity.Principal, err error) {
	var e *jsonrpc.Error
	if !errors.As(err, &e) {
		e = &jsonrpc.Error{Code: jsonrpc.CodeParse, Message: "the request body is not a JSON-RPC message"}
	}
	s.counts.refused.Add(1)
	e = mcp.RefusedByScan(e)
	s.reportRefused(r, who, e.Method, nil, e)
	httpdoor.Refuse(w, http.StatusBadRequest, s.orNull(e.ID, h, who), e)
}

// reportRefused reports to the Acceptor that the message was refused with bad. m may be nil.
func (s *Server) reportRefused(r *http.Request, who *identity.Principal, method string, m *jsonrpc.Message, bad *jsonrpc.Error) {
	transport.ReportRefused(s.opts.Acceptor, transport.RefusedMessage{Peer: s.peer(r, who), Method: method, Msg: m, Err: bad})
}

// refuseAnswer passes err to the session if err is a *transport.BadAnswer. The server request that
// waits for the answer then fails.
func (s *Server) refuseAnswer(h headers, who *identity.Principal, err error) {
	if _, bad := err.(*transport.BadAnswer); !bad || h.session == "" {
		return
	}
	if ses, missing := s.acquire(h.session, who); missing == nil {
		transport.Refuse(ses.conv, err)
		ses.release(s.now())
	}
}

func (s *Server) orNull(id jsonrpc.ID, h headers, who *identity.Principal) jsonrpc.ID {
	if id != "" {
		return id
	}
	rev, _ := mcp.ParseRevision(h.version)
	if rev == mcp.Unknown && h.session != "" {
		if ses, err := s.acquire(h.session, who); err == nil {
			rev = ses.revision()
			ses.release(s.now())
		}
	}
	if rev.Can(mcp.NullIDErrors) {
		return "null"
	}
	return ""
}

// answer handles a client's response to a server request. Dragoman sends server requests only in
// sessions, so modern clients must not send responses (2026-07-28 §Streamable HTTP, "Sending
// Messages" 4).
func (s *Server) answer(w http.ResponseWriter, r *http.Request, who *identity.Principal, h headers, m *jsonrpc.Message) {
	rev, _ := mcp.ParseRevision(h.version)
	if h.session == "" || rev.Modern() {
		s.refuse(w, http.StatusBadRequest, "", jsonrpc.CodeInvalidRequest, "this message is a response, but the server sends requests only in the sessions of legacy revisions")
		return
	}
	ses := s.enter(w, r, who, h)
	if ses == nil {
		return
	}
	defer s.leave(ses)
	s.oneWay(w, r, ses.conv, transport.Incoming{Msg: m, Version: h.version, HTTP: true, Request: requestOf(r)})
}

// enter returns the acquired session that the headers name. If enter returns nil, it has forwarded
// the request to the process of the session, or refused it: with 404 for an unknown session, and
// with 400 for a version that is unknown or differs from the session's version.
func (s *Server) enter(w http.ResponseWriter, r *http.Request, who *identity.Principal, h headers) *session {
	var ses *session
	var err error
	if s.seats == nil {
		ses, err = s.acquire(h.session, who)
	} else if ses, err = s.seek(w, r, who, h); ses == nil && err == nil {
		return nil
	}
	if err != nil {
		if !s.forward(w, r, who, h.body, err) {
			// 2025-11-25 §Transports, "Session Management" 3, requires 404.
			s.refuse(w, http.StatusNotFound, "", jsonrpc.CodeInvalidRequest, "session not found"+transport.WhyAway(err))
		}
		return nil
	}
	if h.version == "" {
		return ses
	}
	// The header must be valid (2025-11-25 §Transports, "Protocol Version Header") and should be
	// the negotiated version. Dragoman requires the negotiated version, because proxies may rely on
	// the header. After a refusal, the session continues.
	named, known := mcp.ParseRevision(h.version)
	switch rev := ses.revision(); {
	case !known:
		s.counts.refused.Add(1)
		httpdoor.Refuse(w, http.StatusBadRequest, "", mcp.UnsupportedVersion("", h.version))
	case rev != mcp.Unknown && named != rev:
		s.refuse(w, http.StatusBadRequest, "", jsonrpc.CodeInvalidRequest, "the MCP-Protocol-Version header differs from the version of this session")
	default:
		return ses
	}
	s.leave(ses)
	return nil
}

func (s *Server) leave(ses *session) { ses.release(s.now()) }

// oneWay passes a notification or a response to the conversation and answers 202.
func (s *Server) oneWay(w http.ResponseWriter, r *http.Request, conv transport.Conversation, in transport.Incoming) {
	s.counts.notes.Add(1)
	if err := s.deliver(r.Context(), conv, in); err != nil {
		s.counts.refused.Add(1)
		httpdoor.Refuse(w, http.StatusBadRequest, "", mcp.Wire(err))
		return
	}
	w.WriteHeader(http.StatusAccepted)
}

// requestOf returns a description of a POST request for recording.
func requestOf(r *http.Request) transport.Request {
	return transport.Request{Method: http.MethodPost, Path: httpdoor.Path(r), Header: r.Header, Edits: notForwarded}
}

// notForwarded says why the header fields of a request are not forwarded. Only the values of
// Mcp-Param-* may reach a server; see transport.Incoming.Params.
var notForwarded = []trails.HeadEdit{
	{Why: mcp.WhyConnection},
	{Why: mcp.WhySession, Name: mcp.HeaderSession},
	{Why: mcp.WhyVersion, Name: mcp.HeaderVersion},
	{Why: mcp.WhyMirror, Name: mcp.HeaderMethod},
	{Why: mcp.WhyMirror, Name: mcp.HeaderName},
	{Why: mcp.WhyMirror, Name: mcp.HeaderParam},
}

// deliver calls conv.OneWay. A panic becomes an error.
func (s *Server) deliver(ctx context.Context, conv transport.Conversation, in transport.Incoming) (err error) {
	defer func() {
		if p := recover(); p != nil {
			s.panicked(p)
			err = httpdoor.ErrInternal
		}
	}()
	return conv.OneWay(ctx, in)
}

// panicked records a bug. The text of a panic may contain anything, so it is logged and not sent to
// the client.
func (s *Server) panicked(p any) {
	s.counts.panics.Add(1)
	httpdoor.LogPanic(s.log, s.opts.Endpoint, p)
}

// sessionEnded returns the error for a request whose session ended before the answer. cause says why
// it ended; a client is told only what an *mcp.Error says.
func sessionEnded(cause error) *jsonrpc.Error {
	var e *mcp.Error
	if !errors.As(cause, &e) {
		e = &mcp.Error{Message: "the session has ended", Origin: mcp.FromClient, Cause: "session_ended", Outcome: mcp.OutcomeUnknown}
	}
	return mcp.Wire(e)
}
