package daemon

import (
	"cmp"
	"context"
	"errors"
	"io"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"os"
	"os/signal"
	"path/filepath"
	"reflect"
	goruntime "runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/app/admin"
	"github.com/dragoman-mcp/dragoman/internal/app/console"
	"github.com/dragoman-mcp/dragoman/internal/app/runtime"
	"github.com/dragoman-mcp/dragoman/internal/app/telemetry"
	"github.com/dragoman-mcp/dragoman/internal/base/logcode"
	"github.com/dragoman-mcp/dragoman/internal/base/logring"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
	"github.com/dragoman-mcp/dragoman/internal/relay/calls"
	"github.com/dragoman-mcp/dragoman/internal/relay/downstream"
	"github.com/dragoman-mcp/dragoman/internal/relay/event"
	"github.com/dragoman-mcp/dragoman/internal/relay/upstream"
	"github.com/dragoman-mcp/dragoman/internal/setup/clientfile"
	"github.com/dragoman-mcp/dragoman/internal/setup/config"
	"github.com/dragoman-mcp/dragoman/internal/team/access"
	"github.com/dragoman-mcp/dragoman/internal/team/audit"
	"github.com/dragoman-mcp/dragoman/internal/team/authserver"
	"github.com/dragoman-mcp/dragoman/internal/team/signin/oauth"
	"github.com/dragoman-mcp/dragoman/internal/team/store"
	"github.com/dragoman-mcp/dragoman/internal/team/vault"
	"github.com/dragoman-mcp/dragoman/internal/transport"
	"github.com/dragoman-mcp/dragoman/internal/transport/httpdoor"
)

// ServeOptions are the options of Serve.
type ServeOptions struct {
	ConfigPath string // the configuration file, which Serve watches for changes; "" means no file
	Config     *config.Snapshot
	Problems   config.Problems // those of Config, which the caller has reported
	Listen     string          // the address to listen on; "" means the address in the configuration
	Hosts      []string        // Host headers to accept in addition to those of the configuration
	Strict     bool            // refuse a changed configuration if one of its servers cannot be used
	Stdio      bool            // also serve a client on stdin and stdout
	Log        *slog.Logger
	LogCalls   bool                      // log each call at level info instead of debug
	Progress   func(server, step string) // the same as RunOptions.Progress
	Trace      func(server, trace string)
	Stdin      io.Reader
	Stdout     io.WriteCloser
	Ready      func(mcp string) // called once, with the endpoint's URL, when Serve listens
	// Serve calls Started once: when every server is ready or has failed, or at the latest a few
	// seconds after Ready. If ctx ends earlier, Serve does not call Started. Started may be nil.
	Started func(Start)
	// Drain is how long calls may still run after ctx has ended, or after their server was
	// removed from the configuration. 0 means 30 s.
	Drain   time.Duration
	Version string
	Gate    runtime.Gate
	// Program is the command that starts Dragoman in a terminal; "" means dragoman. Path is the
	// full path of the program. Env returns the value of an environment variable; a nil Env means
	// that there are no variables. The console uses Program, Path and Env to show how to connect
	// clients.
	Program, Path string
	Env           func(string) (string, bool)
	// Serve publishes its events through Events. If Events is nil, Serve creates a publisher.
	Events *event.Publisher
	// KeyFolders are the folders to which Serve may write the key of the admin API, in order of
	// preference, and where it listens (see [admin.Presence]). Serve uses the first folder in which it
	// can create a file. Only the current user can read the files. If KeyFolders is empty, Serve does
	// not write them. The key for the ids of tasks and the lists of the
	// servers are kept in the last of the folders.
	KeyFolders []string
	// Open lets clients in without an API key, although other machines can reach the address.
	Open bool
	// Database is the path of the store's file, unless the configuration names a database. "" means that
	// there is no place for a file.
	Database string
	// NoConsole turns the console off, even if the configuration turns it on.
	NoConsole bool
	// DemoClients are the names of the clients of Demo.
	DemoClients []string
	// Idle starts no servers until somebody needs them.
	Idle bool
	// Extend adds the demo's servers to a configuration. Serve calls it if it reads the file of Config
	// again, because that refers to secrets. Extend may be nil.
	Extend func(*config.Snapshot) (*config.Snapshot, error)
	// Demo plays clients of the endpoint until ctx ends. Demo may be nil.
	Demo func(ctx context.Context, endpoint string)
	// Serve calls Console once, before Ready. Console may be nil.
	Console func(Console)
	// Serve calls Dump with the current status when the process receives SIGUSR1. If Dump is nil,
	// SIGUSR1 keeps its default action.
	Dump func(*admin.Report)

	secondLook  time.Duration         // for tests; 0 means the constant secondLook
	startWait   time.Duration         // for tests; 0 means startReport
	sealWait    time.Duration         // for tests; 0 means the constant sealWait
	anchorEvery time.Duration         // for tests; 0 means the constant anchorEvery
	noCalls     bool                  // for tests; do not record the calls of clients
	protocol    int                   // for tests; the version that a replica says it speaks, or 0
	schema      string                // for tests; replaces dragoman as the PostgreSQL schema
	documents   oauth.Doer            // for tests; fetches the documents of clients
	recent      *logring.Ring         // keeps the recent log records; Serve sets it
	store       *store.Store          // Serve sets it and closes it
	safe        *store.Safe           // the same with its vault
	cert        *httpdoor.Certificate // what it shows at the address; nil without TLS; Serve sets it
	read        map[string][]byte     // the sealed secrets when Config was read; Serve sets it
	seals       *sealKeys             // nil without dragoman.sealKeys; Serve sets it
	replicas    *replicas             // nil without dragoman.cluster; Serve sets it
}

// Console says how to open the console of a running Serve.
type Console struct {
	Off  string        // a sentence that says why the console is off; "" if the console is on
	URL  string        // the URL of the console; "" if the console is off
	Link func() string // returns a link that can open the console once, within ten minutes; nil if people need an invitation
}

// consoleOff returns the reason why the console is off, or "" if the console is on.
func consoleOff(o *ServeOptions, local bool) string {
	switch {
	case o.NoConsole:
		return "The console is off, because `dragoman serve` was started with --no-console."
	case !o.Config.Console:
		return "The console is off, because the configuration has `console: false`."
	case local || o.cert != nil || strings.HasPrefix(o.Config.PublicURL, "https:"):
		return ""
	}
	return "The console is off, because Dragoman listens on an address that other machines can reach, without TLS. Listen on 127.0.0.1 to use the console, set dragoman.tls, or set dragoman.publicURL to the https URL of a proxy."
}

// Serve serves many servers behind one endpoint until ctx ends. With Stdio, Serve also ends when the
// client on stdin disconnects. When the configuration file changes, Serve applies the new
// configuration. If the new configuration cannot be used, Serve logs the problem and keeps the
// current configuration. If the database can't be used, Serve returns a *store.Error, and if it has sealed
// values that the vault's key can't open, a *vault.Error.
func Serve(ctx context.Context, o ServeOptions) (err error) {
	o.recent = logring.New()
	plain := slog.New(logcode.New(logring.NewHandler(o.recent, orDiscard(o.Log).Handler())))
	limited, flush := limitLog(plain)
	defer flush()
	o.Log = limited
	reload := make(chan os.Signal, 1)
	if o.ConfigPath != "" {
		// Subscribe early, because a SIGHUP without a handler ends the program.
		notifyReload(reload)
		defer signal.Stop(reload)
	}
	if o.safe, err = openSafe(ctx, &o, "serve"); err != nil {
		return err
	}
	o.store = o.safe.Store()
	defer func() { _ = o.store.Close() }()
	if err := o.readSecrets(ctx, plain); err != nil {
		return err
	}
	address := cmp.Or(o.Listen, o.Config.Listen)
	if o.cert, err = certificate(o.Config.TLS, address, plain); err != nil {
		return err
	}
	if o.seals, err = openSealKeys(o.Config.SealKeys, cmp.Or(o.sealWait, sealWait)); err != nil {
		return err
	}
	e, err := newEntry(ctx, &o, address)
	if err != nil {
		return err
	}
	defer e.close()
	if o.replicas, err = joinReplicas(ctx, &o); err != nil {
		return err
	}
	defer o.replicas.close()
	d := newDaemon(o, e, isLocal(address))
	d.log = plain
	d.calls = telemetry.NewCallLog(d.events, plain, callLevel(o.LogCalls), d.clean)
	defer d.close()
	d.homes.applyFile(o.Config)
	d.homes.Use(ctx)
	return d.serve(ctx, e, address, reload)
}

// serve runs what belongs to a serve besides its endpoints, and listens until ctx ends. A signal to reload the configuration
// comes from reload.
func (d *daemon) serve(ctx context.Context, e *entry, address string, reload <-chan os.Signal) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var running sync.WaitGroup
	defer running.Wait()
	defer cancel()
	running.Go(func() { e.keepUses(ctx) })
	end := func(seat string, cause error) {
		d.admin.EndBarred()
		d.runtime.Endpoints().EndSeat(seat, cause)
	}
	regraded := func(project string) {
		d.admin.EndBarred()
		d.runtime.Regraded(project)
	}
	running.Go(func() { e.follow(ctx, d.opts.store, d.homes.InFile, end, regraded) })
	if d.opts.cert != nil {
		running.Go(func() { followCertificate(ctx, d.opts.cert, d.opts.Config.TLS, d.log) })
	}
	if d.opts.seals != nil {
		running.Go(func() { d.opts.seals.follow(ctx, d.log) })
	}
	running.Go(func() { d.homes.follow(ctx) })
	running.Go(func() { followPins(ctx, d.opts.store, d.runtime.PinsChanged) })
	running.Go(func() { followPrompts(ctx, d.opts.store, d.runtime) })
	running.Go(func() { d.signIns.follow(ctx, d.runtime, d.log) })
	if d.opts.ConfigPath != "" {
		running.Go(func() { d.watch(ctx, reload) })
	}
	if d.opts.Dump != nil {
		asked := make(chan os.Signal, 1)
		notifyDump(asked)
		defer signal.Stop(asked)
		running.Go(func() { d.dumpWhenAsked(ctx, asked) })
	}
	if d.opts.replicas != nil {
		running.Go(func() { d.shareLimits(ctx) })
		running.Go(func() { d.anchorAudit(ctx, cmp.Or(d.opts.anchorEvery, anchorEvery)) })
	}
	d.opts.replicas.serve(d)
	forget := func() {}
	defer func() { forget() }()
	if d.opts.Stdio {
		running.Go(func() {
			defer cancel()
			d.servePipe(ctx)
		})
	}
	return listen(ctx, listenOptions{
		address: address, cert: d.opts.cert, handler: d.handler(), endpoints: d.runtime.Endpoints(), log: e.log, part: d.part(), drain: d.drain, settle: d.settle(), limit: d.opts.Drain, both: d.admin.Access().UseName,
		ready: func(base string) { forget = d.listening(ctx, base, &running) },
	})
}

// openStore opens the database that the configuration names. If it names none, the store is in the user's
// data folder if that can be written to, and otherwise in memory.
func openStore(ctx context.Context, o *ServeOptions, via string) (*store.Store, error) {
	if named := o.Config.Database; named != "" {
		return store.Open(ctx, store.Options{Database: named, Schema: o.schema, Via: via, Log: o.Log})
	}
	return store.Open(ctx, store.Options{Database: o.Database, Via: via, MayForget: true, Log: o.Log})
}

// pinFile returns the path of the file that has the pins while there is no database: beside the user's own one, or
// named after the one that the configuration names, since each has pins of its own. It's "" if there can't be one,
// or if it isn't needed.
func pinFile(o *ServeOptions) string {
	switch named := o.Config.Database; {
	case strings.Contains(named, "://"):
		return ""
	case named != "":
		return named + ".pins.jsonl"
	case o.Database == "":
		return ""
	}
	return filepath.Join(filepath.Dir(o.Database), "pins.jsonl")
}

// openSafe opens the store with its vault, and checks that the vault's key is the one that has sealed what is
// in the store. via is store.Options.Via.
func openSafe(ctx context.Context, o *ServeOptions, via string) (*store.Safe, error) {
	s, err := openStore(ctx, o, via)
	if err != nil {
		return nil, err
	}
	safe := store.NewSafe(s, vault.New(vault.Options{Key: o.Config.VaultKey, File: vaultFile(o), Getenv: o.Env, Memory: s.State().Place == store.Memory}))
	if err := safe.Check(ctx); err != nil {
		_ = s.Close()
		return nil, err
	}
	return safe, nil
}

// vaultFile returns the path of the vault's key. It lies beside the database; if that is on another
// machine, in the user's data folder.
func vaultFile(o *ServeOptions) string {
	beside := o.Database
	if named := o.Config.Database; named != "" && !strings.Contains(named, "://") {
		beside = named
	}
	if beside == "" {
		return ""
	}
	return filepath.Join(filepath.Dir(beside), "vault.key")
}

// servePipe serves the client on stdin until it disconnects or ctx ends.
func (d *daemon) servePipe(ctx context.Context) {
	o := &d.opts
	err := pipeClient{clients: d.project.Joined(), drain: d.runtime.Drain, body: o.Config.Limits.Body, in: o.Stdin, out: o.Stdout}.serve(ctx)
	if errors.Is(err, downstream.ErrShutdown) {
		d.hurried.Store(true)
	} else if err != nil {
		o.Log.Warn("stdin ended", "cause", err.Error())
	}
}

// ownHost returns the host of the address at which we listen, as clients write it in the header Host, and the
// origin of our pages there, which need TLS. Both are "" if that is every address of the machine. We print
// this address, and the commands on this machine use it. A page whose name was rebound to it still sends its
// own name (2025-11-25 §Transports, "Security Warning").
func ownHost(address string) (host, origin string) {
	name, _, err := net.SplitHostPort(address)
	if ip, bad := netip.ParseAddr(name); err != nil || name == "" || bad == nil && ip.Unmap().IsUnspecified() {
		return "", ""
	}
	here := config.Snapshot{PublicURL: "https://" + address}
	return here.PublicHost()
}

// listening does what is due when the listener at base accepts connections: other programs can find it,
// the servers start, and the caller of Serve hears of it. It returns a function that removes what
// other programs find.
func (d *daemon) listening(ctx context.Context, base string, running *sync.WaitGroup) (forget func()) {
	o := &d.opts
	began := time.Now()
	_, address, _ := strings.Cut(base, "://")
	d.signIns.listening(base)
	forget = d.announce(address)
	if at, err := netip.ParseAddrPort(address); err == nil {
		d.own.Listen(int(at.Port()))
	}
	if o.Console != nil {
		c := Console{Off: consoleOff(o, d.local)}
		switch {
		case c.Off != "":
		case d.local:
			c.URL, c.Link = base+"/console/", func() string { return d.admin.Access().Link(base) }
		default:
			c.URL = cmp.Or(o.Config.PublicURL, base) + "/console/"
		}
		o.Console(c)
	}
	if !o.Idle {
		d.homes.ready.Store(true)
		d.warm()
	}
	if o.Ready != nil {
		o.Ready(base + "/mcp")
	}
	if o.Demo != nil && o.cert == nil { // no certificate is for an address of this machine alone
		running.Go(func() { o.Demo(ctx, "http://"+onThisMachine(address)+"/mcp") })
	}
	if o.Started != nil {
		running.Go(func() { d.reportStart(ctx, began) })
	}
	return forget
}

// daemon is the state of a running Serve.
type daemon struct {
	opts        ServeOptions // opts.Log limits the rate of its records
	local       bool         // only this machine can reach the listener
	log         *slog.Logger // without a rate limit; only for records that clients and servers cannot cause
	events      *event.Publisher
	metrics     *telemetry.Metrics
	shown       *telemetry.Log // logs events
	calls       *telemetry.CallLog
	traces      *telemetry.Traces
	stopMetrics func() // ends the subscription of metrics to events
	recorded    *calls.Ring
	stopCalls   func() // ends the subscription of recorded to events
	guard       *httpdoor.Guard
	budget      *transport.Budget
	runtime     *runtime.Runtime
	masks       atomic.Pointer[runtime.Runtime] // the same, for the log, which exists before it
	project     *runtime.Project                // the default project
	homes       *homes
	admin       *admin.API
	console     *console.Console
	gate        *access.Gate
	resources   *access.Resources
	signIn      *authserver.Server // nil if it's off
	signIns     *signIns
	connect     *connectPage                  // nil if nobody gets links of ours
	refusal     atomic.Pointer[admin.Refusal] // why the configuration file is refused; nil if the file is in use
	own         *mcp.Own
	trail       *audit.Trail
	audit       atomic.Pointer[config.Audit] // what the trail shall do
	reloads     chan askedReload             // requests to apply the configuration file now
	hurried     atomic.Bool                  // the client on stdin waits for Dragoman to exit
}

// newDaemon creates a daemon. local is true if only this machine can reach the listener.
func newDaemon(o ServeOptions, e *entry, local bool) *daemon {
	d := &daemon{opts: o, local: local, log: o.Log, events: o.Events, metrics: telemetry.NewMetrics(), own: &mcp.Own{}, reloads: make(chan askedReload), gate: e.gate, resources: e.resources}
	if o.recent == nil {
		o.recent = logring.New()
	}
	if d.events == nil {
		d.events = &event.Publisher{}
	}
	d.stopMetrics = d.metrics.Subscribe(d.events)
	d.shown = telemetry.NewLog(d.events, telemetry.LogOptions{Log: o.Log, Step: o.Progress, Trace: o.Trace, Clean: d.clean})
	o.Log = d.shown.InOrder()
	d.opts.Log = o.Log
	d.traces = startTraces(o.Config.Traces, o.Env, o.Version, d.log, d.clean)
	d.budget = transport.NewBudget(inFlight(o.Config))
	d.guard = newGuard(&o)
	d.guard.Public(func(r *http.Request) bool { return d.resources.IsDocument(r.URL.Path) || d.isShared(r) })
	d.recorded = calls.New(calls.Options{Record: o.Config.Record.On(local)})
	kept := d.recorded
	if o.noCalls {
		kept = nil
	}
	d.openTrail(&o, e)
	d.signIns = openSignIns(&o, e.gate.Open(), local)
	d.runtime = runtime.New(runtime.Options{
		Config: o.Config, Log: o.Log, Events: d.events, Calls: kept, Recent: o.recent, Guard: d.guard, Principal: e.gate.Principal, Reach: e.gate.Reach, Barred: e.gate.Barred, Holder: e.gate.Holder, Caller: e.gate.Caller, Budget: d.budget, Drain: o.Drain, Version: o.Version,
		Exposed: !local, TaskKey: taskKey(o.KeyFolders, o.Log), ListFolder: listFolder(o.KeyFolders, o.Log), Own: d.own, Gate: o.Gate, Traces: d.traces.Tracer(),
		Seals: o.shared(), Places: o.places(), Forward: o.replicas.forwarder(), Seats: o.replicas.upstreams(), Credentials: d.signIns.credentials, SignIn: d.signIns.of, Prompts: promptsIn(o.store), Keyed: !e.gate.Open(), Pins: newPinKeeper(o.store, pinFile(&o), o.Log),
	})
	d.masks.Store(d.runtime)
	d.project = d.runtime.Default()
	d.homes = newHomes(d.runtime, o.safe, e.desk, d.log)
	d.stopCalls = d.events.Tap(event.Of(event.Loss), d.lost)
	d.admin = admin.New(admin.Options{Project: d.project, Others: d.runtime, Log: o.Log, Recent: o.recent, Calls: d.recorded, Budget: d.budget, Losses: d.metrics.Losses, Version: o.Version, Config: fullPath(o.ConfigPath), Local: local, Closed: o.Config.Access.LoopbackKeys, Views: d.views, PublicURL: o.Config.PublicURL, ConsoleOff: consoleOff(&o, local), DemoClients: o.DemoClients, Env: o.Env, Refusal: d.refusal.Load, Homes: d.homes, Store: stateOf(o.store), Replicas: o.replicas.list(), Fleet: o.replicas.fleet(), AliasKey: o.replicas.aliasKey(), Away: o.replicas.away(), Unfit: o.replicas.unfit(), Leaving: o.replicas.leaving(), SignIns: d.signIns.source(), Desk: e.desk, Roster: e.roster, Ledger: e.ledger, Safe: o.safe, Trail: d.trail, Secrets: secretsOf(context.Background(), o.safe), Reload: d.reloader()})
	d.signIn = newAuthServer(&o, e, d.admin.Access())
	d.connect = d.signIns.page(&o, e.gate.Open(), d.admin.Access(), d.denied)
	d.console = console.New(console.Options{
		Return: func(w http.ResponseWriter, r *http.Request) string {
			return cmp.Or(d.signIn.Return(w, r), d.connect.back(w, r))
		},
		Project: d.consoleOf, Names: d.admin.ProjectNames,
		Depart: d.signIns.depart(d.connect),
		Off:    consoleOff(&o, local), Access: d.admin.Access(), Source: d.admin, Add: d.admin, Config: d.project.Current, Clients: d.project.ClientReports, Operate: d.project.Operate, Events: d.events, DemoClients: o.DemoClients, Log: o.Log,
		Program: o.Program, Path: o.Path, Machine: clientfile.Machine{OS: goruntime.GOOS, Env: o.Env},
	})
	d.connectAccess(e)
	d.metrics.WatchBudget(d.budget)
	d.metrics.WatchEndpoints(d.counts, d.guard)
	d.metrics.WatchServers(d.statuses)
	d.metrics.WatchPins(d.changedPins)
	d.metrics.WatchLimits(d.runtime.Refusals)
	d.metrics.WatchQuestions(d.questions)
	d.metrics.WatchTraces(d.traces)
	return d
}

// consoleOf returns what the console shows of a project other than default, if it's in use.
func (d *daemon) consoleOf(name string) (console.Project, bool) {
	api, p := d.admin.For(name)
	if api == nil {
		return console.Project{}, false
	}
	out := console.Project{Source: api, Config: p.Current, Clients: p.ClientReports, Operate: p.Operate, Gone: p.Gone()}
	if api.InStore() { // else it's added to in the configuration file
		out.Add = api
	}
	return out, true
}

// newGuard returns the guard for the names that the configuration and the options give this serve.
func newGuard(o *ServeOptions) *httpdoor.Guard {
	hosts, origins := slices.Concat(o.Config.Hosts, o.Hosts), slices.Clone(o.Config.Origins)
	if host, origin := o.Config.PublicHost(); host != "" {
		hosts, origins = append(hosts, host), append(origins, origin)
	}
	if host, origin := ownHost(cmp.Or(o.Listen, o.Config.Listen)); host != "" {
		hosts, origins = append(hosts, host), append(origins, origin)
	}
	g := httpdoor.NewGuard(hosts, origins, nil)
	g.LogTo(o.Log)
	return g
}

// connectAccess lets the console's visitors and the gate know of each other, and gives the console its own name on
// loopback.
func (d *daemon) connectAccess(e *entry) {
	a := d.admin.Access()
	a.VisitorsFrom(e.gate.Visitor)
	a.RolesFrom(e.gate.Roles)
	a.LoginAt(e.login, d.opts.Config.PublicURL)
	if d.local {
		e.gate.Own(a.Key())
	}
	if d.local && consoleOff(&d.opts, true) == "" {
		d.guard.Own(a.Name(), slices.Concat(admin.NamePaths, d.signIn.PagePaths(), d.connect.paths())...)
		d.guard.Explain(d.console.ServeFormer)
	}
}

// stateOf returns what a store says of itself, or nil if there is no store.
func stateOf(s *store.Store) func() store.State {
	if s == nil {
		return nil
	}
	return s.State
}

// clean is telemetry.LogOptions.Clean.
func (d *daemon) clean(project, server string) func(text string) string {
	if r := d.masks.Load(); r != nil {
		if p := r.Project(cmp.Or(project, event.DefaultProject)); p != nil {
			return p.Clean(server)
		}
	}
	return nil
}

// inFlight returns how many bytes of messages may be in memory with a configuration, and lets the
// process use the memory that they need.
func inFlight(s *config.Snapshot) int64 {
	n := runtime.InFlight(s.Limits.InFlight, s.Limits.Body)
	runtime.RaiseMemoryLimit(n)
	return n
}

// listFolder returns the folder in which the lists of the servers are kept, or "" if there is none, or
// if other users can write to it: they could tell our clients what a tool does. Like the key for the ids
// of tasks, the lists outlive a logout.
func listFolder(folders []string, log *slog.Logger) string {
	if len(folders) == 0 {
		return ""
	}
	above := folders[len(folders)-1]
	folder := filepath.Join(above, "lists")
	for _, f := range []string{above, folder} {
		if err := admin.CheckPrivate(f); err != nil && !errors.Is(err, fs.ErrNotExist) {
			log.Warn("the servers' lists could not be kept, so after the next start clients see them only when the servers are ready", "cause", f+": "+err.Error())
			return ""
		}
	}
	return folder
}

// onThisMachine returns the host and the port at which this machine reaches the listener. address is
// that of the listener.
func onThisMachine(address string) string {
	host, port, err := net.SplitHostPort(address)
	if ip := net.ParseIP(host); err != nil || ip == nil || !ip.IsUnspecified() {
		return address
	}
	return net.JoinHostPort("localhost", port)
}

// announce writes the key of the admin API to a file, and where this process listens to another, so
// that other commands of the current user find the process. address is that of the listener. The
// function forget removes the files. If other machines can reach the listener, the API doesn't
// accept this key, which then only proves who the process is.
func (d *daemon) announce(address string) (forget func()) {
	if len(d.opts.KeyFolders) == 0 {
		return func() {}
	}
	forget, err := admin.Announce(d.opts.KeyFolders, admin.Presence{
		Address: address, TLS: d.opts.cert != nil, Config: fullPath(d.opts.ConfigPath), Flagged: d.opts.Listen != "",
	}, d.admin.Access().Key())
	if err != nil {
		d.log.Warn("the key that other commands need could not be written", "cause", err.Error())
	}
	return forget
}

// counts returns the counters of each endpoint.
func (d *daemon) counts() (all []telemetry.Endpoint) {
	for _, e := range d.runtime.Endpoints().List() {
		overHTTP, overSSE := e.Counts()
		all = append(all, telemetry.Endpoint{Path: e.Path(), HTTP: overHTTP, SSE: overSSE})
	}
	return all
}

// statuses returns the state of the servers of each project. A server of default that others use is there
// once, as that of default.
func (d *daemon) statuses() map[string][]upstream.Status {
	out := map[string][]upstream.Status{}
	for _, p := range d.runtime.Projects() {
		out[p.Name()] = slices.DeleteFunc(p.Statuses(), func(s upstream.Status) bool { return p.Shares(s.Name) }) // each process once
	}
	return out
}

// lost adds a loss to the record of its call.
func (d *daemon) lost(e event.Event) {
	if p := d.runtime.Project(e.Project); p != nil {
		p.Calls().Lost(e.Call, e.Name, e.Detail)
	}
}

// needsRestart returns the names of the settings that differ between two configurations and
// cannot be applied while Dragoman runs.
func needsRestart(a, b *config.Snapshot) (names []string) {
	for _, x := range []struct {
		name string
		same bool
	}{
		{"listen", a.Listen == b.Listen},
		{"publicURL", a.PublicURL == b.PublicURL},
		{"tls", a.TLS == b.TLS},
		{"database", a.Database == b.Database},
		{"vault.key", a.VaultKey == b.VaultKey},
		{"sealKeys", a.SealKeys == b.SealKeys},
		{"cluster", a.Cluster == b.Cluster},
		{"egress.allow", slices.Equal(a.Egress.Allow, b.Egress.Allow)},
		{"access", reflect.DeepEqual(a.Access, b.Access)},
		{"allowedHosts", slices.Equal(a.Hosts, b.Hosts)},
		{"allowedOrigins", slices.Equal(a.Origins, b.Origins)},
		{"log", a.Log == b.Log},
		{"telemetry.traces", reflect.DeepEqual(a.Traces, b.Traces)},
		{"console", a.Console == b.Console},
	} {
		if !x.same {
			names = append(names, x.name)
		}
	}
	return names
}

// changedLater returns the settings in which next differs both from the configuration with which we
// started and from the current one. Of the others, an earlier reload has said that they need a restart.
func changedLater(start, current, next *config.Snapshot) []string {
	recent := needsRestart(current, next)
	return slices.DeleteFunc(needsRestart(start, next), func(name string) bool { return !slices.Contains(recent, name) })
}

// appliedNow returns the changed settings that Dragoman can apply without a restart.
func appliedNow(changed []string, old, next *config.Snapshot) []string {
	later := needsRestart(old, next)
	return slices.DeleteFunc(slices.Clone(changed), func(name string) bool { return slices.Contains(later, name) })
}

// unchangedAgain decides how a file change without effect is logged: at level debug if the previous
// such change was less than unchangedAgain ago, and otherwise at level info.
const unchangedAgain = 10 * time.Minute

// watch loads the configuration file and applies it when the file or a secret changes, when hup delivers a
// SIGHUP, or when reloads delivers a request. A configuration that equals the current configuration
// has no effect.
func (d *daemon) watch(ctx context.Context, hup <-chan os.Signal) {
	var running sync.WaitGroup
	defer running.Wait()
	reload := make(chan struct{}, 1)
	changed := func() {
		select {
		case reload <- struct{}{}:
		default:
		}
	}
	running.Go(func() {
		err := config.Watch(ctx, d.opts.ConfigPath, d.opts.Config, func([]byte) { changed() })
		if err != nil && ctx.Err() == nil {
			d.log.Warn("the configuration file is not watched for changes", "cause", err.Error())
		}
	})
	running.Go(func() { followSecrets(ctx, d.opts.store, d.homes.InFile, d.opts.read, changed) })
	w := watching{
		daemon: d,
		env:    envFile{log: d.log, changed: changed, running: &running},
		empty:  emptiness{patience: d.opts.secondLook, log: d.log},
	}
	w.env.follow(ctx, d.opts.Config.EnvFile)
	defer w.env.stop()
	defer w.empty.stop()
	for {
		sure := true
		var asked askedReload // without done if there is no request
		by := store.Through(ctx, "file")
		select {
		case <-ctx.Done():
			return
		case <-hup:
			by = store.Through(ctx, "signal")
		case <-w.empty.wait():
		case <-reload:
			sure = false
		case asked = <-d.reloads:
			by = asked.by
		}
		what, err := w.load(ctx, by, sure)
		w.tell(asked, what, err)
	}
}

// watching is what watch remembers from one load of the configuration file to the next.
type watching struct {
	*daemon
	env       envFile
	empty     emptiness
	unchanged time.Time // when the file was last loaded without a change of the configuration
	refused   string    // the last refusal published since a configuration was applied; "" if there is none
	untold    string    // what the last change did that was applied because the file has changed, if nobody has asked since
	applied   time.Time // when that was
}

// unchanged is the answer to who asks for a configuration that is in use already.
const unchanged = "The configuration is unchanged."

// justNow is how long a change counts as that of whoever asks for it.
const justNow = time.Minute

// tell answers who has asked. A command that changes the file asks then, and we may have seen the file before that: the
// change is applied, and who has made it still has to hear of it.
func (w *watching) tell(asked askedReload, what string, err error) {
	switch {
	case asked.done != nil:
		if what == unchanged && w.untold != "" && time.Since(w.applied) < justNow {
			what = w.untold
		}
		w.untold = ""
		asked.done <- reloaded{what, err}
	case err == nil && what != "" && what != unchanged:
		w.untold, w.applied = what, time.Now()
	}
}

// load loads the configuration file and applies it. It returns what has changed, in sentences, or why
// the file was refused. by has who wants it, and through what, for the act. sure is false if the file was loaded only
// because it or a secret has changed.
func (w *watching) load(ctx, by context.Context, sure bool) (what string, err error) {
	s, problems := w.opts.reread(ctx)
	if s != nil {
		w.env.follow(ctx, s.EnvFile)
	} else {
		w.env.follow(ctx, config.EnvFileOf(w.opts.ConfigPath)) // the configuration may become valid when its envFile changes
	}
	if s == nil || w.opts.Strict && problems.Err() != nil {
		w.empty.stop()
		err := problems.Refusal(w.opts.Strict)
		w.log.Error("the changed configuration is invalid; keeping the current one", "problems", err)
		w.refuse(refusalOf(err))
		return "", err
	}
	current := w.project.Current()
	switch w.empty.check(current, s, sure) {
	case emptyRefused:
		w.refuse("The file is empty. All servers stay. To remove all servers, write mcpServers: {}.")
		return "", errEmpty
	case emptyWaits:
		return "", nil
	}
	if s.Equal(current) {
		// The file may belong to an MCP client that also stores its history in the file. Such a client
		// writes the file very often.
		log := w.log.Info
		if !sure && time.Since(w.unchanged) < unchangedAgain {
			log = w.log.Debug
		}
		w.unchanged = time.Now()
		log("configuration is unchanged")
		w.refusal.Store(nil)
		return unchanged, nil
	}
	changes, later := s.Since(current), changedLater(w.opts.Config, current, s)
	changes.Settings = appliedNow(changes.Settings, current, s)
	if err := w.record(by, changesText(changes, later, nil)+changedProjects(current, s)); err != nil {
		w.log.Error("the changed configuration is refused, because it can't be recorded", "cause", err.Error())
		w.refuse("The changed configuration was refused, and the current one stays in use: " + err.Error() + ".")
		return "", err
	}
	return w.apply(ctx, changes, later, s, problems), nil
}

// apply replaces the current configuration with s. It reports and returns what has changed.
func (w *watching) apply(ctx context.Context, changes config.Changes, later []string, s *config.Snapshot, problems config.Problems) (what string) {
	news := newProblems(w.opts.Problems, problems, changes)
	w.opts.Problems = problems
	w.budget.SetLimit(inFlight(s))
	w.audit.Store(&s.Audit)
	projects := w.homes.applyFile(s)
	w.homes.Use(ctx)
	unusable, _ := w.homes.Problems()
	warnProblems(w.log, news)
	logChanges(w.log, changes, problems.In(""))
	logProjects(w.log, projects, problems)
	w.refused = ""
	w.refusal.Store(nil)
	what = changesText(changes, later, news.In("")) + projectsText(projects, unusable)
	w.publishReload(event.OK, what)
	if len(later) > 0 {
		w.log.Warn("some settings change only with a restart", "settings", strings.Join(later, " "))
	}
	w.warm()
	return what
}

// refuse keeps the current configuration, and reports why once: a program may write the same invalid
// file very often.
func (w *watching) refuse(why string) {
	w.refusal.Store(&admin.Refusal{Text: why, Since: time.Now().UTC()})
	if why != w.refused {
		w.publishReload(mcp.Failed, why)
	}
	w.refused = why
}

// reloaded is the result of a request to apply the configuration file: what has changed, in sentences,
// or why the file was refused.
type reloaded struct {
	what string
	err  error
}

// askedReload is a request to apply the configuration file. by is a context that says who has asked, and through what.
type askedReload struct {
	by   context.Context
	done chan<- reloaded
}

// reloader returns a function that applies the configuration file, and says what has changed when this
// is done. Without a configuration file, reloader returns nil.
func (d *daemon) reloader() func(context.Context) (string, error) {
	if d.opts.ConfigPath == "" {
		return nil
	}
	return func(ctx context.Context) (string, error) {
		done := make(chan reloaded, 1)
		select {
		case d.reloads <- askedReload{context.WithoutCancel(ctx), done}:
		case <-ctx.Done():
			return "", ctx.Err()
		}
		select {
		case r := <-done:
			return r.what, r.err
		case <-ctx.Done():
			return "", ctx.Err()
		}
	}
}

// drain ends requests that would never end by themselves.
func (d *daemon) drain() {
	d.runtime.Drain()
	d.admin.Drain()
	d.console.Drain()
}

// close stops all parts of the daemon and waits until they have stopped.
func (d *daemon) close() {
	limit := runtime.StopLimit
	if d.hurried.Load() {
		limit = hurriedLimit
	}
	d.console.Close()
	d.admin.Close()
	d.runtime.Close(limit)
	d.trail.Close()
	d.signIns.close()
	d.stopMetrics()
	d.stopCalls()
	d.calls.Close()
	d.traces.Close()
	d.shown.Close() // closed last, to log the events that the other parts publish while they close
}

// fullPath returns the full path of a file, or "" if path is "".
func fullPath(path string) string {
	if path == "" {
		return ""
	}
	full, err := filepath.Abs(path)
	if err != nil {
		return path
	}
	return full
}
