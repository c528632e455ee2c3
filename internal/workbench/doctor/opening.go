package doctor

import (
	"context"
	"net/http"
	"strconv"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/base/excerpt"
	"github.com/dragoman-mcp/dragoman/internal/base/failure"
	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
	"github.com/dragoman-mcp/dragoman/internal/relay/handshake"
	"github.com/dragoman-mcp/dragoman/internal/transport/httplink"
)

// wayIn is a first request to a server.
type wayIn struct {
	name, method, members string
	rev                   mcp.Revision
}

// waysIn returns the first requests that reach tries, in this order.
func waysIn() []wayIn {
	return []wayIn{
		{"opening the server with initialize", mcp.MethodInitialize, greeting(mcp.LatestLegacy.String()), mcp.Unknown},
		{"opening the server with server/discover", mcp.MethodDiscover, "", mcp.Latest},
		{"a request without a handshake", mcp.MethodListTools, "", mcp.Unknown},
	}
}

// reach opens the server for the first time, while no other probe runs. The timeout is long, because
// the server may have to be downloaded or built first. ok is true if the server sent a message, or
// answered over HTTP. If it answered initialize on a pipe, first is the conversation, which stays
// open.
func (e *exam) reach(ctx context.Context) (first *greeted, ok bool) {
	why := ""
	for i, way := range waysIn() {
		if e.o.Progress != nil {
			e.o.Progress(way.name)
		}
		patience := e.firstWait(i)
		t, err := e.begin(ctx)
		if err != nil {
			e.unreached.err = err
			why = "# " + e.redact([]byte(err.Error()))
			if !e.http || e.sse {
				break
			}
			continue
		}
		t.rev, t.death = way.rev, Unreachable
		q := t.ask(way.method, way.members)
		t.wait(ctx, q, patience)
		heard := t.heard || e.http && t.answered && (q.status != 0 || e.sse)
		proof := evidence(t.proof(q), t.printed())
		if i == 0 && !e.http && q.worked() {
			e.guessFrom(q)
			return &greeted{t, q}, true
		}
		for _, d := range t.drafts {
			if d.code == Unreachable {
				d.seen = evidence(d.seen, t.printed())
			}
			e.accept(d)
		}
		e.notReached(t, q, patience)
		t.w.close()
		if i == 0 && mayBeEvents(q) && e.tryEvents(ctx) {
			return nil, true
		}
		if q.err != nil {
			why = proof
			continue
		}
		if heard || q.done {
			e.forget(Unreachable)
			return nil, true
		}
		if why == "" {
			why = proof
		}
	}
	if ctx.Err() == nil {
		if e.t.URL != nil && e.unreached.err != nil && httplink.SpeaksTLS(ctx, e.t.URL.String(), e.t.Transport) {
			e.unreached.facts.Class = failure.WrongScheme
		}
		e.find(Unreachable, why)
	}
	return nil, false
}

// firstWait returns how long reach waits for the answer to its first request, or to a later one.
func (e *exam) firstWait(i int) time.Duration {
	switch {
	case i == 0:
		return e.o.Start
	case len(e.unreached.facts.Stdout) > 0:
		return e.grace() // the command prints text in place of answers, and is hardly a server
	}
	return min(e.o.Start, 2*e.o.Patience)
}

// unreached has the facts about a server that cannot be reached.
type unreached struct {
	err   error
	facts failure.Facts
}

// notReached records why an attempt to open the server got no answer. It keeps the first reason that
// is not a timeout.
func (e *exam) notReached(t *talk, q *question, waited time.Duration) {
	if e.unreached.err != nil || e.unreached.facts.Cause == exited {
		return
	}
	e.unreached.err = q.err
	if q.err != nil {
		return
	}
	f := failure.Facts{Cause: string(handshake.CauseTimeout), Waited: waited, Stdout: t.text}
	if t.over {
		f.Cause, f.Waited = exited, 0
		if s, ok := t.w.(failure.Source); ok {
			s.DescribeFailure(&f)
		}
	}
	if f.Cause == exited || e.unreached.facts.Cause == "" {
		e.unreached.facts = f
	}
}

// exited is the cause of a failure if the process of the server has exited.
const exited = string(handshake.CauseExited)

// failureLocked describes why the server cannot be used through Dragoman. It returns nil if the
// server can be used. The caller holds e.mu.
func (e *exam) failureLocked() *failure.Failure {
	err, facts := e.through.err, failure.Facts{}
	switch {
	case !e.reached:
		err, facts = e.unreached.err, e.unreached.facts
	case err == nil || e.through.works:
		return nil
	default:
		facts = failure.Facts{Exit: e.unreached.facts.Exit, Stderr: e.unreached.facts.Stderr}
	}
	facts.Found = e.nearby
	facts.Server, facts.Given, facts.Command, facts.Args = e.t.Name, e.t.Given, e.t.Program, e.t.Args
	if u := e.t.URL; u != nil {
		facts.Address = u.Scheme + "://" + u.Host + u.EscapedPath()
	}
	facts.Clean = func(s string) string { return maskAll(s, e.known) }
	return failure.Of(err, facts)
}

// lookAround looks for MCP endpoints near an address that has none.
func (e *exam) lookAround(ctx context.Context) {
	e.mu.Lock()
	f := e.failureLocked()
	e.mu.Unlock()
	if f == nil || f.Class != failure.WrongPath && (f.Class != failure.ProtocolError || f.Status == 0) || e.t.Look == nil {
		return
	}
	found := e.t.Look(ctx)
	e.mu.Lock()
	defer e.mu.Unlock()
	e.nearby = found
}

// greeted is a conversation in which the server answered initialize with a result. q is the
// initialize request.
type greeted struct {
	t *talk
	q *question
}

// guessFrom stores the version in the server's first answer to initialize. A server that follows the
// specification answers with the newest legacy revision that it supports.
func (e *exam) guessFrom(q *question) {
	version, _ := jsonrpc.Text(q.msg.Raw, q.msg.ResultMember("protocolVersion"))
	if r, ok := mcp.ParseRevision(version); ok && r.Legacy() {
		e.guess = r
	}
}

// mayBeEvents reports whether the server refused a POST in the same way as an HTTP+SSE server
// (2026-07-28 §Streamable HTTP, "HTTP+SSE Transport (2024-11-05)").
func mayBeEvents(q *question) bool {
	code, _ := q.failed()
	switch q.status {
	case http.StatusBadRequest, http.StatusNotFound, http.StatusMethodNotAllowed:
		return !q.worked() && !mcp.IsModernCode(code)
	}
	return false
}

// forget replaces the finding Unreachable with the finding Dies, because a later attempt reached the
// server.
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

// tryEvents reports whether the server at the URL uses HTTP+SSE (2024-11-05 §Transports). It opens
// the server in the same way as a client after a refused POST.
func (e *exam) tryEvents(ctx context.Context) bool {
	e.sse = true
	t, err := e.begin(ctx)
	if err != nil {
		e.sse = false
		return false
	}
	defer t.w.close()
	q := t.ask(mcp.MethodInitialize, greeting(mcp.LatestLegacy.String()))
	defer func() {
		for _, d := range t.drafts {
			e.accept(d)
		}
	}()
	if !t.wait(ctx, q, e.o.Start) {
		e.sse = false
	}
	return e.sse
}

// openings returns the jobs that open the server in each revision. On a pipe, the probes from habits
// may follow in the same conversation. first is the conversation from reach, or nil.
func (e *exam) openings(first *greeted) []job {
	goOn := func(r mcp.Revision) func() []probe {
		if e.http {
			return nil
		}
		return func() []probe { return e.goOn(r) }
	}
	var jobs []job
	legacy := func(r mcp.Revision) probe {
		return probe{name: "initialize with " + r.String(), then: goOn(r), run: func(ctx context.Context, t *talk) { e.initialize(ctx, t, r, nil) }}
	}
	if first != nil {
		p := legacy(mcp.LatestLegacy)
		p.run = func(ctx context.Context, t *talk) {
			q := first.q
			if t != first.t { // the probe runs again, in another conversation
				q = nil
			}
			e.initialize(ctx, t, mcp.LatestLegacy, q)
		}
		jobs = append(jobs, job{probes: []probe{p}, talk: first.t})
	}
	jobs = append(jobs, singles([]probe{
		{name: "server/discover", death: ProbeDies, run: e.discover, then: goOn(mcp.Latest)},
		{name: "Dragoman's own handshake", alone: e.bridge},
	})...)
	for _, r := range mcp.Revisions(mcp.Handshake) {
		if fresh := mcp.Revisions(mcp.Handshake); first == nil || r != fresh[0] {
			jobs = append(jobs, singles([]probe{legacy(r)})...)
		}
	}
	mistakes := []probe{
		{name: "initialize without parameters", death: BareDies, run: e.bareInitialize},
		{name: "initialize with an unknown version", run: e.unknownVersion},
	}
	if e.http || e.guess == mcp.Unknown {
		return append(jobs, singles(mistakes)...)
	}
	return append(jobs, job{probes: append(append([]probe{e.earlyProbe(e.guess)}, mistakes...), e.midwayProbe(e.guess))})
}

// goOn returns more probes for a conversation in which the server was opened in the revision.
func (e *exam) goOn(r mcp.Revision) (more []probe) {
	e.mu.Lock()
	a := e.tried[r]
	whole := a != nil && a.opened && (r == e.guess || r.Modern()) && !e.examined[r]
	e.examined[r] = e.examined[r] || whole
	e.mu.Unlock()
	if a == nil || !a.opened {
		return nil
	}
	if whole {
		more = e.habits(r)
	}
	if r.Can(mcp.Batches) {
		more = append(more, e.batchProbe(r))
	}
	return more
}

// discover tests whether the server is modern (2026-07-28 §Versioning, "Backward
// Compatibility").
func (e *exam) discover(ctx context.Context, t *talk) {
	t.rev = mcp.Latest
	q := t.ask(mcp.MethodDiscover, "")
	t.await(ctx, q)
	a := &attempt{why: q.unanswered()}
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
			a.why = "the answer to server/discover does not list this revision"
			if q.msg.ResultMember("supportedVersions").IsZero() {
				t.find(OddDiscover, t.proof(q))
			}
			return
		}
		e.introduce(q)
		e.modernResult(t, q)
	case q.silent() && !t.over:
		t.find(ProbeSilent, t.proof(q))
	case q.msg != nil:
		a.why = "the server answers server/discover with an error"
	}
}

// modernResult checks two members that the result of server/discover must have (2026-07-28 §Base,
// "ResultType").
func (e *exam) modernResult(t *talk, q *question) {
	if q.msg.ResultMember("resultType").IsZero() {
		t.find(NoResultType, t.proof(q))
	}
	if jsonrpc.KindOf(q.msg.Raw, q.msg.ResultMember("capabilities")) != '{' {
		t.find(NoCapabilities, t.proof(q))
	}
}

// attempted records the result of opening the server in a revision.
func (e *exam) attempted(r mcp.Revision, a *attempt) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.tried[r] = a
}

// initialize opens the server in one revision (2025-11-25 §Lifecycle, "Version Negotiation"). If the
// server has already answered initialize in this conversation, q is that request. Otherwise q is nil.
func (e *exam) initialize(ctx context.Context, t *talk, r mcp.Revision, q *question) {
	a := &attempt{}
	defer func() { e.attempted(r, a) }()
	if q == nil {
		q = t.ask(mcp.MethodInitialize, greeting(r.String()))
		t.await(ctx, q)
	}
	switch {
	case q.worked():
	case q.msg != nil:
		a.refused, a.why = t.proof(q), "the server answers initialize with an error"
		return
	default:
		a.why = q.unanswered()
		return
	}
	t.greet(q)
	e.introduce(q)
	raw := q.msg.Raw
	version, ok := jsonrpc.Text(raw, q.msg.ResultMember("protocolVersion"))
	switch {
	case !ok:
		a.why = "the answer to initialize has no protocolVersion"
		e.versionless(t, q)
		return
	case version != r.String():
		a.answer, a.why = version, "the server answers initialize with version "+clip(version)
		return
	}
	if jsonrpc.KindOf(raw, q.msg.ResultMember("capabilities")) != '{' {
		t.find(NoCapabilities, t.proof(q))
	}
	if info := q.msg.ResultMember("serverInfo"); jsonrpc.Find(raw, info, "name").IsZero() {
		t.find(NoServerInfo, t.proof(q))
	}
	a.opened = t.finishHandshake(ctx, r)
	if !a.opened {
		a.why = "the server does not answer requests after the handshake"
	}
}

// unanswered returns a sentence for a request that was not answered with a message.
func (q *question) unanswered() string {
	if q.status == 0 {
		return "the server does not answer " + q.method
	}
	return "the server answers " + q.method + " with HTTP status " + strconv.Itoa(q.status) + " and without a message"
}

// versionless classifies a result of initialize that has no version.
func (e *exam) versionless(t *talk, q *question) {
	code := NoVersion
	switch {
	case !q.msg.ResultMember("tools").IsZero():
		code = Manifest
		t.judgeManifest(q.msg.Raw, q.msg.ResultMember("tools"), q.sent)
	case !q.msg.ResultMember("userAgent").IsZero() || !q.msg.ResultMember("advertised_models").IsZero():
		code = NotMCP
	}
	t.find(code, t.proof(q))
	e.mu.Lock()
	defer e.mu.Unlock()
	e.odd, e.notMCP = true, e.notMCP || code == NotMCP
}

// openAs opens the server in a revision before a probe. It reports whether the probe can run.
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
	t.await(ctx, q)
	if !q.worked() {
		return false
	}
	t.greet(q)
	return t.finishHandshake(ctx, r)
}

// greet stores the result of initialize.
func (t *talk) greet(q *question) {
	t.greeted, t.hello, t.caps = true, q.msg.Raw, q.msg.ResultMember("capabilities")
}

// finishHandshake completes the handshake and waits until the server is ready. It reports whether
// the server answers.
func (t *talk) finishHandshake(ctx context.Context, r mcp.Revision) bool {
	t.rev = r
	if w, ok := t.w.(*web); ok {
		w.speak(r)
	}
	note := t.notify(mcp.NoteInitialized, "")
	t.announced = true
	if t.e.http && !t.e.sse {
		t.await(ctx, note)
	}
	t.e.mu.Lock()
	mute := t.e.noPing
	t.e.mu.Unlock()
	t.opened = mute || t.ready(ctx)
	return t.opened
}

// ready sends ping until the server is ready. It reports whether the server answers requests.
func (t *talk) ready(ctx context.Context) bool {
	q := t.askUntilReady(ctx, mcp.MethodPing, "")
	if q.silent() && !t.over {
		t.find(PingSilent, t.proof(q))
		t.e.mu.Lock()
		t.e.noPing = t.e.noPing || t.final
		t.e.mu.Unlock()
		again := t.ask(mcp.MethodListTools, "")
		return t.await(ctx, again)
	}
	return q.done
}

// unknownVersion sends initialize with an unknown version. The server must answer with a version
// that it supports (2025-11-25 §Lifecycle, "Version Negotiation").
func (e *exam) unknownVersion(ctx context.Context, t *talk) {
	q := t.ask(mcp.MethodInitialize, greeting(mcp.UnknownVersion))
	if !t.await(ctx, q) || q.msg == nil {
		return // the other opening probes report a missing answer
	}
	if q.worked() {
		t.greet(q)
		version, ok := jsonrpc.Text(q.msg.Raw, q.msg.ResultMember("protocolVersion"))
		if _, known := mcp.ParseRevision(version); ok && !known {
			t.spent = true
			t.find(VersionEchoed, t.proof(q))
		}
		return
	}
	if t.unsure = true; t.shared {
		return // the server may refuse the request because of earlier messages
	}
	e.mu.Lock()
	e.refusedUnknown = t.proof(q)
	e.mu.Unlock()
}

// bareInitialize sends initialize without params. The server must answer and must not exit.
func (e *exam) bareInitialize(ctx context.Context, t *talk) {
	q := t.ask(mcp.MethodInitialize, "")
	t.await(ctx, q)
	code, failed := q.failed()
	switch {
	case q.silent() && !t.over:
		t.find(BareSilent, t.proof(q))
	case q.worked():
		t.spent = true
		t.find(BareServed, t.proof(q))
	case failed && code == jsonrpc.CodeMethodNotFound:
		e.mu.Lock()
		e.refusedBare = t.proof(q)
		e.mu.Unlock()
	}
}

// settleVersions reports that the server answered initialize with an error. It does so only for a
// server that supports initialize, because any other server may refuse initialize.
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

// clip shortens text from a peer, so that it can be part of a text from Dragoman.
func clip(s string) string { return excerpt.Cut(s, 40) }
