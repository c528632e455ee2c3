package signin

import (
	"context"
	"crypto/rand"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/base/secret"
	"github.com/dragoman-mcp/dragoman/internal/base/work"
	"github.com/dragoman-mcp/dragoman/internal/team/egress"
	"github.com/dragoman-mcp/dragoman/internal/team/store"
)

// Options are what a Desk works with.
type Options struct {
	// Open returns the store. It's called when the store is first needed, and again if it has failed. Whoever
	// has opened the store closes it, after the Desk.
	Open func(context.Context) (*store.Safe, error)
	// Known makes the Desk open the store at once, so that a credential that is there goes with the first request.
	// Otherwise the store stays closed until a server has refused one.
	Known bool
	// Egress makes the requests to issuers.
	Egress *egress.Client
	// Browser opens a URL for the person in front of this machine. If it's nil, nobody is.
	Browser func(ctx context.Context, url string) error
	// AtOnce begins a sign-in, and opens the browser, when a server no longer takes a credential that this process has
	// used for the local user. It does that once for each credential, and opens none if somebody shows the link meanwhile.
	AtOnce bool
	// Alone says that nobody but the local user uses this process.
	Alone bool
	// Public is the URL at which browsers reach this process from everywhere, and at which the answer of an
	// issuer is passed to Desk.Finish. "" means a port of this machine.
	Public string
	// Back returns where a browser goes on that has come to a port of this machine with the answer for the flow with
	// an ID, or "" if it stays there. It may be nil.
	Back func(id string) string
	// Log gets a record of each sign-in that ends.
	Log *slog.Logger

	step  func(name string) // is called at the steps at which a test kills the process
	alive time.Duration     // replaces the constant in tests
}

// Desk signs in to servers. Close it after use. It is safe for concurrent use.
type Desk struct {
	o   Options
	log *slog.Logger
	me  string // the owner of this process's leases

	safe    atomic.Pointer[store.Safe]
	opening chan struct{} // a lock: contains one value while the store is opened

	ctx   context.Context // ends with Close
	stop  context.CancelFunc
	group work.Group

	mu      sync.Mutex
	flows   map[store.SignIn]*Flow
	flights map[store.SignIn]*flight
	doors   map[int]*door
	servers map[*Server]struct{}
	changed chan struct{} // closed and replaced when somebody has signed in or out
	changes map[store.SignIn]int
}

// New returns a Desk.
func New(o Options) *Desk {
	d := &Desk{
		o: o, log: o.Log, me: rand.Text(), opening: make(chan struct{}, 1), changed: make(chan struct{}),
		flows: map[store.SignIn]*Flow{}, flights: map[store.SignIn]*flight{}, doors: map[int]*door{}, servers: map[*Server]struct{}{}, changes: map[store.SignIn]int{},
	}
	if d.log == nil {
		d.log = slog.New(slog.DiscardHandler)
	}
	if d.o.step == nil {
		d.o.step = func(string) {}
	}
	if d.o.alive == 0 {
		d.o.alive = alive
	}
	d.ctx, d.stop = context.WithCancel(context.Background())
	if o.Known {
		_, _ = d.open(d.ctx) // if that fails, whoever needs it hears of it
	}
	return d
}

// Close ends all sign-ins of this process and waits for its goroutines. What other processes need stays in the
// store.
func (d *Desk) Close() {
	d.stop()
	d.group.Wait()
}

// Opened returns the store, or nil if nobody has needed it yet.
func (d *Desk) Opened() *store.Safe { return d.safe.Load() }

// open is Safe with an error for those who sign in.
func (d *Desk) open(ctx context.Context) (*store.Safe, error) {
	s, err := d.Safe(ctx)
	if err == nil || errors.Is(err, ErrClosed) || ctx.Err() != nil {
		return s, err
	}
	says, next := Explain(err)
	return nil, &Problem{Says: "sign-ins cannot be read: " + says, Next: next, Err: err}
}

// Safe returns the store, and opens it if that wasn't done yet.
func (d *Desk) Safe(ctx context.Context) (*store.Safe, error) {
	if s := d.safe.Load(); s != nil {
		return s, nil
	}
	select {
	case d.opening <- struct{}{}:
		defer func() { <-d.opening }()
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	if s := d.safe.Load(); s != nil {
		return s, nil
	}
	if d.ctx.Err() != nil {
		return nil, ErrClosed
	}
	s, err := d.o.Open(ctx)
	if err != nil {
		return nil, err
	}
	d.safe.Store(s)
	d.group.Go(func() { d.watch(s.Store()) })
	return s, nil
}

// watch tells those who wait for Changed when a credential has come or gone, here or in another process.
func (d *Desk) watch(s *store.Store) {
	old := s.Snapshot()
	for {
		select {
		case <-d.ctx.Done():
			return
		case <-old.Replaced():
		}
		now := s.Snapshot()
		if now.SameCredentials(old) {
			old = now
			continue
		}
		if changed := changedSignIns(old, now); len(changed) > 0 {
			d.mu.Lock()
			for of := range changed {
				d.changes[of]++
			}
			close(d.changed)
			d.changed = make(chan struct{})
			d.mu.Unlock()
			d.revokeGone(old, now)
		}
		old = now
	}
}

// revokeGone revokes the tokens of those who have been signed out without SignOut, because the person or the project was
// removed. Only a process that has the store open all the time hears of that, such as serve. Several may ask the issuer,
// which makes no difference (RFC 7009 §2.2).
func (d *Desk) revokeGone(old, now *store.Snapshot) {
	if !d.o.Known {
		return
	}
	for _, row := range old.AllCredentials() {
		if row.Spent || len(now.Credentials(row.SignIn)) > 0 {
			continue
		}
		d.group.Go(func() {
			ctx, stop := context.WithTimeout(d.ctx, revokeWithin)
			defer stop()
			var k keptCredential
			if reveal(ctx, d.safe.Load(), &row, row.Sealed, &k) == nil {
				_ = d.revoke(ctx, d.server(row.SignIn), row, &k) // best effort: nobody waits for it
			}
		})
	}
}

// changedSignIns returns where people have signed in or out. That a credential was renewed is no difference.
func changedSignIns(a, b *store.Snapshot) map[store.SignIn]bool {
	type state struct {
		store.SignIn
		spent bool
		since int64
	}
	count := map[state]int{}
	for _, x := range a.AllCredentials() {
		count[state{x.SignIn, x.Spent, x.Since.UnixNano()}]++
	}
	for _, x := range b.AllCredentials() {
		count[state{x.SignIn, x.Spent, x.Since.UnixNano()}]--
	}
	changed := map[store.SignIn]bool{}
	for x, n := range count {
		if n != 0 {
			changed[x.SignIn] = true
		}
	}
	return changed
}

// Changes returns how often somebody has signed in or out at one place since the store was opened.
func (d *Desk) Changes(of store.SignIn) int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.changes[of]
}

// Changed returns a channel that is closed when somebody has signed in or out, here or in another process.
func (d *Desk) Changed() <-chan struct{} {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.changed
}

// Has reports whether somebody is signed in. It reads what is known, and opens nothing.
func (d *Desk) Has(of store.SignIn) bool {
	s := d.safe.Load()
	if s == nil {
		return false
	}
	for _, x := range s.Store().Snapshot().Credentials(of) {
		if !x.Spent {
			return true
		}
	}
	return false
}

// Entry is a sign-in, for people.
type Entry struct {
	store.SignIn
	Issuer string
	Until  time.Time // of the token; zero if nobody knows
	Renews bool      // it's renewed by itself
	Spent  bool      // the person must sign in again
	Since  time.Time
}

// SignedIn returns all sign-ins, sorted by project, server and subject.
func (d *Desk) SignedIn(ctx context.Context) (all []Entry, err error) {
	safe, err := d.open(ctx)
	if err != nil {
		return nil, err
	}
	var last store.SignIn
	for _, x := range safe.Store().Snapshot().AllCredentials() {
		if x.SignIn != last || len(all) == 0 { // the newest comes first
			all = append(all, Entry{x.SignIn, x.Issuer, x.Until, x.Renews, x.Spent, x.Since})
		}
		last = x.SignIn
	}
	return all, nil
}

// revokeWithin is how long the issuer may take to revoke tokens.
const revokeWithin = 10 * time.Second

// SignOut forgets the credentials of a sign-in and ends one that is under way. Then it asks the issuer to revoke the
// tokens, which may fail: they're forgotten anyway. It reports whether there was something, and whether
// everything was revoked.
func (d *Desk) SignOut(ctx context.Context, actor string, of store.SignIn) (there, revoked bool, err error) {
	safe, err := d.open(ctx)
	if err != nil {
		return false, false, err
	}
	var gone []store.Credential
	err = safe.Store().Write(ctx, actor, func(t *store.Tx) (err error) {
		if x, ok := safe.Store().Snapshot().Flow(of); ok {
			if _, err := t.EndFlow(x.ID, "the person has signed out"); err != nil {
				return err
			}
		}
		gone, err = t.RemoveCredentials(of)
		return err
	})
	if err != nil {
		return false, false, err
	}
	ctx, stop := context.WithTimeout(ctx, revokeWithin)
	defer stop()
	revoked = true
	for _, row := range gone {
		var k keptCredential
		err := reveal(ctx, safe, &row, row.Sealed, &k)
		if err == nil {
			err = d.revoke(ctx, d.server(of), row, &k)
		}
		revoked = revoked && err == nil
	}
	return len(gone) > 0, revoked, nil
}

// revoke asks the issuer to revoke the tokens of a credential. s is its server, or nil if this process doesn't
// know it.
func (d *Desk) revoke(ctx context.Context, s *Server, row store.Credential, k *keptCredential) error {
	t, err := newToken(row, k)
	if err != nil {
		return err
	}
	e := t.endpoint(d, s)
	for _, x := range []struct {
		text secret.Text
		hint string
	}{{t.refresh, "refresh_token"}, {t.access, "access_token"}} {
		if x.text.Reveal() == "" {
			continue
		}
		if revokeErr := e.Revoke(ctx, x.text, x.hint); revokeErr != nil {
			err = revokeErr
		}
	}
	return err
}

// server returns the server of a sign-in, or nil if this process doesn't know it.
func (d *Desk) server(of store.SignIn) *Server {
	d.mu.Lock()
	defer d.mu.Unlock()
	for s := range d.servers {
		if s.project == of.Project && s.id == of.Server {
			return s
		}
	}
	return nil
}
