package doctor

import (
	"context"
	"fmt"
	"net/http"
	"strings"

	"github.com/dragoman-mcp/dragoman/internal/handshake"
	"github.com/dragoman-mcp/dragoman/internal/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/mcp"
)

// bases returns the revisions to examine in detail: the newest of each era that the
// server supports. If the handshake is not MCP but works somehow, it is the newest legacy
// revision.
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

// habits returns the probes for a server that can be opened.
func (e *exam) habits() []probe {
	var all []probe
	for _, r := range e.bases() {
		add := func(name string, run func(context.Context, *talk)) {
			all = append(all, probe{name: name + " (" + r.String() + ")", rev: r, run: run})
		}
		if r.Legacy() {
			all = append(all,
				probe{name: "a request before initialize (" + r.String() + ")", run: func(ctx context.Context, t *talk) { e.early(ctx, t, r) }},
				probe{name: "a request before initialized (" + r.String() + ")", run: func(ctx context.Context, t *talk) { e.beforeInitialized(ctx, t, r) }},
			)
			add("ping", e.ping)
		} else {
			add("an unknown version in _meta", e.unknownMeta)
			add("no _meta", e.noMeta)
		}
		add("ids", e.ids)
		add("an unknown method", e.unknownMethod)
		add("an unknown notification", e.unknownNote)
		add("lists", e.lists)
		add("reading", e.read)
		add("a long message", func(ctx context.Context, t *talk) { e.long(ctx, t, 128<<10, LongMessage) })
		for _, o := range oddities(r) {
			all = append(all, probe{name: o.name + " (" + r.String() + ")", rev: r, death: o.death, run: func(ctx context.Context, t *talk) { e.oddity(ctx, t, o) }})
		}
		if e.o.Call != "" {
			add("calling "+clip(e.o.Call), e.call)
			add("cancelling "+clip(e.o.Call), e.cancel)
		}
		if e.o.Deep {
			add("a very long message", func(ctx context.Context, t *talk) { e.long(ctx, t, 1<<20, VeryLongMessage) })
			add("many requests at once", e.burst)
		}
		if e.http && !e.sse {
			all = append(all, e.guards(r)...)
		}
	}
	for _, r := range mcp.Revisions(mcp.Batches) {
		e.mu.Lock()
		a := e.tried[r]
		e.mu.Unlock()
		if a != nil && a.opened && !e.sse {
			all = append(all, probe{name: "a batch (" + r.String() + ")", rev: r, run: e.batch})
		}
	}
	return all
}

// early sends a request before the handshake. Silence counts only if the server answers
// the same request after the handshake.
func (e *exam) early(ctx context.Context, t *talk, r mcp.Revision) {
	if e.http && !e.sse {
		return // there is no session yet; the session probes cover this
	}
	q := t.ask(mcp.MethodListTools, "")
	t.wait(ctx, q, e.o.Patience)
	switch {
	case q.silent() && !t.over:
		seen := t.proof(q)
		if !t.openAs(ctx, r) {
			return
		}
		if again := t.askUntilReady(ctx, mcp.MethodListTools, ""); !again.silent() {
			e.find(EarlySilent, seen)
		}
	case q.worked():
		e.find(EarlyServed, t.proof(q))
	}
}

// beforeInitialized sends a request, then the late notifications/initialized, then the same
// request again. The missing notification was the reason only if the second request
// works.
func (e *exam) beforeInitialized(ctx context.Context, t *talk, r mcp.Revision) {
	first := t.ask(mcp.MethodInitialize, greeting(r.String()))
	if !t.wait(ctx, first, e.o.Patience) || !first.worked() {
		return
	}
	if w, ok := t.w.(*web); ok {
		w.speak(r)
	}
	q := t.ask(mcp.MethodListTools, "")
	t.wait(ctx, q, e.o.Patience)
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
		e.find(code, evidence(seen, "# the same request worked after "+mcp.NoteInitialized))
	}
}

func unsupported(q *question) bool {
	code, _ := q.failed()
	return code == jsonrpc.CodeMethodNotFound
}

// ping must be answered with an empty result (2025-11-25 §Ping).
func (e *exam) ping(ctx context.Context, t *talk) {
	q := t.ask(mcp.MethodPing, "")
	if !t.wait(ctx, q, e.o.Patience) || q.msg == nil {
		return // silence was reported at the opening
	}
	if !q.worked() {
		e.find(PingRefused, t.proof(q))
		return
	}
	for f := range jsonrpc.Members(q.msg.Raw, q.msg.Result) {
		if key, _ := jsonrpc.Text(q.msg.Raw, f.Key); key != mcp.KeyMeta && key != "resultType" {
			e.find(PingResult, t.proof(q))
			return
		}
	}
}

// ids tries every kind of id (2025-11-25 §Base, "Requests").
func (e *exam) ids(ctx context.Context, t *talk) {
	method := alive(t.rev)
	for _, c := range []struct {
		id   jsonrpc.ID
		code string
	}{{`"dragoman-1"`, IDString}, {"0", IDZero}, {bigID, IDBig}} {
		q := t.askAs(c.id, method, "")
		t.wait(ctx, q, e.o.Patience)
		if t.over {
			return
		}
		if _, failed := q.failed(); q.silent() || failed && !unsupported(q) {
			e.find(c.code, t.proof(q))
		}
	}
	q := t.askAs(`"dragoman-1"`, method, "") // reused: the server must refuse or answer it
	t.wait(ctx, q, e.o.Patience)
	if q.silent() && !t.over {
		e.find(IDReused, t.proof(q))
	}
}

// unknownMethod checks that the server answers an unknown method with an error. If a
// later request is answered first, the server does not intend to answer.
func (e *exam) unknownMethod(ctx context.Context, t *talk) {
	q := t.ask("dragoman/no_such_method", "")
	if t.e.http && !t.e.sse {
		t.wait(ctx, q, e.o.Patience)
	} else {
		next := t.ask(alive(t.rev), "")
		t.wait(ctx, next, e.o.Patience)
		t.wait(ctx, q, e.grace())
	}
	code, failed := q.failed()
	switch {
	case t.over && !q.done:
	case q.silent():
		e.find(UnknownSilent, t.proof(q))
	case q.worked():
		e.find(UnknownServed, t.proof(q))
	case failed && code != jsonrpc.CodeMethodNotFound:
		e.find(UnknownCode, t.proof(q))
	case failed && q.status == http.StatusNotFound && t.rev.Can(mcp.HTTPSessions):
		e.find(StatusOfLostSession, t.proof(q))
	case failed && q.status == http.StatusOK && t.rev.Modern():
		e.find(StatusOfUnknown, t.proof(q))
	}
}

// unknownNote sends an unknown notification, which the server must ignore (JSON-RPC 2.0
// §4.1). Any answer is reported by the talk.
func (e *exam) unknownNote(ctx context.Context, t *talk) {
	note := t.tell("notifications/dragoman/unknown", "")
	if t.e.http && !t.e.sse {
		t.wait(ctx, note, e.o.Patience)
	}
	q := t.ask(alive(t.rev), "")
	t.wait(ctx, q, e.o.Patience)
	t.linger(ctx, e.grace()/5)
}

// unknownMeta sends an unknown version in _meta (2026-07-28 §Versioning, "Protocol
// Version Negotiation").
func (e *exam) unknownMeta(ctx context.Context, t *talk) {
	id := t.nextID()
	q := t.askRaw(id, mcp.MethodDiscover, jsonrpc.AppendRequest(nil, id, mcp.MethodDiscover, []byte("{"+meta(unknownDate)+"}")), nil)
	t.wait(ctx, q, e.o.Patience)
	code, failed := q.failed()
	switch {
	case q.worked(), failed && code != mcp.CodeUnsupportedVersion:
		e.find(MetaVersionCode, t.proof(q))
	case failed:
		data := jsonrpc.Find(q.msg.Raw, q.msg.Error, "data")
		if jsonrpc.KindOf(q.msg.Raw, jsonrpc.Find(q.msg.Raw, data, "supported")) != '[' {
			e.find(MetaVersionList, t.proof(q))
		}
	}
}

// noMeta leaves out the _meta that each modern request must have.
func (e *exam) noMeta(ctx context.Context, t *talk) {
	id := t.nextID()
	q := t.askRaw(id, mcp.MethodListTools, jsonrpc.AppendRequest(nil, id, mcp.MethodListTools, []byte("{}")), nil)
	t.wait(ctx, q, e.o.Patience)
	if q.silent() && !t.over {
		e.find(EarlySilent, t.proof(q))
	}
}

// long pads a request that any server answers.
func (e *exam) long(ctx context.Context, t *talk, size int, code string) {
	t.death = code
	pad := `"io.github.dragoman-mcp/pad":"` + strings.Repeat("x", size) + `"`
	members := `"_meta":{` + pad + `}`
	if t.rev.Modern() {
		members = strings.Replace(meta(t.rev.String()), `"_meta":{`, `"_meta":{`+pad+`,`, 1)
	}
	method := alive(t.rev)
	id := t.nextID()
	q := t.askRaw(id, method, jsonrpc.AppendRequest(nil, id, method, []byte("{"+members+"}")), nil)
	t.wait(ctx, q, e.o.Patience)
	if t.over {
		return
	}
	if code != "" && (q.silent() || q.msg == nil || q.msg.Kind == jsonrpc.Failure && !unsupported(q)) {
		e.find(code, evidence(t.proof(q), fmt.Sprintf("# a message of %d bytes", size)))
	}
}

// burst sends many requests before it waits for answers.
func (e *exam) burst(ctx context.Context, t *talk) {
	const many = 24 // less than maxUnsent
	var all []*question
	for range many {
		all = append(all, t.ask(alive(t.rev), ""))
	}
	for _, q := range all {
		if !t.wait(ctx, q, e.o.Patience) && !t.over {
			e.find(BurstLost, evidence(t.proof(q), fmt.Sprintf("# one of %d concurrent requests", many)))
			return
		}
	}
}

// batch sends a batch, which only one revision has (2025-03-26 §Base, "Batching").
func (e *exam) batch(ctx context.Context, t *talk) {
	one := jsonrpc.AppendRequest(nil, `"batch-1"`, mcp.MethodPing, nil)
	two := jsonrpc.AppendRequest(nil, `"batch-2"`, mcp.MethodPing, nil)
	body := append(append(append(append([]byte("["), one...), ','), two...), ']')
	q := t.askRaw("", batchOf, body, nil)
	// On a stream the answers may arrive one by one (2025-03-26 §Transports, "Sending
	// Messages to the Server").
	alone := []*question{{id: `"batch-1"`, method: mcp.MethodPing, said: t.said}, {id: `"batch-2"`, method: mcp.MethodPing, said: t.said}}
	t.open = append(t.open, alone...)
	t.wait(ctx, q, e.o.Patience)
	if t.over || alone[0].worked() && alone[1].worked() {
		return
	}
	if items, err := jsonrpc.ScanBatch(q.raw, jsonrpc.Limits{Tolerant: true}); err != nil || len(items) != 2 {
		e.find(BatchRefused, t.proof(q))
	}
}

// odd is malformed input. No client should send it, and no server should crash on it.
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
	q := t.askRaw(`"odd"`, "(odd)", []byte(o.body), nil)
	if t.e.http && !t.e.sse {
		t.wait(ctx, q, e.o.Patience)
	}
	said := t.said
	next := t.ask(alive(t.rev), "")
	if e.pingUnanswered() {
		t.wait(ctx, q, e.grace())
		return
	}
	if !t.wait(ctx, next, e.o.Patience) {
		if !t.over {
			e.find(StuckOnOdd, evidence("> "+said, t.proof(next)))
		}
		return
	}
	// The server works now. An exception in the handler may still end it a little
	// later.
	t.linger(ctx, e.grace()/5)
	if next.err == nil && e.http && !e.sse {
		next = t.ask(alive(t.rev), "")
		t.wait(ctx, next, e.o.Patience)
	}
	if next.err != nil && !t.over {
		e.find(DiesOnOdd, evidence("> "+said, t.proof(next)))
	}
}

func (e *exam) pingUnanswered() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.noPing
}
