package doctor

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
	"github.com/dragoman-mcp/dragoman/internal/relay/handshake"
)

// talk is one conversation with a server. Only the goroutine of the current probe may use it. A
// talk records every fault that it sees, even if the probe tests something else.
type talk struct {
	e    *exam
	w    wire
	rev  mcp.Revision // the revision in use; Unknown before the server is opened
	last int64        // the id of the last request; not used over HTTP
	open []*question  // requests that wait for an answer; over HTTP also notifications that wait for a status

	hello []byte       // the result of initialize
	caps  jsonrpc.Span // the capabilities in hello

	lastSent  string // the last message to the server, for evidence
	lastNote  string // the last notification to the server
	notes     int    // how many notifications to the server may still get an error as an answer
	noted     int    // what w.send returned for the last notification
	passed    bool   // the server answered a request that was sent after the last notification
	began     time.Time
	answered  bool     // the server has sent something
	heard     bool     // the server has sent a message
	text      []string // the first lines on stdout that are not messages
	over      bool     // the server ended the conversation, or the context is done
	death     string
	announced bool // notifications/initialized was sent
	odd       bool // malformed input was sent; an answer without an id may be the answer to it
	notices   int  // notifications from the server since the last request to it

	drafts   []draft // the possible findings of the current probe
	ran      bool    // the current probe ran; false if the server could not be opened for it
	shared   bool    // several probes use the conversation
	final    bool    // this run decides about findings, so await waits longer for answers
	greeted  bool    // initialize was answered with a result
	spent    bool    // other probes cannot use the conversation any more
	opened   bool    // the handshake is complete, and the server answers requests
	timedOut bool    // an answer did not arrive in time
	unsure   bool    // what the probe saw may have a cause outside the probe, such as an earlier message
}

// question is a request to the server, together with its answer. Over HTTP it may also be a
// notification, whose only answer is an HTTP status.
type question struct {
	id     jsonrpc.ID
	method string
	sent   string
	n      int

	msg    *jsonrpc.Message // the answer
	raw    []byte           // the bytes of the answer, or an HTTP body that is not a message
	status int              // the HTTP status
	header http.Header
	err    error // the reason why there was no HTTP response
	done   bool

	givenUp bool // the request was cancelled, so the server need not answer
}

// silent reports whether there was no answer of any kind.
func (q *question) silent() bool { return !q.done }

// failed returns the code of an error answer. ok is false if there is no error answer.
func (q *question) failed() (code int64, ok bool) {
	if q.msg == nil || q.msg.Kind != jsonrpc.Failure {
		return 0, false
	}
	code, _ = jsonrpc.Int(q.msg.Raw, jsonrpc.Find(q.msg.Raw, q.msg.Error, "code"))
	return code, true
}

// worked reports whether the answer is a result.
func (q *question) worked() bool { return q.msg != nil && q.msg.Kind == jsonrpc.Result }

// proof returns a question and its answer as evidence.
func (t *talk) proof(q *question) string {
	got := "# no answer"
	switch {
	case q.err != nil:
		got = "# " + t.e.redact([]byte(q.err.Error()))
	case q.done && len(q.raw) == 0:
		got = "< HTTP status " + strconv.Itoa(q.status)
	case q.done && q.status != 0 && q.status != http.StatusOK:
		got = "< HTTP status " + strconv.Itoa(q.status) + ": " + t.e.redact(q.raw)
	case q.done:
		got = "< " + t.e.redact(q.raw)
	case t.over:
		got = "# the connection closed before the answer"
	}
	return evidence("> "+q.sent, got)
}

// ask sends a request with the next id. members has the JSON members of params, without the braces.
func (t *talk) ask(method, members string) *question {
	return t.askAs(t.nextID(), method, members)
}

func (t *talk) askAs(id jsonrpc.ID, method, members string) *question {
	return t.askRaw(id, method, jsonrpc.AppendRequest(nil, id, method, t.params(members)))
}

// askRaw sends a request with the given bytes.
func (t *talk) askRaw(id jsonrpc.ID, method string, body []byte) *question {
	t.lastSent = t.e.redact(body)
	q := &question{id: id, method: method, sent: t.lastSent}
	t.noteSent(q)
	q.n = t.w.send(parcel{body: body})
	t.open = append(t.open, q)
	t.notices = 0
	return q
}

// notify sends a notification.
func (t *talk) notify(method, members string) *question {
	var params []byte
	if members != "" {
		params = []byte("{" + members + "}")
	}
	return t.notifyRaw(method, jsonrpc.AppendNotification(nil, method, params), nil)
}

func (t *talk) notifyRaw(method string, body []byte, header http.Header) *question {
	t.lastSent = t.e.redact(body)
	t.notes, t.lastNote = t.notes+1, t.lastSent
	q := &question{method: method, sent: t.lastSent}
	q.n = t.w.send(parcel{body: body, header: header})
	t.noted, t.passed = q.n, false
	if t.e.http {
		t.open = append(t.open, q) // the notification waits for its HTTP status
	}
	return q
}

// params returns the params of a request: members and, in a modern revision, _meta.
func (t *talk) params(members string) []byte {
	if !t.rev.Modern() {
		if members == "" {
			return nil
		}
		return []byte("{" + members + "}")
	}
	if members != "" {
		members += ","
	}
	return []byte("{" + members + meta(t.rev.String()) + "}")
}

// meta returns the _meta member that every modern request must have (2026-07-28 §Base, "Per-request
// protocol fields").
func meta(version string) string {
	return `"` + mcp.KeyMeta + `":{"` + mcp.KeyVersion + `":"` + version + `","` + mcp.KeyClientCaps + `":{},"` + mcp.KeyClientInfo + `":` + identity + `}`
}

const identity = `{"name":"dragoman-doctor","version":"1"}`

// greeting returns the members of the params of initialize, without the braces.
func greeting(version string) string {
	return `"protocolVersion":"` + version + `","capabilities":{},"clientInfo":` + identity
}

// wait processes input until the server has answered q, the conversation has ended, d has passed,
// or ctx is done. It reports whether q was answered.
func (t *talk) wait(ctx context.Context, q *question, d time.Duration) bool {
	if !t.answered {
		d += t.e.startTime() // the process may still be starting
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	for !q.done && !t.over {
		select {
		case p, ok := <-t.w.pieces():
			if !ok {
				t.end()
				return q.done
			}
			t.take(p)
		case <-timer.C:
			return false
		case <-ctx.Done():
			t.over = true
			return false
		}
	}
	return q.done
}

// await waits for the answer to q for as long as a client would, and reports whether q was
// answered. If t.final is set, a missing answer becomes a finding. So await then waits longer, in
// case the machine is slow. If the server is open, await sends a later request, and stops some time
// after the answer to that request.
func (t *talk) await(ctx context.Context, q *question) bool {
	if t.wait(ctx, q, t.e.o.Patience) {
		return true
	}
	if t.final && !t.over {
		switch {
		case t.opened && !t.e.pingUnanswered():
			next := t.ask(alive(t.rev), "")
			t.wait(ctx, next, t.e.slack())
			t.wait(ctx, q, t.e.grace())
		default:
			t.wait(ctx, q, t.e.slack())
		}
	}
	t.timedOut = t.timedOut || !q.done && !t.over
	return q.done
}

// outrun sends a later request, waits until the server has answered it, and then waits some more
// time for q. After this time, a server that answers in order has either answered q or never will.
// outrun reports whether q was answered.
func (t *talk) outrun(ctx context.Context, q *question) bool {
	began := time.Now()
	t.await(ctx, t.ask(alive(t.rev), ""))
	d := t.e.grace()
	if !t.final {
		d = min(d, max(t.e.grace()/10, 20*time.Since(began)))
	}
	return t.wait(ctx, q, d)
}

// askUntilReady sends a request. Like package conn, it repeats the request while the answer says
// that the server is not ready.
func (t *talk) askUntilReady(ctx context.Context, method, members string) *question {
	q := t.ask(method, members)
	t.await(ctx, q)
	for _, d := range handshake.ReadyWaits {
		if !handshake.NotReady(q.msg) {
			break
		}
		t.linger(ctx, d)
		q = t.ask(method, members)
		t.await(ctx, q)
	}
	return q
}

// linger processes input for the time d.
func (t *talk) linger(ctx context.Context, d time.Duration) {
	t.wait(ctx, &question{}, d)
}

// end records that the server has ended the conversation.
func (t *talk) end() {
	t.over = true
	code := t.death
	if code == "" {
		code = Dies
	}
	var lines []string
	for _, q := range t.open {
		if lines = append(lines, "> "+q.sent); len(lines) == 3 {
			break
		}
	}
	if last := "> " + t.lastSent; len(lines) == 0 || lines[len(lines)-1] != last && len(lines) < 3 {
		lines = append(lines, last)
	}
	t.find(code, evidence(append(lines, "# "+t.e.redact([]byte("the server ended: "+t.w.exitText())))...))
}

// take processes one piece of input.
func (t *talk) take(p piece) {
	if !t.answered && p.err == nil { // a failed connection does not count as an answer
		t.answered = true
	}
	var of *question
	for _, q := range t.open {
		if q.n == p.of && p.of != 0 {
			of = q
		}
	}
	if p.end {
		if of != nil && !of.done {
			of.status, of.header, of.err = p.status, p.header, p.err
			t.settle(of)
			t.judgeResponse(of)
		}
		return
	}
	if p.half {
		t.find(HalfLine, evidence("> "+t.lastSent, "< "+t.e.redact(p.raw), "# the output ended here, without a newline"))
		return
	}
	if of != nil {
		of.status, of.header = p.status, p.header
	}
	if jsonrpc.IsBatch(p.raw) {
		t.takeBatch(p.raw, of)
		return
	}
	m := t.read(p.raw, of)
	if m == nil {
		if of != nil && of.raw == nil {
			of.raw = p.raw
		}
		return
	}
	t.receive(m, of)
}

// takeBatch processes an array of messages. If a batch of the doctor waits for its answer, the
// array is this answer.
func (t *talk) takeBatch(raw []byte, of *question) {
	items, err := jsonrpc.ScanBatch(raw, jsonrpc.Limits{Bytes: maxLine, Tolerant: true})
	if err != nil {
		t.noise(raw)
		return
	}
	t.hear()
	for _, q := range t.open {
		if q.method == batchOf && (of == nil || of == q) {
			q.raw = raw
			t.settle(q)
			return
		}
	}
	for _, i := range items {
		if i.Message != nil {
			t.receive(i.Message, nil)
		}
	}
}

// hear records that the server has sent a message.
func (t *talk) hear() {
	if !t.heard {
		t.heard = true
		t.e.startedAfter(time.Since(t.began))
	}
}

// batchOf is the value of question.method for a batch.
const batchOf = "(batch)"

func (t *talk) settle(q *question) {
	q.done = true
	for i, o := range t.open {
		if o == q {
			t.open = append(t.open[:i], t.open[i+1:]...)
			return
		}
	}
}

// giveUp stops waiting for the answer to a question.
func (t *talk) giveUp(q *question) {
	if i := slices.Index(t.open, q); i >= 0 {
		t.open = slices.Delete(t.open, i, i+1)
	}
}

// receive handles a message from the server: an answer, a notification or a request. of is the
// question whose HTTP response contained the message, or nil.
func (t *talk) receive(m *jsonrpc.Message, of *question) {
	t.hear()
	switch m.Kind {
	case jsonrpc.Request:
		t.handleRequest(m)
		return
	case jsonrpc.Notification:
		t.notices++
		if t.notices == tooMany {
			t.find(Floods, evidence("> "+t.lastSent, "< "+t.e.redact(m.Raw), fmt.Sprintf("# and %d more notifications before the answer", tooMany-1)))
		}
		return
	}
	q := t.questionOf(m, of)
	if q == nil {
		return
	}
	if t.announced && handshake.NotReady(m) {
		t.find(LateGate, evidence("> "+q.sent, "< "+t.e.redact(m.Raw)))
	}
	q.msg, q.raw = m, m.Raw
	if q.status == 0 || q.status == http.StatusOK || q.msg.Kind == jsonrpc.Failure {
		t.settle(q)
		t.passed = t.passed || q.id != "" && q.n > t.noted
		if q == of {
			t.judgeResponse(q)
		}
	}
}

// tooMany is how many notifications, before the answer to a request, count as a flood.
const tooMany = 1000

// handleRequest answers a request of the server. The doctor declares no capabilities, so the
// server may only send ping.
func (t *talk) handleRequest(m *jsonrpc.Message) {
	if m.Method == mcp.MethodPing {
		t.w.send(parcel{body: jsonrpc.AppendResult(nil, m.ID, nil)})
		return
	}
	t.find(AsksUndeclared, evidence("< "+t.e.redact(m.Raw), "# the client has declared no capability"))
	t.w.send(parcel{body: jsonrpc.AppendError(nil, m.ID, &jsonrpc.Error{Code: jsonrpc.CodeMethodNotFound, Message: "not supported"})})
}

// questionOf returns the question that m answers, or nil. It records a finding if m has a wrong id,
// or answers no question.
func (t *talk) questionOf(m *jsonrpc.Message, of *question) *question {
	for _, q := range t.open {
		if q.id == m.ID && q.id != "" {
			return q
		}
	}
	if t.isOtherSessions(m) {
		return nil
	}
	if q := t.big(); q != nil && aboutBig(m) {
		t.find(IDBig, evidence("> "+q.sent, "< "+t.e.redact(m.Raw)))
		return q
	}
	for _, q := range t.open {
		if q.id != "" && m.ID != "" && sameValue(q.id, m.ID) {
			t.find(IDType, evidence("> "+q.sent, "< "+t.e.redact(m.Raw)))
			return q
		}
	}
	nameless := m.ID == "" || m.ID == "null"
	switch {
	case of != nil && of.id == "" && of.method != batchOf:
		// Over HTTP the response to a notification must be empty or an error, and an error may have
		// a body (2025-11-25 §Transports, "Sending Messages").
		of.msg, of.raw = m, m.Raw
		if of.status < 300 {
			t.find(NoteAnswered, evidence("> "+of.sent, "< "+t.e.redact(m.Raw)))
		}
		return nil
	case of != nil && (nameless || of.odd()):
		if !of.odd() && !(of.status >= 400 && m.Kind == jsonrpc.Failure) {
			t.find(IDLost, evidence("> "+of.sent, "< "+t.e.redact(m.Raw)))
		}
		return of
	case nameless && t.batch() != nil:
		// The server sent one error for the whole batch, because it cannot read batches (JSON-RPC
		// 2.0 §6).
		return t.batch()
	case t.notes > 0 && !t.odd && (nameless || m.ID == "0") && m.Kind == jsonrpc.Failure && (!t.passed || len(t.open) == 0):
		t.notes--
		t.find(NoteAnswered, evidence("> "+t.lastNote, "< "+t.e.redact(m.Raw)))
		return nil
	case nameless && len(t.open) > 0:
		q := t.open[0]
		if !q.odd() && !t.odd {
			t.find(IDLost, evidence("> "+q.sent, "< "+t.e.redact(m.Raw)))
		}
		return q
	case m.Kind == jsonrpc.Result && !m.ResultMember("tools").IsZero():
		t.find(PushesManifest, evidence("< "+t.e.redact(m.Raw), "# no request had this id"))
		t.judgeManifest(m.Raw, m.ResultMember("tools"), t.lastSent)
		t.e.pushes()
		return nil
	case t.odd:
		return nil
	}
	t.find(Unasked, evidence("> "+t.lastSent, "< "+t.e.redact(m.Raw), "# no request with this id is waiting"))
	return nil
}

// batch returns the batch that waits for its answer. It returns nil if no batch waits.
func (t *talk) batch() *question {
	for _, q := range t.open {
		if q.method == batchOf {
			return q
		}
	}
	return nil
}

// bigID is an id that a 64-bit float, the number type of JavaScript, cannot represent.
const bigID jsonrpc.ID = "9007199254740993"

// big returns the request with bigID, if it waits for its answer. Otherwise it returns nil.
func (t *talk) big() *question {
	for _, q := range t.open {
		if q.id == bigID {
			return q
		}
	}
	return nil
}

// aboutBig reports whether an unmatched answer may belong to the request with bigID. A server
// may change the number by rounding it, or refuse it with an error that has no id.
func aboutBig(m *jsonrpc.Message) bool {
	if m.ID == "" || m.ID == "null" {
		return m.Kind == jsonrpc.Failure
	}
	return m.ID[0] != '"'
}

// odd reports whether the question was malformed input or a batch.
func (q *question) odd() bool { return strings.HasPrefix(q.method, "(") }

// sameValue reports whether two ids are the same, apart from their type or spelling.
func sameValue(a, b jsonrpc.ID) bool { return valueOf(a) == valueOf(b) }

func valueOf(id jsonrpc.ID) string {
	s := strings.Trim(string(id), `"`)
	if f, err := strconv.ParseFloat(s, 64); err == nil {
		return strconv.FormatFloat(f, 'g', -1, 64)
	}
	return s
}
