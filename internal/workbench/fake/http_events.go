package fake

import (
	"net/http"
	"net/url"

	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
)

// serveEvents serves the event stream of HTTP+SSE. The first event contains the URL for POST. The
// other events contain the messages from the server (2024-11-05 §Transports, "HTTP with SSE").
func (s *Server) serveEvents(w http.ResponseWriter, r *http.Request) {
	if !s.only(w, r, http.MethodGet) {
		return
	}
	st := newStream(s, "")
	c := s.newSession(st)
	defer s.forget(c)
	st.id = "" // the events have no ids, so the stream cannot be resumed
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

// servePosted handles a posted message. It sends the response as an event on the stream of the
// session.
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
		http.Error(w, "unknown session", http.StatusNotFound)
		return
	}
	if jsonrpc.Valid(raw, jsonrpc.Limits{Bytes: maxMessage}) != nil {
		s.violate("HTTP POST", "the body is not JSON")
		http.Error(w, "the body is not JSON", http.StatusBadRequest)
		return
	}
	m, err := jsonrpc.Scan(raw, jsonrpc.Limits{Bytes: maxMessage})
	if err == nil && m.Kind != jsonrpc.Request {
		// Process the message before the 202. After the 202, the client may post a request, which
		// must not overtake this message.
		c.process(s.ctx, raw, c.out)
		w.WriteHeader(http.StatusAccepted)
		return
	}
	w.WriteHeader(http.StatusAccepted)
	_ = http.NewResponseController(w).Flush()
	c.process(s.ctx, raw, c.out)
}
