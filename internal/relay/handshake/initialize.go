package handshake

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/base/excerpt"
	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
	"github.com/dragoman-mcp/dragoman/internal/transport"
)

// initialize sends initialize with a revision and evaluates the answer (§Lifecycle,
// "Initialization", of the four legacy revisions).
func (o *opening) initialize(ctx context.Context) (state, *Error) {
	params := o.initializeParams()
	sent := mcp.MethodInitialize + " (" + o.version.String() + ")"
	if params == nil {
		sent = mcp.MethodInitialize + " (no parameters)"
	}
	rules := RulesFor(mcp.Unknown)
	if o.takeLate("", "") {
		return opened, nil
	}
	during, stop := context.WithCancel(ctx)
	defer stop()
	o.listenLate(stop)
	r := o.exchange(during, o.initializeTimeout(), mcp.MethodInitialize, params, &rules)
	o.listenLate(nil)
	got := r.got()
	// A late answer to the probe takes precedence over the answer to initialize if the late answer
	// shows that the server is modern.
	if o.takeLate(sent, got) {
		return opened, nil
	}
	if next, ok := o.takePushed(ctx, &r, sent, got); ok {
		return next, nil
	}
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
	switch {
	case r.kind == answered && r.msg.Kind == jsonrpc.Result:
		return o.accept(r.msg, sent, got)
	case r.kind == ended && o.offer.HTTP:
		o.note(sent, got, "the server is unreachable")
		return "", o.fail(CauseUnreachable, r.err)
	case r.kind == ended:
		return "", o.exited(r.err, sent, got)
	case r.kind == silence:
		o.note(sent, got, "the timeout of the connection expired")
		return "", o.fail(CauseTimeout, r.err)
	case r.kind == unreadable:
		o.note(sent, got, "the message is not a valid answer")
		return "", o.fail(CauseBadAnswer, r.err)
	case r.msg != nil:
		f := o.readFailure(r.msg)
		return o.refusedWith(ctx, &f, &r, sent, got)
	}
	return o.refusedBare(&r, sent, got)
}

// initializeParams returns the parameters of initialize, or nil if the request must have no
// parameters.
func (o *opening) initializeParams() []byte {
	info, capabilities := o.declared()
	b := make([]byte, 0, 80+len(info)+len(capabilities))
	b = append(b, `{"protocolVersion":"`...)
	b = append(b, o.version.String()...)
	b = append(b, `","capabilities":`...)
	b = append(b, capabilities...)
	b = append(b, `,"clientInfo":`...)
	b = append(b, info...)
	b = append(b, '}')
	if o.offer.Dialect != nil && !o.plain {
		return o.offer.Dialect.Open.InitializeParams(b)
	}
	return b
}

// accept handles the result of initialize.
func (o *opening) accept(m *jsonrpc.Message, sent, got string) (state, *Error) {
	keys := [...]string{"protocolVersion", "capabilities", "instructions", "serverInfo", "userAgent", "advertised_models", "advertisedModels"}
	var at [len(keys)]jsonrpc.Span
	jsonrpc.FindAll(m.Raw, m.Result, keys[:], at[:])
	version, hasVersion := jsonrpc.Text(m.Raw, at[0])
	capable, named := jsonrpc.KindOf(m.Raw, at[1]) == '{', jsonrpc.KindOf(m.Raw, at[3]) == '{'
	hasVersion = hasVersion && version != ""
	if p := o.profileOf(m); p != nil {
		return o.acceptAs(p, m, version, sent, got)
	}
	switch {
	case !at[4].IsZero() && !capable && !named:
		return o.otherDialect(DialectAppServer, "a result with a userAgent and without capabilities comes from Codex's app-server", m.Result.Of(m.Raw), sent, got)
	case (!at[5].IsZero() || !at[6].IsZero()) && !hasVersion && !named:
		return o.otherDialect(DialectAppServer, "a result with models and without a protocol version comes from Codex's app-server", m.Result.Of(m.Raw), sent, got)
	case !hasVersion && !capable && !named:
		o.note(sent, got, "the result is not valid for initialize")
		return "", o.fail(CauseBadAnswer, nil)
	}
	reason := o.chooseRevision(version, hasVersion)
	o.hello = mcp.ServerInfo{Revision: o.revision}
	if hasVersion {
		o.hello.Versions = []string{excerpt.Line(version, 40)}
	}
	o.introduce(m, at[1], at[2], at[3])
	known := hasVersion || named
	if !known {
		reason += "; " + mcp.NoteInitialized + " is not sent, because the result has neither protocolVersion nor serverInfo"
	}
	o.note(sent, got, reason)
	if o.silent {
		o.find(FoundSilentProbe, "the server never answered server/discover, so Dragoman sends initialize first from now on")
	}
	if !known {
		// The server may speak another protocol. Some servers of other protocols answer
		// notifications/initialized with an error.
		return opened, nil
	}
	return announcing, nil
}

// chooseRevision sets the revision, based on the version in the result of initialize. It returns
// the reason for the choice, for the trace.
func (o *opening) chooseRevision(version string, given bool) string {
	if !given {
		legacy := mcp.Revisions(mcp.Handshake)
		o.revision = legacy[len(legacy)-1]
		o.rules = RulesFor(o.revision)
		o.find(FoundNoVersion, "the server sends no protocol version, so "+o.revision.String()+" is assumed")
		return "the result is valid but has no version, so the oldest revision is used"
	}
	r, known := mcp.ParseRevision(version)
	if known && r.Legacy() {
		o.revision, o.rules = r, RulesFor(r)
		if o.offer.Pin != mcp.Unknown && r != o.offer.Pin {
			o.find(FoundOtherVersion, "the server uses "+r.String()+" instead of the configured revision "+o.offer.Pin.String())
		}
		return "the server uses " + r.String()
	}
	o.revision = mcp.LatestLegacy
	o.rules = RulesFor(o.revision)
	if !known && isToken(version) {
		// 2025-06-18 §Transports, "Protocol Version Header": the header contains the negotiated
		// version, in the server's spelling.
		o.rules.Version = version
	}
	shown := excerpt.Word(version, 40)
	o.find(FoundUnknownVersion, "the server answers initialize with version "+shown+", which is treated as "+o.revision.String())
	return "the result is valid except for its unknown version, which is treated as " + o.revision.String()
}

// isToken reports whether a version may be used in a header unchanged.
func isToken(s string) bool {
	for i := range len(s) {
		c := s[i]
		switch {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', c == '-', c == '.', c == '_':
		default:
			return false
		}
	}
	return s != "" && len(s) <= 40
}

func (o *opening) otherDialect(name, reason string, answer []byte, sent, got string) (state, *Error) {
	o.note(sent, got, reason)
	e := o.fail(CauseDialect, nil)
	e.Text = o.sentence("the server speaks the " + name + " dialect, which is not MCP; run it with --dialect " + name + ", or set dialect: " + name + " in the configuration")
	e.Dialect, e.Answer = name, answer
	return "", e
}

// refusedWith handles an error answer to initialize.
func (o *opening) refusedWith(ctx context.Context, f *errorAnswer, r *reply, sent, got string) (state, *Error) {
	if mcp.IsEcho(f.text) {
		return o.echoed(r, sent, got)
	}
	if f.kind == wrongVersion {
		return o.otherVersion(f, r, sent, got)
	}
	if f.modern && o.mayProbe(true) {
		o.note(sent, got, "only modern servers send this error, so server/discover is tried")
		return o.probeAfter(r, CauseRefused)
	}
	if f.kind == notReady {
		if o.waited < len(ReadyWaits) {
			d := ReadyWaits[o.waited]
			o.waited++
			o.note(sent, got, "the server is not ready; retry in "+d.String())
			o.find(FoundNotReady, "the server refused initialize until it was ready")
			if err := o.wait(ctx, d); err != nil {
				return "", o.fail(o.waitCause(), err)
			}
			return initializing, nil
		}
		o.note(sent, got, "the server is still not ready")
		return "", o.fail(CauseNotReady, r.err)
	}
	if p := o.offer.Dialect; p != nil && !o.plain && f.kind == wrongParams && (p.Open.NoParams || len(p.Open.Params) > 0) {
		o.plain = true
		o.note(sent, got, "the server refuses the parameters of the dialect; retry with the standard parameters")
		return initializing, nil
	}
	if o.probes > 0 && !o.offer.HTTP && f.kind != notSupported {
		r.err = errors.Join(ErrRefusedAfterProbe, r.err)
	}
	return o.refusedBare(r, sent, got)
}

// echoed handles a server that sends Dragoman's own messages back. Dragoman has refused its own
// request, and the answer is this refusal.
func (o *opening) echoed(r *reply, sent, got string) (state, *Error) {
	o.note(sent, got, "this error is Dragoman's own, so the server sends Dragoman's messages back")
	return "", o.fail(CauseEcho, r.err)
}

func (o *opening) waitCause() Cause {
	if o.caller.Err() != nil && !errors.Is(o.caller.Err(), context.DeadlineExceeded) {
		return CauseCancelled
	}
	return CauseTimeout
}

// otherVersion decides what to do after the server has refused a version. It offers the newest
// legacy version that the server lists, but only once.
func (o *opening) otherVersion(f *errorAnswer, r *reply, sent, got string) (state, *Error) {
	modern := newestOf(f.versions, mcp.Revision.Modern) != mcp.Unknown
	if modern && o.mayProbe(true) {
		o.note(sent, got, "the server lists a modern version, so server/discover is tried")
		return o.probeAfter(r, CauseNoCommonVersion)
	}
	best := newestOf(f.versions, func(v mcp.Revision) bool { return v.Legacy() && v != o.version })
	theirs := slices.DeleteFunc(f.versions, func(v string) bool { return v == o.version.String() })
	if best == mcp.Unknown && len(theirs) == 0 && !f.modern {
		// The server does not list versions. The strictest servers support only the oldest
		// revision, so offer that revision.
		legacy := mcp.Revisions(mcp.Handshake)
		if oldest := legacy[len(legacy)-1]; oldest != o.version {
			best = oldest
		}
	}
	if best != mcp.Unknown && !o.retried {
		o.retried = true
		o.note(sent, got, "the server accepts only certain versions; retry with "+best.String())
		o.find(FoundStrictVersion, "the server refuses initialize with "+o.version.String()+" instead of answering with another version")
		o.version = best
		return initializing, nil
	}
	if o.mayProbe(f.modern) {
		o.note(sent, got, "Dragoman has no other legacy version to offer, so server/discover is tried")
		return o.probeAfter(r, CauseNoCommonVersion)
	}
	o.note(sent, got, "Dragoman has no other version to offer")
	switch {
	case modern && o.offer.Pin != mcp.Unknown:
		return "", o.fail(CausePinned, r.err)
	case modern || best != mcp.Unknown:
		// The server was probed and is not modern, or it refuses even the versions in its own list.
		return "", o.fail(CauseRefused, r.err)
	}
	e := o.fail(CauseNoCommonVersion, r.err)
	if len(theirs) > 0 {
		e.Text = o.sentence(noCommonVersion(theirs))
	}
	return "", e
}

// refusedBare handles a refusal of initialize that does not say what to change.
func (o *opening) refusedBare(r *reply, sent, got string) (state, *Error) {
	cause := CauseRefused
	var also error
	if r.kind == refused {
		switch s := r.status.Status; {
		case s == 408:
			cause = CauseTimeout
		case s >= 500:
			cause = CauseServerError
		case r.msg == nil && s < 400:
			cause = CauseBadAnswer
		case s == 400 || s == 404 || s == 405:
			also = ErrTrySSE
		}
	}
	err := r.err
	if also != nil && o.offer.HTTP {
		err = errors.Join(also, err)
	}
	r.err = err
	if cause == CauseRefused && o.mayProbe(false) {
		o.note(sent, got, "the server may be modern now, so server/discover is tried")
		return o.probeAfter(r, cause)
	}
	o.note(sent, got, "the server refuses initialize")
	return "", o.fail(cause, r.err)
}

// mayProbe reports whether to send server/discover after initialize was refused. certain says that
// the server is known to be modern. Otherwise, a probe can only help if no earlier probe had a
// clear answer, and the probe must not be sent if it may make the server exit.
func (o *opening) mayProbe(certain bool) bool {
	harmless := !o.offer.SkipProbe || o.offer.Known.Modern()
	return o.probes < 2 && o.offer.Pin == mcp.Unknown && (certain || !o.probeAnswered && harmless)
}

// probeAfter starts a probe after initialize was refused. If the probe does not help, the handshake
// fails with the error of the refusal.
func (o *opening) probeAfter(r *reply, cause Cause) (state, *Error) {
	o.refusal = o.fail(cause, r.err)
	return probing, nil
}

// announce sends notifications/initialized. It fails if the server has exited, does not read its
// input, or refuses access, or if the timeout of the handshake expires. It ignores any other error,
// because the next request may still succeed.
func (o *opening) announce(ctx context.Context) (state, *Error) {
	sent := mcp.NoteInitialized
	limited, stop := context.WithTimeout(ctx, o.limit)
	defer stop()
	begun := time.Now()
	o.watch(Progress{Sent: sent})
	err := o.link.Post(limited, mcp.NoteInitialized, nil, &o.rules)
	if err == nil {
		o.note(sent, "no answer, as expected", "the connection is open")
		return opened, nil
	}
	r := o.classify(nil, err, time.Since(begun))
	got := r.got()
	if cause := o.giveUp(ctx, &r); cause != "" {
		o.note(sent, got, "the handshake timeout expired")
		return "", o.fail(cause, err)
	}
	if cause := r.accessCause(); cause != "" {
		o.note(sent, got, "the server refuses access")
		return "", o.fail(cause, err)
	}
	switch {
	case r.kind == ended && (!o.offer.HTTP || errors.Is(err, transport.ErrNotSent)):
		if o.offer.HTTP {
			o.note(sent, got, "the server has exited")
			return "", o.fail(CauseUnreachable, err)
		}
		return "", o.exited(err, sent, got)
	case r.kind == silence && !o.offer.HTTP:
		o.note(sent, got, "the server does not read its input")
		return "", o.fail(CauseTimeout, err)
	}
	o.note(sent, got, "ignored; the connection is open")
	o.find(FoundInitializedRefused, "the server answers notifications/initialized with "+got)
	return opened, nil
}

// exited returns the error for a server that exited after initialize was sent. If an earlier probe
// got no answer, the server may have read the probe only now, and the probe may have made it exit.
func (o *opening) exited(err error, sent, got string) *Error {
	if o.silent && o.offer.Pin == mcp.Unknown {
		o.note(sent, got, "the server exited and never answered server/discover, so Dragoman restarts it and sends initialize first")
		return o.fail(CauseExited, errors.Join(ErrDiedOnProbe, err))
	}
	o.note(sent, got, "the server has exited")
	return o.fail(CauseExited, err)
}
