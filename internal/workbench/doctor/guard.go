package doctor

import (
	"bytes"
	"context"
	"mime"
	"net"
	"net/http"
	"net/netip"
	"strconv"
	"strings"

	"github.com/dragoman-mcp/dragoman/internal/base/pattern"

	"github.com/dragoman-mcp/dragoman/internal/base/excerpt"
	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
	"github.com/dragoman-mcp/dragoman/internal/workbench/rawlink"
)

// foreignHost is the host of an imaginary malicious web page in the user's browser.
const foreignHost = "attacker.example"

// guards returns the probes of one revision that exist only over HTTP.
func (e *exam) guards(r mcp.Revision) []probe {
	guard := func(name string, run func(context.Context, *talk, *web)) probe {
		return probe{name: name + " (" + r.String() + ")", rev: r, run: func(ctx context.Context, t *talk) {
			if w, ok := t.w.(*web); ok {
				run(ctx, t, w)
			}
		}}
	}
	all := []probe{guard("Origin and Host", e.origins), guard("content type", e.contentType)}
	if r.Can(mcp.HTTPSessions) {
		all = append(all, guard("sessions", e.sessions), guard("the end of a session", e.sessionEnd), guard("GET", e.standing))
	}
	if r.Can(mcp.VersionHeader) && r.Legacy() {
		all = append(all, guard("the version header", e.versionHeader))
	}
	if r.Can(mcp.MirroredHeaders) {
		all = append(all, guard("headers that repeat the body", e.mirrored), guard("GET and DELETE", e.gone))
	}
	return all
}

// visit is one request with its response.
type visit struct {
	sent   string // a description of the request, for evidence
	status int
	header http.Header
	body   []byte           // the first 64 KiB of the body of the response
	msg    *jsonrpc.Message // the message in body, or nil
	err    error
}

// served reports whether the server accepted the request.
func (v *visit) served() bool {
	return v.err == nil && v.status < 300 && (v.msg == nil || v.msg.Kind != jsonrpc.Failure)
}

// code returns the error code in the body, or 0.
func (v *visit) code() int64 {
	if v.msg == nil || v.msg.Kind != jsonrpc.Failure {
		return 0
	}
	n, _ := jsonrpc.Int(v.msg.Raw, jsonrpc.Find(v.msg.Raw, v.msg.Error, "code"))
	return n
}

func (e *exam) seen(v *visit) string {
	if v.err != nil {
		return evidence("> "+v.sent, "# "+e.redact([]byte(v.err.Error())))
	}
	got := "< HTTP status " + strconv.Itoa(v.status)
	if len(v.body) > 0 {
		got += ": " + e.redact(v.body)
	}
	return evidence("> "+v.sent, got)
}

// visit sends one request outside the conversation. note describes the request in the evidence.
func (w *web) visit(ctx context.Context, e *exam, p parcel, note string) *visit {
	ctx, cancel := context.WithTimeout(ctx, e.o.Patience)
	defer cancel()
	v := &visit{sent: strings.TrimSpace(p.method + " " + e.redact(p.body) + " " + note)}
	q, err := w.request(ctx, p)
	if err != nil {
		v.err = err
		return v
	}
	res, err := e.t.Transport.RoundTrip(q)
	if err != nil {
		v.err = err
		return v
	}
	defer res.Body.Close()
	v.status, v.header = res.StatusCode, res.Header
	kind, _, _ := mime.ParseMediaType(res.Header.Get("Content-Type"))
	if kind != "text/event-stream" || p.method != http.MethodGet {
		for ev := range rawlink.Messages(res, 64<<10) {
			if v.body = ev.Data; len(v.body) > 0 {
				break
			}
		}
	}
	if m, err := jsonrpc.Scan(bytes.TrimSpace(v.body), jsonrpc.Limits{Tolerant: true}); err == nil {
		v.msg = m
	}
	return v
}

// again sends a request in the revision of the conversation. h has the headers to change. A header
// without a value in h is removed from the request.
func (e *exam) again(ctx context.Context, t *talk, w *web, h http.Header) *visit {
	body := jsonrpc.AppendRequest(nil, t.nextID(), alive(t.rev), t.params(""))
	var notes []string
	for name, values := range h {
		if len(values) == 0 || values[0] == "" {
			notes = append(notes, "without "+name)
		} else {
			notes = append(notes, name+": "+values[0])
		}
	}
	note := ""
	if len(notes) > 0 {
		note = "(" + strings.Join(notes, ", ") + ")"
	}
	return w.visit(ctx, e, parcel{body: body, method: http.MethodPost, header: h}, note)
}

// local reports whether only this machine can reach the server. Such a server can distinguish a page
// in the user's browser from a client only by the headers Origin and Host.
func (e *exam) local() bool {
	host := e.t.URL.Hostname()
	if a, err := netip.ParseAddr(host); err == nil {
		return a.Unmap().IsLoopback()
	}
	return host == "localhost" || strings.HasSuffix(host, ".localhost")
}

// origins sends requests that a page in a browser could send (2025-11-25 §Transports,
// "Security Warning"). A POST from a page always has an Origin header. With DNS rebinding, its Host
// header also has the host name of the page.
func (e *exam) origins(ctx context.Context, t *talk, w *web) {
	page := "https://" + foreignHost
	v := e.again(ctx, t, w, http.Header{"Origin": {page}})
	if !v.served() && v.err == nil && v.status != http.StatusForbidden {
		t.find(OriginStatus, e.seen(v))
	}
	if !e.local() {
		if v.served() {
			t.find(OriginUnchecked, e.seen(v))
		}
		return
	}
	if len(e.t.Header) > 0 {
		// A page does not know the credentials that doctor was given. If the server answers only
		// requests with these credentials, a page cannot use it.
		bare := http.Header{}
		for name := range e.t.Header {
			bare[name] = nil
		}
		if !e.again(ctx, t, w, bare).served() {
			if v.served() {
				t.find(OriginUnchecked, e.seen(v))
			}
			return
		}
	}
	host := foreignHost
	if port := e.t.URL.Port(); port != "" {
		host = net.JoinHostPort(host, port)
	}
	rebound := e.again(ctx, t, w, http.Header{"Origin": {"http://" + host}, "Host": {host}})
	switch {
	case rebound.served():
		t.find(Rebinding, e.seen(rebound))
	case v.served() && e.shares(ctx, w, page):
		t.find(Rebinding, e.seen(v))
	case v.served():
		t.find(OriginUnchecked, e.seen(v))
	}
}

// shares reports whether a page of another origin may send JSON to the server, according to the
// server's CORS preflight response (Fetch §"CORS-preflight fetch").
func (e *exam) shares(ctx context.Context, w *web, page string) bool {
	v := w.visit(ctx, e, parcel{method: http.MethodOptions, header: http.Header{
		"Origin": {page}, "Access-Control-Request-Method": {http.MethodPost}, "Access-Control-Request-Headers": {"content-type"},
	}}, "")
	if v.err != nil || v.status >= 300 {
		return false
	}
	origin, headers := v.header.Get("Access-Control-Allow-Origin"), strings.ToLower(v.header.Get("Access-Control-Allow-Headers"))
	return (origin == "*" || origin == page) && (strings.Contains(headers, "*") || strings.Contains(headers, "content-type"))
}

// contentType sends JSON as text/plain. A page in a browser can send text/plain without a preflight
// request (CORS simple requests).
func (e *exam) contentType(ctx context.Context, t *talk, w *web) {
	if v := e.again(ctx, t, w, http.Header{"Content-Type": {"text/plain"}}); v.served() {
		t.find(ContentTypeUnchecked, e.seen(v))
	}
}

// sessions checks Mcp-Session-Id (2025-11-25 §Transports, "Session Management").
func (e *exam) sessions(ctx context.Context, t *talk, w *web) {
	id := w.sessionOf()
	if id == "" {
		return // sessions are optional
	}
	shown := "# " + mcp.HeaderSession + ": " + e.redact([]byte(clip(id)))
	for _, b := range []byte(id) {
		if b < 0x21 || b > 0x7e {
			t.find(SessionID, shown)
			break
		}
	}
	if !e.local() && guessable(id) {
		t.find(SessionGuessable, shown)
	}
	if v := e.again(ctx, t, w, http.Header{mcp.HeaderSession: nil}); v.served() {
		t.find(SessionUnneeded, e.seen(v))
	}
	v := e.again(ctx, t, w, http.Header{mcp.HeaderSession: {"dragoman-no-such-session"}})
	switch {
	case v.err != nil:
	case v.served():
		t.find(SessionAny, e.seen(v))
	case v.status != http.StatusNotFound:
		t.find(SessionLostStatus, e.seen(v))
	}
}

// guessable reports whether a session id is short, or has few distinct characters.
func guessable(id string) bool {
	kinds := map[rune]bool{}
	for _, r := range id {
		kinds[r] = true
	}
	return len(id) < 16 || len(kinds) < 8
}

// sessionEnd ends the session, and then sends a request in the ended session.
func (e *exam) sessionEnd(ctx context.Context, t *talk, w *web) {
	if w.sessionOf() == "" {
		return
	}
	v := w.visit(ctx, e, parcel{method: http.MethodDelete}, "")
	switch {
	case v.err != nil, v.status == http.StatusMethodNotAllowed: // the server may refuse to end the session
	case v.status >= 300:
		t.find(DeleteStatus, e.seen(v))
	default:
		if after := e.again(ctx, t, w, nil); after.served() {
			t.find(SessionSurvives, evidence(e.seen(v), e.seen(after)))
		}
	}
}

// standing sends a GET request for a stream. The server must open the stream or answer with status
// 405 (2025-11-25 §Transports, "Listening for Messages from the Server").
func (e *exam) standing(ctx context.Context, t *talk, w *web) {
	v := w.visit(ctx, e, parcel{method: http.MethodGet}, "")
	if v.err != nil || v.status == http.StatusMethodNotAllowed {
		return
	}
	kind, _, _ := mime.ParseMediaType(v.header.Get("Content-Type"))
	if v.status != http.StatusOK || kind != "text/event-stream" {
		t.find(GetStatus, e.seen(v))
	}
}

// versionHeader sends a request with a wrong MCP-Protocol-Version, and a request without this header
// (2025-06-18 §Transports, "Protocol Version Header").
func (e *exam) versionHeader(ctx context.Context, t *talk, w *web) {
	if v := e.again(ctx, t, w, http.Header{mcp.HeaderVersion: {mcp.UnknownVersion}}); v.served() {
		t.find(VersionHeaderUnchecked, e.seen(v))
	}
	if v := e.again(ctx, t, w, http.Header{mcp.HeaderVersion: nil}); v.err == nil && !v.served() {
		t.find(VersionHeaderNeeded, e.seen(v))
	}
}

// mirrored sends requests with headers that contradict the body, and requests without these headers
// (2026-07-28 §Streamable HTTP, "Request Metadata").
func (e *exam) mirrored(ctx context.Context, t *talk, w *web) {
	for _, h := range []http.Header{
		{mcp.HeaderMethod: {mcp.MethodListTools}}, {mcp.HeaderMethod: nil},
		{mcp.HeaderVersion: {mcp.UnknownVersion}}, {mcp.HeaderVersion: nil},
	} {
		v := e.again(ctx, t, w, h)
		switch {
		case v.err != nil:
		case v.served():
			t.find(HeadersUnchecked, e.seen(v))
		case v.status != http.StatusBadRequest || v.code() != mcp.CodeHeaderMismatch && v.code() != mcp.CodeUnsupportedVersion:
			t.find(HeadersStatus, e.seen(v))
		}
	}
}

// gone sends a GET and a DELETE, which only earlier revisions use (2026-07-28 §Streamable HTTP,
// "Earlier Streamable HTTP Revisions"). A server that supports an earlier revision may accept them.
func (e *exam) gone(ctx context.Context, t *talk, w *web) {
	for _, r := range mcp.Revisions(mcp.HTTPSessions) {
		e.mu.Lock()
		legacy := e.tried[r] != nil && (e.tried[r].opened || e.tried[r].answer != "")
		e.mu.Unlock()
		if legacy {
			return
		}
	}
	for _, method := range []string{http.MethodGet, http.MethodDelete} {
		v := w.visit(ctx, e, parcel{method: method}, "")
		if v.err == nil && v.status != http.StatusMethodNotAllowed {
			t.find(GoneStatus, e.seen(v))
		}
	}
}

// judgeResponse reports what is wrong with an HTTP response.
func (t *talk) judgeResponse(q *question) {
	if q.err != nil {
		return
	}
	see := func(code string) { t.find(code, t.proof(q)) }
	kind, _, _ := mime.ParseMediaType(q.header.Get("Content-Type"))
	ok := q.status >= 200 && q.status < 300
	switch {
	case q.status == http.StatusUnauthorized:
		t.e.wantsSignIn(q.header.Values("WWW-Authenticate"))
		see(t.e.credentialsCode())
	case q.status == http.StatusForbidden, q.status == http.StatusMisdirectedRequest:
		if code := t.forbidden(q); code != "" {
			see(code)
		}
	case q.id == bigID: // the function bigID reports this error with a code of its own, because few clients send such an id
	case q.status >= 500:
		see(ServerError)
	case q.id == "" && !q.odd() && ok && q.status != http.StatusAccepted && !t.rev.Modern():
		see(NoteStatus)
	case q.id == "" && q.method == mcp.NoteInitialized && !ok:
		see(InitializedStatus)
	case q.id != "" && ok && q.msg == nil && len(q.raw) == 0 && !q.givenUp:
		see(NoAnswer)
	case q.id != "" && ok && q.msg != nil && kind != "application/json" && kind != "text/event-stream":
		see(ContentType)
	}
}

// forbidden returns the code for a response 403 or 421 whose reason is the host name or missing
// credentials. For any other reason, forbidden returns "".
func (t *talk) forbidden(q *question) string {
	text := strings.ToLower(string(q.raw[:min(len(q.raw), 2<<10)]))
	switch {
	case q.header.Get("WWW-Authenticate") != "":
		return t.e.credentialsCode()
	case hostWord().MatchString(text) && refusalWord().MatchString(text):
		return HostRefused
	}
	if w, ok := t.w.(*web); ok && q.msg == nil && t.e.servesLocalhost(w) {
		return HostRefused
	}
	if q.status != http.StatusForbidden || q.msg != nil {
		return ""
	}
	code := t.e.credentialsCode()
	if kind, _, _ := mime.ParseMediaType(q.header.Get("Content-Type")); code == WantsCredentials && kind == "text/html" {
		return "" // a web page does not show that there is an MCP server which wants credentials
	}
	return code
}

// wantsSignIn remembers the challenges of the first 401.
func (e *exam) wantsSignIn(fields []string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.wants == nil {
		e.wants = fields
	}
}

// credentialsCode returns the code for a server that refuses a request because of missing or wrong
// credentials.
func (e *exam) credentialsCode() string {
	for name := range e.t.Header {
		if strings.EqualFold(name, "Authorization") || excerpt.SecretName(name) {
			return CredentialsRefused
		}
	}
	return WantsCredentials
}

// These patterns match the texts with which servers refuse a host name.
var (
	hostWord    = pattern.Later(`\bhost(name)?s?\b|dns.rebinding`)
	refusalWord = pattern.Later(`invalid|not allowed|disallowed|not permitted|forbidden|blocked|denied|untrusted|unknown|unexpected|mismatch|not in|rebinding`)
)

// servesLocalhost reports whether a server that refuses the host name in the URL accepts
// localhost. It sends requests only when it is called for the first time.
func (e *exam) servesLocalhost(w *web) bool {
	e.byName.Do(func() {
		for _, name := range []string{"localhost", "127.0.0.1"} {
			if name == e.t.URL.Hostname() {
				continue
			}
			if port := e.t.URL.Port(); port != "" {
				name = net.JoinHostPort(name, port)
			}
			body := jsonrpc.AppendRequest(nil, "1", mcp.MethodInitialize, []byte("{"+greeting(mcp.LatestLegacy.String())+"}"))
			v := w.visit(w.ctx, e, parcel{body: body, header: http.Header{"Host": {name}}}, "")
			// Only an MCP answer counts, because a reverse proxy for many hosts may also answer
			// requests for unknown hosts.
			if v.served() && v.msg != nil {
				e.knowsLocalhost = true
				return
			}
		}
	})
	return e.knowsLocalhost
}
