package handshake

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/excerpt"
	"github.com/dragoman-mcp/dragoman/internal/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/mcp"
	"github.com/dragoman-mcp/dragoman/internal/transport"
)

// initialize offers a revision and reads what comes back (§Lifecycle,
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
	r := o.exchange(during, o.patience(), mcp.MethodInitialize, params, &rules)
	o.listenLate(nil)
	got := r.got()
	// The probe's late answer wins over whatever became of this one: a pipe is
	// read in order, so the server had answered as a modern one first.
	if o.takeLate(sent, got) {
		return opened, nil
	}
	if next, ok := o.takePushed(ctx, &r, sent, got); ok {
		return next, nil
	}
	if cause := o.giveUp(ctx, &r); cause != "" {
		o.note(sent, got, "there is no time left")
		return "", o.fail(cause, r.err)
	}
	if cause := r.barred(); cause != "" {
		o.note(sent, got, "the status tells nothing about the era")
		return "", o.fail(cause, r.err)
	}
	switch {
	case r.kind == answered && r.msg.Kind == jsonrpc.Result:
		return o.accept(r.msg, sent, got)
	case r.kind == ended && o.offer.HTTP:
		o.note(sent, got, "there is no way to the server")
		return "", o.fail(CauseUnreachable, r.err)
	case r.kind == ended:
		o.note(sent, got, "it has ended")
		return "", o.fail(CauseExited, r.err)
	case r.kind == silence:
		// The link has a time-out of its own.
		o.note(sent, got, "this is no answer")
		return "", o.fail(CauseTimeout, r.err)
	case r.kind == unreadable:
		o.note(sent, got, "this is no answer")
		return "", o.fail(CauseBadAnswer, r.err)
	case r.msg != nil:
		f := o.readFailure(r.msg)
		return o.refusedWith(ctx, &f, &r, sent, got)
	}
	return o.refusedBare(&r, sent, got)
}

// initializeParams makes the parameters of initialize, nil for none.
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

// accept reads the result of initialize.
func (o *opening) accept(m *jsonrpc.Message, sent, got string) (state, *Error) {
	keys := [...]string{"protocolVersion", "capabilities", "instructions", "serverInfo", "userAgent"}
	var at [len(keys)]jsonrpc.Span
	jsonrpc.FindAll(m.Raw, m.Result, keys[:], at[:])
	version, hasVersion := jsonrpc.Text(m.Raw, at[0])
	capable, named := jsonrpc.KindOf(m.Raw, at[1]) == '{', jsonrpc.KindOf(m.Raw, at[3]) == '{'
	hasVersion = hasVersion && version != ""
	if p := o.recognise(m); p != nil {
		return o.acceptAs(p, m, version, sent, got)
	}
	switch {
	case !at[4].IsZero() && !capable && !named:
		return o.otherDialect(DialectAppServer, "a userAgent and no capabilities: Codex's "+DialectAppServer, m, sent, got)
	case !hasVersion && !capable && !named:
		o.note(sent, got, "this is no initialize result")
		return "", o.fail(CauseBadAnswer, nil)
	}
	reason := o.settle(version, hasVersion)
	o.hello = mcp.ServerInfo{Revision: o.revision}
	if hasVersion {
		o.hello.Versions = []string{excerpt.Line(version, 40)}
	}
	o.introduce(m, at[1], at[2], at[3])
	o.note(sent, got, reason)
	if o.silent {
		o.find(FoundSilentProbe, "it never answered server/discover, so initialize is sent first from now on")
	}
	return announcing, nil
}

// settle decides which revision is spoken after initialize was answered with the
// given version, and returns the reason.
func (o *opening) settle(version string, given bool) string {
	if !given {
		legacy := mcp.Revisions(mcp.Handshake)
		o.revision = legacy[len(legacy)-1]
		o.rules = RulesFor(o.revision)
		o.find(FoundNoVersion, "it names no protocol version, so "+o.revision.String()+" is assumed")
		return "no version but the right shape, so the oldest revision"
	}
	r, known := mcp.ParseRevision(version)
	if known && r.Legacy() {
		o.revision, o.rules = r, RulesFor(r)
		if o.offer.Pin != mcp.Unknown && r != o.offer.Pin {
			o.find(FoundOtherVersion, "it speaks "+r.String()+" and not the pinned "+o.offer.Pin.String())
		}
		return "it speaks " + r.String()
	}
	o.revision = mcp.LatestLegacy
	o.rules = RulesFor(o.revision)
	if !known && isToken(version) {
		// 2025-06-18 §Transports, "Protocol Version Header": the version that was
		// negotiated, which is the server's word for it.
		o.rules.Version = version
	}
	shown := excerpt.Word(version, 40)
	o.find(FoundUnknownVersion, "it answers initialize with version "+shown+", which is treated as "+o.revision.String())
	return "an unknown version in the right shape, so like " + o.revision.String()
}

// isToken reports whether a version may stand in a header as it is.
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

func (o *opening) otherDialect(name, reason string, m *jsonrpc.Message, sent, got string) (state, *Error) {
	o.note(sent, got, reason)
	e := o.fail(CauseDialect, nil)
	e.Text = o.sentence("it does not speak MCP but the " + name + " dialect, and has to be configured as such")
	e.Dialect, e.Answer = name, m.Result.Of(m.Raw)
	return "", e
}

// refusedWith decides what an error answer to initialize leads to.
func (o *opening) refusedWith(ctx context.Context, f *failure, r *reply, sent, got string) (state, *Error) {
	if f.kind == wrongVersion {
		return o.otherVersion(f, r, sent, got)
	}
	if f.modern && o.mayProbe(true) {
		o.note(sent, got, "only modern servers send this error, so it is asked as one")
		return o.probeAfter(r, CauseRefused)
	}
	if f.kind == notReady {
		if o.waited < len(ReadyWaits) {
			d := ReadyWaits[o.waited]
			o.waited++
			o.note(sent, got, "it is not ready, so again in "+d.String())
			o.find(FoundNotReady, "it refused initialize until it was ready")
			if err := o.wait(ctx, d); err != nil {
				return "", o.fail(o.waitCause(), err)
			}
			return initializing, nil
		}
		o.note(sent, got, "it is still not ready")
		return "", o.fail(CauseNotReady, r.err)
	}
	if p := o.offer.Dialect; p != nil && !o.plain && f.kind == wrongParams && (p.Open.NoParams || len(p.Open.Params) > 0) {
		o.plain = true
		o.note(sent, got, "it does not want what the dialect carries, so again with the standard's parameters")
		return initializing, nil
	}
	return o.refusedBare(r, sent, got)
}

func (o *opening) waitCause() Cause {
	if o.caller.Err() != nil && !errors.Is(o.caller.Err(), context.DeadlineExceeded) {
		return CauseCancelled
	}
	return CauseTimeout
}

// otherVersion offers the best version that a strict server names, once.
func (o *opening) otherVersion(f *failure, r *reply, sent, got string) (state, *Error) {
	modern := bestOf(f.versions, mcp.Revision.Modern) != mcp.Unknown
	if modern && o.mayProbe(true) {
		o.note(sent, got, "it names a modern version, so it is asked as a modern server")
		return o.probeAfter(r, CauseNoCommonVersion)
	}
	best := bestOf(f.versions, func(v mcp.Revision) bool { return v.Legacy() && v != o.version })
	theirs := slices.DeleteFunc(f.versions, func(v string) bool { return v == o.version.String() })
	if best == mcp.Unknown && len(theirs) == 0 && !f.modern {
		// It does not say which; the oldest is what the most rigid were built for.
		legacy := mcp.Revisions(mcp.Handshake)
		if oldest := legacy[len(legacy)-1]; oldest != o.version {
			best = oldest
		}
	}
	if best != mcp.Unknown && !o.retried {
		o.retried = true
		o.note(sent, got, "a strict server, so again with "+best.String())
		o.find(FoundStrictVersion, "it refuses initialize with "+o.version.String()+" instead of answering with another version")
		o.version = best
		return initializing, nil
	}
	if o.mayProbe(f.modern) {
		o.note(sent, got, "no legacy version is left, so it is asked as a modern server")
		return o.probeAfter(r, CauseNoCommonVersion)
	}
	o.note(sent, got, "no version is left to offer")
	switch {
	case modern && o.offer.Pin != mcp.Unknown:
		return "", o.fail(CausePinned, r.err)
	case modern || best != mcp.Unknown:
		// It was asked as a modern server and did not answer like one, or it
		// refuses one version after the other.
		return "", o.fail(CauseRefused, r.err)
	}
	e := o.fail(CauseNoCommonVersion, r.err)
	if len(theirs) > 0 {
		e.Text = o.sentence(apart(theirs))
	}
	return "", e
}

// refusedBare decides on a refusal that says no more than that.
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
		o.note(sent, got, "it may have become a modern server, so it is asked")
		return o.probeAfter(r, cause)
	}
	o.note(sent, got, "it refuses")
	return "", o.fail(cause, r.err)
}

// mayProbe reports whether asking server/discover can still tell something after
// initialize was refused: it was skipped for what was remembered, or it came to
// nothing. certain says that a modern server gave itself away, so that the probe
// cannot be what it died of.
func (o *opening) mayProbe(certain bool) bool {
	bearable := !o.offer.SkipProbe || o.offer.Known.Modern()
	return o.probes < 2 && o.offer.Pin == mcp.Unknown && (certain || !o.told && bearable)
}

// probeAfter probes after initialize was refused; when that does not help, the
// refusal is what is reported.
func (o *opening) probeAfter(r *reply, cause Cause) (state, *Error) {
	o.refusal = o.fail(cause, r.err)
	return probing, nil
}

// announce sends notifications/initialized, always and before anything else. A
// server that answers it with an error is tolerated, unless the error is about
// the link itself.
func (o *opening) announce(ctx context.Context) (state, *Error) {
	sent := mcp.NoteInitialized
	limited, stop := context.WithTimeout(ctx, o.limit)
	defer stop()
	begun := time.Now()
	err := o.link.Post(limited, mcp.NoteInitialized, nil, &o.rules)
	if err == nil {
		o.note(sent, "nothing, as it should be", "open")
		return opened, nil
	}
	r := o.sort(nil, err, time.Since(begun))
	got := r.got()
	if cause := o.giveUp(ctx, &r); cause != "" {
		o.note(sent, got, "there is no time left")
		return "", o.fail(cause, err)
	}
	if cause := r.barred(); cause != "" {
		o.note(sent, got, "the way to the server is barred")
		return "", o.fail(cause, err)
	}
	switch {
	case r.kind == ended && (!o.offer.HTTP || errors.Is(err, transport.ErrNotSent)):
		o.note(sent, got, "it has ended")
		if o.offer.HTTP {
			return "", o.fail(CauseUnreachable, err)
		}
		return "", o.fail(CauseExited, err)
	case r.kind == silence && !o.offer.HTTP:
		o.note(sent, got, "it does not read")
		return "", o.fail(CauseTimeout, err)
	}
	o.note(sent, got, "tolerated, open")
	o.find(FoundInitializedRefused, "it answers notifications/initialized with "+got)
	return opened, nil
}
