package handshake

import (
	"context"
	"strconv"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/dialect"
	"github.com/dragoman-mcp/dragoman/internal/excerpt"
	"github.com/dragoman-mcp/dragoman/internal/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/mcp"
)

// manifest is a result that came unasked, and how it is to be read.
type manifest struct {
	msg *jsonrpc.Message
	as  *dialect.Profile
}

// The patience with servers that push their manifest.
const (
	// pushedPatience is how long initialize may go unanswered once it is there.
	pushedPatience = 2 * time.Second
	// pushPatience is how long it is waited for where it is known to come.
	pushPatience = 5 * time.Second
)

// consider sets up an opening for the dialect that was chosen.
func (o *opening) consider() {
	o.version = mcp.LatestLegacy
	p := o.offer.Dialect
	if p == nil {
		if o.offer.Dialects == nil {
			o.offer.Dialects = dialect.Builtin()
		}
		return
	}
	o.offer.Dialects = nil // nothing else is looked for
	o.offer.SkipProbe = o.offer.SkipProbe || p.Open.NoProbe
	if p.Open.Version.Legacy() {
		o.version = p.Open.Version
	}
	if p.Name == dialect.Standard {
		o.offer.Dialect = nil
	}
}

// recognise returns the profile by which a result of initialize is read, nil for
// none but the standard.
func (o *opening) recognise(m *jsonrpc.Message) *dialect.Profile {
	if o.offer.Dialect != nil {
		return o.offer.Dialect
	}
	return dialect.DetectProfile(o.offer.Dialects, m.Raw, m.Result)
}

// heardUnasked keeps a result that answers nothing where it is a manifest. It runs on
// whatever goroutine reads the link.
func (o *opening) heardUnasked(m *jsonrpc.Message) {
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
		o.stop() // initialize need not be answered any more
	}
}

// patience is how long the answer to initialize may take, 0 for as long as all.
func (o *opening) patience() time.Duration {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.pushed != nil {
		return pushedPatience
	}
	return 0
}

// takePushed opens with a manifest that came unasked where initialize brought
// nothing, and reports whether it did. What initialize brought goes before.
func (o *opening) takePushed(ctx context.Context, r *reply, sent, got string) (state, bool) {
	if r.kind == ended || r.kind == halted || r.kind == answered && r.msg.Kind == jsonrpc.Result {
		return "", false
	}
	if p := o.offer.Dialect; p != nil && p.Open.Pushed {
		late := time.NewTimer(pushPatience)
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
	o.note(sent, got, "but its tools have come unasked, and they are all that is needed")
	next, err := o.acceptAs(x.as, x.msg, "", "", "unasked: "+describe(x.msg))
	return next, err == nil
}

// acceptAs reads a result of initialize in the words of a profile.
func (o *opening) acceptAs(p *dialect.Profile, m *jsonrpc.Message, version, sent, got string) (state, *Error) {
	if jsonrpc.KindOf(m.Raw, m.Result) != '{' {
		o.note(sent, got, "this is no initialize result")
		return "", o.fail(CauseBadAnswer, nil)
	}
	how := "the dialect " + p.Name + " was chosen (" + p.About + ")"
	if o.offer.Dialect == nil {
		how = "this is the dialect " + p.Name + " (" + p.About + ")"
		o.find(FoundDialect, "it speaks the dialect "+p.Name+": "+p.About)
	}
	reason := how
	if version != "" {
		reason += "; " + o.settle(version, true)
	} else {
		o.revision = p.Open.Version
		if !o.revision.Legacy() {
			legacy := mcp.Revisions(mcp.Handshake)
			o.revision = legacy[len(legacy)-1]
		}
		o.rules = RulesFor(o.revision)
		reason += ", taken for " + o.revision.String()
	}
	o.dialect = p
	o.hello = mcp.ServerInfo{Revision: o.revision}
	if version != "" {
		o.hello.Versions = []string{excerpt.Line(version, 40)}
	}
	reason += o.readManifest(p, m)
	own, err := p.Hello(m)
	if err != nil {
		o.note(sent, got, "it cannot be read")
		return "", o.fail(CauseBadAnswer, err)
	}
	keys := [...]string{"capabilities", "instructions", "serverInfo"}
	var at [len(keys)]jsonrpc.Span
	jsonrpc.FindAll(own.Raw, own.Result, keys[:], at[:])
	o.introduce(own, at[0], at[1], at[2])
	if o.silent {
		o.find(FoundSilentProbe, "it never answered server/discover, so initialize is sent first from now on")
	}
	if p.Open.NoInitialized {
		o.note(sent, got, reason+"; "+mcp.NoteInitialized+" is not for it, so open")
		return opened, nil
	}
	o.note(sent, got, reason)
	return announcing, nil
}

// readManifest keeps the tools of a manifest, and says for the trace what of them.
func (o *opening) readManifest(p *dialect.Profile, m *jsonrpc.Message) string {
	switch {
	case p.Tools.Manifest == "":
		return ""
	case !p.HasManifest(m.Raw, m.Result):
		o.find(FoundNoManifest, "its initialize result has no list of tools at "+string(p.Tools.Manifest)+", so they are asked for")
		return "; without tools, so they are asked for"
	}
	list, nameless := p.ManifestOf(m.Raw, m.Result)
	tools := dialect.ToolList(list)
	o.tools = tools
	if nameless > 0 {
		o.find(FoundNamelessTools, strconv.Itoa(nameless)+" of its tools have no name and are left out")
	}
	n := 0
	for range jsonrpc.Elements(tools.Raw, tools.ResultMember("tools")) {
		n++
	}
	return "; its tools have come with it: " + strconv.Itoa(n)
}
