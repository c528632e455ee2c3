package handshake

import (
	"context"
	"strconv"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/base/excerpt"
	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/protocol/dialect"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
)

// manifest is an unsolicited result and the profile that matches the result.
type manifest struct {
	msg *jsonrpc.Message
	as  *dialect.Profile
}

// These are the timeouts for servers that send their manifest without a request.
const (
	// pushedTimeout is the timeout of initialize if the manifest has already arrived.
	pushedTimeout = 2 * time.Second
	// pushTimeout is how long the handshake waits for the manifest after initialize has failed.
	pushTimeout = 5 * time.Second
)

// applyDialect sets the version to offer first, and adapts the offer to the configured dialect.
func (o *opening) applyDialect() {
	o.version = mcp.LatestLegacy
	p := o.offer.Dialect
	if p == nil {
		if o.offer.Dialects == nil {
			o.offer.Dialects = dialect.Builtin()
		}
		return
	}
	o.offer.Dialects = nil // the dialect is configured, so Open must not detect another dialect
	o.offer.SkipProbe = o.offer.SkipProbe || p.Open.NoProbe
	if p.Open.Version.Legacy() {
		o.version = p.Open.Version
	}
	if p.Name == dialect.Standard {
		o.offer.Dialect = nil
	}
}

// profileOf returns the configured dialect, or the dialect that it detects in the result of
// initialize. It returns nil for standard MCP.
func (o *opening) profileOf(m *jsonrpc.Message) *dialect.Profile {
	if o.offer.Dialect != nil {
		return o.offer.Dialect
	}
	return dialect.DetectProfile(o.offer.Dialects, m.Raw, m.Result)
}

// receiveUnasked stores an unsolicited result if the result is a manifest. It runs on the goroutine
// that reads the link.
func (o *opening) receiveUnasked(m *jsonrpc.Message) {
	if m.Kind != jsonrpc.Result {
		return
	}
	p := o.offer.Dialect
	if p == nil {
		if p = dialect.DetectProfile(o.offer.Dialects, m.Raw, m.Result); p == nil || p.Tools.Manifest == "" {
			return
		}
		if q := dialect.Lookup(dialect.ManifestPushed); p == dialect.Lookup(dialect.Manifest) {
			p = q
		}
	} else if !p.HasManifest(m.Raw, m.Result) {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.pushed != nil {
		return
	}
	o.pushed = &manifest{m, p}
	close(o.push)
	if o.stop != nil {
		o.stop() // stop waiting for the answer to initialize; the manifest replaces it
	}
}

// initializeTimeout returns the timeout of initialize. 0 means that only the timeout of the
// whole handshake applies.
func (o *opening) initializeTimeout() time.Duration {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.pushed != nil {
		return pushedTimeout
	}
	return 0
}

// takePushed returns true if initialize failed, but an unsolicited manifest has completed the
// handshake. If the server has answered initialize with a result, takePushed returns false, and the
// handshake uses that result.
func (o *opening) takePushed(ctx context.Context, r *reply, sent, got string) (state, bool) {
	if r.kind == ended || r.kind == halted || r.kind == answered && r.msg.Kind == jsonrpc.Result {
		return "", false
	}
	if p := o.offer.Dialect; p != nil && p.Open.Pushed {
		late := time.NewTimer(pushTimeout)
		defer late.Stop()
		select {
		case <-o.push:
		case <-late.C:
		case <-ctx.Done():
		}
	}
	o.mu.Lock()
	x := o.pushed
	o.mu.Unlock()
	if x == nil {
		return "", false
	}
	o.note(sent, got, "but the server sent its list of tools before, which is enough")
	next, err := o.acceptAs(x.as, x.msg, "", "", "unsolicited: "+describe(x.msg))
	return next, err == nil
}

// acceptAs handles a result of initialize, or an unsolicited manifest, according to a profile.
func (o *opening) acceptAs(p *dialect.Profile, m *jsonrpc.Message, version, sent, got string) (state, *Error) {
	if jsonrpc.KindOf(m.Raw, m.Result) != '{' {
		o.note(sent, got, "the result is not valid for initialize")
		return "", o.fail(CauseBadAnswer, nil)
	}
	how := "the configured dialect is " + p.Name + " (" + p.About + ")"
	if o.offer.Dialect == nil {
		how = "this is the dialect " + p.Name + " (" + p.About + ")"
		o.find(FoundDialect, "the server speaks the dialect "+p.Name+": "+p.About)
	}
	reason := how
	if version != "" {
		reason += "; " + o.chooseRevision(version, true)
	} else {
		o.revision = p.Open.Version
		if !o.revision.Legacy() {
			legacy := mcp.Revisions(mcp.Handshake)
			o.revision = legacy[len(legacy)-1]
		}
		o.rules = RulesFor(o.revision)
		reason += ", treated as " + o.revision.String()
	}
	o.dialect = p
	o.hello = mcp.ServerInfo{Revision: o.revision}
	if version != "" {
		o.hello.Versions = []string{excerpt.Line(version, 40)}
	}
	reason += o.readManifest(p, m)
	own, err := p.Hello(m)
	if err != nil {
		o.note(sent, got, "the answer is not valid")
		return "", o.fail(CauseBadAnswer, err)
	}
	keys := [...]string{"capabilities", "instructions", "serverInfo"}
	var at [len(keys)]jsonrpc.Span
	jsonrpc.FindAll(own.Raw, own.Result, keys[:], at[:])
	o.introduce(own, at[0], at[1], at[2])
	if o.silent {
		o.find(FoundSilentProbe, "the server never answered server/discover, so Dragoman sends initialize first from now on")
	}
	if p.Open.NoInitialized {
		o.note(sent, got, reason+"; "+mcp.NoteInitialized+" is not sent; the connection is open")
		return opened, nil
	}
	o.note(sent, got, reason)
	return announcing, nil
}

// readManifest stores the tools of a manifest, and returns a text for the trace.
func (o *opening) readManifest(p *dialect.Profile, m *jsonrpc.Message) string {
	switch {
	case p.Tools.Manifest == "":
		return ""
	case !p.HasManifest(m.Raw, m.Result):
		o.find(FoundNoManifest, "the result of initialize has no list of tools at "+string(p.Tools.Manifest)+", so tools/list is sent")
		return "; it has no tools, so tools/list is sent"
	}
	list, nameless := p.ManifestOf(m.Raw, m.Result)
	tools := dialect.ToolList(list)
	tools.Cut = m.Cut
	o.tools = tools
	if nameless > 0 {
		o.find(FoundNamelessTools, strconv.Itoa(nameless)+" of its tools have no name and are left out")
	}
	n := 0
	for range jsonrpc.Elements(tools.Raw, tools.ResultMember("tools")) {
		n++
	}
	return "; tools in the result: " + strconv.Itoa(n)
}
