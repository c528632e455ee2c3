package signin

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/base/secret"
	"github.com/dragoman-mcp/dragoman/internal/team/egress"
	"github.com/dragoman-mcp/dragoman/internal/team/signin/oauth"
	"github.com/dragoman-mcp/dragoman/internal/team/store"
	"github.com/dragoman-mcp/dragoman/internal/transport"
)

// service gets the tokens of a server at which nobody signs in. They stay in memory, since each process can get its own
// from what the operator has configured, and a token that is lost costs nobody a sign-in.
type service struct {
	s   *Server
	now atomic.Pointer[token] // nil until the server has refused a request

	mu     sync.Mutex
	asked  oauth.Challenge // the server's last challenge
	flight *flight         // nil if nobody asks for a token
	later  pause
	// final is the error with which the issuer has refused us for good, and finalFor the assertion that we had.
	// Nobody repeats such a request, or tries another grant in its place.
	final    error
	finalFor secret.Text
	finalAt  time.Time

	// The following belong to the flight.
	found  *found
	prover *oauth.Prover
	count  int64
}

const (
	// finalTime is how long an issuer's refusal stands. Only another assertion ends it sooner.
	finalTime = 5 * time.Minute
	// freshTime is how long there's no use in another token because the server has refused the last one.
	freshTime = time.Minute
)

// sign returns the headers of a request. Before the server has refused one there are none, because only its
// challenge says where to ask.
func (v *service) sign(ctx context.Context, method, url string) ([]transport.HeaderField, uint64, error) {
	t := v.now.Load()
	if t == nil {
		return nil, 0, nil
	}
	if now := time.Now(); !t.renewAt.IsZero() && !now.Before(t.renewAt) {
		f, err := v.fetch()
		if !t.usable(now) {
			if err == nil {
				err = f.wait(ctx)
			}
			if err != nil {
				return nil, 0, err
			}
			t = v.now.Load()
		}
	}
	h, err := t.sign(method, url)
	return h, t.generation, err
}

// refused is Server.Refused for a service.
func (v *service) refused(ctx context.Context, generation uint64, c oauth.Challenge) (again bool, err error) {
	t := v.now.Load()
	switch {
	case t != nil && t.generation > generation:
		return true, nil
	case t != nil && c.Error == stepUp:
		// AU §Step-Up Authorization Flow: clients that act on their own behalf may give up, and nobody could grant more.
		return false, v.noToken("the server wants the scope "+quote(joined(c.Scopes))+", which its token doesn't have",
			"add the scope to `scopes` in `signIn`, and have the issuer grant it", nil)
	case t != nil && time.Since(t.at) < freshTime:
		return false, v.noToken("the server refuses the token that its own authorization server has just given",
			"check `resource` and `scopes` in `signIn`, and ask whoever runs the server", nil)
	}
	v.mu.Lock()
	v.asked = c
	v.mu.Unlock()
	f, err := v.fetch()
	if err == nil {
		err = f.wait(ctx)
	}
	return err == nil, err
}

// fetch begins to get a token, or joins who does. It returns an error if that has failed a moment ago.
func (v *service) fetch() (*flight, error) {
	d := v.s.d
	v.mu.Lock()
	defer v.mu.Unlock()
	switch {
	case v.flight != nil:
		return v.flight, nil
	case time.Now().Before(v.later.notBefore):
		return nil, v.later.err
	}
	f := &flight{done: make(chan struct{})}
	v.flight = f
	if !d.group.Go(func() {
		// It belongs to no caller, as in account.renew.
		ctx, stop := context.WithTimeout(d.ctx, leaseTime)
		defer stop()
		t, err := v.get(ctx)
		v.settle(f, t, err)
	}) {
		v.flight = nil
		return nil, ErrClosed
	}
	return f, nil
}

// settle ends a flight, and says when the next one may begin.
func (v *service) settle(f *flight, t *token, err error) {
	v.mu.Lock()
	defer close(f.done)
	defer v.mu.Unlock()
	v.flight = nil
	if err == nil {
		v.now.Store(t)
		v.later = pause{}
		return
	}
	says, next := Explain(err)
	f.err = v.noToken(says, next, err)
	v.later.failed(f.err)
}

// get asks for a token.
func (v *service) get(ctx context.Context) (*token, error) {
	s := v.s
	v.mu.Lock()
	c := v.asked
	v.mu.Unlock()
	if v.found == nil || v.now.Load() == nil {
		f, err := s.discover(ctx, c)
		if err != nil {
			return nil, err
		}
		v.found = &f
		if f.bound(c) && v.prover == nil {
			v.prover = oauth.NewProver()
		}
	}
	name := s.settings.Issuer
	if name == "" || oauth.SameIssuer(name, v.found.issuer.Issuer) {
		name = v.found.issuer.Issuer
	}
	client, err := s.settings.client(name, "")
	if err != nil {
		return nil, err
	}
	if client == nil {
		client = &oauth.Client{How: oauth.Preregistered, Issuer: name}
	}
	e := &oauth.Endpoint{Doer: s.d.reach(v.found.near, s), Issuer: v.found.issuer, Client: *client, Prover: v.prover}
	at := time.Now()
	answer, err := v.grant(ctx, e, oauth.Scopes(s.settings.Scopes, c, v.found.resource, &oauth.Issuer{}))
	if err != nil {
		return nil, err
	}
	k := &keptCredential{Access: answer.Access.Reveal(), Type: answer.Type, At: at}
	if v.prover != nil {
		k.Proof = v.prover.Secret().Reveal()
	}
	v.count++
	t, err := newToken(store.Credential{Until: answer.Until, Generation: v.count}, k)
	if err == nil && v.prover != nil {
		t.prover = v.prover // it knows the nonces
	}
	return t, err
}

// grant asks the issuer in the way that is configured.
func (v *service) grant(ctx context.Context, e *oauth.Endpoint, scopes []string) (t oauth.Token, err error) {
	x, uri := &v.s.settings, v.found.uri
	var assertion secret.Text
	if x.How != ClientOnly {
		// The operator has configured the place, so it may be on this machine.
		if assertion, err = oauth.ReadAssertion(ctx, v.s.d.reach(egress.Loopback, nil), x.Assertion); err != nil {
			return t, err
		}
	}
	if err := v.standing(assertion); err != nil {
		return t, err
	}
	switch x.How {
	case ClientOnly:
		t, err = e.ClientCredentials(ctx, uri, scopes)
	case Workload:
		t, err = e.Assertion(ctx, assertion, uri, scopes)
	case Enterprise:
		var idp *oauth.Endpoint
		if idp, err = v.provider(ctx); err == nil {
			t, err = e.Enterprise(ctx, idp, assertion, uri, scopes)
		}
	case Exchanged:
		t, err = e.Exchange(ctx, oauth.Exchange{Subject: assertion, SubjectType: oauth.TypeAccess, Requested: oauth.TypeAccess, Resource: uri, Scopes: scopes})
	default:
		err = fmt.Errorf("nobody knows how %q gets a token", x.How)
	}
	var refused *oauth.Error
	if errors.As(err, &refused) && !oauth.Weather(err) {
		v.mu.Lock()
		v.final, v.finalFor, v.finalAt = err, assertion, time.Now()
		v.mu.Unlock()
	}
	return t, err
}

// standing returns the refusal of the issuer that still stands, if there is one.
func (v *service) standing(assertion secret.Text) error {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.final == nil || time.Since(v.finalAt) > finalTime || !assertion.Equal(v.finalFor) {
		return nil
	}
	return v.final
}

// provider returns what asks the organisation's identity provider.
func (v *service) provider(ctx context.Context) (*oauth.Endpoint, error) {
	p := &v.s.settings.Provider
	if p.Issuer == "" {
		return nil, &Problem{Says: "no identity provider is configured for server " + quote(v.s.name), Next: "set `provider` in `signIn`"}
	}
	d := v.s.d.reach(egress.Loopback, nil)
	is, err := oauth.FindIssuer(ctx, d, p.Issuer)
	if err != nil {
		return nil, err
	}
	return &oauth.Endpoint{Doer: d, Issuer: is, Client: oauth.Client{ID: p.ClientID, Secret: p.ClientSecret, How: oauth.Preregistered, Issuer: p.Issuer}}, nil
}

// noToken returns the error while there is no token.
func (v *service) noToken(says, next string, err error) *Problem {
	return notNow("there is no token for server "+quote(v.s.name)+": "+says, next, err)
}
