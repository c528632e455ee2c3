package streamhttp

import (
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/base/identity"
	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp/mirror"
	"github.com/dragoman-mcp/dragoman/internal/transport"
	"github.com/dragoman-mcp/dragoman/internal/transport/httpdoor"
)

// modern serves an independent message with its own conversation, which ends with the response. If
// the client disconnects, the request is cancelled (2026-07-28 §Streamable HTTP, "Cancellation").
// If what the request needs is in another process, which hasn't got the request, it's served once more
// from the beginning: that may be here meanwhile.
func (s *Server) modern(w http.ResponseWriter, r *http.Request, who *identity.Principal, h headers, m *jsonrpc.Message, o mcp.Opening) {
	in := transport.Incoming{Msg: m, Version: h.version, HTTP: true, Opening: o, Request: requestOf(r)}
	if m.Kind == jsonrpc.Notification {
		// The specification does not define headers for notifications, so Dragoman requires none.
		conv := s.opts.Acceptor.Accept(s.peer(r, who), nil)
		defer conv.Close(nil)
		s.oneWay(w, r, conv, in)
		return
	}
	bad := checkMirrors(r.Header, m)
	if bad == nil {
		bad = mcp.CheckModern(m, o)
	}
	if bad != nil {
		s.counts.refused.Add(1)
		s.reportRefused(r, who, m.Method, m, bad)
		httpdoor.Refuse(w, http.StatusBadRequest, m.ID, bad)
		return
	}
	in.Params = paramHeaders(r.Header)
	s.counts.modern.Add(1)
	end := time.Now().Add(seekFor)
	for try := 0; ; try++ {
		res := &response{server: s, w: w, r: r, id: m.ID, who: who, modern: true, ends: h.ends}
		res.seat = who.SeatKey()
		res.conv = s.opts.Acceptor.Accept(s.peer(r, who), nil)
		if s.serve(r.Context(), res, in) {
			return
		}
		if !seeksOn(r.Context(), try, end) {
			s.pass(w, r, who, m.Raw, &transport.Elsewhere{}) // nobody could say in time who has what it needs
			return
		}
	}
}

// checkMirrors compares the mirrored headers with the body (2026-07-28 §Streamable HTTP, "Server
// Validation"). net/http ignores the case of header names, but the case of values matters.
func checkMirrors(h http.Header, m *jsonrpc.Message) *jsonrpc.Error {
	method := h[mcp.HeaderMethod]
	switch {
	case len(method) == 0:
		return mismatch(m, "header mismatch: Mcp-Method is missing")
	case len(method) > 1 || method[0] != m.Method:
		return mismatch(m, "header mismatch: Mcp-Method differs from the method in the body")
	}
	known := mcp.LookupMethod(m.Method)
	if known == nil || known.NameKey == "" || !known.In(mcp.Latest) {
		return nil // Mcp-Name is not required for this method, or the method is refused later
	}
	name := h[mcp.HeaderName]
	at := m.Param(known.NameKey)
	if jsonrpc.KindOf(m.Raw, at) != '"' {
		if len(name) != 0 {
			return mismatch(m, "header mismatch: Mcp-Name is present, but params."+known.NameKey+" is not a string")
		}
		return nil // the body has no value to compare; the conversation refuses the body
	}
	// Usually the header and the body have the same bytes.
	if len(name) == 1 && plain(name[0]) && string(m.Raw[at.Start+1:at.End-1]) == name[0] {
		return nil
	}
	text, _ := jsonrpc.Text(m.Raw, at)
	bad := mirror.CheckValue("Mcp-Name", name, text)
	if bad != nil {
		bad.ID = m.ID
	}
	return bad
}

func mismatch(m *jsonrpc.Message, why string) *jsonrpc.Error {
	return &jsonrpc.Error{Code: mcp.CodeHeaderMismatch, Message: why, ID: m.ID}
}

// plain reports whether a value has the same bytes in a header and in a JSON string.
func plain(v string) bool {
	for i := range len(v) {
		if c := v[i]; c < ' ' || c > '~' || c == '\\' || c == '"' {
			return false
		}
	}
	return !strings.HasPrefix(v, "=?")
}

// paramHeaders returns the Mcp-Param-* headers, sorted by name, or nil if there are none.
func paramHeaders(h http.Header) (fields []transport.HeaderField) {
	for name, values := range h {
		if len(name) > len(mcp.HeaderParam) && name[:len(mcp.HeaderParam)] == mcp.HeaderParam {
			for _, v := range values {
				fields = append(fields, transport.HeaderField{Name: name, Value: v})
			}
		}
	}
	if len(fields) > 1 {
		slices.SortStableFunc(fields, func(a, b transport.HeaderField) int { return strings.Compare(a.Name, b.Name) })
	}
	return fields
}
