package cluster

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/base/work"
	"github.com/dragoman-mcp/dragoman/internal/team/sqldb"
	"github.com/dragoman-mcp/dragoman/internal/transport/httpdoor"
)

// Options say how a process becomes a replica. Log and Protocol are not required.
type Options struct {
	Database  string // the postgres:// URL of the store
	Schema    string // of our tables; "" means dragoman_cluster
	Name      string // up to 32 small letters, digits and hyphens; see NameOf
	Listen    string // the address at which we listen for other replicas
	Advertise string // the address where they reach us; if the port is 0, that at which we listen
	Version   string
	Protocol  int    // for tests, which make a replica say that it speaks another version; 0 means the constant
	Secret    []byte // is known to replicas alone, so that nobody becomes one by writing into the database
	Log       *slog.Logger

	rows rows // replaces the tables in tests
}

// Cluster is what a replica knows of the others, and what they know of it. Join makes one. Serve and Close must be
// called once, in this order.
type Cluster struct {
	o        Options
	rows     rows
	find     func(context.Context, *Member) finding // call; another one in tests
	hear     func(context.Context, *Member) word    // askStore; another one in tests
	reach    func(context.Context, *Member) bool    // reaches; another one in tests
	log      *slog.Logger
	listener net.Listener
	address  string
	server   *httpdoor.Server
	cert     tls.Certificate
	print    []byte

	me   atomic.Pointer[Member]
	view atomic.Pointer[view]

	sealer sealer
	seats  *seats
	fence  fence
	ways   ways
	term   atomic.Uint64 // how often we were called dead

	looking chan struct{} // a lock: contains one value while somebody reads the members
	forced  time.Time     // the last look that a request made necessary; has the lock looking
	astray  bool          // our clock isn't that of the database; has the lock looking
	judging atomic.Bool   // judge runs
	swept   time.Time     // when Exchange last forgot what's old

	mu       sync.Mutex
	state    State
	former   []string // our incarnations that were called dead; what they had is here still
	links    map[string]*link
	steady   time.Time // since when each heartbeat was written; zero while they fail
	problem  error     // why the last heartbeat failed
	stop     context.CancelFunc
	group    work.Group
	shutting sync.Once
}

// view is what the rows said at some moment. It never changes.
type view struct {
	members []Member
	by      map[string]*Member // by incarnation
}

// errListen is the error for an address at which we can't listen.
func errListen(address string, cause error) error {
	return &sqldb.Error{
		Text: fmt.Sprintf("dragoman can't listen for other replicas at %s: %v", address, cause),
		Next: "set dragoman.cluster.listen to an address of this machine at which nothing else listens",
	}
}

// Join opens the listener for other replicas, and then writes that this process is one of them. The error is a
// *sqldb.Error if the address or the database can't be used, or if a replica runs that this one can't be beside.
func Join(ctx context.Context, o Options) (*Cluster, error) {
	c, err := newCluster(o)
	if err != nil {
		return nil, err
	}
	if c.cert, c.print, err = newCertificate(); err != nil {
		return nil, err
	}
	if c.listener, err = net.Listen("tcp", o.Listen); err != nil {
		return nil, errListen(o.Listen, err)
	}
	c.address = advertised(o.Advertise, c.listener.Addr())
	if c.rows == nil {
		c.rows, err = open(ctx, o.Database, o.Schema, o.Secret)
	}
	if err == nil {
		err = c.join(ctx)
	}
	if err != nil {
		_ = c.listener.Close()
		if c.rows != nil {
			_ = c.rows.Close()
		}
		return nil, err
	}
	return c, nil
}

// errTooFar is the error for a replica with a version of the protocol that can't be beside other, which runs.
func errTooFar(other *Member, protocol int, version string) error {
	next := "update to a version of dragoman in between first, or stop all replicas before you start this one"
	if protocol < other.Protocol {
		next = "use a newer dragoman, or stop all replicas before you start this one"
	}
	return &sqldb.Error{
		Text: fmt.Sprintf("dragoman %s can't be a replica beside %s, which runs dragoman %s: they speak versions %d and %d of the protocol between replicas, which may differ by one", version, other.Name, other.Version, protocol, other.Protocol),
		Next: next,
	}
}

// newCluster returns a Cluster that nobody knows yet.
func newCluster(o Options) (*Cluster, error) {
	c := &Cluster{seats: newSeats(), o: o, log: cmp.Or(o.Log, slog.New(slog.DiscardHandler)), rows: o.rows, state: Ready, looking: make(chan struct{}, 1), links: map[string]*link{}, stop: func() {}}
	c.find, c.hear, c.reach = c.call, c.askStore, c.reaches
	c.view.Store(&view{})
	var err error
	c.sealer, err = newSealer(o.Secret)
	return c, err
}

// advertised returns the address where others reach a listener.
func advertised(said string, at net.Addr) string {
	host, port, err := net.SplitHostPort(said)
	_, real, _ := net.SplitHostPort(at.String())
	if err == nil && port == "0" {
		return net.JoinHostPort(host, real)
	}
	return said
}

// join adds a row for a new incarnation, and reads the members. It refuses if it can't be beside one of them.
func (c *Cluster) join(ctx context.Context) error {
	protocol := cmp.Or(c.o.Protocol, Protocol)
	if err := c.look(ctx); err != nil {
		return err
	}
	if other := tooFar(c.Members(), protocol); other != nil {
		return errTooFar(other, protocol, c.o.Version)
	}
	m := &Member{Incarnation: rand.Text()[:incarnationLength], Name: c.o.Name, Address: c.address, Fingerprint: c.print, Protocol: protocol, Version: c.o.Version, State: c.doing()}
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	began := time.Now()
	if err := c.rows.join(ctx, m); err != nil {
		return err
	}
	c.mu.Lock()
	if was := c.me.Swap(m); was != nil {
		c.former = append(c.former, was.Incarnation)
	}
	c.steady = time.Now()
	c.mu.Unlock()
	c.fence.note(began, time.Time{})
	return c.look(ctx)
}

// Serve answers other replicas, and keeps the row of this one and its view of the others up to date until Close. handler
// gets the requests that another replica has passed on, as they came: it has to ask who sends them. Their contexts are
// made from base.
func (c *Cluster) Serve(base context.Context, handler http.Handler) {
	ctx, cancel := context.WithCancel(context.Background())
	c.stop = cancel
	c.server = httpdoor.NewHTTPServer(c.door(handler))
	c.server.BaseContext = func(net.Listener) context.Context { return base }
	c.server.TLSConfig = c.serverTLS()
	c.server.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelDebug) // strangers could fill the log
	c.group.Go(func() { _ = c.server.ServeTLS(c.listener, "", "") })
	c.group.Go(func() { c.live(ctx) })
	c.group.Go(func() { c.writeSeats(ctx) })
	c.group.Go(func() { c.ask(ctx) })
}

// Drain says that this replica ends its calls, and stops then. Requests for it still come. Drain looks who else is there,
// since a replica that came a moment ago is an heir, too. If the database doesn't answer, we go on with what we know.
func (c *Cluster) Drain(ctx context.Context) {
	c.mu.Lock()
	c.state = Draining
	c.mu.Unlock()
	_ = c.look(ctx)
}

// Close says that this replica has stopped. Then it closes the listener for others, which is the last that they see.
func (c *Cluster) Close() {
	c.shutting.Do(func() {
		c.stop()
		ctx, cancel := context.WithTimeout(context.Background(), 2*within)
		defer cancel()
		c.mu.Lock()
		c.state = Gone
		c.mu.Unlock()
		_ = c.writeDue(ctx)
		if _, err := c.rows.beat(ctx, c.me.Load().Incarnation, Gone, false); err == nil && c.server != nil && c.hasOthers() { // if it fails, others bury us
			// Until all have seen it, they send requests, which a closed connection could lose.
			_ = work.Sleep(ctx, lookEvery+lookEvery/4)
		}
		if c.server != nil {
			_ = c.server.Shutdown(ctx) // the last answers are on their way
			_ = c.server.Close()
		}
		_ = c.listener.Close()
		c.group.Wait()
		c.closeLinks(func(string) (over, cut bool) { return true, true })
		_ = c.rows.Close()
	})
}

// hasOthers reports whether there are other replicas that live.
func (c *Cluster) hasOthers() bool {
	me := c.me.Load().Incarnation
	return slices.ContainsFunc(c.Members(), func(m Member) bool { return m.Lives() && m.Incarnation != me })
}

func (c *Cluster) doing() State {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.state
}

// live writes heartbeats and reads the members until ctx ends.
func (c *Cluster) live(ctx context.Context) {
	looked := time.Now()
	for work.Sleep(ctx, beatEvery) == nil {
		c.beat(ctx)
		if time.Since(looked) >= lookEvery-beatEvery/2 {
			looked = time.Now()
			if c.look(ctx) == nil {
				c.judge(ctx)
				c.try(ctx)
			}
		}
	}
}

// beat writes that this replica lives. If its row says that it doesn't, it goes on under another incarnation.
func (c *Cluster) beat(ctx context.Context) {
	limited, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	me, began := c.me.Load(), time.Now()
	alive, err := c.rows.beat(limited, me.Incarnation, c.doing(), c.ways.reaches())
	if err == nil && !alive && c.doing() != Gone {
		c.log.Warn("another replica has called this one dead, so it goes on under another incarnation", "incarnation", me.Incarnation)
		c.term.Add(1) // before somebody can take what was there for what we have now
		c.seats.forget()
		err = c.join(ctx)
	} else if err == nil {
		c.fence.note(began, time.Time{})
	}
	if ctx.Err() != nil {
		return
	}
	if err != nil {
		c.endure(ctx)
	}
	c.mu.Lock()
	before := c.problem
	if c.problem = err; err != nil {
		c.steady = time.Time{}
	} else if c.steady.IsZero() {
		c.steady = time.Now()
	}
	c.mu.Unlock()
	switch {
	case err != nil && before == nil:
		c.log.Warn("the replicas' database cannot be reached; this one goes on with the members that it knows", "cause", err.Error())
	case err == nil && before != nil:
		c.log.Info("the replicas' database can be reached again")
		c.compareSoon()
	}
}

// endure finds out what it means that a heartbeat couldn't be written.
func (c *Cluster) endure(ctx context.Context) {
	asked := time.Now()
	if c.excuse(ctx) {
		c.fence.note(time.Time{}, asked)
	}
}

// look reads the members.
func (c *Cluster) look(ctx context.Context) error {
	select {
	case c.looking <- struct{}{}:
		defer func() { <-c.looking }()
	case <-ctx.Done():
		return ctx.Err()
	}
	return c.read(ctx)
}

// read does the same with the lock looking.
func (c *Cluster) read(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	began := time.Now()
	list, err := c.rows.members(ctx)
	if err != nil {
		return err
	}
	if len(list) > 0 && !list[0].clock.IsZero() {
		c.compareClocks(list[0].clock, began, time.Now())
	}
	v := &view{list, make(map[string]*Member, len(list))}
	for i := range list {
		v.by[list[i].Incarnation] = &list[i]
	}
	c.view.Store(v)
	c.closeLinks(func(name string) (over, cut bool) {
		m := v.by[name]
		return m == nil || !m.Lives(), m == nil || m.State != Gone // who has gone still answers what it has got
	})
	return nil
}

// compareClocks reports once if the database said a time that can't have been one between two others by our clock. The
// caller has the lock looking.
func (c *Cluster) compareClocks(database, began, ended time.Time) {
	astray := database.Before(began.Add(-clockLimit)) || database.After(ended.Add(clockLimit))
	if astray && !c.astray {
		c.log.Warn("the clocks of this machine and of the database differ; let a time server set them", "seconds", int(began.Sub(database).Seconds()))
	}
	c.astray = astray
}

// closeLinks closes the links to replicas that are over. What goes on with them is cut off, or ends by itself.
func (c *Cluster) closeLinks(which func(incarnation string) (over, cut bool)) {
	var ended []*link
	c.mu.Lock()
	maps.DeleteFunc(c.links, func(name string, l *link) bool {
		over, cut := which(name)
		if over {
			ended = append(ended, l)
		}
		if over && cut {
			l.end()
		}
		return over
	})
	c.mu.Unlock()
	for _, l := range ended {
		l.origin.CloseIdleConnections()
	}
}

// lookAgain reads the members, because a request needs one that we don't know. At most one look a second comes from
// that, whatever clients make up.
func (c *Cluster) lookAgain(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	select {
	case c.looking <- struct{}{}:
		defer func() { <-c.looking }()
	case <-ctx.Done():
		return
	}
	if time.Since(c.forced) >= time.Second {
		_ = c.read(ctx) // if it fails, we go on with what we know
		c.forced = time.Now()
	}
}

// member returns a replica that lives, or nil.
func (c *Cluster) member(ctx context.Context, incarnation string) *Member {
	m := c.view.Load().by[incarnation]
	if m == nil {
		c.lookAgain(ctx)
		m = c.view.Load().by[incarnation]
	}
	if m == nil || !m.Lives() {
		return nil
	}
	return m
}

// judge calls those that seem to be dead, and buries those that are.
func (c *Cluster) judge(ctx context.Context) {
	c.mu.Lock()
	since := c.steady
	c.mu.Unlock()
	if since.IsZero() {
		return
	}
	steady, me := time.Since(since), c.me.Load().Incarnation
	var all []*Member
	for i := range c.view.Load().members {
		if m := &c.view.Load().members[i]; m.Incarnation != me && suspect(m, steady) {
			all = append(all, m)
		}
	}
	if len(all) == 0 || !c.judging.CompareAndSwap(false, true) {
		return
	}
	if !c.group.Go(func() {
		defer c.judging.Store(false)
		for _, m := range all {
			c.judgeOne(ctx, m, steady)
		}
	}) {
		c.judging.Store(false)
	}
}

func (c *Cluster) judgeOne(ctx context.Context, m *Member, steady time.Duration) {
	if !buries(m, steady, c.find(ctx, m)) {
		return
	}
	limited, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	if done, err := c.rows.bury(limited, m); err == nil && done {
		c.log.Warn("a replica is dead: it has written nothing and doesn't answer", "replica", m.Name, "address", m.Address, "seconds", int(m.Silence.Seconds()))
		_ = c.look(ctx)
	}
}

// Members returns all replicas that are known, the oldest first, also those that ended in the last day. The caller must
// not change them.
func (c *Cluster) Members() []Member { return c.view.Load().members }

// Self returns what this replica is. State may be older than a second.
func (c *Cluster) Self() Member {
	me := *c.me.Load()
	me.State = c.doing()
	return me
}

// Problem returns why this replica can't write into the database now, or nil.
func (c *Cluster) Problem() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.problem
}

// Mark implements transport.Places.
func (c *Cluster) Mark(id string) string {
	me := c.me.Load()
	return mark(me.Name, me.Incarnation) + "." + id
}

// Of implements transport.Places.
func (c *Cluster) Of(id string) string {
	home := homeOf(id)
	if home == "" || c.mine(home) {
		return ""
	}
	return home
}

// mine reports whether this process is, or was, an incarnation.
func (c *Cluster) mine(incarnation string) bool {
	if c.me.Load().Incarnation == incarnation {
		return true
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Contains(c.former, incarnation)
}

// errUnreachable says why another replica could not be reached.
var errUnreachable = errors.New("the replica cannot be reached")
