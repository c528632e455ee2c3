package signin

import (
	"context"
	"crypto/rand"
	"errors"
	"net/url"
	"strings"
	"sync/atomic"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/base/secret"
	"github.com/dragoman-mcp/dragoman/internal/base/work"
	"github.com/dragoman-mcp/dragoman/internal/team/signin/oauth"
	"github.com/dragoman-mcp/dragoman/internal/team/store"
)

const (
	flowTime    = 10 * time.Minute // for the person
	prepareTime = time.Minute      // for discovery and registration
	// alive is after which time without a sign of life the process that prepares or finishes a flow is
	// taken for dead.
	alive = 5 * time.Second
	// tabTime is for how long a tab keeps the tabs of other servers waiting.
	tabTime = 2 * time.Minute
	// finishTime is how long a callback may take to become a credential.
	finishTime = askTime + leaseTime
)

// Flow is a sign-in that is under way, as one process sees it. Other processes may take part in the same one.
// It is safe for concurrent use.
type Flow struct {
	d  *Desk
	s  *Server
	of store.SignIn

	tab   atomic.Bool   // this process shall open a browser
	own   atomic.Bool   // this process has begun the flow by itself; see Options.AtOnce
	asked atomic.Bool   // somebody has asked for it, and has the link
	ready chan struct{} // closed when row and kept are set
	row   store.Flow
	kept  keptFlow
	done  chan struct{} // closed when err is set
	err   error

	life context.Context // ends with the flow
	end  context.CancelFunc
}

// Begin begins a sign-in, or joins the one that is under way, in whichever process that was begun. It returns when
// the link is known. With browser, this process opens a browser for it, unless another one has done so already or has
// yet to finish one before. If there's a credential that the server hasn't refused, the flow has ended already, and
// has no link.
func (s *Server) Begin(ctx context.Context, of store.SignIn, browser bool) (*Flow, error) {
	if !s.Person() {
		return nil, &Problem{Says: "nobody signs in at server " + quote(s.name) + ", because its tokens come from elsewhere", Next: "see `how` in `signIn`"}
	}
	if s.settled(ctx, of) {
		f := &Flow{d: s.d, s: s, of: of, done: make(chan struct{})}
		close(f.done)
		return f, nil
	}
	return s.begin(ctx, of, browser)
}

func (s *Server) begin(ctx context.Context, of store.SignIn, browser bool) (*Flow, error) {
	f, err := s.d.join(s, of)
	if err != nil {
		return nil, err
	}
	f.asked.Store(true)
	if browser {
		f.Browse()
	}
	select {
	case <-f.ready:
		if f.s != s && !s.settings.leadTo(&f.kept) {
			return s.instead(ctx, f, browser)
		}
		return f, nil
	case <-f.done:
		if f.err != nil {
			return nil, f.err
		}
		return f, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// instead begins a flow in the place of one that this process began before its configuration was changed.
func (s *Server) instead(ctx context.Context, old *Flow, browser bool) (*Flow, error) {
	safe, err := s.d.open(ctx)
	if err == nil {
		err = s.d.fail(ctx, safe, old.row.ID, errChanged)
	}
	if err != nil {
		return nil, err
	}
	select {
	case <-old.done:
		return s.begin(ctx, old.of, browser)
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// join returns the flow of a sign-in in this process, and begins one if there is none.
func (d *Desk) join(s *Server, of store.SignIn) (*Flow, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if f := d.flows[of]; f != nil {
		return f, nil
	}
	f := &Flow{d: d, s: s, of: of, ready: make(chan struct{}), done: make(chan struct{})}
	f.life, f.end = context.WithCancel(d.ctx)
	d.flows[of] = f
	if !d.group.Go(f.run) {
		f.end()
		delete(d.flows, of)
		return nil, ErrClosed
	}
	return f, nil
}

// Browse makes this process open a browser for the link, as Begin says.
func (f *Flow) Browse() { f.tab.Store(true) }

// Link returns the address of the issuer that the person has to open.
func (f *Flow) Link() string { return f.kept.Link }

// Issuer returns the host that signs people in.
func (f *Flow) Issuer() string { return hostOf(f.kept.Issuer.Issuer) }

// Until returns when the link is no longer good.
func (f *Flow) Until() time.Time { return f.row.Until }

// Scopes returns what is asked for.
func (f *Flow) Scopes() []string { return f.kept.Scopes }

// Port returns the port of this machine at which the browser's answer is expected, or 0.
func (f *Flow) Port() int { return portOf(f.kept.Redirect) }

// Done returns a channel that is closed when the flow has ended.
func (f *Flow) Done() <-chan struct{} { return f.done }

// Err returns why a flow that has ended has failed, or nil.
func (f *Flow) Err() error {
	select {
	case <-f.done:
		return f.err
	default:
		return nil
	}
}

// Wait waits until the person has signed in, and returns nil then.
func (f *Flow) Wait(ctx context.Context) error {
	select {
	case <-f.done:
		return f.err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Paste finishes the flow with the address to which the issuer has sent a browser that can't reach this machine. If
// the flow goes on after an error, another address may be pasted.
func (f *Flow) Paste(ctx context.Context, text string) error {
	q, err := oauth.ReadPasted(text)
	if err != nil {
		return err
	}
	if flowID(q.Get("state")) != f.row.ID {
		return &Problem{Says: "this address belongs to another sign-in", Next: "open the link of this one, and paste the address to which it leads", Err: oauth.ErrNotOurs}
	}
	if err := f.d.Finish(ctx, "", q); err != nil {
		if !errors.Is(err, oauth.ErrNotOurs) {
			heard, stop := context.WithTimeout(ctx, alive) // it has ended, which we hear through the store
			defer stop()
			_ = f.Wait(heard)
		}
		return err
	}
	return f.Wait(ctx)
}

// HasDevice reports whether the issuer has the device flow.
func (f *Flow) HasDevice() bool { return f.kept.Issuer.Device != "" }

// Device begins the device flow beside the other ways (RFC 8628): the person types a code on another machine.
func (f *Flow) Device(ctx context.Context) (oauth.Device, error) {
	if !f.HasDevice() {
		return oauth.Device{}, &Problem{Says: "the issuer " + f.Issuer() + " has no sign-in with a code", Next: "open the link in a browser, and paste the address to which it leads"}
	}
	e, r, err := f.d.redeemer(f.of, &f.kept)
	if err != nil {
		return oauth.Device{}, err
	}
	dev, err := e.StartDevice(ctx, r.Resource, r.Scopes)
	if err != nil {
		return dev, err
	}
	ok := f.d.group.Go(func() {
		ctx, stop := context.WithDeadline(f.life, dev.Until)
		defer stop()
		t, err := e.AwaitDevice(ctx, dev, r.Resource, r.Scopes)
		if ctx.Err() == nil {
			_ = f.d.finished(ctx, f.row, &f.kept, t, err) // it's in the log, and in the outcome
		}
	})
	if !ok {
		return dev, ErrClosed
	}
	return dev, nil
}

// run takes part in the sign-in until it has ended.
func (f *Flow) run() {
	d := f.d
	safe, err := d.open(d.ctx)
	if err == nil {
		err = f.take(safe)
	}
	if err == nil {
		err = f.follow(safe)
	}
	if own := (*store.Error)(nil); errors.As(err, &own) && !errors.As(err, new(*Problem)) {
		err = &Problem{Says: "the sign-in cannot be kept: " + own.Text, Next: own.Next, Err: err}
	}
	d.mu.Lock()
	delete(d.flows, f.of)
	d.mu.Unlock()
	f.err = err
	f.end()
	close(f.done)
}

// take finds the flow in the store, or prepares it.
func (f *Flow) take(safe *store.Safe) error {
	d := f.d
	waited := "" // the id of the flow that another process was preparing
	for {
		if err := safe.Store().Refresh(d.ctx); err != nil {
			return err
		}
		snap, now := safe.Store().Snapshot(), time.Now()
		row, there := snap.Flow(f.of)
		switch {
		case there && row.ID == waited && row.Outcome != "":
			return failed(row.Outcome)
		case there && row.Open(now) && row.Ready() && !d.stuck(&row, now):
			f.row = row
			err := reveal(d.ctx, safe, &row, row.Sealed, &f.kept)
			if err != nil || f.s.settings.leadTo(&f.kept) {
				return err
			}
			// Its page may be one on which the issuer refuses the client that was configured before, and
			// then nobody would ever come back from there.
			if err := d.fail(d.ctx, safe, row.ID, errChanged); err != nil {
				return err
			}
		case there && row.Open(now) && !row.Ready():
			waited = row.ID
			if err := waitFor(d.ctx, snap, lookEvery); err != nil {
				return err
			}
			continue
		case there && d.stuck(&row, now):
			if err := d.fail(d.ctx, safe, row.ID, &Problem{Says: stuckText}); err != nil {
				return err
			}
		}
		mine := store.Flow{ID: "preparing " + rand.Text(), SignIn: f.of, Until: now.Add(d.o.alive)}
		began := false
		err := safe.Store().Write(d.ctx, d.me, func(x *store.Tx) (err error) {
			began, err = x.BeginFlow(mine, now)
			return err
		})
		if err != nil {
			return err
		}
		if began {
			if done, err := f.prepare(safe, mine); done || err != nil {
				return err
			}
		}
	}
}

// errChanged is the outcome of a flow that was begun with other settings than those of now.
var errChanged = &Problem{Says: "the settings of this sign-in have changed", Next: "sign in again"}

// stuckText is the outcome of a flow whose callback came to a process that was ended then.
const stuckText = "the dragoman process that the browser had answered was ended before it was done"

// stuck reports whether the process that got the browser's answer is gone.
func (d *Desk) stuck(row *store.Flow, now time.Time) bool {
	return row.Outcome == "" && !row.Taken.IsZero() && now.Sub(row.Taken) > d.o.alive
}

// prepare makes a flow that is ready for a browser of one that others wait for. done is false if another process
// has taken this one for dead.
func (f *Flow) prepare(safe *store.Safe, mine store.Flow) (done bool, err error) {
	d := f.d
	ctx, stop := context.WithTimeout(d.ctx, prepareTime)
	defer stop()
	err = d.beating(ctx, safe, func(x *store.Tx, now time.Time) error {
		_, err := x.ExtendFlow(mine.ID, now.Add(d.o.alive))
		return err
	}, func() error { return f.discover(ctx, safe) })
	if err == nil {
		d.o.step("before browser")
		row := store.Flow{ID: flowID(f.kept.State), SignIn: f.of, Began: time.Now().Truncate(time.Millisecond), Until: time.Now().Add(flowTime)}
		err = safe.Keep(ctx, d.me, &row, pack(&f.kept), func(x *store.Tx, sealed []byte) (err error) {
			row.Sealed = sealed
			done, err = x.ReadyFlow(mine.ID, row)
			return err
		})
		f.row = row
	}
	if err != nil {
		_ = d.fail(context.WithoutCancel(ctx), safe, mine.ID, err)
	}
	return done, err
}

// beating does something, and shows other processes by sign that this one isn't dead.
func (d *Desk) beating(ctx context.Context, safe *store.Safe, sign func(*store.Tx, time.Time) error, do func() error) error {
	ended := make(chan struct{})
	var beats work.Group
	beats.Go(func() {
		t := time.NewTicker(d.o.alive / 5)
		defer t.Stop()
		for {
			select {
			case <-ended:
				return
			case <-t.C:
				_ = safe.Store().Write(ctx, d.me, func(x *store.Tx) error { return sign(x, time.Now()) })
			}
		}
	})
	err := do()
	close(ended)
	beats.Wait()
	return err
}

// discover finds the issuer, gets a client there, and makes the link.
func (f *Flow) discover(ctx context.Context, safe *store.Safe) error {
	s := f.s
	a := s.account(f.of.Subject)
	c := a.challenge()
	if c.Scheme == "" {
		near, err := s.near(ctx)
		if err != nil {
			return at(StepChallenge, err)
		}
		c = s.probe(ctx, near)
	}
	a.noteChallenge(c)
	found, err := s.discover(ctx, c)
	if err != nil {
		return err
	}
	a.noteFound(&found)
	redirect, err := f.d.redirect(ctx, safe, s.settings.Callback)
	if err != nil {
		return at(StepBrowser, err)
	}
	client, err := s.identify(ctx, safe, found, redirect)
	if err != nil {
		return at(StepRegistration, err)
	}
	a.note(StepRegistration, registrations[client.How], client.ID)
	s.asked.Store(true)
	r := oauth.Request{
		State: oauth.Random(), Verifier: secret.New(oauth.Random()), Redirect: client.Redirect, Resource: found.uri,
		Scopes: oauth.Scopes(s.settings.Scopes, c, found.resource, found.issuer), Params: s.settings.Params,
	}
	t, err := a.current(ctx, safe)
	if err != nil {
		return err
	}
	if t != nil && (c.Error == stepUp || t.row.Spent) && t.issuer.Issuer == found.issuer.Issuer {
		r.Scopes = oauth.Union(t.requested, oauth.Union(r.Scopes, c.Scopes))
	}
	var p *oauth.Prover
	if found.bound(c) {
		p = oauth.NewProver()
		r.Thumb = p.Thumbprint()
	}
	link, err := found.issuer.AuthorizeURL(client, r)
	if err != nil {
		return at(StepIssuer, err)
	}
	f.kept = keptFlow{
		State: r.State, Verifier: r.Verifier.Reveal(), Redirect: r.Redirect, Resource: r.Resource, Scopes: r.Scopes, Params: r.Params,
		Link: link, Client: keepClient(client), Issuer: *found.issuer, Near: found.near,
	}
	if p != nil {
		f.kept.Proof = p.Secret().Reveal()
	}
	return nil
}

// follow keeps a door open for the browser, opens one if that's wanted, and waits until somebody has finished
// the flow.
func (f *Flow) follow(safe *store.Safe) error {
	d := f.d
	port, name := portOf(f.kept.Redirect), ""
	switch {
	case d.o.Public != "" && strings.HasPrefix(f.kept.Redirect, d.public()):
		port = 0 // the process that is behind it listens there, even on this machine
	case port != 0:
		c, _, err := d.callback(d.ctx, safe)
		if err != nil {
			return err
		}
		name = c.Name
	}
	door := d.enter(port, name)
	defer d.leave(door)
	select {
	case <-door.settled: // nobody gets a link to which nobody listens
	case <-d.ctx.Done():
		return ErrClosed
	}
	if why := door.taken(); why != nil {
		why = at(StepBrowser, why)
		_ = d.fail(d.ctx, safe, f.row.ID, why)
		return why
	}
	close(f.ready)
	began := time.Now()
	for {
		snap, now := safe.Store().Snapshot(), time.Now()
		row, there := snap.Flow(f.of)
		switch {
		case !there || row.ID != f.row.ID:
			return f.gone(snap)
		case row.Outcome != "":
			return failed(row.Outcome)
		case d.stuck(&row, now):
			_ = d.fail(d.ctx, safe, row.ID, &Problem{Says: stuckText})
			return &Problem{Says: stuckText, Next: "sign in again"}
		case !now.Before(row.Until):
			return at(StepBrowser, tooLate(f.s.name))
		}
		if row.Opened.IsZero() && row.Taken.IsZero() && f.wantsTab(began) && door.ready() && d.o.Browser != nil {
			if err := f.open(safe, now); err != nil {
				return err
			}
		}
		if why := door.taken(); why != nil {
			why = at(StepBrowser, why)
			_ = d.fail(d.ctx, safe, row.ID, why)
			return why
		}
		if err := waitFor(d.ctx, snap, lookEvery); err != nil {
			return ErrClosed
		}
	}
}

// quietTime is how long a flow that nobody has asked for waits for somebody who shows the link in another way.
const quietTime = 3 * time.Second

// wantsTab reports whether this process shall open a browser for a flow that it has followed since a time.
func (f *Flow) wantsTab(began time.Time) bool {
	return f.tab.Load() || f.own.Load() && !f.asked.Load() && time.Since(began) > quietTime
}

// gone returns nil if a flow is no longer in the store because it has led to a credential.
func (f *Flow) gone(snap *store.Snapshot) error {
	for _, x := range snap.Credentials(f.of) {
		if !x.Spent && !x.Since.Before(f.row.Began) {
			return nil
		}
	}
	return &Problem{Says: "the sign-in was ended", Next: "sign in again"}
}

// open opens the browser, if it's this flow's turn.
func (f *Flow) open(safe *store.Safe, now time.Time) error {
	d := f.d
	may := false
	err := safe.Store().Write(d.ctx, d.me, func(x *store.Tx) (err error) {
		may, err = x.OpenFlow(f.row.ID, now, now.Add(-tabTime))
		return err
	})
	if err != nil || !may {
		return err
	}
	if err := d.o.Browser(d.ctx, f.kept.Link); err != nil && d.ctx.Err() == nil {
		d.log.Warn("no browser could be started", "server", f.s.name, "cause", err.Error())
	}
	return nil
}

// fail ends a flow, and says why to all who take part.
func (d *Desk) fail(ctx context.Context, safe *store.Safe, id string, why error) error {
	outcome := outcomeOf(why)
	return safe.Store().Write(ctx, d.me, func(x *store.Tx) error {
		_, err := x.EndFlow(id, outcome)
		return err
	})
}

// redeemer returns what asks the issuer of a flow for a token, and the request that it came of.
func (d *Desk) redeemer(of store.SignIn, k *keptFlow) (*oauth.Endpoint, oauth.Request, error) {
	r := oauth.Request{State: k.State, Verifier: secret.New(k.Verifier), Redirect: k.Redirect, Resource: k.Resource, Scopes: k.Scopes, Params: k.Params}
	c, err := k.Client.client()
	e := &oauth.Endpoint{Doer: d.reach(k.Near, d.server(of)), Issuer: &k.Issuer, Client: c}
	if err == nil && k.Proof != "" {
		e.Prover, err = oauth.ProverOf(secret.New(k.Proof))
		if err == nil {
			r.Thumb = e.Prover.Thumbprint()
		}
	}
	return e, r, err
}

// Finish finishes the flow to which the answer of an issuer belongs: the query of the address at which a browser has
// arrived. path is the path of that address, or "" if nobody knows. The error is oauth.ErrNotOurs if there is no such
// flow; then nothing has happened.
func (d *Desk) Finish(ctx context.Context, path string, q url.Values) error {
	state := q.Get("state")
	if state == "" {
		return oauth.ErrNotOurs
	}
	safe, err := d.open(ctx)
	if err != nil {
		return err
	}
	if err := safe.Store().Refresh(ctx); err != nil {
		return err
	}
	row, ok := safe.Store().Snapshot().FlowWith(flowID(state))
	if !ok || !row.Open(time.Now()) || !row.Taken.IsZero() {
		return oauth.ErrNotOurs
	}
	var k keptFlow
	if err := reveal(ctx, safe, &row, row.Sealed, &k); err != nil {
		return err
	}
	if path != "" && path != pathOf(k.Redirect) {
		return oauth.ErrNotOurs // an answer of another issuer
	}
	code, err := oauth.ReadCallback(q, oauth.Expected{State: k.State, Issuer: k.Issuer.Issuer, SaysIss: k.Issuer.SaysIss})
	if errors.Is(err, oauth.ErrNotOurs) {
		return err
	}
	if err != nil {
		return d.finished(ctx, row, &k, oauth.Token{}, at(StepBrowser, err))
	}
	e, r, err := d.redeemer(row.SignIn, &k)
	if err != nil {
		return d.finished(ctx, row, &k, oauth.Token{}, err)
	}
	// A code is good once, so only one process may send it, and only once.
	taken := false
	err = safe.Store().Write(ctx, d.me, func(x *store.Tx) (err error) {
		taken, err = x.TakeFlow(row.ID, time.Now())
		return err
	})
	if err != nil {
		return err
	}
	if !taken {
		return oauth.ErrNotOurs
	}
	d.o.step("after callback")
	ctx, stop := context.WithTimeout(context.WithoutCancel(ctx), finishTime) // the browser may go
	defer stop()
	return d.beating(ctx, safe, func(x *store.Tx, now time.Time) error { return x.TouchFlow(row.ID, now) }, func() error {
		asking, stop := context.WithTimeout(ctx, askTime)
		defer stop()
		t, err := e.Code(asking, code, r)
		return d.finished(ctx, row, &k, t, err)
	})
}

// finished keeps what a flow has led to: a token, or the reason why there is none. It returns that reason.
func (d *Desk) finished(ctx context.Context, row store.Flow, k *keptFlow, t oauth.Token, err error) error {
	ctx, stop := context.WithTimeout(context.WithoutCancel(ctx), leaseTime)
	defer stop()
	safe, openErr := d.open(ctx)
	if openErr != nil {
		return openErr
	}
	if err == nil {
		d.o.step("after token")
		err = d.keep(ctx, safe, row, k, t)
	}
	err = at(StepToken, err)
	if err == nil {
		d.log.Info("signed in to a server", "host", hostOf(row.Server), "project", row.Project, "subject", row.Subject)
		return nil
	}
	if oauth.Refused(err, "invalid_client") {
		_ = safe.Store().Write(ctx, d.me, func(x *store.Tx) error {
			return x.RemoveRegistration(store.Registration{Issuer: k.Issuer.Issuer, Redirect: k.Client.Redirect, Client: k.Client.ID})
		})
	}
	says, _ := Explain(err)
	d.log.Warn("a sign-in to a server has failed", "host", hostOf(row.Server), "project", row.Project, "subject", row.Subject, "cause", says)
	if failErr := d.fail(ctx, safe, row.ID, err); failErr != nil {
		return failErr
	}
	return err
}

// keep stores the credential and ends the flow, in one transaction.
func (d *Desk) keep(ctx context.Context, safe *store.Safe, row store.Flow, k *keptFlow, t oauth.Token) error {
	granted := t.Scopes
	if !t.ScopesSaid {
		granted = k.Scopes // RFC 6749 §5.1
	}
	c := store.Credential{SignIn: row.SignIn, Issuer: k.Issuer.Issuer, Client: k.Client.ID, Resource: k.Resource, Until: t.Until, Renews: t.Refresh.Reveal() != ""}
	plain := pack(&keptCredential{
		Access: t.Access.Reveal(), Refresh: t.Refresh.Reveal(), ID: t.ID.Reveal(), Type: t.Type, At: time.Now(),
		Granted: granted, Requested: k.Scopes, Proof: proofFor(t, k), Client: k.Client, Issuer: k.Issuer, Near: k.Near,
	})
	return safe.Keep(ctx, row.Subject, &c, plain, func(x *store.Tx, sealed []byte) error {
		there, err := x.EndFlow(row.ID, "")
		if err == nil && !there {
			err = &Problem{Says: "the sign-in was ended meanwhile", Next: "sign in again"}
		}
		if err == nil {
			d.o.step("before commit")
			c.Sealed = sealed
			err = x.SetCredential(c)
		}
		return err
	})
}

// proofFor returns the key of the proofs that a token needs, or "".
func proofFor(t oauth.Token, k *keptFlow) string {
	if t.Type == "DPoP" {
		return k.Proof
	}
	return ""
}

func hostOf(raw string) string {
	u, err := url.Parse(raw)
	if err != nil {
		return ""
	}
	return u.Host
}

// over reports whether a time, of which zero means never, has passed.
func over(t time.Time) bool { return !t.IsZero() && !time.Now().Before(t) }

func pathOf(raw string) string {
	u, err := url.Parse(raw)
	if err != nil {
		return ""
	}
	return u.Path
}
