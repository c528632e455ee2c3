package handshake

import (
	"context"
	"errors"
	"net/http"
	"strconv"

	"github.com/dragoman-mcp/dragoman/internal/excerpt"
	"github.com/dragoman-mcp/dragoman/internal/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/mcp"
	"github.com/dragoman-mcp/dragoman/internal/transport"
)

// probe sends server/discover and decides by what comes back (2026-07-28 §stdio
// and §Streamable HTTP, "Backward Compatibility").
func (o *opening) probe(ctx context.Context) (state, *Error) {
	o.probes++
	rules := RulesFor(mcp.Latest)
	sent := mcp.MethodDiscover + " (" + mcp.Latest.String() + ")"
	r := o.exchange(ctx, o.limit, mcp.MethodDiscover, o.discoverParams(mcp.Latest), &rules)
	got := r.got()
	if cause := o.giveUp(ctx, &r); cause != "" {
		o.note(sent, got, "there is no time left")
		return "", o.fail(cause, r.err)
	}
	if cause := r.barred(); cause != "" {
		o.note(sent, got, "the status tells nothing about the era")
		return "", o.fail(cause, r.err)
	}
	if r.msg != nil {
		// Whatever the status, a modern error is one; any other proves as little as
		// its status does.
		if v := judge(r.msg); v.modern || !r.passing() {
			return o.follow(&v, r.msg, sent, got, r.err)
		}
	}
	switch r.kind {
	case ended:
		return o.probeEnded(&r, sent, got)
	case silence:
		// Silence is how some legacy servers take an unknown method, and how a slow
		// start looks.
		o.silent, o.shaky = true, true
		return o.fallBack(sent, got, "silence is no modern answer, so it may be legacy or slow", CauseTimeout, r.err)
	case unreadable:
		o.shaky = true
		return o.fallBack(sent, got, "what cannot be read proves nothing", CauseBadAnswer, r.err)
	}
	switch s := r.status.Status; {
	case r.passing():
		// Some legacy servers answer an unknown method with 500.
		o.shaky = true
		cause := CauseServerError
		if s == http.StatusRequestTimeout {
			cause = CauseTimeout
		}
		return o.fallBack(sent, got, "the status proves nothing", cause, r.err)
	case s >= 400:
		o.told = true
		return o.fallBack(sent, got, "a refusal without a modern error is legacy", CausePinned, r.err)
	}
	return o.fallBack(sent, got, "what is no MCP proves nothing", CauseBadAnswer, r.err)
}

// probeEnded decides on a link that is over. A pipe is one process or one stream
// and is lost with it; on HTTP the next request has a connection of its own.
func (o *opening) probeEnded(r *reply, sent, got string) (state, *Error) {
	if o.offer.HTTP && !errors.Is(r.err, transport.ErrNotSent) {
		o.shaky = true
		return o.fallBack(sent, got, "a broken connection proves nothing", CauseUnreachable, r.err)
	}
	switch {
	case o.refusal != nil:
		o.note(sent, got, "so the earlier refusal stands")
		return "", o.refusal
	case o.offer.HTTP:
		o.note(sent, got, "there is no way to the server")
		return "", o.fail(CauseUnreachable, r.err)
	case o.offer.Pin.Modern():
		o.note(sent, got, "no other opening is allowed")
		return "", o.fail(CauseExited, r.err)
	}
	o.note(sent, got, "it is started again and not probed")
	return "", o.fail(CauseExited, errors.Join(ErrDiedOnProbe, r.err))
}

// fallBack goes on with initialize where that is allowed and was not refused
// before. cause is why it fails where only the pinned revision is.
func (o *opening) fallBack(sent, got, reason string, cause Cause, err error) (state, *Error) {
	switch {
	case o.offer.Pin.Modern():
		o.note(sent, got, reason+", but "+o.offer.Pin.String()+" is pinned")
		return "", o.fail(cause, err)
	case o.refusal != nil:
		o.note(sent, got, reason+"; so the refusal of initialize stands")
		return "", o.refusal
	}
	o.note(sent, got, reason)
	return initializing, nil
}

// verdict is what an answer to server/discover proves.
type verdict struct {
	modern   bool
	revision mcp.Revision // the best modern one in common, Unknown when none is
	legacy   mcp.Revision // the best legacy one that is listed, Unknown for none
	discover bool         // the answer is a DiscoverResult
	alien    bool         // it lists versions in a modern error, none of which we know
	versions []string
	reason   string
}

// judge decides what an answer to server/discover proves, whatever its status.
func judge(m *jsonrpc.Message) verdict {
	if m.Kind == jsonrpc.Failure {
		return judgeFailure(m)
	}
	v := verdict{versions: texts(m.Raw, m.ResultMember("supportedVersions"))}
	if v.versions == nil {
		// A manifest, a list, a pong: servers that answer any method with what
		// they have, whatever they were asked.
		v.reason = "a result without supportedVersions proves nothing"
		return v
	}
	v.revision, v.legacy = bestOf(v.versions, mcp.Revision.Modern), bestOf(v.versions, mcp.Revision.Legacy)
	v.discover, v.modern = true, v.revision != mcp.Unknown
	switch {
	case v.modern:
		v.reason = "it supports " + v.revision.String()
	case v.legacy != mcp.Unknown:
		v.reason = "it lists legacy revisions only"
	default:
		v.reason = "it lists no revision that we speak"
	}
	return v
}

func judgeFailure(m *jsonrpc.Message) verdict {
	f := readFailure(m)
	v := verdict{versions: f.versions}
	if !f.modern {
		// 2026-07-28 §stdio: the fallback must not be keyed to one code.
		v.reason = "no modern error, so it is legacy"
		return v
	}
	if f.number != mcp.CodeUnsupportedVersion {
		v.modern, v.revision = true, mcp.Latest
		v.reason = "only modern servers send this error"
		return v
	}
	v.revision, v.legacy = bestOf(v.versions, mcp.Revision.Modern), bestOf(v.versions, mcp.Revision.Legacy)
	switch {
	case v.revision != mcp.Unknown:
		v.modern, v.reason = true, "a modern error that lists "+v.revision.String()
	case v.legacy != mcp.Unknown:
		v.reason = "it refuses our modern version and lists legacy ones"
	case len(v.versions) > 0:
		v.alien, v.reason = true, "it lists no revision that we speak"
	default:
		// The list is required; without it only initialize can tell more.
		v.reason = "it refuses our modern version and lists none"
	}
	return v
}

// follow goes where a verdict leads.
func (o *opening) follow(v *verdict, m *jsonrpc.Message, sent, got string, err error) (state, *Error) {
	o.told = true
	if v.modern {
		o.note(sent, got, v.reason+", so it is modern")
		o.goModern(v, m)
		return opened, nil
	}
	if v.alien {
		// 2026-07-28 §stdio: do not fall back on a recognised modern error.
		o.note(sent, got, v.reason)
		e := o.fail(CauseNoCommonVersion, err)
		e.Text = o.sentence(apart(v.versions))
		return "", e
	}
	if v.legacy != mcp.Unknown && o.offer.Pin == mcp.Unknown {
		o.version = v.legacy
	}
	return o.fallBack(sent, got, v.reason, CausePinned, err)
}

// apart says that two lists of versions have nothing in common.
func apart(theirs []string) string {
	ours := mcp.Revisions()
	names := make([]string, len(ours))
	for i, r := range ours {
		names[i] = r.String()
	}
	return "it speaks " + join(theirs) + " and we speak " + join(names) + ", so one of the two has to be updated"
}

// bestOf returns the newest revision of those named that satisfies want.
func bestOf(names []string, want func(mcp.Revision) bool) mcp.Revision {
	best := mcp.Unknown
	for _, name := range names {
		if r, ok := mcp.ParseRevision(name); ok && want(r) && r.Newer(best) {
			best = r
		}
	}
	return best
}

// goModern takes what a modern server said of itself.
func (o *opening) goModern(v *verdict, m *jsonrpc.Message) {
	o.shaky = false
	o.revision, o.rules = v.revision, RulesFor(v.revision)
	o.hello = mcp.ServerInfo{Revision: v.revision, Versions: v.versions}
	if !v.discover {
		o.find(FoundUndiscovered, "it answers server/discover with "+describe(m)+", so its capabilities are unknown")
		return
	}
	keys := [...]string{"capabilities", "instructions", mcp.KeyMeta, "serverInfo"}
	var at [len(keys)]jsonrpc.Span
	jsonrpc.FindAll(m.Raw, m.Result, keys[:], at[:])
	info := jsonrpc.Find(m.Raw, at[2], mcp.KeyServerInfo)
	if jsonrpc.KindOf(m.Raw, info) != '{' {
		// Before the revision was final the identity stood beside _meta.
		info = at[3]
	}
	o.introduce(m, at[0], at[1], info)
}

// introduce fills in the parts of Hello that both eras have.
func (o *opening) introduce(m *jsonrpc.Message, capabilities, instructions, info jsonrpc.Span) {
	o.hello.Raw = m.Result.Of(m.Raw)
	if jsonrpc.KindOf(m.Raw, capabilities) == '{' {
		o.hello.Capabilities = capabilities.Of(m.Raw)
	} else {
		o.hello.Capabilities = []byte("{}")
		o.find(FoundNoCapabilities, "it declares no capabilities, so none are assumed")
	}
	if jsonrpc.KindOf(m.Raw, info) == '{' {
		o.hello.Info = info.Of(m.Raw)
	} else {
		o.find(FoundNoServerInfo, "it does not say what it is")
	}
	switch jsonrpc.KindOf(m.Raw, instructions) {
	case '"':
		o.instruct(instructions.Of(m.Raw))
	case 0, 'n':
	default:
		o.find(FoundOddInstructions, "its instructions are no text and are left out")
	}
}

// MaxInstructions bounds the instructions of a server, in bytes of text. They go to
// every client, and from there into the context of its model.
const MaxInstructions = 64 << 10

// instruct stores the server's instructions, a JSON string, cut to MaxInstructions.
func (o *opening) instruct(raw []byte) {
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
	o.find(FoundLongInstructions, "its instructions have "+strconv.Itoa(len(text))+" bytes and are cut after "+strconv.Itoa(MaxInstructions))
}

// discoverParams makes the _meta of a modern request (2026-07-28 §Base,
// "Per-request protocol fields").
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

// declared returns what we say of ourselves.
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

// heard takes an answer that came after its time. It runs on whatever goroutine
// reads the link. Only a DiscoverResult or an error can be the probe's.
func (o *opening) heard(m *jsonrpc.Message) {
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

// listenLate has stop called when a late answer says that the server is modern,
// at once when it has come already. nil ends that.
func (o *opening) listenLate(stop context.CancelFunc) {
	o.mu.Lock()
	o.stop = stop
	late := o.late
	o.mu.Unlock()
	if stop != nil && late != nil && judge(late).modern {
		stop()
	}
}

// takeLate goes modern when a late answer said so, and reports that it did. Any
// other late answer at least ends the doubt. sent and got are the exchange during
// which it came, if there was one.
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
	o.find(FoundLateProbe, "it answered server/discover later than "+o.limit.String()+", so it starts slowly")
	if v.modern {
		if sent != "" {
			o.note(sent, got, "the probe's answer came and decides")
		}
		o.note("", said, v.reason+", so it is modern and only slow")
		o.goModern(&v, m)
		return true
	}
	o.told, o.shaky, o.silent = true, false, false
	o.note("", said, v.reason)
	return false
}
