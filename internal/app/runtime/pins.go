package runtime

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/base/excerpt"
	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
	"github.com/dragoman-mcp/dragoman/internal/relay/catalog"
	"github.com/dragoman-mcp/dragoman/internal/relay/event"
	"github.com/dragoman-mcp/dragoman/internal/relay/pins"
	"github.com/dragoman-mcp/dragoman/internal/relay/policy"
	"github.com/dragoman-mcp/dragoman/internal/setup/config"
)

// PinKeeper keeps the pins of all projects, so that they outlive the process. It's safe for concurrent use.
type PinKeeper interface {
	// Pins returns the pins of a project. They need no definitions.
	Pins(project string) ([]pins.Pin, error)
	// Trust keeps what was seen for the first time. Of what has a pin already, that one stays.
	Trust(ctx context.Context, project string, all []pins.Pin) error
	// Decide keeps what an actor has decided about a definition.
	Decide(ctx context.Context, actor, project string, p pins.Pin) error
	// PinsOf returns the pins of one ID with their definitions, the oldest first.
	PinsOf(ctx context.Context, project string, id pins.ID) ([]pins.Pin, error)
}

// pinboard notices when definitions change that a project's servers have sent. The zero value remembers nothing;
// see Project.openPins.
type pinboard struct {
	book    *pins.Book
	keeper  PinKeeper // nil keeps nothing
	mode    atomic.Uint32
	turn    chan struct{} // contains one value while something is kept or decided
	writing atomic.Bool   // a goroutine keeps what is new, or is about to
	failed  atomic.Bool   // the log says already that nothing can be kept
	unread  error         // why the pins couldn't be read
}

// Kinds of pins, by those of the catalog. Resources are content, which a server may change.
var pinKinds = map[catalog.Kind]string{catalog.KindTool: "tool", catalog.KindPrompt: "prompt", catalog.KindTemplate: "template"}

// maxPinName is the length of a name or a template that can be kept. PostgreSQL has less than 2,700 bytes for it and
// the names of its server and its project, in an index.
const maxPinName = 1024

// maxPinned is the length of a definition that is kept besides its hash.
const maxPinned = 64 << 10

// openPins reads the pins of the project.
func (p *Project) openPins() {
	b := &p.pins
	b.keeper, b.turn = p.runtime.opts.Pins, make(chan struct{}, 1)
	var all []pins.Pin
	if b.keeper != nil {
		if all, b.unread = b.keeper.Pins(p.name); b.unread != nil {
			p.log.Error("the pins could not be read", "cause", b.unread.Error())
		}
	}
	b.book = pins.NewBook(all)
}

// pinMode returns what a change means with a configuration.
func (p *Project) pinMode(s *config.Snapshot) pins.Mode {
	switch {
	case s.Pins != 0:
		return s.Pins
	case p.runtime.opts.Keyed:
		return pins.Hold
	}
	return pins.Warn
}

// PinMode returns what a changed definition means now.
func (p *Project) PinMode() pins.Mode { return pins.Mode(p.pins.mode.Load()) }

// vet returns the catalog.Vet of the project for its servers: the pins judge what a server has sent, and then
// Vet.
func (p *Project) vet(all ...config.Server) catalog.Vet {
	rest := Vet(all...)
	if p.PinMode() == pins.Off {
		return rest
	}
	hold := p.PinMode() == pins.Hold
	return func(kind catalog.Kind, server string, from mcp.Revision, raw []byte) (v catalog.Verdict, _ jsonrpc.EditList) {
		if why := p.judge(kind, server, raw); why != "" && hold {
			return catalog.Verdict{Hide: why, Held: true}, jsonrpc.EditList{}
		}
		return rest(kind, server, from, raw)
	}
}

// What people are told of a held definition, as a clause.
const (
	whyHeld   = "its definition has changed, and an operator has to approve it first (dragoman tools review)"
	whyName   = "its name is too long or has a NUL character, so its definition can't be kept"
	whyUnread = "nobody can tell whether its definition has changed, because the pins could not be read"
)

// judge returns why an item is not one to trust, or "".
func (p *Project) judge(kind catalog.Kind, server string, raw []byte) (why string) {
	word := pinKinds[kind]
	if word == "" || server == policy.ProjectPrompts { // what people publish here is theirs to decide
		return ""
	}
	key := "name"
	if kind == catalog.KindTemplate {
		key = "uriTemplate"
	}
	name, ok := jsonrpc.Text(raw, jsonrpc.Find(raw, jsonrpc.Whole(raw), key))
	switch b := &p.pins; {
	case !ok:
		return "" // clients can't use it
	case len(name) > maxPinName || strings.Contains(name, "\x00"):
		return whyName // PostgreSQL would refuse it, and whatever is written with it
	case b.unread != nil:
		return whyUnread
	case b.book.Judge(pins.ID{Server: server, Kind: word, Name: name}, raw, time.Now()):
	default:
		why = whyHeld
	}
	p.keepPins()
	return why
}

// keepPins keeps what is new in the background, and tells people of changes.
func (p *Project) keepPins() {
	b := &p.pins
	if !b.book.Waits() || b.writing.Swap(true) {
		return
	}
	if !p.runtime.retired.Go(func() { p.writePins() }) {
		b.writing.Store(false)
	}
}

// pinsAtOnce is how many pins are kept in one transaction.
const pinsAtOnce = 500

// writePins keeps what is new. As long as it can't, it tries again after a pause.
func (p *Project) writePins() {
	b := &p.pins
	defer func() {
		b.writing.Store(false)
		p.keepPins() // what has come while the last ones were written
	}()
	for pause := time.Second; !p.writeFresh(); pause = min(2*pause, maxPinPause) {
		select {
		case <-p.gone:
			b.book.Fresh() // nobody will keep it
			return
		case <-time.After(pause):
		}
	}
}

// maxPinPause is the longest pause between two attempts to keep pins.
const maxPinPause = 10 * time.Second

// writeFresh reports whether everything was kept. What was not stays with the book.
func (p *Project) writeFresh() bool {
	b := &p.pins
	b.turn <- struct{}{}
	defer func() { <-b.turn }()
	first, changed := b.book.Fresh()
	p.reportChanges(changed)
	if b.keeper == nil {
		return true
	}
	for i := range first {
		first[i].Definition = p.pinned(first[i].Server, first[i].Definition)
	}
	for len(first) > 0 {
		n := min(len(first), pinsAtOnce)
		if err := b.keeper.Trust(context.Background(), p.name, first[:n]); err != nil {
			if !b.failed.Swap(true) {
				p.log.Warn("the pins could not be kept, so a change is not noticed after the next start", "cause", err.Error())
			}
			b.book.Again(first)
			return false
		}
		first = first[n:]
	}
	b.failed.Store(false)
	return true
}

// pinned returns what is kept of a definition: without the secrets of its server, and nil if it's too long.
func (p *Project) pinned(server string, raw []byte) []byte {
	if len(raw) > maxPinned {
		return nil
	}
	if clean := p.Clean(server); clean != nil {
		return []byte(excerpt.MaskJSON(string(raw), clean))
	}
	return raw
}

// maxPinNames is how many names one event has.
const maxPinNames = 5

// reportChanges publishes an event for each server with changed definitions.
func (p *Project) reportChanges(all []pins.Change) {
	by := map[string][]string{}
	var servers []string
	for _, c := range all {
		if by[c.Server] == nil {
			servers = append(servers, c.Server)
		}
		if name := c.Kind + " " + excerpt.Word(c.Name, 100); !slices.Contains(by[c.Server], name) {
			by[c.Server] = append(by[c.Server], name)
		}
	}
	what := "changed since they were approved, and passed on (pins: warn)"
	if p.PinMode() == pins.Hold {
		what = "held until they are approved"
	}
	for _, server := range servers {
		names := by[server]
		text := strings.Join(names[:min(len(names), maxPinNames)], ", ")
		if more := len(names) - maxPinNames; more > 0 {
			text = fmt.Sprintf("%s and %d more", text, more)
		}
		p.events.Publish(event.Event{
			Kind: event.Pinned, Level: slog.LevelWarn, Server: server, Name: text, Detail: what, In: len(names),
		})
	}
}

// PinChange is a definition that has changed since it was approved.
type PinChange struct {
	pins.Change          // its Definition is nil if it's too long to show
	Was         pins.Pin // what was approved last, or trusted; the zero value if nobody knows its definition
	Diff        string   // what has changed, with what nobody could see drawn; only PinChanges sets it
}

// PinChanges returns the definitions that wait for a decision, and those that were rejected.
func (p *Project) PinChanges(ctx context.Context) ([]PinChange, error) {
	all := p.ChangedPins()
	out := make([]PinChange, len(all))
	for i, c := range all {
		x, err := p.PinChange(ctx, c)
		switch {
		case err != nil:
			return nil, err
		case x.Definition == nil:
			x.Diff = fmt.Sprintf("(the definition has more than %d bytes, too many to show)\n", maxPinned)
		default:
			x.Diff = pins.Diff(x.Was.Definition, x.Definition)
		}
		out[i] = x
	}
	return out, nil
}

// PinChange returns what people compare with one of ChangedPins.
func (p *Project) PinChange(ctx context.Context, c pins.Change) (PinChange, error) {
	c.Definition = p.pinned(c.Server, c.Definition)
	out := PinChange{Change: c}
	if p.pins.keeper == nil || c.Definition == nil {
		return out, nil
	}
	known, err := p.pins.keeper.PinsOf(ctx, p.name, c.ID)
	for _, k := range known {
		if k.State != pins.Rejected && len(k.Definition) > 0 {
			out.Was = k
		}
	}
	return out, err
}

// ChangedPins returns the changes that nobody has approved.
func (p *Project) ChangedPins() []pins.Change { return p.pins.book.Changes() }

// ChangedDefinitions returns how many definitions of each server wait for a decision. Servers without any are left
// out.
func (p *Project) ChangedDefinitions() map[string]int {
	n := map[string]int{}
	for _, c := range p.ChangedPins() {
		if !c.Rejected {
			n[c.Server]++
		}
	}
	return n
}

// unreadWithin is how long ReadPinned waits for servers.
const unreadWithin = 5 * time.Second

// ReadPinned reads the lists whose definitions have pins, so that changes are known that no client has asked for. It
// opens servers, if necessary, and waits for a while. It returns the servers whose lists are unknown nevertheless,
// and why.
func (p *Project) ReadPinned(ctx context.Context) []catalog.Unread {
	l := p.Lists()
	if l == nil || p.PinMode() == pins.Off {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, unreadWithin)
	defer cancel()
	return l.gateway.ReadLists(ctx, mcp.MethodListTools, mcp.MethodListPrompts, mcp.MethodListTemplates)
}

// ErrNoChange means that a definition doesn't wait for a decision, or that it has changed again.
var ErrNoChange = errors.New("this definition does not wait for a decision")

// DecidePin approves or rejects a change, or approves what was rejected. It counts once it's kept, and then the clients of the project hear that
// their lists may have changed. The error is ErrNoChange if the definition is not, or no longer, the one of the
// server.
func (p *Project) DecidePin(ctx context.Context, actor string, id pins.ID, sum pins.Sum, state pins.State) error {
	if err := p.decidePin(ctx, actor, id, sum, state); err != nil {
		return err
	}
	p.log.Info("a changed definition was decided about", "server", id.Server, "kind", id.Kind, "name", excerpt.Cut(id.Name, 200), "state", string(state), "by", actor, "sha256", sum.String())
	p.runtime.renew(p)
	return nil
}

func (p *Project) decidePin(ctx context.Context, actor string, id pins.ID, sum pins.Sum, state pins.State) error {
	b := &p.pins
	b.turn <- struct{}{}
	defer func() { <-b.turn }()
	c, ok := b.book.Change(id, sum)
	if !ok || c.Rejected && state == pins.Rejected {
		return ErrNoChange
	}
	pin := pins.Pin{ID: id, Sum: sum, State: state, Since: time.Now(), Actor: actor, Definition: p.pinned(id.Server, c.Definition)}
	if b.keeper != nil {
		if err := b.keeper.Decide(ctx, actor, p.name, pin); err != nil {
			return err
		}
	}
	b.book.Decide(pin)
	return nil
}

// PinsChanged says that another process has kept pins.
func (r *Runtime) PinsChanged() {
	if r.opts.Pins == nil {
		return
	}
	for _, p := range r.Projects() {
		b := &p.pins
		b.turn <- struct{}{}
		all, err := b.keeper.Pins(p.name)
		differs := err == nil && b.book.Replace(all)
		<-b.turn
		if differs {
			r.renew(p)
		}
	}
}

// renew makes new handlers for a project, unless it has gone.
func (r *Runtime) renew(p *Project) {
	r.turn <- struct{}{}
	defer func() { <-r.turn }()
	if r.Project(p.name) == p {
		p.renew()
	}
}

// withheld returns gateway.Single.Withheld for a server. The lists of the gateway of all servers say what is held.
func (p *Project) withheld(server string) func(context.Context, *mcp.ClientInfo, catalog.Kind, string, string) error {
	if p.PinMode() != pins.Hold {
		return nil
	}
	return func(ctx context.Context, f *mcp.ClientInfo, kind catalog.Kind, name, asked string) error {
		return p.merged().View(f, nil).Withheld(ctx, kind, server, name, asked)
	}
}
