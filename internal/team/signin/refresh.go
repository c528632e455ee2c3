package signin

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/base/failure"
	"github.com/dragoman-mcp/dragoman/internal/base/work"
	"github.com/dragoman-mcp/dragoman/internal/team/signin/oauth"
	"github.com/dragoman-mcp/dragoman/internal/team/store"
)

const (
	leaseTime = 30 * time.Second // for one process to renew a credential
	askTime   = 20 * time.Second // of this, for the issuer
	lookEvery = 200 * time.Millisecond
	deadPause = 5 * time.Second // between attempts to renew a token that is no longer good
)

// flight is the renewal of one credential by this process. All who need it wait for the same one.
type flight struct {
	done chan struct{} // closed when the following are set
	mine bool          // this process asked the issuer; otherwise another one had done so
	err  error
}

// pause keeps renewals apart while the issuer can't be reached.
type pause struct {
	backoff   work.Backoff
	tried     time.Time
	notBefore time.Time
	err       error
}

func (p *pause) failed(err error) {
	p.err, p.tried = err, time.Now()
	p.backoff.First, p.backoff.Ceiling = 2*time.Second, 5*time.Minute
	p.notBefore = p.tried.Add(p.backoff.Fail())
}

// renewed returns the token to use in the place of one that is in the last part of its life. It waits only if
// that one is no longer good.
func (a *account) renewed(ctx context.Context, safe *store.Safe, t *token, now time.Time) (*token, error) {
	if !t.renewable() {
		if t.usable(now) {
			return t, nil
		}
		return nil, nil // the server's refusal leads to a new sign-in
	}
	f, err := a.renew(safe, t, now, false)
	if t.usable(now) {
		return t, nil
	}
	if err == nil {
		err = f.wait(ctx)
	}
	if err != nil {
		return nil, err
	}
	return a.current(ctx, safe)
}

// renewForced renews a token that the server has refused although its time isn't over.
func (a *account) renewForced(ctx context.Context, safe *store.Safe, t *token) (again bool, err error) {
	f, err := a.renew(safe, t, time.Now(), true)
	if err == nil {
		err = f.wait(ctx)
	}
	var needed *Needed
	if errors.As(err, &needed) {
		return false, nil // the caller says so, and begins a sign-in
	}
	if err != nil {
		return false, err
	}
	fresh, err := a.current(ctx, safe)
	if err != nil || fresh == nil || fresh.generation == t.generation {
		return false, err
	}
	if f.mine {
		a.mu.Lock()
		a.forced, a.forcedAt = fresh.generation, time.Now()
		a.mu.Unlock()
	}
	return true, nil
}

func (f *flight) wait(ctx context.Context) error {
	select {
	case <-f.done:
		return f.err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// renew begins to renew a token, or joins who does. It returns an error if the issuer couldn't be reached a moment
// ago.
func (a *account) renew(safe *store.Safe, t *token, now time.Time, force bool) (*flight, error) {
	d := a.s.d
	a.mu.Lock()
	wait, err := now.Before(a.later.notBefore), a.later.err
	if !t.usable(now) && now.Sub(a.later.tried) > deadPause {
		wait = false // somebody waits for it
	}
	a.mu.Unlock()
	d.mu.Lock()
	defer d.mu.Unlock()
	if f := d.flights[a.of]; f != nil {
		return f, nil
	}
	if wait && !force {
		return nil, err
	}
	f := &flight{done: make(chan struct{})}
	d.flights[a.of] = f
	if !d.group.Go(func() {
		// It belongs to no caller: who gives up must not take the answer from the others.
		// It has time enough to follow a process that was killed with the lease.
		ctx, stop := context.WithTimeout(d.ctx, leaseTime+askTime)
		defer stop()
		f.mine, f.err = a.renewNow(ctx, safe, t)
		a.settle(f.err)
		d.mu.Lock()
		delete(d.flights, a.of)
		d.mu.Unlock()
		close(f.done)
	}) {
		delete(d.flights, a.of)
		return nil, ErrClosed
	}
	return f, nil
}

// settle says when the next renewal may begin.
func (a *account) settle(err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if err == nil {
		a.later = pause{}
		return
	}
	a.later.failed(err)
}

// renewNow takes the lease of a credential and renews it, or waits until another process has done so.
func (a *account) renewNow(ctx context.Context, safe *store.Safe, t *token) (mine bool, err error) {
	for {
		if err := safe.Store().Refresh(ctx); err != nil {
			return false, err
		}
		snap := safe.Store().Snapshot()
		now, err := a.current(ctx, safe)
		switch {
		case err != nil:
			return false, err
		case now == nil || now.generation != t.generation:
			return false, nil
		case now.row.Spent:
			return false, a.spent(now.why)
		}
		var lease store.Lease
		var ok bool
		err = safe.Store().Write(ctx, a.s.d.me, func(x *store.Tx) (err error) {
			lease, ok, err = x.LeaseCredential(now.row, a.s.d.me, leaseTime)
			return err
		})
		if err != nil {
			return false, err
		}
		if ok {
			return a.ask(ctx, safe, now, lease)
		}
		if err := waitFor(ctx, snap, lookEvery); err != nil {
			p := a.cannotRenew("another process has tried to for too long", "try again", err)
			p.class = failure.Unreachable
			return false, p
		}
	}
}

// waitFor waits until the store has another snapshot, but not longer than most.
func waitFor(ctx context.Context, s *store.Snapshot, most time.Duration) error {
	t := time.NewTimer(most)
	defer t.Stop()
	select {
	case <-s.Replaced():
		return nil
	case <-t.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// ask asks the issuer for a new token. The caller has the lease. renewed is false if the issuer has refused, even if
// another process turns out to have a newer token.
func (a *account) ask(ctx context.Context, safe *store.Safe, t *token, lease store.Lease) (renewed bool, err error) {
	d := a.s.d
	d.o.step("before refresh")
	asking, stop := context.WithTimeout(ctx, askTime)
	// Without scopes the issuer grants what it has granted before (RFC 6749 §6). Entra refuses some of
	// those that it says itself.
	answer, err := t.endpoint(d, a.s).Refresh(asking, t.refresh, t.row.Resource, nil)
	stop()
	at := time.Now()
	switch {
	case err == nil:
		d.o.step("during refresh")
		return true, a.store(ctx, safe, t, answer, at)
	case oauth.Refused(err, "invalid_grant"):
		return false, a.refused(ctx, safe, t, lease, "")
	case oauth.Refused(err, "invalid_client"):
		if err := a.forgetClient(ctx, safe, t); err != nil {
			return false, err
		}
		return false, a.refused(ctx, safe, t, lease, "the issuer no longer knows the client that it had registered")
	}
	endErr := safe.Store().Write(context.WithoutCancel(ctx), d.me, func(x *store.Tx) error { return x.EndLease(t.row, lease.Fence) })
	says, next := Explain(err)
	return false, a.cannotRenew(says, next, errors.Join(err, endErr))
}

// store keeps an answer. Nobody uses it before it's on the disk, and so we try for a while: an issuer that
// rotates no longer takes the old token.
func (a *account) store(ctx context.Context, safe *store.Safe, t *token, answer oauth.Token, at time.Time) error {
	ctx, stop := context.WithTimeout(context.WithoutCancel(ctx), leaseTime)
	defer stop()
	row := t.row
	row.Until, row.Renews = answer.Until, true
	plain := pack(t.keep(answer, at))
	backoff := work.Backoff{First: 100 * time.Millisecond, Ceiling: 2 * time.Second}
	for {
		err := safe.Keep(ctx, a.s.d.me, &row, plain, func(x *store.Tx, sealed []byte) error {
			row.Sealed = sealed
			_, err := x.RenewCredential(row)
			return err
		})
		if err == nil {
			if len(safe.Store().Snapshot().Credentials(a.of)) == 0 {
				return a.s.d.revoke(ctx, a.s, row, t.keep(answer, at)) // somebody has signed out meanwhile
			}
			return nil
		}
		if ctx.Err() != nil || a.s.d.ctx.Err() != nil || work.Sleep(ctx, backoff.Fail()) != nil {
			says, next := Explain(err)
			return a.cannotRenew("the new token cannot be stored: "+says, next, err)
		}
	}
}

// Why there are no tokens any more.
const (
	whyRefused   = "the issuer no longer renews the token"
	whyAbandoned = "a dragoman process was ended while it renewed the token, and the issuer doesn't take the old one a second time"
)

// refused notes that the issuer no longer renews a credential, unless another process has a newer one.
func (a *account) refused(ctx context.Context, safe *store.Safe, t *token, lease store.Lease, why string) error {
	if err := safe.Store().Refresh(ctx); err != nil {
		return err
	}
	if now, err := a.current(ctx, safe); err != nil || now == nil || now.generation != t.generation {
		return err
	}
	switch {
	case why != "":
	case lease.Abandoned:
		why = whyAbandoned
	default:
		why = whyRefused
	}
	// The record stays: it knows which scopes were asked for.
	k := &keptCredential{Granted: t.granted, Requested: t.requested, Client: t.kept, Issuer: t.issuer, Near: t.near, Why: why}
	row, spent := t.row, false
	err := safe.Keep(ctx, a.s.d.me, &row, pack(k), func(x *store.Tx, sealed []byte) (err error) {
		row.Sealed = sealed
		spent, err = x.SpendCredential(row, lease.Fence)
		return err
	})
	if err != nil || !spent { // if it isn't, another process has the lease, and the last word
		return err
	}
	a.s.d.log.Warn("a server needs a new sign-in", "server", a.s.name, "project", a.of.Project, "subject", a.of.Subject, "cause", why)
	return a.spent(why)
}

func (a *account) spent(why string) error {
	n := a.s.Needs(a.of)
	n.Why = why
	return n
}

// forgetClient forgets the client that the issuer doesn't know, so that the next sign-in registers another one.
func (a *account) forgetClient(ctx context.Context, safe *store.Safe, t *token) error {
	if t.client.How != oauth.Registered {
		return nil
	}
	return safe.Store().Write(ctx, a.s.d.me, func(x *store.Tx) error {
		return x.RemoveRegistration(store.Registration{Issuer: t.issuer.Issuer, Redirect: t.client.Redirect, Client: t.client.ID})
	})
}

// cannotRenew returns the error while a token can't be renewed.
func (a *account) cannotRenew(says, next string, err error) *Problem {
	return notNow("the token for server "+quote(a.s.name)+" cannot be renewed: "+says, next, err)
}

// joined returns scopes as one text, in one order.
func joined(scopes []string) string {
	all := slices.Clone(scopes)
	slices.Sort(all)
	return strings.Join(all, " ")
}

// missing returns those of some scopes that weren't granted.
func missing(wanted, granted []string) (rest []string) {
	for _, s := range wanted {
		if !slices.Contains(granted, s) {
			rest = append(rest, s)
		}
	}
	return rest
}
