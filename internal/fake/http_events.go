package fake

import (
	"net/http"
	"net/url"

	"github.com/dragoman-mcp/dragoman/internal/jsonrpc"
)

// serveEvents is the event stream of HTTP+SSE: first where to post, then all that
// the server says (2024-11-05 §Transports, "HTTP with SSE").
func (s *Server) serveEvents(w http.ResponseWriter, r *http.Request) {
	if !s.only(w, r, http.MethodGet) {
		return
	}
	st := newStream(s, "")
	c := s.newSession(st)
	defer s.forget(c)
	st.id = "" // its events cannot be asked for again
	h := w.Header()
	h.Set("Content-Type", "text/event-stream")
	h.Set("Cache-Control", "no-cache")
	w.WriteHeader(http.StatusOK)
	out := &eventWriter{w: w, flush: http.NewResponseController(w)}
	out.event("endpoint", "", messagesPath+"?session="+url.QueryEscape(c.id))
	out.flushed()
	me, last := st.take(0)
	defer st.leave(me)
	for {
		msg, _, ok := st.wait(r.Context(), me, last)
		if !ok || msg == nil {
			return
		}
		_, last, _, _ = st.after(last)
		out.event("message", "", string(msg))
		out.flushed()
		if !st.mine(me, last) || out.err != nil {
			return
		}
	}
}

// servePosted takes a message; what it is answered comes as an event.
func (s *Server) servePosted(w http.ResponseWriter, r *http.Request) {
	if !s.only(w, r, http.MethodPost) {
		return
	}
	raw, ok := s.body(w, r)
	if !ok {
		return
	}
	s.mu.Lock()
	c := s.state.sessions[r.URL.Query().Get("session")]
	s.mu.Unlock()
	if c == nil {
		http.Error(w, "there is no such session", http.StatusNotFound)
		return
	}
	if jsonrpc.Valid(raw, jsonrpc.Limits{Bytes: maxMessage}) != nil {
		s.violate("HTTP POST", "the body is not JSON")
		http.Error(w, "the body is not JSON", http.StatusBadRequest)
		return
	}
	m, err := jsonrpc.Scan(raw, jsonrpc.Limits{Bytes: maxMessage})
	if err == nil && m.Kind != jsonrpc.Request {
		// Whoever is told that it was taken may rely on that: a request that is posted
		// next must not overtake it.
		c.heard(s.ctx, raw, c.out)
		w.WriteHeader(http.StatusAccepted)
		return
	}
	w.WriteHeader(http.StatusAccepted)
	_ = http.NewResponseController(w).Flush()
	c.heard(s.ctx, raw, c.out)
}
