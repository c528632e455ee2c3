package cluster

import (
	"bytes"
	"context"
	"errors"
	"io"
	"mime"
	"net"
	"net/http"
	"net/textproto"
	"strings"
	"syscall"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/base/work"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
	"github.com/dragoman-mcp/dragoman/internal/transport"
	"github.com/dragoman-mcp/dragoman/internal/transport/eventstream"
	"github.com/dragoman-mcp/dragoman/internal/transport/httpdoor"
)

// Headers between replicas. From anybody else they are refused; see Outside.
const (
	hopHeader    = "Dragoman-Hop"    // the incarnation that has what the request is about
	remoteHeader = "Dragoman-Remote" // the address of the client
)

// hopHeaders are those that only a replica may send.
var hopHeaders = []string{hopHeader, remoteHeader, localHeader}

// hopped is the key of the context of requests that another replica has passed on.
type hopped struct{}

// isHop reports whether another replica has passed on the request of a context.
func isHop(ctx context.Context) bool { return ctx.Value(hopped{}) != nil }

// receive serves a request that another replica has passed on, or answers with 421 if it's not for us. Nothing has been
// done for it then.
func (c *Cluster) receive(w http.ResponseWriter, r *http.Request, next http.Handler) {
	home := r.Header.Get(hopHeader)
	switch {
	case home == "":
		http.NotFound(w, r)
		return
	case !c.mine(home) || c.doing() == Gone:
		w.WriteHeader(http.StatusMisdirectedRequest)
		return
	}
	ctx := context.WithValue(r.Context(), hopped{}, true)
	if r.Header[localHeader] != nil {
		ctx = context.WithValue(ctx, asLocal{}, true)
	}
	r = r.WithContext(ctx)
	r.RemoteAddr = r.Header.Get(remoteHeader)
	for _, name := range hopHeaders {
		r.Header.Del(name)
	}
	next.ServeHTTP(w, r)
}

// Outside returns a handler that refuses the headers between replicas, and passes on everything else.
func Outside(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		for _, name := range hopHeaders {
			if r.Header[name] != nil {
				http.Error(w, "The header "+name+" is only for requests between replicas.", http.StatusBadRequest)
				return
			}
		}
		next.ServeHTTP(w, r)
	})
}

// Reaches implements httpdoor.Forwarder. A request is passed on once: what its session needs and what else it names can
// be in two places, and then nobody could serve it. If it's about something that may move, Forward says so to whoever has
// passed it on.
func (c *Cluster) Reaches(r *http.Request, to *transport.Elsewhere) bool {
	if to.Again {
		return true
	}
	if isHop(r.Context()) {
		return false
	}
	to.Lost = c.member(r.Context(), to.Home) == nil
	return !to.Lost
}

// These are the errors that clients hear when passing on fails.
var (
	errNotSent = &mcp.Error{
		Message:   "the replica of Dragoman that has what this request is about cannot be reached; nothing was sent, so try again in some seconds",
		Origin:    mcp.FromGateway,
		Cause:     "replica_unreachable",
		Outcome:   mcp.NotSent,
		Retryable: true,
	}
	errLost = &mcp.Error{
		Message: "the replica of Dragoman that ran this request was lost before it had answered; the server may have executed it",
		Origin:  mcp.FromGateway,
		Cause:   "replica_lost",
		Outcome: mcp.OutcomeUnknown,
	}
)

// Tries of a request that the home has not taken. If it doesn't know us yet, it needs up to a second to look again.
const (
	mostTries  = 3
	triesWait  = 50 * time.Millisecond
	knownAfter = 600 * time.Millisecond
)

// Forward implements httpdoor.Forwarder: it passes the request on to its home, with the client's credentials, and the
// answer back as it comes.
func (c *Cluster) Forward(w http.ResponseWriter, r *http.Request, body []byte, to *transport.Elsewhere) (done bool) {
	if isHop(r.Context()) {
		w.WriteHeader(http.StatusMisdirectedRequest)
		return true
	}
	if to.Forget != nil {
		defer func() {
			if !done {
				to.Forget()
			}
		}()
	}
	w = patient{w}
	gone := false
	for try := range mostTries {
		if to.Home == "" {
			break
		}
		l := c.linkTo(r.Context(), to.Home)
		if l == nil {
			break
		}
		resp, sent, err := l.pass(r, body)
		gone = errors.Is(err, syscall.ECONNREFUSED) || errors.Is(err, errStranger)
		switch {
		case r.Context().Err() != nil: // the client has gone
			if err == nil {
				_ = resp.Body.Close()
			}
			return true
		case err != nil && sent && !(to.Again && repeats(r, body)):
			fail(w, body, to, errLost)
			return true
		case err == nil && resp.StatusCode != http.StatusMisdirectedRequest:
			answer(w, r, body, resp, to)
			return true
		case err == nil:
			_ = resp.Body.Close()
		}
		if to.Again {
			if to.Lost = err != nil; to.Lost {
				c.lookAgain(r.Context())
			}
			return false
		}
		// Nothing has happened. 421 means that what we know is old.
		wait := triesWait
		if keptOut(err) {
			wait = knownAfter
		}
		if try+1 == mostTries || work.Sleep(r.Context(), wait) != nil {
			break
		}
		c.lookAgain(r.Context())
	}
	switch {
	case to.Again:
		return false
	case gone && to.Refusal != nil: // what it was about has ended with the process
		fail(w, body, to, to.Refusal)
	default:
		fail(w, body, to, errNotSent)
	}
	return true
}

// repeats reports whether a request may be sent once more, although the home may have got it.
func repeats(r *http.Request, body []byte) bool {
	if r.Method == http.MethodGet {
		return true
	}
	m, err := jsonrpc.Scan(body, jsonrpc.Limits{Bytes: len(body)})
	if err != nil || m.Kind != jsonrpc.Request {
		return false
	}
	switch m.Method {
	case mcp.MethodPing, mcp.MethodListTools, mcp.MethodListPrompts, mcp.MethodListResources, mcp.MethodListTemplates, mcp.MethodReadResource, mcp.MethodGetPrompt:
		return true
	}
	return false
}

// pass sends a request to the home. sent reports whether the home may have got any of it. The answer's body must be
// closed.
func (l *link) pass(r *http.Request, body []byte) (resp *http.Response, sent bool, err error) {
	if !l.known.Load() {
		// With TLS 1.3, the request would be on its way before we hear that we aren't let in.
		if _, err := l.get(r.Context(), pingPath); err != nil {
			return nil, false, err
		}
		l.known.Store(true)
	}
	ctx, cancel := context.WithCancel(r.Context())
	stop := context.AfterFunc(l.ctx, cancel)
	out := (&http.Request{Method: r.Method, URL: r.URL, Host: r.Host, Header: r.Header.Clone()}).WithContext(ctx)
	removeHopHeaders(out.Header)
	out.Header[hopHeader] = []string{l.to.Incarnation}
	out.Header[remoteHeader] = []string{r.RemoteAddr}
	resp, sent, err = l.origin.Exchange(out, body)
	if err != nil {
		stop()
		cancel()
		return nil, sent, err
	}
	resp.Body = &passed{resp.Body, func() { stop(); cancel() }}
	return resp, true, nil
}

// keptOut reports whether an error says that a replica doesn't let us in, perhaps because it hasn't seen yet that we've come.
func keptOut(err error) bool {
	var op *net.OpError
	return errors.As(err, &op) && op.Op == "remote error"
}

// passed is the body of an answer; closing it ends the request.
type passed struct {
	io.ReadCloser
	end func()
}

func (p *passed) Close() error {
	p.end()
	return p.ReadCloser.Close()
}

// removeHopHeaders removes what is about one connection (RFC 9110, section 7.6.1).
func removeHopHeaders(h http.Header) {
	for _, line := range h["Connection"] {
		for name := range strings.SplitSeq(line, ",") {
			if name = textproto.TrimString(name); !asks(name) {
				h.Del(name)
			}
		}
	}
	for _, name := range []string{"Connection", "Proxy-Connection", "Keep-Alive", "Te", "Trailer", "Transfer-Encoding", "Upgrade"} {
		h.Del(name)
	}
}

// asks reports whether the home has to see a header, whatever a client says of it: those say who asks, and for what.
func asks(name string) bool {
	name = textproto.CanonicalMIMEHeaderKey(name)
	return name == "Authorization" || name == "X-Api-Key" || name == "Origin" || name == "Accept" || name == "Content-Type" || strings.HasPrefix(name, "Mcp-")
}

// patient gives a client time for each part of an answer, and not for the whole: calls take longer than the server's
// limit for writing, and streams have no end.
type patient struct{ http.ResponseWriter }

func (p patient) Write(b []byte) (int, error) {
	p.wait()
	return p.ResponseWriter.Write(b)
}

// Flush and Unwrap are for http.ResponseController.
func (p patient) FlushError() error {
	p.wait()
	return http.NewResponseController(p.ResponseWriter).Flush()
}

func (p patient) Unwrap() http.ResponseWriter { return p.ResponseWriter }

func (p patient) wait() {
	_ = http.NewResponseController(p.ResponseWriter).SetWriteDeadline(time.Now().Add(httpdoor.WriteTimeout))
}

// wholeBelow is the size up to which an answer is held back until it's there. A longer one is cut off if its replica is
// lost.
const wholeBelow = 1 << 20

// answer passes an answer on.
func answer(w http.ResponseWriter, r *http.Request, body []byte, resp *http.Response, to *transport.Elsewhere) {
	defer func() { _ = resp.Body.Close() }()
	removeHopHeaders(resp.Header)
	head := func() {
		for name, values := range resp.Header {
			w.Header()[name] = values
		}
		w.WriteHeader(resp.StatusCode)
	}
	kind, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	if kind == "text/event-stream" {
		head()
		stream(w, r, body, resp.Body, to)
		return
	}
	first, err := io.ReadAll(io.LimitReader(resp.Body, wholeBelow))
	if err != nil {
		if r.Context().Err() == nil {
			fail(w, body, to, errLost)
		}
		return
	}
	head()
	if _, err = w.Write(first); err == nil && len(first) == wholeBelow {
		_, err = io.Copy(w, resp.Body)
	}
	if err != nil {
		if r.Context().Err() == nil {
			to.Failed = errLost
		}
		panic(http.ErrAbortHandler) // the client must not take a part for the whole
	}
}

// mostKept is how much memory for events a stream keeps between them.
const mostKept = 256 << 10

// stream passes on events, each when all of it is there. If the replica is lost, the last event is the error.
func stream(w http.ResponseWriter, r *http.Request, body []byte, from io.Reader, to *transport.Elsewhere) {
	flush := http.NewResponseController(w)
	_ = flush.Flush()
	var held []byte // the beginning of an event
	chunk := make([]byte, 32<<10)
	for {
		n, err := from.Read(chunk)
		seen := len(held)
		held = append(held, chunk[:n]...)
		if end := endOfEvents(held, seen); end > 0 {
			if _, bad := w.Write(held[:end]); bad != nil {
				return
			}
			if rest := held[end:]; cap(held) > mostKept {
				held = bytes.Clone(rest)
			} else {
				held = append(held[:0], rest...)
			}
			_ = flush.Flush()
		}
		switch {
		case err == nil:
		case errors.Is(err, io.EOF) || r.Context().Err() != nil:
			_, _ = w.Write(held)
			return
		default:
			to.Failed = errLost
			if id := requestOf(body); id != "" {
				_, _ = w.Write(eventstream.AppendEvent(nil, "", "", jsonrpc.AppendError(nil, id, mcp.Wire(errLost))))
			}
			return
		}
	}
}

// endOfEvents returns where the last whole event in b ends, or 0. None ends in the first seen bytes. Our own events end
// with two line feeds.
func endOfEvents(b []byte, seen int) int {
	from := max(0, seen-1)
	if i := bytes.LastIndex(b[from:], []byte("\n\n")); i >= 0 {
		return from + i + 2
	}
	return 0
}

// requestOf returns the id of the request in a body, or "".
func requestOf(body []byte) jsonrpc.ID {
	m, err := jsonrpc.Scan(body, jsonrpc.Limits{Bytes: len(body)})
	if err != nil || m.Kind != jsonrpc.Request {
		return ""
	}
	return m.ID
}

// fail answers with an error, which clients of all revisions understand as that of their request.
func fail(w http.ResponseWriter, body []byte, to *transport.Elsewhere, err error) {
	to.Failed = err
	id := requestOf(body)
	status := http.StatusOK
	if id == "" {
		status = http.StatusBadGateway
	}
	httpdoor.Refuse(w, status, id, mcp.Wire(err))
}
