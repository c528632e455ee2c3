package handshake

import (
	"context"
	"errors"
	"net/http"
	"strconv"

	"github.com/dragoman-mcp/dragoman/internal/base/excerpt"
	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
	"github.com/dragoman-mcp/dragoman/internal/transport"
)

// probe sends server/discover and interprets the answer (2026-07-28 §stdio and §Streamable
// HTTP, "Backward Compatibility").
func (o *opening) probe(ctx context.Context) (state, *Error) {
	o.probes++
	rules := RulesFor(mcp.Latest)
	sent := mcp.MethodDiscover + " (" + mcp.Latest.String() + ")"
	r := o.exchange(ctx, o.limit, mcp.MethodDiscover, o.discoverParams(mcp.Latest), &rules)
	got := r.got()
	if r.kind == silence && o.announced() {
		return o.unanswered(sent, got)
	}
	if cause := o.giveUp(ctx, &r); cause != "" {
		o.note(sent, got, "the handshake timeout expired")
		return "", o.fail(cause, r.err)
	}
	if cause := r.accessCause(); cause != "" {
		o.note(sent, got, "the status does not show whether the server is legacy or modern")
		return "", o.fail(cause, r.err)
	}
	if r.msg != nil && r.msg.Kind == jsonrpc.Failure && mcp.IsEcho(readFailure(r.msg).text) {
		return o.echoed(&r, sent, got)
	}
	if r.msg != nil {
		// A modern error shows that the server is modern, whatever the HTTP status is. The
		// handshake uses any other answer only if the HTTP status is not temporary.
		if v := judge(r.msg); v.modern || !r.transient() {
			return o.follow(&v, r.msg, sent, got, r.err)
		}
	}
	switch r.kind {
	case ended:
		return o.probeEnded(&r, sent, got)
	case silence:
		// Some legacy servers do not answer an unknown method. A server that starts slowly does not
		// answer in time either.
		o.silent, o.eraUncertain = true, true
		return o.fallBack(sent, got, "the server may be legacy, or slow", CauseTimeout, r.err)
	case unreadable:
		o.eraUncertain = true
		return o.fallBack(sent, got, "an invalid answer does not show whether the server is legacy or modern", CauseBadAnswer, r.err)
	}
	switch s := r.status.Status; {
	case r.transient():
		// Some legacy servers answer an unknown method with status 500.
		o.eraUncertain = true
		cause := CauseServerError
		if s == http.StatusRequestTimeout {
			cause = CauseTimeout
		}
		return o.fallBack(sent, got, "the status does not show whether the server is legacy or modern", cause, r.err)
	case s >= 400:
		o.probeAnswered = true
		return o.fallBack(sent, got, "not a modern error, so the server is legacy", CausePinned, r.err)
	}
	return o.fallBack(sent, got, "an answer that is not MCP does not show whether the server is legacy or modern", CauseBadAnswer, r.err)
}

// probeEnded decides what to do after the link has ended. If the link was a pipe, the handshake
// cannot continue, because the server's process or stream has ended. Over HTTP, the next request
// can use a new connection.
func (o *opening) probeEnded(r *reply, sent, got string) (state, *Error) {
	if o.offer.HTTP && !errors.Is(r.err, transport.ErrNotSent) {
		o.eraUncertain = true
		return o.fallBack(sent, got, "a broken connection does not show whether the server is legacy or modern", CauseUnreachable, r.err)
	}
	switch {
	case o.refusal != nil:
		o.note(sent, got, "so the earlier refusal of initialize is final")
		return "", o.refusal
	case o.offer.HTTP:
		o.note(sent, got, "the server is unreachable")
		return "", o.fail(CauseUnreachable, r.err)
	case o.offer.Pin.Modern():
		o.note(sent, got, "no other revision is allowed")
		return "", o.fail(CauseExited, r.err)
	}
	o.note(sent, got, "so Dragoman restarts the server and sends initialize first")
	return "", o.fail(CauseExited, errors.Join(ErrDiedOnProbe, r.err))
}

// fallBack continues with initialize, unless the pinned revision forbids initialize, or the server
// has already refused it. cause is the cause of the error if the pinned revision forbids
// initialize.
func (o *opening) fallBack(sent, got, reason string, cause Cause, err error) (state, *Error) {
	switch {
	case o.offer.Pin.Modern():
		o.note(sent, got, reason+", but only "+o.offer.Pin.String()+" is configured")
		return "", o.fail(cause, err)
	case o.refusal != nil:
		o.note(sent, got, reason+"; so the refusal of initialize is final")
		return "", o.refusal
	}
	o.note(sent, got, reason)
	return initializing, nil
}

// verdict is what an answer to server/discover shows about the server.
type verdict struct {
	modern          bool
	revision        mcp.Revision // the newest modern revision that the server and Dragoman support, or Unknown
	legacy          mcp.Revision // the newest legacy revision that the server lists and Dragoman supports, or Unknown
	discover        bool         // the answer is a DiscoverResult
	noCommonVersion bool         // the answer is a modern error that lists only versions that Dragoman does not support
	versions        []string
	reason          string
}

// judge interprets an answer to server/discover. The result does not depend on the HTTP status.
func judge(m *jsonrpc.Message) verdict {
	if m.Kind == jsonrpc.Failure {
		return judgeFailure(m)
	}
	v := verdict{versions: texts(m.Raw, m.ResultMember("supportedVersions"))}
	if v.versions == nil {
		// Some servers answer every method with a manifest, a list or an empty result.
		v.reason = "a result without supportedVersions does not show whether the server is legacy or modern"
		return v
	}
	v.revision, v.legacy = newestOf(v.versions, mcp.Revision.Modern), newestOf(v.versions, mcp.Revision.Legacy)
	v.discover, v.modern = true, v.revision != mcp.Unknown
	switch {
	case v.modern:
		v.reason = "the server supports " + v.revision.String()
	case v.legacy != mcp.Unknown:
		v.reason = "the server lists only legacy revisions"
	default:
		v.reason = "the server lists no revision that Dragoman supports"
	}
	return v
}

func judgeFailure(m *jsonrpc.Message) verdict {
	f := readFailure(m)
	v := verdict{versions: f.versions}
	if !f.modern {
		// 2026-07-28 §stdio: the fallback to initialize must not depend on one particular error
		// code.
		v.reason = "not a modern error, so the server is legacy"
		return v
	}
	if f.number != mcp.CodeUnsupportedVersion {
		v.modern, v.revision = true, mcp.Latest
		v.reason = "only modern servers send this error"
		return v
	}
	v.revision, v.legacy = newestOf(v.versions, mcp.Revision.Modern), newestOf(v.versions, mcp.Revision.Legacy)
	switch {
	case v.revision != mcp.Unknown:
		v.modern, v.reason = true, "a modern error that lists "+v.revision.String()
	case v.legacy != mcp.Unknown:
		v.reason = "the server refuses 2026-07-28 and lists only legacy revisions"
	case len(v.versions) > 0:
		v.noCommonVersion, v.reason = true, "the server lists no revision that Dragoman supports"
	default:
		// A modern server must list its versions in this error. Because the list is missing, only
		// initialize can show which versions the server supports.
		v.reason = "the server refuses 2026-07-28 and lists no revision"
	}
	return v
}

// follow continues the handshake as a verdict requires.
func (o *opening) follow(v *verdict, m *jsonrpc.Message, sent, got string, err error) (state, *Error) {
	o.probeAnswered = true
	if v.versions != nil {
		o.theirs = v.versions
	}
	if v.modern {
		o.note(sent, got, v.reason+", so the server is modern")
		o.goModern(v, m)
		return opened, nil
	}
	if v.noCommonVersion {
		// 2026-07-28 §stdio: the client must not send initialize after a modern error.
		o.note(sent, got, v.reason)
		e := o.fail(CauseNoCommonVersion, err)
		e.Text = o.sentence(noCommonVersion(v.versions))
		return "", e
	}
	if v.legacy != mcp.Unknown && o.offer.Pin == mcp.Unknown {
		o.version = v.legacy
	}
	return o.fallBack(sent, got, v.reason, CausePinned, err)
}

// noCommonVersion returns a sentence that says which versions the server and Dragoman support.
func noCommonVersion(theirs []string) string {
	ours := mcp.Revisions()
	names := make([]string, len(ours))
	for i, r := range ours {
		names[i] = r.String()
	}
	return "the server supports " + join(theirs) + ", and Dragoman supports " + join(names) + "; update one of them"
}

// newestOf returns the newest revision in names for which want returns true.
func newestOf(names []string, want func(mcp.Revision) bool) mcp.Revision {
	best := mcp.Unknown
	for _, name := range names {
		if r, ok := mcp.ParseRevision(name); ok && want(r) && r.Newer(best) {
			best = r
		}
	}
	return best
}

// goModern sets the revision and the server information of a modern server.
func (o *opening) goModern(v *verdict, m *jsonrpc.Message) {
	o.eraUncertain = false
	o.revision, o.rules = v.revision, RulesFor(v.revision)
	o.hello = mcp.ServerInfo{Revision: v.revision, Versions: v.versions}
	if !v.discover {
		o.find(FoundUndiscovered, "the server answers server/discover with "+describe(m)+", so the capabilities of the server are unknown")
		return
	}
	keys := [...]string{"capabilities", "instructions", mcp.KeyMeta, "serverInfo"}
	var at [len(keys)]jsonrpc.Span
	jsonrpc.FindAll(m.Raw, m.Result, keys[:], at[:])
	info := jsonrpc.Find(m.Raw, at[2], mcp.KeyServerInfo)
	if jsonrpc.KindOf(m.Raw, info) != '{' {
		// Drafts of the revision have serverInfo in the result instead of in _meta.
		info = at[3]
	}
	o.introduce(m, at[0], at[1], info)
}

// introduce fills in the parts of the server information that exist in both eras.
func (o *opening) introduce(m *jsonrpc.Message, capabilities, instructions, info jsonrpc.Span) {
	o.hello.Raw = m.Result.Of(m.Raw)
	if jsonrpc.KindOf(m.Raw, capabilities) == '{' {
		o.hello.Capabilities = capabilities.Of(m.Raw)
	} else {
		o.hello.Capabilities = []byte("{}")
		o.find(FoundNoCapabilities, "the server declares no capabilities, so Dragoman assumes that it has none")
	}
	if jsonrpc.KindOf(m.Raw, info) == '{' {
		o.hello.Info = info.Of(m.Raw)
	} else {
		o.find(FoundNoServerInfo, "the server sends no serverInfo")
	}
	switch jsonrpc.KindOf(m.Raw, instructions) {
	case '"':
		o.setInstructions(instructions.Of(m.Raw))
	case 0, 'n':
	default:
		o.find(FoundOddInstructions, "the instructions of the server are not a string, so Dragoman leaves them out")
	}
}

// MaxInstructions is the maximum length in bytes of a server's instructions. The instructions are
// limited because Dragoman sends them to every client, and the client adds them to the context of
// its model.
const MaxInstructions = 64 << 10

// setInstructions stores the server's instructions, truncated to MaxInstructions. raw is a JSON
// string.
func (o *opening) setInstructions(raw []byte) {
	o.hello.Instructions = raw
	if len(raw) <= MaxInstructions {
		return
	}
	text, _ := jsonrpc.Text(raw, jsonrpc.Whole(raw))
	if len(text) <= MaxInstructions {
		return
	}
	o.hello.Instructions = jsonrpc.AppendQuote(nil, excerpt.Cut(text, MaxInstructions))
	var e jsonrpc.Edits
	e.Object(mcp.WhyInstructions, o.hello.Raw, jsonrpc.Whole(o.hello.Raw), nil, jsonrpc.Field{Key: "instructions", Value: o.hello.Instructions})
	o.hello.Raw = jsonrpc.Splice(nil, o.hello.Raw, &e)
	o.find(FoundLongInstructions, "the instructions of the server have "+strconv.Itoa(len(text))+" bytes; Dragoman cuts them after "+strconv.Itoa(MaxInstructions))
}

// discoverParams returns the params of server/discover, with the _meta of a modern request
// (2026-07-28 §Base, "Per-request protocol fields").
func (o *opening) discoverParams(r mcp.Revision) []byte {
	info, capabilities := o.declared()
	b := make([]byte, 0, 192+len(info)+len(capabilities))
	b = append(b, `{"_meta":{"`+mcp.KeyVersion+`":"`...)
	b = append(b, r.String()...)
	b = append(b, `","`+mcp.KeyClientInfo+`":`...)
	b = append(b, info...)
	b = append(b, `,"`+mcp.KeyClientCaps+`":`...)
	b = append(b, capabilities...)
	return append(b, "}}"...)
}

// declared returns the client info and the capabilities that Dragoman sends to the server.
func (o *opening) declared() (info, capabilities []byte) {
	info, capabilities = o.offer.ClientInfo, o.offer.Capabilities
	if len(info) == 0 {
		info = []byte(`{"name":"dragoman","version":"0"}`)
	}
	if len(capabilities) == 0 {
		capabilities = []byte("{}")
	}
	return info, capabilities
}

// receiveLate stores an answer that came after the timeout of its request. An answer that shows
// that the server is modern replaces an earlier late answer. receiveLate runs on the goroutine that
// reads the link.
func (o *opening) receiveLate(m *jsonrpc.Message) {
	v := judge(m)
	o.mu.Lock()
	if o.late == nil || v.modern {
		o.late = m
	}
	stop := o.stop
	o.mu.Unlock()
	if v.modern && stop != nil {
		stop()
	}
}

// listenLate calls stop as soon as a late answer shows that the server is modern, or as soon as an
// answer after a status line is overdue. If this has already happened, listenLate calls stop at once. A nil stop removes the previous function.
func (o *opening) listenLate(stop context.CancelFunc) {
	o.mu.Lock()
	o.stop = stop
	late, overdue := o.late, o.overdue
	o.mu.Unlock()
	if stop != nil && (overdue || late != nil && judge(late).modern) {
		stop()
	}
}

// takeLate returns true if a late answer shows that the server is modern. In this case, takeLate
// switches to the modern era. Any other late answer means that the server is legacy. sent and got
// describe the exchange during which the answer arrived. They are "" if there was no exchange.
func (o *opening) takeLate(sent, got string) bool {
	o.mu.Lock()
	m := o.late
	o.late = nil
	o.mu.Unlock()
	if m == nil {
		return false
	}
	v := judge(m)
	said := "late, for " + mcp.MethodDiscover + ": " + describe(m)
	o.find(FoundLateProbe, "the server answered server/discover later than "+o.limit.String()+", so the server starts slowly")
	if v.modern {
		if sent != "" {
			o.note(sent, got, "the late answer to server/discover decides")
		}
		o.note("", said, v.reason+", so the server is modern but slow")
		o.goModern(&v, m)
		return true
	}
	o.probeAnswered, o.eraUncertain, o.silent = true, false, false
	o.note("", said, v.reason)
	return false
}
