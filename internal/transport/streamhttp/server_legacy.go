package streamhttp

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/base/identity"
	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
	"github.com/dragoman-mcp/dragoman/internal/transport"
	"github.com/dragoman-mcp/dragoman/internal/transport/httpdoor"
)

// legacy serves a request or notification of a revision with a handshake.
func (s *Server) legacy(w http.ResponseWriter, r *http.Request, who *identity.Principal, h headers, m *jsonrpc.Message, o mcp.Opening) {
	in := transport.Incoming{Msg: m, Version: h.version, HTTP: true, Opening: o, Request: requestOf(r)}
	opens := m.Kind == jsonrpc.Request && m.Method == mcp.MethodInitialize
	switch {
	case h.session != "":
		ses := s.enter(w, r, who, h)
		if ses == nil {
			return
		}
		defer s.leave(ses)
		if opens {
			s.refuse(w, http.StatusBadRequest, m.ID, jsonrpc.CodeInvalidRequest, "this session is already initialized")
			return
		}
		if rev := ses.revision(); rev != mcp.Unknown {
			in.Opening.Revision = rev
		}
		s.inSession(w, r, ses, in)
	case opens:
		s.initialize(w, r, who, in)
	case m.Kind == jsonrpc.Notification:
		// The notification belongs to a session, but the request does not name a session.
		s.counts.dropped.Add(1)
		w.WriteHeader(http.StatusAccepted)
	case s.opts.RefuseBare:
		// 2025-11-25 §Transports, "Session Management" 2, requires the session id.
		s.refuse(w, http.StatusBadRequest, m.ID, jsonrpc.CodeInvalidRequest, "the Mcp-Session-Id header is missing")
	default:
		ses, ok := s.adopt(w, r, who, m.ID, o.Revision)
		if !ok {
			return
		}
		defer s.leave(ses)
		s.inSession(w, r, ses, in)
	}
}

// inSession passes a message to the conversation of a session.
func (s *Server) inSession(w http.ResponseWriter, r *http.Request, ses *session, in transport.Incoming) {
	if in.Msg.Kind == jsonrpc.Notification {
		s.oneWay(w, r, ses.conv, in)
		return
	}
	s.counts.legacy.Add(1)
	res := &response{server: s, w: w, r: r, id: in.Msg.ID, session: ses}
	res.seat = ses.seat
	res.conv = ses.conv
	s.serve(ses.requestContext(r), res, in)
}

// requestContext returns the context of a legacy request. The context ends with the session and not
// with the connection, because in legacy revisions a disconnect is not a cancellation (2025-11-25
// §Transports, "Sending Messages to the Server" 6). The context has the values of the request's
// context.
func (ses *session) requestContext(r *http.Request) context.Context {
	return sessionContext{ses.lifetime(), r.Context()}
}

type sessionContext struct {
	context.Context
	values context.Context
}

func (c sessionContext) Value(key any) any {
	if v := c.Context.Value(key); v != nil {
		return v
	}
	return c.values.Value(key)
}

var errNoSession = errors.New("initialize failed")

// initialize opens a session. The response contains the session id if initialize succeeds, or if
// the response becomes a stream before the answer.
func (s *Server) initialize(w http.ResponseWriter, r *http.Request, who *identity.Principal, in transport.Incoming) {
	peer := s.peer(r, who)
	party, ok := s.admit(w, r, in.Msg.ID, httpdoor.NewcomerOf(r, who.SeatKey(), clientName(in.Msg)))
	if !ok {
		transport.ReportRefused(s.opts.Acceptor, transport.RefusedMessage{
			Peer: peer, Method: in.Msg.Method, Msg: in.Msg, Limited: true,
			Err: &jsonrpc.Error{Code: jsonrpc.CodeInternal, Message: "too many sessions are open or opening"},
		})
		return
	}
	s.counts.legacy.Add(1)
	ses := s.newSession(who.SeatKey(), party)
	ses.active.Add(1)
	ses.conv = s.opts.Acceptor.Accept(peer, ses)
	res := &response{server: s, w: w, r: r, id: in.Msg.ID, session: ses, opens: true, init: initPending}
	res.seat = ses.seat
	res.conv = ses.conv
	defer s.finishInit(res)
	// Use the context of r: the client does not have the session id yet, so it could not resume a
	// broken stream.
	s.serve(r.Context(), res, in)
}

// admit reserves a place for the session of a new client, and returns the client's party. If ok is
// false, admit has refused the request.
func (s *Server) admit(w http.ResponseWriter, r *http.Request, id jsonrpc.ID, who transport.Newcomer) (party string, ok bool) {
	if s.draining.Load() {
		s.limited(w, id, httpdoor.Stopping)
		return "", false
	}
	if allow := s.opts.AllowInitialize; allow != nil {
		after, ok := allow(r.Context(), who)
		if !ok {
			s.limited(w, id, httpdoor.NotNow{Status: http.StatusTooManyRequests, Cause: "rate_limited", Why: "too many sessions are opening at the same time; try again", After: max(after, time.Second)})
			return "", false
		}
		if after > 0 {
			s.counts.delayed.Add(1)
		}
	}
	party = who.Party()
	if !s.reserve(party) {
		s.limited(w, id, httpdoor.NotNow{Status: http.StatusServiceUnavailable, Cause: "overload", Why: "too many sessions are open; try again later", After: time.Minute})
		return "", false
	}
	return party, true
}

// clientName returns the client's name and version from an initialize request.
func clientName(m *jsonrpc.Message) string {
	info := m.Param("clientInfo")
	name, _ := jsonrpc.Text(m.Raw, jsonrpc.Find(m.Raw, info, "name"))
	version, _ := jsonrpc.Text(m.Raw, jsonrpc.Find(m.Raw, info, "version"))
	return name + " " + version
}

// finishInit releases the session. If initialize has failed, finishInit also ends the session.
func (s *Server) finishInit(res *response) {
	ses := res.session
	defer s.leave(ses)
	switch res.init {
	case initSucceeded:
		return
	case idSent: // the client got the session id, but initialize failed
		if s.table.take(ses) {
			s.end(ses, errNoSession)
		}
	default:
		s.table.unreserve(ses.party)
		ses.cancel(errNoSession)
		ses.conv.Close(errNoSession)
	}
}

// publish adds a new session to the table under an id, which it sets in the header of the response.
// The caller must call recheck once it holds no lock.
func (s *Server) publish(res *response, id string) {
	if s.seats != nil {
		res.session.keep = func(extras func() []byte) { s.seats.Keep(id, extras) }
	}
	s.table.put(res.session, id)
	s.counts.opened.Add(1)
	res.w.Header()[mcp.HeaderSession] = []string{id}
	res.init = idSent
}

// recheck ends a session that was just published if EndSeat has run since the request arrived. The client
// then gets the id of a session that has ended.
func (s *Server) recheck(res *response) {
	if (res.session.over() != nil || s.again(res.r, res.session.seat) != nil) && s.table.take(res.session) {
		s.end(res.session, errNoSession)
	}
}

// negotiated returns the revision in the answer to initialize.
func negotiated(answer []byte) mcp.Revision {
	m, err := jsonrpc.Scan(answer, jsonrpc.Limits{Bytes: len(answer) + 1, Tolerant: true})
	if err != nil {
		return mcp.Unknown
	}
	date, _ := jsonrpc.Text(m.Raw, m.ResultMember("protocolVersion"))
	rev, _ := mcp.ParseRevision(date)
	return rev
}

// adopt returns the acquired session of a client that does not open sessions. It creates the
// session if necessary. If ok is false, adopt has refused the request.
func (s *Server) adopt(w http.ResponseWriter, r *http.Request, who *identity.Principal, id jsonrpc.ID, rev mcp.Revision) (ses *session, ok bool) {
	peer := s.peer(r, who)
	key := bareKey{who.SeatKey(), peer.Remote, rev}
	if ses = s.table.acquireBare(key); ses != nil {
		return ses, true
	}
	party, ok := s.admit(w, r, id, httpdoor.NewcomerOf(r, who.SeatKey(), ""))
	if !ok {
		return nil, false
	}
	made := s.newSession(who.SeatKey(), party)
	made.bare = &key
	made.rev.Store(uint32(rev))
	made.conv = s.opts.Acceptor.Accept(peer, made)
	ses = s.table.putBare(made)
	if ses == made {
		s.counts.opened.Add(1)
	} else { // another request has already created the session
		made.cancel(errNoSession)
		made.conv.Close(errNoSession)
	}
	if err := s.again(r, ses.seat); err != nil { // EndSeat may have run before the session was in the table
		if s.table.take(ses) {
			s.end(ses, err)
		}
		s.leave(ses)
		s.refuseDenied(w, err)
		return nil, false
	}
	return ses, true
}

// limited refuses a request that the client may send again later.
func (s *Server) limited(w http.ResponseWriter, id jsonrpc.ID, x httpdoor.NotNow) {
	s.counts.limited.Add(1)
	httpdoor.RefuseForNow(w, id, x)
}
