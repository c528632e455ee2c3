package fake

import (
	"net/http"
	"strconv"
	"strings"

	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
)

// Limits of HTTP sessions.
const (
	maxSessions = 1000
	maxStreams  = 100 // the maximum number of resumable streams of one session, without the GET stream
)

// serveLegacy serves Streamable HTTP with sessions (2025-11-25 §Transports, "Streamable
// HTTP"). For the differences in earlier revisions, see the function editions.
func (s *Server) serveLegacy(w http.ResponseWriter, r *http.Request) {
	if !s.only(w, r, http.MethodPost, http.MethodGet, http.MethodDelete) {
		return
	}
	switch r.Method {
	case http.MethodPost:
		s.post(w, r)
	case http.MethodGet:
		s.get(w, r)
	case http.MethodDelete:
		if c := s.session(w, r, nil); c != nil {
			s.forget(c)
			w.WriteHeader(http.StatusOK)
		}
	}
}

// post handles a POST with one message or one batch.
func (s *Server) post(w http.ResponseWriter, r *http.Request) {
	if !s.accepts(w, r, "application/json", "text/event-stream") {
		return
	}
	raw, ok := s.body(w, r)
	if !ok {
		return
	}
	if s.part.ed.has(batches) && jsonrpc.IsBatch(raw) {
		s.postBatch(w, r, raw)
		return
	}
	m, err := jsonrpc.Scan(raw, jsonrpc.Limits{Bytes: maxMessage})
	if err != nil {
		s.fail(w, http.StatusBadRequest, s.unreadable(err))
		return
	}
	var c *conversation
	opens := m.Kind == jsonrpc.Request && m.Method == mcp.MethodInitialize
	if opens {
		c = s.openSession(w, r, m)
	} else {
		c = s.session(w, r, m)
	}
	if c == nil {
		return
	}
	st := c.newStream()
	accepted, eager := true, false
	c.applyTwist(&arrival{c, raw, m, st}, func() {
		var x *exchange
		x, accepted = c.take(s.ctx, m, r.Header, st)
		if x != nil {
			eager = x.waits()
			if x.tool != nil && x.tool.long {
				st.drop = s.part.drop
			}
			st.serve(c, x.run)
		}
	})
	if m.Kind != jsonrpc.Request {
		c.forgetStream(st)
		s.accepted(w, r, st, accepted)
		return
	}
	if opens && accepted {
		w.Header().Set(mcp.HeaderSession, c.id)
	}
	status := alwaysOK
	if eager {
		status = nil
	}
	st.deliver(w, r, 0, status)
	if opens && !accepted {
		s.forget(c)
	}
}

// accepted answers a POST that contained a notification or a response. ok says whether this message
// is allowed. The answer is only a status, unless the twist has sent a message to st: then the
// answer is that message.
func (s *Server) accepted(w http.ResponseWriter, r *http.Request, st *stream, ok bool) {
	if msg, _, _, _ := st.after(0); msg != nil {
		st.deliver(w, r, 0, alwaysOK)
		return
	}
	if ok {
		w.WriteHeader(http.StatusAccepted)
		return
	}
	s.deny(w, http.StatusBadRequest, nil, refusal(jsonrpc.CodeInvalidRequest, "the message is not allowed"))
}

func (s *Server) postBatch(w http.ResponseWriter, r *http.Request, raw []byte) {
	c := s.session(w, r, nil)
	if c == nil {
		return
	}
	st := c.newStream()
	xs, b, bad := c.takeBatch(s.ctx, raw, r.Header, st)
	if bad != nil {
		c.forgetStream(st)
		s.fail(w, http.StatusBadRequest, bad)
		return
	}
	if len(xs) == 0 && b.array() == nil {
		c.forgetStream(st)
		s.accepted(w, r, st, true)
		return
	}
	st.serve(c, func() {
		b.serve(xs)
		if all := b.array(); all != nil {
			st.send(all)
		}
		st.end()
	})
	st.deliver(w, r, 0, alwaysOK)
}

func alwaysOK([]byte) int { return http.StatusOK }

// openSession starts a session for an initialize request.
func (s *Server) openSession(w http.ResponseWriter, r *http.Request, m *jsonrpc.Message) *conversation {
	if r.Header.Get(mcp.HeaderSession) != "" {
		// 2025-11-25 §Transports, "Session Management": initialize must not have a session id.
		s.deny(w, http.StatusBadRequest, m, s.refuse(m.Method, jsonrpc.CodeInvalidRequest, "initialize must not have an Mcp-Session-Id header"))
		return nil
	}
	if v := r.Header.Get(mcp.HeaderVersion); v != "" && v != s.part.ed.date && s.part.ed.has(versionHeader) {
		// 2025-11-25 §Transports, "Protocol Version Header": the server answers an unsupported
		// version with 400. Before initialize, the client does not know the version, so an
		// unsupported version is not a violation.
		s.deny(w, http.StatusBadRequest, m, refusal(jsonrpc.CodeInvalidRequest, "the MCP-Protocol-Version %s is not supported", clip(v)))
		return nil
	}
	return s.newSession(newStream(s, ""))
}

// newSession creates a session and registers it. standing is the GET stream of the session.
func (s *Server) newSession(standing *stream) *conversation {
	standing.standing = true
	c := s.converse(standing)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.state.lastSession++
	c.id = "fake-session-" + strconv.Itoa(s.state.lastSession)
	c.standing = standing
	c.streams = map[string]*stream{"0": standing}
	standing.id = "0"
	if len(s.state.sessions) < maxSessions {
		s.state.sessions[c.id] = c
	}
	return c
}

// newStream adds a resumable stream to a session and returns it.
func (c *conversation) newStream() *stream {
	c.s.mu.Lock()
	defer c.s.mu.Unlock()
	c.lastStream++
	st := newStream(c.s, strconv.Itoa(c.lastStream))
	c.streams[st.id] = st
	delete(c.streams, strconv.Itoa(c.lastStream-maxStreams)) // the next lines restore the GET stream, which has the id 0
	if c.lastStream == maxStreams {
		c.streams["0"] = c.standing
	}
	return st
}

// forgetStream removes a stream from the resumable streams of a session.
func (c *conversation) forgetStream(st *stream) {
	c.s.mu.Lock()
	defer c.s.mu.Unlock()
	delete(c.streams, st.id)
}

// session returns the session of an HTTP request. If the request has no valid session, the function
// answers it with an error and returns nil. m is the message in the request, or nil.
func (s *Server) session(w http.ResponseWriter, r *http.Request, m *jsonrpc.Message) *conversation {
	where := "HTTP " + r.Method
	ids := r.Header.Values(mcp.HeaderSession)
	if m != nil && len(ids) == 0 && !jsonrpc.Find(m.Raw, m.Param(mcp.KeyMeta), mcp.KeyVersion).IsZero() {
		// 2026-07-28 §Streamable HTTP, "Backward Compatibility": from this answer, a client that
		// supports both eras concludes that the server is legacy.
		s.deny(w, http.StatusBadRequest, m, refusal(jsonrpc.CodeInvalidRequest, "a session of %s begins with initialize", s.part.ed.date))
		return nil
	}
	if len(ids) != 1 {
		s.deny(w, http.StatusBadRequest, m, s.refuse(where, jsonrpc.CodeInvalidRequest, "the request has %d Mcp-Session-Id headers instead of one", len(ids)))
		return nil
	}
	s.mu.Lock()
	c := s.state.sessions[ids[0]]
	s.mu.Unlock()
	if c == nil {
		// 2025-11-25 §Transports, "Session Management".
		s.deny(w, http.StatusNotFound, m, refusal(jsonrpc.CodeInvalidRequest, "unknown session"))
		return nil
	}
	if got := r.Header.Values(mcp.HeaderVersion); s.part.ed.has(versionHeader) && (len(got) != 1 || got[0] != s.part.ed.date) {
		// 2025-06-18 §Transports, "Protocol Version Header".
		s.deny(w, http.StatusBadRequest, m, s.refuse(where, jsonrpc.CodeInvalidRequest, "MCP-Protocol-Version is %q, but the session uses %s", clip(strings.Join(got, ", ")), s.part.ed.date))
		return nil
	}
	return c
}

// forget ends a session.
func (s *Server) forget(c *conversation) {
	s.mu.Lock()
	delete(s.state.sessions, c.id)
	s.mu.Unlock()
	c.end(errGone)
	s.mu.Lock()
	var all []*stream
	for _, st := range c.streams {
		all = append(all, st)
	}
	s.mu.Unlock()
	for _, st := range all {
		st.end()
	}
}

// get opens the GET stream, or resumes an interrupted stream (2025-11-25 §Transports,
// "Listening for Messages from the Server", "Resumability and Redelivery").
func (s *Server) get(w http.ResponseWriter, r *http.Request) {
	if !s.accepts(w, r, "text/event-stream") {
		return
	}
	c := s.session(w, r, nil)
	if c == nil {
		return
	}
	st, from := c.standing, -1
	if last := r.Header.Get(mcp.HeaderLastEvent); last != "" {
		id, number, _ := strings.Cut(last, ".")
		n, err := strconv.Atoi(number)
		s.mu.Lock()
		st = c.streams[id]
		s.mu.Unlock()
		if st == nil || err != nil || n < 0 {
			s.deny(w, http.StatusBadRequest, nil, s.refuse("HTTP GET", jsonrpc.CodeInvalidRequest, "this session has no event %s", clip(last)))
			return
		}
		from = n
	}
	st.deliver(w, r, from, nil)
}
