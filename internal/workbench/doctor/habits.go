package doctor

import (
	"context"
	"fmt"
	"net/http"
	"strings"

	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
	"github.com/dragoman-mcp/dragoman/internal/relay/handshake"
)

// bases returns the revisions to examine in detail. These are the newest legacy and the newest
// modern revision that the server supports. If the server supports no revision, but sends a manifest
// or an initialize result without a version, bases returns only the newest legacy revision of all.
func (e *exam) bases() []mcp.Revision {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.notMCP {
		return nil
	}
	var out []mcp.Revision
	for _, r := range mcp.Revisions() {
		if a := e.tried[r]; a == nil || !a.opened {
			continue
		}
		if len(out) == 0 || out[len(out)-1].Modern() != r.Modern() {
			out = append(out, r)
		}
	}
	if len(out) == 0 && (e.odd || e.pushed) {
		out = append(out, mcp.LatestLegacy)
	}
	return out
}

// alive returns a request that every server of the revision answers.
func alive(r mcp.Revision) string {
	if r.Modern() {
		return mcp.MethodDiscover
	}
	return mcp.MethodPing
}

// examinations returns the jobs for the revisions that the server supports. It leaves out probes
// that were already added to a conversation of the opening probes.
func (e *exam) examinations() (jobs []job) {
	for _, r := range e.bases() {
		if !e.examined[r] {
			e.examined[r] = true
			if e.http {
				jobs = append(jobs, singles(e.habits(r))...)
			} else {
				jobs = append(jobs, job{probes: e.habits(r), open: r})
			}
			if r.Legacy() && (e.http || r != e.guess) {
				jobs = append(jobs, singles([]probe{e.earlyProbe(r), e.midwayProbe(r)})...)
			}
		}
		if e.http && !e.sse {
			jobs = append(jobs, singles(e.guards(r))...)
		}
		if e.o.Call != "" {
			jobs = append(jobs, singles([]probe{
				{name: "calling " + clip(e.o.Call) + " (" + r.String() + ")", rev: r, run: e.call},
				{name: "cancelling " + clip(e.o.Call) + " (" + r.String() + ")", rev: r, run: e.cancel},
			})...)
		}
	}
	for _, r := range mcp.Revisions(mcp.Batches) {
		if a := e.tried[r]; a != nil && a.opened && e.http && !e.sse {
			jobs = append(jobs, singles([]probe{e.batchProbe(r)})...)
		}
	}
	return jobs
}

// habits returns the probes for a server that supports the revision. These probes can run one after
// the other in the same conversation.
func (e *exam) habits(r mcp.Revision) []probe {
	var all []probe
	add := func(name string, run func(context.Context, *talk)) {
		all = append(all, probe{name: name + " (" + r.String() + ")", rev: r, run: run})
	}
	if r.Legacy() {
		add("an unknown notification", e.unknownNote) // first, so that a wrong answer to the notification can arrive during the later probes
		add("ping", e.ping)
	} else {
		add("an unknown version in _meta", e.unknownMeta)
	}
	add("an unknown method", e.unknownMethod)
	add("lists", e.lists)
	add("reading", e.read)
	add("a long message", func(ctx context.Context, t *talk) { e.long(ctx, t, 128<<10, LongMessage) })
	if e.o.Deep {
		add("a very long message", func(ctx context.Context, t *talk) { e.long(ctx, t, 1<<20, VeryLongMessage) })
		add("many requests at once", e.burst)
	}
	add("ids", e.ids)
	if r.Modern() {
		// This probe comes after all other valid requests, because the notification has no _meta.
		// After a message without _meta, a server that supports both eras may treat the client as a
		// legacy client.
		add("an unknown notification", e.unknownNote)
	}
	add("staying alive", func(ctx context.Context, t *talk) { t.lingerAtEnd(ctx, false) })
	for _, o := range oddities(r) {
		all = append(all, probe{name: o.name + " (" + r.String() + ")", rev: r, death: o.death, odd: true, run: func(ctx context.Context, t *talk) { e.oddity(ctx, t, o) }})
	}
	if r.Modern() {
		all = append(all, probe{name: "no _meta (" + r.String() + ")", rev: r, odd: true, run: e.noMeta})
	}
	return all
}

func (e *exam) earlyProbe(r mcp.Revision) probe {
	return probe{name: "a request before initialize (" + r.String() + ")", run: func(ctx context.Context, t *talk) { e.early(ctx, t, r) }}
}

func (e *exam) midwayProbe(r mcp.Revision) probe {
	return probe{name: "a request before initialized (" + r.String() + ")", midway: true, run: func(ctx context.Context, t *talk) { e.beforeInitialized(ctx, t, r) }}
}

func (e *exam) batchProbe(r mcp.Revision) probe {
	return probe{name: "a batch (" + r.String() + ")", rev: r, run: e.batch}
}

// early sends a request before the handshake. A missing answer counts only if the server
// answers the same request after the handshake.
func (e *exam) early(ctx context.Context, t *talk, r mcp.Revision) {
	if e.http && !e.sse {
		return // the probe of sessions tests requests without a session
	}
	q := t.ask(mcp.MethodListTools, "")
	t.await(ctx, q)
	switch {
	case q.silent() && !t.over:
		seen := t.proof(q)
		if t.shared || !t.openAs(ctx, r) {
			return
		}
		if again := t.askUntilReady(ctx, mcp.MethodListTools, ""); !again.silent() {
			t.find(EarlySilent, seen)
		}
	case q.worked():
		t.find(EarlyServed, t.proof(q))
	}
}

// beforeInitialized sends a request, then notifications/initialized, and then the same request
// again. The finding counts only if the second request works.
func (e *exam) beforeInitialized(ctx context.Context, t *talk, r mcp.Revision) {
	if !t.greeted {
		first := t.ask(mcp.MethodInitialize, greeting(r.String()))
		if !t.await(ctx, first) || !first.worked() {
			return
		}
		t.greet(first)
	}
	if w, ok := t.w.(*web); ok {
		w.speak(r)
	}
	q := t.ask(mcp.MethodListTools, "")
	t.await(ctx, q)
	_, failed := q.failed()
	code := InitializedNeeded
	switch {
	case t.over:
		return
	case q.silent():
		code = InitializedSilent
	case !failed || unsupported(q) && !handshake.NotReady(q.msg):
		return
	}
	seen := t.proof(q)
	if !t.finishHandshake(ctx, r) {
		return
	}
	if again := t.askUntilReady(ctx, mcp.MethodListTools, ""); again.worked() {
		t.find(code, evidence(seen, "# the same request worked after "+mcp.NoteInitialized))
	}
}

func unsupported(q *question) bool {
	code, _ := q.failed()
	return code == jsonrpc.CodeMethodNotFound
}

// ping checks that the server answers ping with an empty result (2025-11-25 §Ping).
func (e *exam) ping(ctx context.Context, t *talk) {
	q := t.ask(mcp.MethodPing, "")
	if !t.await(ctx, q) || q.msg == nil {
		return // an opening probe has already reported a missing answer
	}
	if !q.worked() {
		t.find(PingRefused, t.proof(q))
		return
	}
	for f := range jsonrpc.Members(q.msg.Raw, q.msg.Result) {
		if key, _ := jsonrpc.Text(q.msg.Raw, f.Key); key != mcp.KeyMeta && key != "resultType" {
			t.find(PingResult, t.proof(q))
			return
		}
	}
}

// ids sends requests whose ids are a string, 0, a very large number, and an id that was used before
// (2025-11-25 §Base, "Requests").
func (e *exam) ids(ctx context.Context, t *talk) {
	method := alive(t.rev)
	for _, c := range []struct {
		id   jsonrpc.ID
		code string
	}{{`"dragoman-1"`, IDString}, {"0", IDZero}} {
		q := t.askAs(c.id, method, "")
		t.await(ctx, q)
		if t.over {
			return
		}
		if _, failed := q.failed(); q.silent() || failed && !unsupported(q) {
			t.find(c.code, t.proof(q))
		}
	}
	if !e.pingUnanswered() {
		e.bigID(ctx, t)
	}
	if t.over {
		return
	}
	q := t.askAs(`"dragoman-1"`, method, "") // this id was used before; the server must answer with a result or an error
	t.await(ctx, q)
	if q.silent() && !t.over {
		t.find(IDReused, t.proof(q))
	}
}

// bigID sends a request with an id that many servers change or drop. It does not wait long for the
// answer.
func (e *exam) bigID(ctx context.Context, t *talk) {
	q := t.askAs(bigID, alive(t.rev), "")
	if e.http && !e.sse {
		t.await(ctx, q)
	} else {
		t.outrun(ctx, q)
	}
	if _, failed := q.failed(); !t.over && (q.silent() || failed && !unsupported(q)) {
		t.find(IDBig, t.proof(q))
	}
	t.giveUp(q)
}

// unknownMethod checks that the server answers an unknown method with an error. If the server
// answers a later request first, unknownMethod treats the answer to the unknown method as missing.
func (e *exam) unknownMethod(ctx context.Context, t *talk) {
	q := t.ask("dragoman/no_such_method", "")
	if t.e.http && !t.e.sse {
		t.await(ctx, q)
	} else {
		t.timedOut = !t.outrun(ctx, q) && !t.over || t.timedOut
	}
	code, failed := q.failed()
	switch {
	case t.over && !q.done:
	case q.silent():
		t.find(UnknownSilent, t.proof(q))
	case q.worked():
		t.find(UnknownServed, t.proof(q))
	case failed && code != jsonrpc.CodeMethodNotFound:
		t.find(UnknownCode, t.proof(q))
	case failed && q.status == http.StatusNotFound && t.rev.Can(mcp.HTTPSessions):
		t.find(StatusOfLostSession, t.proof(q))
	case failed && q.status == http.StatusOK && t.rev.Modern():
		t.find(StatusOfUnknown, t.proof(q))
	}
}

// unknownNote sends an unknown notification, which the server must ignore (JSON-RPC 2.0 §4.1).
// If the server answers, talk reports the answer as a finding.
func (e *exam) unknownNote(ctx context.Context, t *talk) {
	note := t.notify("notifications/dragoman/unknown", "")
	if t.e.http && !t.e.sse {
		t.await(ctx, note)
	}
	q := t.ask(alive(t.rev), "")
	t.await(ctx, q)
	if !t.shared {
		t.linger(ctx, e.grace()/5)
	}
}

// unknownMeta sends a request with an unknown version in _meta (2026-07-28 §Versioning, "Protocol
// Version Negotiation").
func (e *exam) unknownMeta(ctx context.Context, t *talk) {
	id := t.nextID()
	q := t.askRaw(id, mcp.MethodDiscover, jsonrpc.AppendRequest(nil, id, mcp.MethodDiscover, []byte("{"+meta(mcp.UnknownVersion)+"}")))
	t.await(ctx, q)
	code, failed := q.failed()
	switch {
	case q.worked(), failed && code != mcp.CodeUnsupportedVersion:
		t.find(MetaVersionCode, t.proof(q))
	case failed:
		data := jsonrpc.Find(q.msg.Raw, q.msg.Error, "data")
		if jsonrpc.KindOf(q.msg.Raw, jsonrpc.Find(q.msg.Raw, data, "supported")) != '[' {
			t.find(MetaVersionList, t.proof(q))
		}
	}
}

// noMeta sends a request without the _meta that each modern request must have.
func (e *exam) noMeta(ctx context.Context, t *talk) {
	id := t.nextID()
	q := t.askRaw(id, mcp.MethodListTools, jsonrpc.AppendRequest(nil, id, mcp.MethodListTools, []byte("{}")))
	t.await(ctx, q)
	if q.silent() && !t.over {
		t.find(EarlySilent, t.proof(q))
	}
}

// long sends a request that is padded to the given size. The server must answer the request.
func (e *exam) long(ctx context.Context, t *talk, size int, code string) {
	t.death = code
	pad := `"io.github.dragoman-mcp/pad":"` + strings.Repeat("x", size) + `"`
	members := `"_meta":{` + pad + `}`
	if t.rev.Modern() {
		members = strings.Replace(meta(t.rev.String()), `"_meta":{`, `"_meta":{`+pad+`,`, 1)
	}
	method := alive(t.rev)
	id := t.nextID()
	q := t.askRaw(id, method, jsonrpc.AppendRequest(nil, id, method, []byte("{"+members+"}")))
	t.await(ctx, q)
	if t.over {
		return
	}
	if code != "" && (q.silent() || q.msg == nil || q.msg.Kind == jsonrpc.Failure && !unsupported(q)) {
		t.find(code, evidence(t.proof(q), fmt.Sprintf("# a message of %d bytes", size)))
	}
}

// burst sends many requests before it waits for answers.
func (e *exam) burst(ctx context.Context, t *talk) {
	const many = 24 // fewer than maxUnsent
	var all []*question
	for range many {
		all = append(all, t.ask(alive(t.rev), ""))
	}
	for _, q := range all {
		if !t.await(ctx, q) && !t.over {
			t.find(BurstLost, evidence(t.proof(q), fmt.Sprintf("# one of %d concurrent requests", many)))
			return
		}
	}
}

// batch sends a batch. Only 2025-03-26 has batches (2025-03-26 §Base, "Batching").
func (e *exam) batch(ctx context.Context, t *talk) {
	one := jsonrpc.AppendRequest(nil, `"batch-1"`, mcp.MethodPing, nil)
	two := jsonrpc.AppendRequest(nil, `"batch-2"`, mcp.MethodPing, nil)
	body := append(append(append(append([]byte("["), one...), ','), two...), ']')
	q := t.askRaw("", batchOf, body)
	// In an event stream, the server may send each answer as a message of its own (2025-03-26
	// §Transports, "Sending Messages to the Server").
	alone := []*question{{id: `"batch-1"`, method: mcp.MethodPing, sent: t.lastSent}, {id: `"batch-2"`, method: mcp.MethodPing, sent: t.lastSent}}
	t.open = append(t.open, alone...)
	level := Level("")
	if e.hasLater(t.rev) {
		// Clients can use the later revision, which has no batches.
		level = Info
	}
	if e.http && !e.sse {
		t.await(ctx, q)
	} else if done := t.outrun(ctx, q); !done && level != Info && !alone[0].done {
		t.timedOut = true
	}
	if t.over || alone[0].worked() && alone[1].worked() {
		return
	}
	if items, err := jsonrpc.ScanBatch(q.raw, jsonrpc.Limits{Tolerant: true}); err != nil || len(items) != 2 {
		t.findAs(BatchRefused, level, t.proof(q))
	}
}

// hasLater reports whether the server also speaks a later legacy revision.
func (e *exam) hasLater(r mcp.Revision) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, later := range mcp.Revisions(mcp.Handshake) {
		if later == r {
			return false
		}
		if a := e.tried[later]; later == e.guess || a != nil && a.opened {
			return true
		}
	}
	return false
}

// odd is malformed input. Clients should not send it, but servers should not crash on it.
type odd struct {
	name, body, death string
}

func oddities(r mcp.Revision) []odd {
	noTool := `{"jsonrpc":"2.0","id":"odd","method":"tools/call","params":{"name":"dragoman_no_such_tool","arguments":null` + modernMeta(r) + `}}`
	noParams := `{"jsonrpc":"2.0","id":"odd","method":"tools/call"}`
	all := []odd{
		{"a line that is not JSON", `{"jsonrpc":"2.0","id":"odd","method":`, DiesOnOdd},
		{"a request whose id is null", `{"jsonrpc":"2.0","id":null,"method":"ping"}`, DiesOnOdd},
		{"tools/call without parameters", noParams, DiesOnOdd},
		{"tools/call with null arguments", noTool, DiesOnOdd},
	}
	if !r.Can(mcp.Batches) {
		all = append(all, odd{"a batch", `[{"jsonrpc":"2.0","id":"odd","method":"ping"}]`, DiesOnOdd})
	}
	return all
}

func modernMeta(r mcp.Revision) string {
	if r.Modern() {
		return "," + meta(r.String())
	}
	return ""
}

// oddity sends the malformed input and checks that the server still works.
func (e *exam) oddity(ctx context.Context, t *talk, o odd) {
	t.odd = true
	q := t.askRaw(`"odd"`, "(odd)", []byte(o.body))
	if t.e.http && !t.e.sse {
		t.await(ctx, q)
	}
	sent := t.lastSent
	next := t.ask(alive(t.rev), "")
	if e.pingUnanswered() {
		t.wait(ctx, q, e.grace())
		return
	}
	if !t.await(ctx, next) {
		if !t.over {
			t.find(StuckOnOdd, evidence("> "+sent, t.proof(next)))
		}
		return
	}
	// The server has answered, but a late exception may still end the server.
	if !t.shared {
		t.linger(ctx, e.grace()/5)
	}
	if next.err == nil && e.http && !e.sse {
		next = t.ask(alive(t.rev), "")
		t.await(ctx, next)
	}
	if next.err != nil && !t.over {
		t.find(DiesOnOdd, evidence("> "+sent, t.proof(next)))
	}
}

func (e *exam) pingUnanswered() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.noPing
}
