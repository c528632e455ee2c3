package tape

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"

	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/workbench/rawlink"
)

// Stage is an http.Handler that plays the server of a recording. It is safe for concurrent use.
type Stage struct {
	*score
	over chan struct{} // never closed, because an HTTP client may send another request at any time
}

// Stage returns a handler that plays the recorded server.
func (t *Tape) Stage(o Options) (*Stage, error) {
	if !t.http {
		return nil, errors.New("the recording was made on stdio, but this connection is HTTP")
	}
	return &Stage{score: newScore(t, false, o), over: make(chan struct{})}, nil
}

// Done reports whether the client has sent all its recorded messages. It ignores messages that the
// replay no longer waits for.
func (s *Stage) Done() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range s.tape.entries {
		if !s.seen[i] && !s.ours(i) && s.tape.entries[i].waits() {
			return false
		}
	}
	return true
}

// Path returns the URL path of the first recorded request, or "/" if there is none.
func (s *Stage) Path() string {
	for i := range s.tape.entries {
		if e := &s.tape.entries[i]; e.section == request {
			_, address, _ := strings.Cut(e.head[0], " ")
			path, _, _ := strings.Cut(address, "?")
			return path
		}
	}
	return "/"
}

// Moved returns a channel that is closed when the client sends a recorded message, or when the
// replay stops waiting for a message.
func (s *Stage) Moved() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.moved
}

// Differences returns the differences between the client's messages and the tape. They include the
// recorded messages that the client has not sent.
func (s *Stage) Differences() []Difference { return s.rest() }

func (s *Stage) ServeHTTP(w http.ResponseWriter, q *http.Request) {
	body, err := io.ReadAll(http.MaxBytesReader(w, q.Body, maxBody))
	if err != nil {
		return
	}
	i := s.take(body, func(i int) bool {
		e := &s.tape.entries[i]
		if e.section != request {
			return false
		}
		method, address, _ := strings.Cut(e.head[0], " ")
		return method == q.Method && sameAddress(address, q.URL)
	})
	if i < 0 {
		s.differ(Difference{Where: "not in the recording", Live: strings.TrimSpace(q.Method + " " + q.URL.RequestURI() + " " + string(body))})
		notOnTape(w, body)
		return
	}
	e := &s.tape.entries[i]
	s.checkHeader(e, http.Header(q.Header), "Content-Type", "Accept", "Mcp-Protocol-Version", "Mcp-Session-Id", "Mcp-Method", "Mcp-Name")
	s.answer(w, q, e.exchange)
}

func notOnTape(w http.ResponseWriter, body []byte) {
	m := scan(body)
	if m == nil || m.Kind != jsonrpc.Request {
		http.Error(w, errNotOnTape.Message, http.StatusNotFound)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(jsonrpc.AppendError(nil, m.ID, errNotOnTape))
}

// sameAddress compares the path and the query of a recorded request with those of a live request.
// The two URLs may be escaped differently. A placeholder on the tape matches any value.
func sameAddress(tape string, live *url.URL) bool {
	u, err := url.Parse(tape)
	if err != nil {
		return tape == live.RequestURI()
	}
	if u.Path != live.Path {
		return false
	}
	a, b := u.Query(), live.Query()
	if len(a) != len(b) {
		return false
	}
	for k := range a {
		if x, y := a.Get(k), b.Get(k); x != y && !isPlaceholder(x) {
			return false
		}
	}
	return true
}

func fieldOf(e *Entry, name string) string {
	for _, f := range e.head[1:] {
		if k, v, _ := strings.Cut(f, ":"); strings.EqualFold(k, name) {
			return strings.TrimSpace(v)
		}
	}
	return ""
}

// checkHeader compares the header fields with the given names, and records the differences.
func (s *score) checkHeader(e *Entry, live http.Header, names ...string) {
	for _, n := range names {
		want, got := fieldOf(e, n), live.Get(n)
		if n == "Content-Type" || n == "Accept" {
			want, got = mediaTypes(want), mediaTypes(got)
		}
		if want != got && !(isPlaceholder(want) && got != "") {
			s.differ(Difference{Where: describe(e) + " " + n, Tape: want, Live: got})
		}
	}
}

// mediaTypes returns the media types in a Content-Type or Accept header, in lower case and without
// parameters.
func mediaTypes(v string) string {
	parts := strings.Split(v, ",")
	for i, p := range parts {
		p, _, _ = strings.Cut(p, ";")
		parts[i] = strings.ToLower(strings.TrimSpace(p))
	}
	return strings.Join(parts, ",")
}

// answer sends the server's response in the recorded exchange.
func (s *Stage) answer(w http.ResponseWriter, q *http.Request, exchange int) {
	flush := http.NewResponseController(w)
	began := false
	for i := range s.tape.entries {
		e := &s.tape.entries[i]
		if e.exchange != exchange || e.section == request {
			continue
		}
		if e.section == gone {
			break
		}
		if s.turn(q.Context(), i, s.over) != nil {
			return
		}
		switch e.section {
		case response:
			began = true
			if !s.begin(w, i, e) {
				return
			}
		case event:
			_, _ = w.Write(s.event(i))
		case end:
			if !began {
				panic(http.ErrAbortHandler) // the server sent no response in the recording
			}
			return
		}
		if began && flush.Flush() != nil {
			return
		}
		if e.section == response && fieldMedia(e) != "text/event-stream" {
			return
		}
	}
	// The tape contains no more of this exchange: the recorded client disconnected, or the
	// recording stopped while the stream was open. Keep the stream open until the live client
	// disconnects.
	<-q.Context().Done()
}

func fieldMedia(e *Entry) string { return mediaTypes(fieldOf(e, "Content-Type")) }

func (s *Stage) begin(w http.ResponseWriter, i int, e *Entry) bool {
	status, err := strconv.Atoi(e.head[0])
	if err != nil || status < 200 || status > 599 {
		s.differ(Difference{Where: describe(e), Tape: e.head[0]})
		return false
	}
	for _, f := range e.head[1:] {
		k, v, _ := strings.Cut(f, ":")
		switch http.CanonicalHeaderKey(k) {
		case "Date", "Content-Length", "Transfer-Encoding", "Connection", "Content-Encoding":
		default:
			w.Header().Add(k, strings.TrimSpace(v))
		}
	}
	w.WriteHeader(status)
	if len(e.body) > 0 {
		_, _ = w.Write(s.messageFor(i))
	}
	return true
}

// event returns the event of entry i, with the message that messageFor returns.
func (s *score) event(i int) []byte {
	e := &s.tape.entries[i]
	words := s.messageFor(i)
	if bytes.Equal(words, payload(e)) {
		return append(bytes.Clone(e.body), "\n\n"...)
	}
	var out []byte
	for line := range strings.SplitSeq(string(e.body), "\n") {
		if !strings.HasPrefix(line, "data:") {
			out = append(append(out, line...), '\n')
		}
	}
	for line := range bytes.SplitSeq(words, []byte("\n")) {
		out = append(append(append(out, "data: "...), line...), '\n')
	}
	return append(out, '\n')
}

// PlayHTTP sends the client's recorded messages to the server at target. It returns the differences
// between the server's messages and the tape. A recorded request is sent to target if its URL is
// the same as that of the first recorded request. extra contains header fields that are added to
// each request, such as credentials, which the tape does not contain.
func (t *Tape) PlayHTTP(ctx context.Context, target *url.URL, extra http.Header, transport http.RoundTripper, o Options) ([]Difference, error) {
	if !t.http {
		return nil, errors.New("the recording was made on stdio, but this connection is HTTP")
	}
	p := &httpPlay{score: newScore(t, true, o), target: target, extra: extra, client: &http.Client{
		Transport:     transport,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}, cancels: map[int]context.CancelFunc{}}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	never := make(chan struct{})
	var exchanges sync.WaitGroup
	var err error
	for i := range t.entries {
		e := &t.entries[i]
		if !p.ours(i) {
			continue
		}
		if err = p.turn(ctx, i, never); err != nil {
			break
		}
		if e.section == gone {
			if leave := p.cancels[e.exchange]; leave != nil {
				leave()
			}
			continue
		}
		one, leave := context.WithCancel(ctx)
		p.cancels[e.exchange] = leave
		exchanges.Go(func() { p.exchange(one, i) })
	}
	if err == nil {
		err = p.turn(ctx, len(t.entries), never)
	}
	cancel()
	exchanges.Wait()
	return p.rest(), err
}

type httpPlay struct {
	*score
	target  *url.URL
	extra   http.Header
	client  *http.Client
	cancels map[int]context.CancelFunc
}

// address returns the URL for a request. tape is the URL that was recorded for this request.
func (p *httpPlay) address(tape string) string {
	u := *p.target
	_, own, _ := strings.Cut(p.tape.entries[p.firstRequest()].head[0], " ")
	if tape == own {
		return u.String()
	}
	p.mu.Lock()
	live, ok := p.bonds.live["address "+tape]
	p.mu.Unlock()
	if ok {
		tape = live
	}
	at, err := u.Parse(tape)
	if err != nil || at.Host != u.Host {
		return u.String()
	}
	return at.String()
}

func (p *httpPlay) firstRequest() int {
	for i := range p.tape.entries {
		if p.tape.entries[i].section == request {
			return i
		}
	}
	return 0
}

func (p *httpPlay) exchange(ctx context.Context, i int) {
	e := &p.tape.entries[i]
	method, address, _ := strings.Cut(e.head[0], " ")
	var body io.Reader
	if len(e.body) > 0 {
		body = bytes.NewReader(p.messageFor(i))
	}
	q, err := http.NewRequestWithContext(ctx, method, p.address(address), body)
	if err != nil {
		p.differ(Difference{Where: describe(e), Tape: e.head[0], Live: err.Error()})
		return
	}
	p.setHeaders(q, e)
	res, err := p.client.Do(q)
	if err != nil {
		if ctx.Err() == nil {
			p.differ(Difference{Where: describe(e), Tape: "an answer", Live: err.Error()})
		}
		return
	}
	defer res.Body.Close()
	p.receive(e.exchange, res)
}

func (p *httpPlay) setHeaders(q *http.Request, e *Entry) {
	for _, f := range e.head[1:] {
		k, v, _ := strings.Cut(f, ":")
		v = strings.TrimSpace(v)
		switch http.CanonicalHeaderKey(k) {
		case "Host", "Content-Length", "Accept-Encoding", "Connection", "Origin":
			continue
		case "Mcp-Session-Id":
			p.mu.Lock()
			if live, ok := p.bonds.live["session "+v]; ok {
				v = live
			}
			p.mu.Unlock()
		default:
			if isPlaceholder(v) {
				continue
			}
		}
		q.Header.Add(k, v)
	}
	for k, v := range p.extra {
		q.Header[k] = v
	}
}

// receive compares a response with the recorded response of the same exchange. A message that was
// recorded as an event may arrive as plain JSON. A message that was recorded as plain JSON may
// arrive as an event.
func (p *httpPlay) receive(exchange int, res *http.Response) {
	of := func(i int) bool {
		e := &p.tape.entries[i]
		return e.exchange == exchange && (e.section == response || e.section == event)
	}
	for i := range p.tape.entries {
		e := &p.tape.entries[i]
		if !of(i) || e.section != response {
			continue
		}
		if got := strconv.Itoa(res.StatusCode); got != e.head[0] {
			p.differ(Difference{Where: describe(e) + " status", Tape: e.head[0], Live: got})
		}
		if want, got := fieldOf(e, "Mcp-Session-Id"), res.Header.Get("Mcp-Session-Id"); (want == "") != (got == "") {
			p.differ(Difference{Where: describe(e) + " Mcp-Session-Id", Tape: want, Live: got})
		} else if want != "" {
			p.mu.Lock()
			p.bonds.tie("session", want, got)
			p.mu.Unlock()
		}
		if len(e.body) == 0 {
			p.see(i)
		}
	}
	for ev, err := range rawlink.Messages(res, maxBody) {
		if err == nil && (ev.Name != "" || len(bytes.TrimSpace(ev.Data)) > 0) {
			p.message(exchange, ev.Name, ev.Data, of)
		}
	}
}

func (p *httpPlay) message(exchange int, name string, data []byte, of func(int) bool) {
	if name == "endpoint" {
		for i := range p.tape.entries {
			if e := &p.tape.entries[i]; of(i) && e.section == event && strings.Contains(string(e.body), "event: endpoint") {
				p.mu.Lock()
				p.bonds.tie("address", string(payload(e)), string(data))
				p.mu.Unlock()
				p.see(i)
				return
			}
		}
	}
	if len(data) == 0 {
		return // an event without data contains no message
	}
	if p.take(data, of) < 0 {
		p.differ(Difference{Where: fmt.Sprintf("not in the recording, in exchange %d", exchange), Live: string(data)})
	}
}
