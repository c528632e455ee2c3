package doctor

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"mime"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp/mirror"
	"github.com/dragoman-mcp/dragoman/internal/workbench/rawlink"
)

// ServePipe acts as a server for one client on a pipe, until the input or ctx ends. It closes the
// input. At the end of the input, it returns nil.
func (s *Stage) ServePipe(ctx context.Context, in io.ReadCloser, out io.Writer) error {
	defer context.AfterFunc(ctx, func() { _ = in.Close() })()
	defer func() { _ = in.Close() }()
	s.mu.Lock()
	v := s.enter("", false)
	s.mu.Unlock()
	defer s.leave(v)
	r := bufio.NewReaderSize(in, 64<<10)
	var held *heldAnswer
	defer func() { _ = held.send() }()
	for {
		line, err := rawlink.ReadLine(r, maxLine)
		early := held.cancel()
		if early && len(bytes.TrimSpace(line)) > 0 {
			s.hurried(line)
		}
		if bad := held.send(); bad != nil {
			return bad
		}
		held = nil
		if len(bytes.TrimSpace(line)) > 0 {
			answers := s.receive(v, line, "")
			if len(answers) == 1 && isInitialize(line) {
				held, answers = holdAnswer(out, answers[0]), nil
			}
			for _, b := range answers {
				if _, bad := out.Write(append(b, '\n')); bad != nil {
					return bad
				}
			}
		}
		switch {
		case err == nil:
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case errors.Is(err, io.EOF):
			return nil
		default:
			return err
		}
	}
}

// answerDelay is how long the stage waits before it answers initialize on a pipe. A client that does
// not wait for the answer sends its next message during this time.
const answerDelay = 200 * time.Millisecond

// heldAnswer is a delayed answer. It is written when its timer fires, or before the stage handles
// the next message. A nil heldAnswer means that no answer is delayed.
type heldAnswer struct {
	out   io.Writer
	body  []byte
	timer *time.Timer
	done  chan struct{} // closed when the timer's function has ended
	stop  sync.Once
	early bool // the timer was stopped before it fired; set by stop
	write sync.Once
	err   error // the error of the write; set by write
}

func holdAnswer(out io.Writer, body []byte) *heldAnswer {
	h := &heldAnswer{out: out, body: append(body, '\n'), done: make(chan struct{})}
	h.timer = time.AfterFunc(answerDelay, func() {
		defer close(h.done)
		h.writeOnce()
	})
	return h
}

// cancel stops the timer. It reports whether it stopped the timer before the answer was written.
func (h *heldAnswer) cancel() bool {
	if h == nil {
		return false
	}
	h.stop.Do(func() {
		if h.early = h.timer.Stop(); !h.early {
			<-h.done
		}
	})
	return h.early
}

// send writes the answer if it was not written yet, and returns the error of the write.
func (h *heldAnswer) send() error {
	if h == nil {
		return nil
	}
	h.cancel()
	h.writeOnce()
	return h.err
}

func (h *heldAnswer) writeOnce() {
	h.write.Do(func() { _, h.err = h.out.Write(h.body) })
}

func isInitialize(raw []byte) bool {
	m, err := jsonrpc.Scan(raw, jsonrpc.Limits{Bytes: maxLine, Tolerant: true})
	return err == nil && m.Kind == jsonrpc.Request && m.Method == mcp.MethodInitialize
}

// hurried handles a message that a client has sent before it got the answer to initialize. Only
// notifications/initialized has to wait for the answer (2025-11-25 §Lifecycle, "Initialization":
// "After successful initialization").
func (s *Stage) hurried(raw []byte) {
	m, err := jsonrpc.Scan(raw, jsonrpc.Limits{Bytes: maxLine, Tolerant: true})
	if err != nil || m.Method != mcp.NoteInitialized {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.find(ClientInitializedEarly, raw, "the client did not wait for the answer to initialize")
}

// maxBody is the maximum length of a request body in bytes.
const maxBody = 4 << 20

// ServeHTTP acts as a server for clients over Streamable HTTP.
func (s *Stage) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch {
	case strings.Contains(r.URL.Path, "/.well-known/"):
		s.see(ClientExplores, "# "+r.Method+" "+redact([]byte(r.URL.Path), nil))
		http.NotFound(w, r)
	case r.Method == http.MethodPost:
		s.post(w, r)
	case r.Method == http.MethodDelete:
		s.delete(w, r)
	default:
		w.Header().Set("Allow", "POST, DELETE")
		w.WriteHeader(http.StatusMethodNotAllowed)
	}
}

func (s *Stage) see(code, line string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.find(code, nil, strings.TrimPrefix(line, "# "))
}

// posted is the body of a POST request.
type posted struct {
	raw           []byte
	m             *jsonrpc.Message
	bad           error // why raw is no message
	opens, modern bool
	version       string // the value of MCP-Protocol-Version
}

func (s *Stage) post(w http.ResponseWriter, r *http.Request) {
	raw, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	if err != nil {
		return
	}
	s.judgeHeaders(r)
	p := posted{raw: raw, version: r.Header.Get(mcp.HeaderVersion)}
	if p.m, p.bad = jsonrpc.Scan(raw, jsonrpc.Limits{Bytes: maxBody, Tolerant: true}); p.bad == nil {
		p.opens = p.m.Method == mcp.MethodInitialize
		p.modern = !jsonrpc.Find(p.m.Raw, p.m.Param(mcp.KeyMeta), mcp.KeyVersion).IsZero()
	}
	v, status, why := s.sender(w.Header(), r.Header, &p)
	if v == nil {
		http.Error(w, why, status)
		return
	}
	out := s.receive(v, raw, p.version)
	if len(out) == 0 {
		w.WriteHeader(http.StatusAccepted)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(statusOf(out[0], p.modern))
	_, _ = w.Write(out[0])
}

// sender returns the visitor that has sent a request, and judges how the request says so. It adds the id
// of a new session to the header of the response. If it returns nil, the request is refused with status.
func (s *Stage) sender(response, header http.Header, p *posted) (v *visitor, status int, why string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	session := header.Get(mcp.HeaderSession)
	v = s.visitors[session]
	switch {
	case p.opens && session == "" && len(s.all) >= maxVisitors:
		return nil, http.StatusServiceUnavailable, "too many sessions"
	case p.opens && session == "":
		session = newSession()
		response.Set(mcp.HeaderSession, session)
		return s.enter(session, true), 0, ""
	case v != nil:
		s.judgeSession(v, p.raw, p.version)
		s.judge(checkSession)
		if method := header.Get(mcp.HeaderMethod); method != "" && v.opened == mcp.MethodInitialize && !p.modern {
			s.find(ClientNewWords, p.raw, mcp.HeaderMethod+": "+clip(method))
		}
		return v, 0, ""
	case session != "" && !p.modern:
		s.find(ClientSession, p.raw, "the server never assigned this session id: "+clip(session))
		return nil, http.StatusNotFound, "unknown session"
	}
	// Clients without a session cannot be distinguished, so they share one visitor with this key.
	const loose = "-"
	if v = s.visitors[loose]; v == nil {
		v = s.enter(loose, true)
		if !p.modern {
			v.ready = true
		}
	}
	if p.modern && p.m.Kind == jsonrpc.Request {
		s.judgeMirrors(p.m, header)
	}
	if !p.modern && p.bad == nil {
		s.judge(checkHeader)
	}
	if !p.modern && p.version == "" && p.bad == nil {
		// Without this header, servers assume 2025-03-26 (2025-06-18 §Transports, "Protocol Version
		// Header").
		s.find(ClientVersionHeader, p.raw, "MCP-Protocol-Version is missing, and there is no session that has a version")
	}
	return v, 0, ""
}

// statusOf returns the HTTP status for an answer (2026-07-28 §Streamable HTTP).
func statusOf(answer []byte, modern bool) int {
	m, err := jsonrpc.Scan(answer, jsonrpc.Limits{Tolerant: true})
	if err != nil || m.Kind != jsonrpc.Failure || !modern {
		return http.StatusOK
	}
	if code, _ := jsonrpc.Int(m.Raw, jsonrpc.Find(m.Raw, m.Error, "code")); code == jsonrpc.CodeMethodNotFound {
		return http.StatusNotFound
	}
	return http.StatusBadRequest
}

// judgeHeaders checks the headers that every POST must have (2025-11-25 §Transports,
// "Sending Messages to the Server").
func (s *Stage) judgeHeaders(r *http.Request) {
	s.mu.Lock()
	s.judge(checkContentType, checkAccept)
	s.mu.Unlock()
	kind, _, _ := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if kind != "application/json" {
		s.see(ClientContentType, "Content-Type: "+r.Header.Get("Content-Type"))
	}
	var types []string
	for part := range strings.SplitSeq(strings.Join(r.Header.Values("Accept"), ","), ",") {
		t, _, _ := mime.ParseMediaType(part)
		types = append(types, t)
	}
	for _, want := range []string{"application/json", "text/event-stream"} {
		if !slices.Contains(types, want) {
			s.see(ClientAccept, "Accept: "+strings.Join(r.Header.Values("Accept"), ", "))
		}
	}
}

// judgeSession checks the version header of a message in a session (2025-06-18 §Transports,
// "Protocol Version Header").
func (s *Stage) judgeSession(v *visitor, raw []byte, version string) {
	if v.opened != mcp.MethodInitialize || !v.revision.Can(mcp.VersionHeader) {
		return
	}
	s.judge(checkHeader)
	if version != v.revision.String() {
		what := "MCP-Protocol-Version is missing"
		if version != "" {
			what = "MCP-Protocol-Version is " + clip(version) + ", but " + v.revision.String() + " was negotiated"
		}
		s.find(ClientVersionHeader, raw, what)
	}
}

// judgeMirrors checks the headers that repeat values from the body (2026-07-28 §Streamable HTTP,
// "Request Metadata").
func (s *Stage) judgeMirrors(m *jsonrpc.Message, h http.Header) {
	s.judge(checkMirrors)
	if bad := mirror.CheckValue(mcp.HeaderMethod, h.Values(mcp.HeaderMethod), m.Method); bad != nil {
		s.find(ClientMirrors, m.Raw, bad.Message)
	}
	known := mcp.LookupMethod(m.Method)
	if known == nil || known.NameKey == "" {
		return
	}
	if name, ok := jsonrpc.Text(m.Raw, m.Param(known.NameKey)); ok {
		if bad := mirror.CheckValue(mcp.HeaderName, h.Values(mcp.HeaderName), name); bad != nil {
			s.find(ClientMirrors, m.Raw, bad.Message)
		}
	}
}

func (s *Stage) delete(w http.ResponseWriter, r *http.Request) {
	id := r.Header.Get(mcp.HeaderSession)
	s.mu.Lock()
	v := s.visitors[id]
	if id != "-" {
		delete(s.visitors, id)
	}
	s.mu.Unlock()
	if v == nil || id == "-" {
		http.Error(w, "unknown session", http.StatusNotFound)
		return
	}
	s.leave(v)
	w.WriteHeader(http.StatusOK)
}
