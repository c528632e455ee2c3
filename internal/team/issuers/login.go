package issuers

import (
	"context"
	"crypto/subtle"
	"errors"
	"log/slog"
	"net/url"
	"slices"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/base/identity"
	"github.com/dragoman-mcp/dragoman/internal/base/secret"
	"github.com/dragoman-mcp/dragoman/internal/team/signin/oauth"
)

// Provider is an OpenID provider at which people sign in to the console.
type Provider struct {
	Issuer     string
	Client     Client
	Scopes     []string // besides openid and profile
	RolesClaim string   // of the ID token; see Issuer
	Roles      map[string][]Grant
}

// Login signs people in at a provider, with a code, PKCE and a nonce (OpenID Connect Core §3.1). It keeps nothing
// of a flow: that is with the browser. Create one with NewLogin. It is safe for concurrent use.
type Login struct {
	p     Provider
	keys  *keySet
	reach *reach

	turn   chan struct{} // a lock: contains one value while the metadata are read
	found  *oauth.Issuer // nil if they can't be read; has the lock turn
	failed error         // why they can't; has the lock turn
	until  time.Time     // when they must be read again; has the lock turn
}

// NewLogin returns the login at a provider. Of the options, it uses all but Issuers.
func NewLogin(p Provider, o Options) *Login {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	l := &Login{p: p, reach: &reach{issuer: p.Issuer, o: &o}, turn: make(chan struct{}, 1)}
	l.keys = newKeySet(l.reach.fetchKeys, tellOf(o.Log, p.Issuer))
	return l
}

// Close ends the requests to the provider that run.
func (l *Login) Close() { l.keys.close() }

// Host returns the host of the provider, for people.
func (l *Login) Host() string {
	u, err := url.Parse(l.p.Issuer)
	if err != nil {
		return ""
	}
	return u.Host
}

// Flow is a sign-in that has begun. It's a secret of the browser.
type Flow struct {
	State, Nonce, Verifier string
	Until                  time.Time
}

// FlowLife is how long people have to sign in.
const FlowLife = 10 * time.Minute

// Person is somebody whom the provider knows.
type Person struct {
	ID, Name string // see personID
	Roles    map[string][]identity.Role
}

// Errors of a sign-in. Others are about the provider.
var (
	ErrNotBegun = errors.New("this browser has not begun this sign-in, or too long ago") // also if it has ended
	ErrDeclined = errors.New("the provider did not sign the person in")
	ErrProvider = errors.New("the provider's answer cannot be used")
	ErrClock    = errors.New("the provider's clock and that of this machine differ too much")

	errUnreached = errors.New("the provider's metadata cannot be read now")
	errNoToken   = errors.New("the provider's token endpoint has not answered with a token")
)

// Step says what a provider has failed to do, if an error is about one, as a clause behind its name.
func Step(err error) string {
	switch {
	case errors.Is(err, errUnreached):
		return "doesn't answer with its metadata"
	case errors.Is(err, errNoToken):
		return "doesn't answer with a token"
	case errors.Is(err, errNoKeys):
		return "doesn't answer with its keys"
	}
	return "has sent an answer that can't be used"
}

// Begin begins a sign-in, after which the provider sends the browser to redirect. page is where the browser goes.
func (l *Login) Begin(ctx context.Context, redirect string) (page string, f Flow, err error) {
	is, err := l.provider(ctx)
	if err != nil {
		return "", f, err
	}
	f = Flow{oauth.Random(), oauth.Random(), oauth.Random(), time.Now().Add(FlowLife)}
	page, err = is.AuthorizeURL(l.client(redirect), l.request(f, redirect))
	return page, f, err
}

func (l *Login) client(redirect string) oauth.Client {
	return oauth.Client{ID: l.p.Client.ID, Secret: l.p.Client.Secret, Redirect: redirect, How: oauth.Preregistered}
}

func (l *Login) request(f Flow, redirect string) oauth.Request {
	scopes := []string{"openid", "profile"}
	for _, s := range l.p.Scopes {
		if !slices.Contains(scopes, s) {
			scopes = append(scopes, s)
		}
	}
	return oauth.Request{State: f.State, Verifier: secret.New(f.Verifier), Redirect: redirect, Scopes: scopes, Params: map[string]string{"nonce": f.Nonce}}
}

// Finish returns who has signed in, from the query with which the browser comes back.
func (l *Login) Finish(ctx context.Context, f Flow, redirect string, q url.Values) (Person, error) {
	if f.State == "" || !time.Now().Before(f.Until) {
		return Person{}, ErrNotBegun
	}
	is, err := l.provider(ctx)
	if err != nil {
		return Person{}, err
	}
	d, err := l.reach.o.Reach(ctx, l.p.Issuer)
	if err != nil {
		return Person{}, errors.Join(errUnreached, err)
	}
	code, err := oauth.ReadCallback(q, oauth.Expected{State: f.State, Issuer: is.Issuer, SaysIss: is.SaysIss})
	var refused *oauth.Error
	switch {
	case errors.Is(err, oauth.ErrNotOurs):
		return Person{}, ErrNotBegun
	case errors.As(err, &refused):
		return Person{}, errors.Join(ErrDeclined, err)
	case err != nil:
		return Person{}, errors.Join(ErrProvider, err)
	}
	e := oauth.Endpoint{Doer: d, Issuer: is, Client: l.client(redirect)}
	t, err := e.Code(ctx, code, l.request(f, redirect))
	switch {
	case oauth.Refused(err, "invalid_grant"): // the code was used already, or is too old
		return Person{}, errors.Join(ErrNotBegun, err)
	case err != nil:
		return Person{}, errors.Join(ErrProvider, errNoToken, err)
	}
	return l.read(ctx, is, t.ID.Reveal(), f.Nonce)
}

// google leaves out the scheme in some ID tokens.
const google = "https://accounts.google.com"

// read returns whose an ID token is that has come directly from the provider.
func (l *Login) read(ctx context.Context, is *oauth.Issuer, text, nonce string) (Person, error) {
	body, err := l.keys.verify(ctx, text)
	if err != nil {
		return Person{}, errors.Join(ErrProvider, err)
	}
	c, ok := readClaims(body)
	if !ok || c.subject == "" || len(c.subject) > maxText || c.expires.IsZero() {
		return Person{}, errors.Join(ErrProvider, errors.New("the ID token does not say whose it is, or until when"))
	}
	now, id := time.Now(), l.p.Client.ID
	switch { // OpenID Connect Core §3.1.3.7
	case c.issuer != is.Issuer && (is.Issuer != google || "https://"+c.issuer != google):
		return Person{}, errors.Join(ErrProvider, errors.New("the ID token is another issuer's"))
	case !slices.Contains(c.audience, id), c.has("azp") && c.text("azp") != id:
		return Person{}, errors.Join(ErrProvider, errors.New("the ID token was issued to another client"))
	case subtle.ConstantTimeCompare([]byte(c.text("nonce")), []byte(nonce)) != 1:
		return Person{}, errors.Join(ErrProvider, errors.New("the ID token has another nonce"))
	case !now.Before(c.expires.Add(leeway)), now.Add(leeway).Before(c.before), now.Add(leeway).Before(c.issued):
		return Person{}, ErrClock
	}
	return Person{ID: personID(l.p.Issuer, c.subject), Name: nameOf(c), Roles: rolesOf(c.texts(l.p.RolesClaim), l.p.Roles)}, nil
}

// provider returns the provider's metadata, which it keeps for a while, as it does the reason why there are none. Anybody
// may begin a sign-in, so all wait for one attempt, and not one after the other.
func (l *Login) provider(ctx context.Context) (*oauth.Issuer, error) {
	select {
	case l.turn <- struct{}{}:
		defer func() { <-l.turn }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	if time.Now().Before(l.until) {
		return l.found, l.failed
	}
	is, err := l.metadata(ctx)
	if ctx.Err() != nil {
		return is, err // whoever asked has gone, which says nothing about the provider
	}
	l.found, l.failed, l.until = is, err, time.Now().Add(shortestLife)
	if err != nil {
		l.until = time.Now().Add(firstAgain)
	}
	return is, err
}

func (l *Login) metadata(ctx context.Context) (*oauth.Issuer, error) {
	d, err := l.reach.o.Reach(ctx, l.p.Issuer)
	if err != nil {
		return nil, errors.Join(errUnreached, err)
	}
	is, err := l.reach.o.Find(ctx, d, l.p.Issuer)
	if err != nil {
		return nil, errors.Join(errUnreached, err)
	}
	if len(is.Challenges) == 0 {
		// Entra and others know PKCE, but don't say so. The nonce protects the code there, too, and somebody has
		// configured this provider; what a server names has to say it.
		some := *is
		some.Challenges, is = []string{"S256"}, &some
	}
	return is, nil
}
