package doctor

import (
	"context"
	"net/http"
	"strconv"

	"github.com/dragoman-mcp/dragoman/internal/excerpt"
	"github.com/dragoman-mcp/dragoman/internal/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/mcp"
)

// unknownDate is a version that no server supports.
const unknownDate = "1999-12-31"

// reach opens the server for the first time, with no other probe running and a long
// timeout: it may have to be downloaded or built first. It reports whether the server
// sent anything.
func (e *exam) reach(ctx context.Context) bool {
	ways := []struct {
		name, method, members string
		rev                   mcp.Revision
	}{
		{"opening it with initialize", mcp.MethodInitialize, greeting(mcp.LatestLegacy.String()), mcp.Unknown},
		{"opening it with server/discover", mcp.MethodDiscover, "", mcp.Latest},
		{"asking it without a handshake", mcp.MethodListTools, "", mcp.Unknown},
	}
	why := ""
	for i, way := range ways {
		if e.o.Progress != nil {
			e.o.Progress(way.name)
		}
		patience := e.o.Start
		if i > 0 {
			patience = min(patience, 2*e.o.Patience)
		}
		t, err := e.begin(ctx)
		if err != nil {
			why = "# " + e.redact([]byte(err.Error()))
			if !e.http || e.sse {
				break
			}
			continue
		}
		t.rev, t.death = way.rev, Unreachable
		q := t.ask(way.method, way.members)
		t.wait(ctx, q, patience)
		heard := t.answered && (!e.http || q.status != 0 || e.sse)
		proof := t.proof(q)
		t.w.close()
		if i == 0 && mayBeEvents(q) && e.tryEvents(ctx) {
			return true
		}
		if q.err != nil {
			why = proof
			continue
		}
		if heard || q.done {
			e.forget(Unreachable)
			return true
		}
		if why == "" {
			why = proof
		}
	}
	if ctx.Err() == nil {
		e.find(Unreachable, why)
	}
	return false
}

// mayBeEvents reports whether a POST was refused in the way that an HTTP+SSE server does
// (2026-07-28 §Streamable HTTP, "HTTP+SSE Transport (2024-11-05)").
func mayBeEvents(q *question) bool {
	code, _ := q.failed()
	switch q.status {
	case http.StatusBadRequest, http.StatusNotFound, http.StatusMethodNotAllowed:
		return !q.worked() && !mcp.IsModernCode(code)
	}
	return false
}

// forget replaces Unreachable by Dies after a later attempt reached the server.
func (e *exam) forget(code string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if f, ok := e.found[code]; ok && code == Unreachable {
		delete(e.found, code)
		if _, had := e.found[Dies]; !had {
			c, _ := Lookup(Dies)
			e.found[Dies] = Finding{c, f.Evidence}
		}
	}
}

// tryEvents reports whether the URL speaks HTTP+SSE (2024-11-05 §Transports), the way a
// client whose POST was refused finds out.
func (e *exam) tryEvents(ctx context.Context) bool {
	e.sse = true
	t, err := e.begin(ctx)
	if err != nil {
		e.sse = false
		return false
	}
	defer t.w.close()
	q := t.ask(mcp.MethodInitialize, greeting(mcp.LatestLegacy.String()))
	if !t.wait(ctx, q, e.o.Start) {
		e.sse = false
	}
	return e.sse
}

// openings returns the probes that open the server.
func (e *exam) openings() []probe {
	all := []probe{{name: "server/discover", death: ProbeDies, run: e.discover}}
	for _, r := range mcp.Revisions(mcp.Handshake) {
		all = append(all, probe{name: "initialize with " + r.String(), run: func(ctx context.Context, t *talk) { e.initialize(ctx, t, r) }})
	}
	return append(all,
		probe{name: "initialize with an unknown version", run: e.unknownVersion},
		probe{name: "initialize without parameters", death: BareDies, run: e.bareInitialize},
		probe{name: "the bridge's own handshake", alone: e.bridge},
	)
}

// discover tests whether the server is modern (2026-07-28 §Versioning, "Backward
// Compatibility").
func (e *exam) discover(ctx context.Context, t *talk) {
	t.rev = mcp.Latest
	q := t.ask(mcp.MethodDiscover, "")
	t.wait(ctx, q, e.o.Patience)
	a := &attempt{why: "server/discover is not answered"}
	defer func() { e.attempted(mcp.Latest, a) }()
	switch {
	case q.worked():
		versions := jsonrpc.Elements(q.msg.Raw, q.msg.ResultMember("supportedVersions"))
		for v := range versions {
			if s, _ := jsonrpc.Text(q.msg.Raw, v); s == mcp.Latest.String() {
				a.opened = true
			}
		}
		if !a.opened {
			a.why = "server/discover does not list it"
			if q.msg.ResultMember("supportedVersions").IsZero() {
				e.find(OddDiscover, t.proof(q))
			}
			return
		}
		e.modernResult(t, q)
	case q.silent() && !t.over:
		e.find(ProbeSilent, t.proof(q))
	case q.msg != nil:
		a.why = "server/discover is refused"
	}
}

// modernResult checks what every modern result must have (2026-07-28 §Base, "ResultType").
func (e *exam) modernResult(t *talk, q *question) {
	if q.msg.ResultMember("resultType").IsZero() {
		e.find(NoResultType, t.proof(q))
	}
	if jsonrpc.KindOf(q.msg.Raw, q.msg.ResultMember("capabilities")) != '{' {
		e.find(NoCapabilities, t.proof(q))
	}
}

// attempted records the result for a revision.
func (e *exam) attempted(r mcp.Revision, a *attempt) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.tried[r] = a
}

// initialize opens with one revision (2025-11-25 §Lifecycle, "Version Negotiation").
func (e *exam) initialize(ctx context.Context, t *talk, r mcp.Revision) {
	a := &attempt{why: "initialize is not answered"}
	defer func() { e.attempted(r, a) }()
	q := t.ask(mcp.MethodInitialize, greeting(r.String()))
	t.wait(ctx, q, e.o.Patience)
	switch {
	case q.worked():
	case q.msg != nil:
		a.refused, a.why = t.proof(q), "initialize is refused"
		return
	default:
		if q.status >= 400 {
			a.why = "initialize is answered with HTTP status " + strconv.Itoa(q.status)
		}
		return
	}
	raw := q.msg.Raw
	version, ok := jsonrpc.Text(raw, q.msg.ResultMember("protocolVersion"))
	switch {
	case !ok:
		a.why = "initialize names no version"
		e.versionless(t, q)
		return
	case version != r.String():
		a.answer, a.why = version, "it answers with "+clip(version)
		return
	}
	if jsonrpc.KindOf(raw, q.msg.ResultMember("capabilities")) != '{' {
		e.find(NoCapabilities, t.proof(q))
	}
	if info := q.msg.ResultMember("serverInfo"); jsonrpc.Find(raw, info, "name").IsZero() {
		e.find(NoServerInfo, t.proof(q))
	}
	a.opened = t.finishHandshake(ctx, r)
	if !a.opened {
		a.why = "it answers no request after the handshake"
	}
}

// versionless classifies a result of initialize that has no version.
func (e *exam) versionless(t *talk, q *question) {
	code := NoVersion
	switch {
	case !q.msg.ResultMember("tools").IsZero():
		code = Manifest
	case !q.msg.ResultMember("userAgent").IsZero():
		code = NotMCP
	}
	e.find(code, t.proof(q))
	e.mu.Lock()
	defer e.mu.Unlock()
	e.odd, e.notMCP = true, e.notMCP || code == NotMCP
}

// openAs opens the server in a revision for a probe, in whatever way works.
func (t *talk) openAs(ctx context.Context, r mcp.Revision) bool {
	t.rev = r
	if r.Modern() {
		return true
	}
	t.e.mu.Lock()
	pushed := t.e.pushed && !t.e.odd && t.e.tried[r] != nil && !t.e.tried[r].opened
	t.e.mu.Unlock()
	if pushed {
		return true
	}
	q := t.ask(mcp.MethodInitialize, greeting(r.String()))
	t.wait(ctx, q, t.e.o.Patience)
	if !q.worked() {
		return false
	}
	t.hello, t.caps = q.msg.Raw, q.msg.ResultMember("capabilities")
	return t.finishHandshake(ctx, r)
}

// finishHandshake completes the handshake and waits until the server is ready. It reports whether
// the server answers.
func (t *talk) finishHandshake(ctx context.Context, r mcp.Revision) bool {
	t.rev = r
	if w, ok := t.w.(*web); ok {
		w.speak(r)
	}
	note := t.tell(mcp.NoteInitialized, "")
	t.announced = true
	if t.e.http && !t.e.sse {
		t.wait(ctx, note, t.e.o.Patience)
	}
	t.e.mu.Lock()
	mute := t.e.noPing
	t.e.mu.Unlock()
	if mute {
		return true
	}
	return t.ready(ctx)
}

// ready pings until the server is ready to answer.
func (t *talk) ready(ctx context.Context) bool {
	q := t.askUntilReady(ctx, mcp.MethodPing, "")
	if q.silent() && !t.over {
		t.e.find(PingSilent, t.proof(q))
		t.e.mu.Lock()
		t.e.noPing = true
		t.e.mu.Unlock()
		again := t.ask(mcp.MethodListTools, "")
		return t.wait(ctx, again, t.e.o.Patience)
	}
	return q.done
}

// unknownVersion offers an unknown version. The server must answer with a version that it
// supports (2025-11-25 §Lifecycle, "Version Negotiation").
func (e *exam) unknownVersion(ctx context.Context, t *talk) {
	q := t.ask(mcp.MethodInitialize, greeting(unknownDate))
	if !t.wait(ctx, q, e.o.Patience) || q.msg == nil {
		return // the other opening probes report silence
	}
	if q.worked() {
		version, ok := jsonrpc.Text(q.msg.Raw, q.msg.ResultMember("protocolVersion"))
		if _, known := mcp.ParseRevision(version); ok && !known {
			e.find(VersionEchoed, t.proof(q))
		}
		return
	}
	e.mu.Lock()
	e.refusedUnknown = t.proof(q)
	e.mu.Unlock()
}

// bareInitialize sends initialize without params. The server must answer and not exit.
func (e *exam) bareInitialize(ctx context.Context, t *talk) {
	q := t.ask(mcp.MethodInitialize, "")
	t.wait(ctx, q, e.o.Patience)
	code, failed := q.failed()
	switch {
	case q.silent() && !t.over:
		e.find(BareSilent, t.proof(q))
	case q.worked():
		e.find(BareServed, t.proof(q))
	case failed && code == jsonrpc.CodeMethodNotFound:
		e.mu.Lock()
		e.refusedBare = t.proof(q)
		e.mu.Unlock()
	}
}

// settleVersions judges refused versions once it is known whether the server is legacy at
// all. A server that is not legacy is right to refuse.
func (e *exam) settleVersions() {
	e.mu.Lock()
	legacy, refused, strict, bare := false, e.refusedUnknown, "", e.refusedBare
	for _, r := range mcp.Revisions(mcp.Handshake) {
		a := e.tried[r]
		if a == nil {
			continue
		}
		legacy = legacy || a.opened || a.answer != ""
		if a.refused != "" && strict == "" {
			strict = a.refused
		}
	}
	odd := e.odd || e.pushed
	e.mu.Unlock()
	if !legacy {
		if odd && strict != "" {
			e.find(InitializeRefused, strict)
		}
		return
	}
	if strict != "" {
		refused = strict
	}
	if refused != "" {
		e.find(VersionRefused, refused)
	}
	if bare != "" {
		e.find(BareMisnamed, bare)
	}
}

// clip shortens a peer's text for use within ours.
func clip(s string) string { return excerpt.Cut(s, 40) }
