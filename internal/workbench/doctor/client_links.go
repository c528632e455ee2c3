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
		line, err := readLine(r)
		early := held.cancel()
		if early && len(bytes.TrimSpace(line)) > 0 {
			s.hurried(line)
		}
		if bad := held.send(); bad != nil {
			return bad
		}
		held = nil
		if len(bytes.TrimSpace(line)) > 0 {
			answers := s.hear(v, line, "")
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

func (s *Stage) post(w http.ResponseWriter, r *http.Request) {
	raw, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	if err != nil {
		return
	}
	s.judgeHeaders(r)
	session, version := r.Header.Get(mcp.HeaderSession), r.Header.Get(mcp.HeaderVersion)
	m, bad := jsonrpc.Scan(raw, jsonrpc.Limits{Bytes: maxBody, Tolerant: true})
	var opens, modern bool
	if bad == nil {
		opens = m.Method == mcp.MethodInitialize
		modern = !jsonrpc.Find(m.Raw, m.Param(mcp.KeyMeta), mcp.KeyVersion).IsZero()
	}
	s.mu.Lock()
	v := s.visitors[session]
	switch {
	case opens && session == "" && len(s.all) >= maxVisitors:
		s.mu.Unlock()
		http.Error(w, "too many sessions", http.StatusServiceUnavailable)
		return
	case opens && session == "":
		session = newSession()
		v = s.enter(session, true)
		w.Header().Set(mcp.HeaderSession, session)
	case v != nil:
		s.judgeSession(v, raw, version)
		s.judge(checkSession)
		if method := r.Header.Get(mcp.HeaderMethod); method != "" && v.opened == mcp.MethodInitialize && !modern {
			s.find(ClientNewWords, raw, mcp.HeaderMethod+": "+clip(method))
		}
	case session != "" && !modern:
		s.find(ClientSession, raw, "the server never assigned this session id: "+clip(session))
		s.mu.Unlock()
		http.Error(w, "unknown session", http.StatusNotFound)
		return
	default:
		// Clients without a session cannot be distinguished, so they share one visitor with this
		// key.
		const loose = "-"
		if v = s.visitors[loose]; v == nil {
			v = s.enter(loose, true)
			if !modern {
				v.ready = true
			}
		}
		if modern && m.Kind == jsonrpc.Request {
			s.judgeMirrors(m, r.Header)
		}
		if !modern && bad == nil {
			s.judge(checkHeader)
		}
		if !modern && version == "" && bad == nil {
			// Without this header, servers assume 2025-03-26 (2025-06-18 §Transports, "Protocol
			// Version Header").
			s.find(ClientVersionHeader, raw, "MCP-Protocol-Version is missing, and there is no session that has a version")
		}
	}
	s.mu.Unlock()
	out := s.hear(v, raw, version)
	if len(out) == 0 {
		w.WriteHeader(http.StatusAccepted)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(statusOf(out[0], modern))
	_, _ = w.Write(out[0])
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
