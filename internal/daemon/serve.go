package daemon

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"os/signal"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/bridge"
	"github.com/dragoman-mcp/dragoman/internal/config"
	"github.com/dragoman-mcp/dragoman/internal/downstream"
	"github.com/dragoman-mcp/dragoman/internal/event"
	"github.com/dragoman-mcp/dragoman/internal/excerpt"
	"github.com/dragoman-mcp/dragoman/internal/gateway"
	"github.com/dragoman-mcp/dragoman/internal/mcp"
	"github.com/dragoman-mcp/dragoman/internal/runtime"
	"github.com/dragoman-mcp/dragoman/internal/telemetry"
	"github.com/dragoman-mcp/dragoman/internal/transport"
	"github.com/dragoman-mcp/dragoman/internal/transport/httpdoor"
	"github.com/dragoman-mcp/dragoman/internal/upstream"
	"github.com/dragoman-mcp/dragoman/internal/work"
)

// ServeOptions are those of Serve.
type ServeOptions struct {
	ConfigPath string // watched for changes; "" when there is no file
	Config     *config.Snapshot
	Listen     string // in place of the configuration's; "" leaves that
	Stdio      bool   // serve a client on standard input and output as well
	Log        *slog.Logger
	Progress   func(server, step string) // see RunOptions
	Trace      func(server, trace string)
	Stdin      io.Reader
	Stdout     io.WriteCloser
	Ready      func(mcp string) // called once when it listens, with the endpoint's URL
	// Drain is how long running calls have once ctx has ended, or their server is
	// taken out of the configuration; 0 means 30 s.
	Drain   time.Duration
	Version string
	// Events is where everything that happens is published. Nil makes a publisher that
	// only the log and the metrics subscribe to.
	Events *event.Publisher
	// Dump is where SIGUSR1 writes how everything is. Nil leaves that signal to the
	// system.
	Dump io.Writer

	secondLook time.Duration // see emptiness; for tests
}

// Serve offers many servers behind one endpoint until ctx ends or, with Stdio, the
// client on standard input is gone. A changed configuration is taken over while it
// runs; a bad one is reported and changes nothing.
func Serve(ctx context.Context, o ServeOptions) error {
	plain := orDiscard(o.Log)
	limited, flush := limitLog(plain)
	defer flush()
	o.Log = limited
	d := newDaemon(o)
	d.log = plain
	defer d.close()
	address := o.Config.Listen
	if o.Listen != "" {
		address = o.Listen
	}
	d.local = isLocal(address)
	if err := d.apply(o.Config); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var running sync.WaitGroup
	defer running.Wait()
	defer cancel()
	if o.ConfigPath != "" {
		running.Go(func() { d.watch(ctx) })
	}
	if o.Dump != nil {
		asked := make(chan os.Signal, 1)
		notifyDump(asked)
		defer signal.Stop(asked)
		running.Go(func() { d.dumpWhenAsked(ctx, asked) })
	}
	if o.Stdio {
		running.Go(func() {
			defer cancel()
			err := servePipe(ctx, d.merged.reception, d.drain, o.Config.Limits.Body, o.Stdin, o.Stdout)
			if errors.Is(err, downstream.ErrShutdown) {
				d.hurried.Store(true)
			} else if err != nil {
				o.Log.Warn("standard input ended", "cause", err.Error())
			}
		})
	}
	return listen(ctx, listenOptions{
		address: address, handler: d.handler(), doors: d.doors, log: o.Log, drain: d.drain, limit: o.Drain,
		ready: func(base string) {
			d.warm()
			if o.Ready != nil {
				o.Ready(base + "/mcp")
			}
		},
	})
}

// room is a host with its reception and endpoint.
type room struct {
	host      *runtime.Handle
	reception *downstream.Endpoint
	endpoint  *endpoint
}

// daemon is what Serve leads. The rooms stay for as long as it runs; what stands
// in them is replaced when the configuration changes.
type daemon struct {
	opts    ServeOptions // its Log is limited
	log     *slog.Logger // for what only whoever runs us can cause
	hooks   hooks
	events  *event.Publisher
	metrics *telemetry.Metrics
	shown   *telemetry.Log // of events
	unheard func()         // ends the subscription of metrics
	bridge  *bridge.Bridge
	listens gateway.ListenQuota
	started time.Time
	guard   *httpdoor.Guard
	comers  newcomers
	texts   instructions
	alias   aliases
	budget  *transport.Budget
	local   bool // only this machine can reach the listener; set before it is
	doors   *doors
	merged  *room

	mu        sync.Mutex
	snapshot  *config.Snapshot
	upstreams map[string]*upstream.Upstream // by fingerprint
	order     []*upstream.Upstream
	gateway   *gateway.Merged
	single    map[string]*room           // by server name
	singles   map[string]*gateway.Single // likewise; what stands in single
	retired   work.Group                 // upstreams on their way out
	since     time.Time                  // of the last change of configuration
	draining  bool
	hurried   atomic.Bool // the client on standard input waits for our end
}

func newDaemon(o ServeOptions) *daemon {
	d := &daemon{
		opts: o, events: o.Events, metrics: telemetry.NewMetrics(), started: time.Now(), since: time.Now(),
		upstreams: make(map[string]*upstream.Upstream), single: make(map[string]*room), singles: make(map[string]*gateway.Single),
	}
	if d.events == nil {
		d.events = &event.Publisher{}
	}
	d.unheard = d.metrics.Subscribe(d.events)
	d.shown = telemetry.NewLog(d.events, telemetry.LogOptions{Log: o.Log, Step: o.Progress, Trace: o.Trace})
	d.budget = transport.NewBudget(inFlight(o.Config.Limits.InFlight, o.Config.Limits.Body))
	d.metrics.WatchBudget(d.budget)
	d.bridge = &bridge.Bridge{
		Observe: func(server string, from, to mcp.Revision, code int64) {
			d.events.Publish(event.Event{Kind: event.Call, Server: server, From: from, To: to, Code: code})
		},
		Budget: d.budget, Lost: lostBy(d.events), Refused: refusedBy(d.events),
	}
	d.hooks = hooks{log: o.Log, events: d.events, version: o.Version, changed: d.changed}
	d.guard = httpdoor.NewGuard(o.Config.Hosts, o.Config.Origins, nil)
	d.comers.perSecond = o.Config.Limits.InitializePerSecond
	d.doors = newDoors()
	d.metrics.WatchEndpoints(d.doors.counts, d.guard)
	d.merged = d.newRoom("")
	d.metrics.WatchServers(d.statuses)
	return d
}

// newRoom makes a room as the configuration says that we started with, see
// needsRestart.
func (d *daemon) newRoom(name string) *room {
	s := d.opts.Config
	r := &room{host: &runtime.Handle{}}
	r.reception = &downstream.Endpoint{Host: r.host, Observe: handshakes{d.events}, Log: d.opts.Log, Revisions: s.Revisions.Accept, Strict: s.Revisions.Refuse, Budget: d.budget}
	r.reception.Lost = lostTo(d.events)
	r.endpoint = newEndpoint(name, r.reception, endpointOptions{guard: d.guard, limits: s.Limits, allow: d.comers.allow, budget: d.budget, log: d.opts.Log})
	d.doors.add(r.endpoint)
	return r
}

// changed hears from upstreams that their lists have changed.
func (d *daemon) changed(server, kind string) {
	d.mu.Lock()
	g := d.gateway
	d.mu.Unlock()
	if g != nil {
		g.Changed(server, kind)
	}
}

// apply makes a configuration the current one. Servers whose settings are the
// same keep running.
func (d *daemon) apply(s *config.Snapshot) error {
	h := d.hooks
	h.dialects = s.Look()
	d.mu.Lock()
	next := make(map[string]*upstream.Upstream)
	var order []*upstream.Upstream
	var enabled []config.Server
	for _, c := range s.Servers {
		if c.Disabled {
			continue
		}
		key := c.Name + "\x00" + c.Fingerprint
		u := d.upstreams[key]
		if u == nil {
			u = newUpstream(c, h)
		} else {
			u.SetTimes(timesOf(c))
		}
		next[key] = u
		order = append(order, u)
		enabled = append(enabled, c)
	}
	var old []*upstream.Upstream
	for key, u := range d.upstreams {
		if next[key] == nil {
			old = append(old, u)
		}
	}
	before := d.gateway
	g := &gateway.Merged{
		Bridge: d.bridge, Listens: &d.listens, Names: gateway.Names{Separator: s.Separator}, Face: d.face(s),
		Prefixes: make(map[string]string),
		Renamed:  renamedBy(d.events),
	}
	for i, u := range order {
		g.Upstreams = append(g.Upstreams, shown(u, enabled[i].Expose))
		if p := enabled[i].Prefix; p != "" && p != u.Name() {
			g.Prefixes[u.Name()] = p
		}
	}
	d.snapshot, d.upstreams, d.order, d.gateway, d.since = s, next, order, g, time.Now()
	type move struct {
		r *room
		h downstream.Handler
	}
	moves := []move{{d.merged, g}}
	gone := d.singles
	d.singles = make(map[string]*gateway.Single)
	for i, u := range order {
		r := d.single[u.Name()]
		if r == nil {
			r = d.newRoom(u.Name())
			d.single[u.Name()] = r
		}
		if h := gone[u.Name()]; h != nil && h.Upstream == gateway.Upstream(server{u}) && enabled[i].Expose.IsZero() {
			d.singles[u.Name()] = h
			delete(gone, u.Name())
			continue
		}
		h := &gateway.Single{Bridge: d.bridge, Listens: &d.listens, Upstream: shown(u, enabled[i].Expose)}
		d.singles[u.Name()] = h
		moves = append(moves, move{r, h})
	}
	var closing []*room
	for name, r := range d.single {
		if d.singles[name] == nil {
			closing = append(closing, r)
			delete(d.single, name)
		}
	}
	d.mu.Unlock()
	var replaced []*runtime.Generation
	for _, m := range moves {
		if g := m.r.host.Replace(m.h); g != nil {
			replaced = append(replaced, g)
		}
	}
	for _, h := range gone {
		h.Drain()
	}
	if before != nil {
		before.Drain()
	}
	if len(old) > 0 || before != nil {
		d.retired.Go(func() {
			d.retire(old, replaced, closing)
			if before != nil {
				before.Close()
			}
		})
	}
	return nil
}

// settled is how long a call of a replaced generation may take to reach its server. One
// that takes longer finds that the server was removed.
const settled = 2 * time.Second

// retire waits until the calls of removed servers are over, and ends those that take too
// long. A call that began before the reload may not have reached its server yet; while
// one may be on its way nothing is ended.
func (d *daemon) retire(old []*upstream.Upstream, replaced []*runtime.Generation, rooms []*room) {
	limit := d.opts.Drain
	if limit <= 0 {
		limit = drainLimit
	}
	late := time.NewTimer(limit)
	defer late.Stop()
	look := time.NewTicker(20 * time.Millisecond)
	defer look.Stop()
	began := time.Now()
	used := func(g *runtime.Generation) bool {
		select {
		case <-g.Idle():
			return false
		default:
			return time.Since(began) < settled
		}
	}
	busy := func(u *upstream.Upstream) bool { return u.Status().Running > 0 }
wait:
	for len(old) > 0 && slices.ContainsFunc(replaced, used) || slices.ContainsFunc(old, busy) {
		select {
		case <-look.C:
		case <-late.C:
			d.opts.Log.Warn("calls of servers that were removed are cut off", "after", limit.String())
			break wait
		case <-d.doors.life.Done():
			break wait
		}
	}
	closeAll(old, stopLimit)
	for _, r := range rooms {
		d.doors.remove(r.endpoint)
	}
}

// needsRestart names what differs between two configurations that is not taken
// over while we run.
func needsRestart(a, b *config.Snapshot) (names []string) {
	for _, x := range []struct {
		name string
		same bool
	}{
		{"listen", a.Listen == b.Listen},
		{"revisions", slices.Equal(a.Revisions.Accept, b.Revisions.Accept) && a.Revisions.Refuse == b.Revisions.Refuse},
		{"limits.body", a.Limits.Body == b.Limits.Body},
		{"limits.inFlight", a.Limits.InFlight == b.Limits.InFlight},
		{"limits.initializePerSecond", a.Limits.InitializePerSecond == b.Limits.InitializePerSecond},
		{"allowedHosts", slices.Equal(a.Hosts, b.Hosts)},
		{"allowedOrigins", slices.Equal(a.Origins, b.Origins)},
		{"log", a.Log == b.Log},
	} {
		if !x.same {
			names = append(names, x.name)
		}
	}
	return names
}

// face is how we introduce ourselves under a configuration. The environment wins
// over the file, so that a container can be told without one.
func (d *daemon) face(s *config.Snapshot) gateway.Identity {
	or := func(env, value string) string {
		if v := os.Getenv(env); v != "" {
			return v
		}
		return value
	}
	f := gateway.Identity{
		Name:    or("DRAGOMAN_SERVER_NAME", s.Identity.Name),
		Title:   or("DRAGOMAN_SERVER_TITLE", s.Identity.Title),
		Version: or("DRAGOMAN_SERVER_VERSION", s.Identity.Version),
		Join:    gateway.InstructionsOrder(s.Identity.Instructions.Join.String()),
	}
	if f.Version == "" {
		f.Version = d.opts.Version
	}
	in := s.Identity.Instructions
	f.Instructions = func(ctx context.Context) string { return d.texts.get(ctx, in, d.opts.Log) }
	return f
}

// warm opens what is not lazy, all at once, so that the first client need not
// wait.
func (d *daemon) warm() {
	d.mu.Lock()
	g, s := d.gateway, d.snapshot
	d.mu.Unlock()
	lazy := make(map[string]bool)
	for _, c := range s.Servers {
		lazy[c.Name] = c.Lazy
	}
	g.Warm(func(server string) bool { return !lazy[server] })
}

// watch takes over a changed configuration: when the file changes, and on SIGHUP.
func (d *daemon) watch(ctx context.Context) {
	var running sync.WaitGroup
	defer running.Wait()
	hup := make(chan os.Signal, 1)
	notifyReload(hup)
	defer signal.Stop(hup)
	reload := make(chan struct{}, 1)
	running.Go(func() {
		err := config.Watch(ctx, d.opts.ConfigPath, func([]byte) {
			select {
			case reload <- struct{}{}:
			default:
			}
		})
		if err != nil && ctx.Err() == nil {
			d.log.Warn("configuration is not watched", "cause", err.Error())
		}
	})
	empty := emptiness{patience: d.opts.secondLook, log: d.log}
	defer empty.stop()
	for {
		sure := true
		select {
		case <-ctx.Done():
			return
		case <-hup:
		case <-empty.wait():
		case <-reload:
			sure = false
		}
		s, problems := config.Load(d.opts.ConfigPath)
		if s == nil {
			empty.stop()
			d.log.Error("the changed configuration has problems and is not used", "problems", problems.Err().Error())
			continue
		}
		d.mu.Lock()
		present := d.snapshot
		d.mu.Unlock()
		if empty.refuses(present, s, sure) {
			continue
		}
		if err := d.apply(s); err != nil {
			d.log.Error("the changed configuration could not be used", "cause", err.Error())
			continue
		}
		d.log.Info("configuration taken over", "servers", len(s.Servers))
		if later := needsRestart(d.opts.Config, s); len(later) > 0 {
			d.log.Warn("some settings change only with a restart", "settings", strings.Join(later, " "))
		}
		d.warm()
	}
}

// handler routes requests. Rooms of single servers come and go with the
// configuration, so they are looked up by name.
func (d *daemon) handler() http.Handler {
	mux := http.NewServeMux()
	d.merged.endpoint.mount(mux, "")
	d.merged.endpoint.mount(mux, "/p/default")
	for _, prefix := range []string{"/s/{server}/", "/p/default/s/{server}/"} {
		for _, leaf := range []string{"mcp", "sse", "messages"} {
			mux.HandleFunc(prefix+leaf, func(w http.ResponseWriter, r *http.Request) {
				d.serveSingle(w, r, leaf)
			})
		}
	}
	mux.HandleFunc("/healthz", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		_, _ = io.WriteString(w, "ok\n")
	})
	mux.HandleFunc("/readyz", d.readyz)
	mux.HandleFunc("/api/v1/status", d.serveStatus)
	mux.HandleFunc("/api/", func(w http.ResponseWriter, r *http.Request) {
		refuse(w, problem{Type: "not-found", Title: "There is nothing here", Status: http.StatusNotFound, Instance: r.URL.Path})
	})
	mux.Handle("/metrics", d.metrics.Handler())
	return d.guard.Wrap(mux)
}

func (d *daemon) serveSingle(w http.ResponseWriter, r *http.Request, leaf string) {
	name := r.PathValue("server")
	d.mu.Lock()
	room := d.single[name]
	if d.singles[name] == nil {
		room = nil
	}
	d.mu.Unlock()
	switch {
	case room == nil:
		http.Error(w, fmt.Sprintf("there is no server %q here", excerpt.Line(name, 64)), http.StatusNotFound)
	case leaf == "mcp":
		room.endpoint.http.ServeHTTP(w, r)
	default:
		room.endpoint.sse.ServeHTTP(w, r)
	}
}

func (d *daemon) statuses() []upstream.Status {
	d.mu.Lock()
	defer d.mu.Unlock()
	out := make([]upstream.Status, len(d.order))
	for i, u := range d.order {
		out[i] = u.Status()
	}
	return out
}

// drain ends what would never end by itself.
func (d *daemon) drain() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.draining = true
	d.gateway.Drain()
	for _, h := range d.singles {
		h.Drain()
	}
}

func (d *daemon) close() {
	d.doors.close()
	d.mu.Lock()
	g, order := d.gateway, d.order
	singles := d.singles
	d.mu.Unlock()
	for _, h := range singles {
		h.Drain()
	}
	if g != nil {
		g.Close()
	}
	d.bridge.Close()
	limit := stopLimit
	if d.hurried.Load() {
		limit = hurriedLimit
	}
	closeAll(order, limit)
	d.retired.Wait()
	d.unheard()
	d.shown.Close() // last: what the others say at their end is logged
}
