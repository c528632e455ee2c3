package signin

import (
	"context"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/dragoman-mcp/dragoman/internal/team/egress"
	"github.com/dragoman-mcp/dragoman/internal/team/signin/oauth"
	"github.com/dragoman-mcp/dragoman/internal/team/store"
	"github.com/dragoman-mcp/dragoman/internal/transport"
)

// reach sends requests that may go as near as a server lies. s is the server, or nil if this process doesn't know it.
func (d *Desk) reach(near egress.Nearness, s *Server) *egress.Caller {
	c := d.o.Egress
	if s != nil {
		c = c.Trusting(s.settings.cas())
	}
	return c.From(near, egress.Bounds{})
}

// near returns how near the server lies. Its certificate proves that, so the server's own authorities count.
func (s *Server) near(ctx context.Context) (egress.Nearness, error) {
	return s.d.o.Egress.Trusting(s.settings.cas()).Near(ctx, s.url)
}

// found is what a server and its issuer have published.
type found struct {
	near     egress.Nearness
	resource *oauth.Resource // nil if there's no metadata
	issuer   *oauth.Issuer
	uri      string // what we call the server to the issuer; "" if we say nothing
}

// bound reports whether tokens for the server have to be bound to a key of ours (RFC 9449): its issuer can do that,
// and the server itself has said that it takes such tokens, in its challenge or its metadata. Many issuers bind
// tokens for whoever asks, but most servers understand Bearer alone.
func (f *found) bound(c oauth.Challenge) bool {
	wanted := c.Scheme == "DPoP" || f.resource != nil && (f.resource.DPoPBound || slices.Contains(f.resource.DPoPAlgs, "ES256"))
	return wanted && slices.Contains(f.issuer.DPoPAlgs, "ES256")
}

// discover finds out who signs people in to the server.
func (s *Server) discover(ctx context.Context, c oauth.Challenge) (f found, err error) {
	if f.near, err = s.near(ctx); err != nil {
		return f, at(StepChallenge, err)
	}
	d := s.d.reach(f.near, s)
	if s.settings.AuthorizationURL != "" || s.settings.TokenURL != "" {
		// Somebody has configured where it is, so nothing that is published matters.
		f.issuer, err = oauth.Configured(s.settings.Issuer, s.settings.AuthorizationURL, s.settings.TokenURL)
	} else {
		f.resource, f.issuer, err = s.published(ctx, d, c)
		if err == nil && f.issuer.Authorize != "" {
			err = d.MayOpen(ctx, f.issuer.Authorize)
		}
	}
	if err != nil {
		return f, at(StepIssuer, err)
	}
	switch {
	case s.settings.fixedResource():
		f.uri = s.settings.resource()
	case f.resource != nil:
		f.uri = f.resource.Resource
	default:
		f.uri = s.id
	}
	return f, nil
}

func (s *Server) published(ctx context.Context, d oauth.Doer, c oauth.Challenge) (*oauth.Resource, *oauth.Issuer, error) {
	r, err := oauth.FindResource(ctx, d, s.url, c.ResourceMetadata)
	if err != nil {
		return nil, nil, at(StepResource, err)
	}
	if r == nil && s.settings.Issuer == "" {
		is, err := oauth.FindLegacy(ctx, d, s.url)
		return nil, is, err
	}
	name, err := r.Issuer(s.settings.Issuer)
	if err != nil {
		return nil, nil, at(StepResource, err)
	}
	is, err := oauth.FindIssuer(ctx, d, name)
	return r, is, err
}

// probe asks the server for its challenge, if nobody has heard of one yet.
func (s *Server) probe(ctx context.Context, near egress.Nearness) oauth.Challenge {
	req, err := http.NewRequest(http.MethodPost, s.url, strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"ping"}`))
	if err != nil {
		return oauth.Challenge{}
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json, text/event-stream")
	a, err := s.d.reach(near, s).Do(ctx, req)
	if err != nil || a.Status != http.StatusUnauthorized {
		return oauth.Challenge{}
	}
	c, _ := oauth.Best(oauth.Challenges((&transport.StatusError{Authenticate: a.Header.Values("WWW-Authenticate")}).Challenges()))
	return c
}

// ourName is what issuers show to people when we have registered ourselves.
const ourName = "Dragoman"

// identify returns the client that we are to the issuer. It registers one if that's needed, and keeps it.
func (s *Server) identify(ctx context.Context, safe *store.Safe, f found, redirect string) (oauth.Client, error) {
	issuer := s.settings.Issuer
	if issuer == "" {
		issuer = s.firstIssuer(safe, f.issuer.Issuer)
	}
	if oauth.SameIssuer(issuer, f.issuer.Issuer) {
		issuer = f.issuer.Issuer
	}
	pre, err := s.settings.client(issuer, redirect)
	if err != nil {
		return oauth.Client{}, err
	}
	var documented oauth.Client
	if pre == nil {
		if documented, err = s.documented(ctx, safe, f, redirect); err != nil {
			return oauth.Client{}, err
		}
	}
	means, err := oauth.Choose(f.issuer, pre, documented.ID, redirect)
	if err != nil {
		return oauth.Client{}, err
	}
	switch means {
	case oauth.Preregistered:
		return *pre, nil
	case oauth.Document:
		return documented, nil
	}
	return s.registered(ctx, safe, f, s.apart(f.issuer, redirect))
}

// firstIssuer returns the issuer that the configured client has been used with, or else.
func (s *Server) firstIssuer(safe *store.Safe, or string) string {
	for _, x := range safe.Store().Snapshot().AllCredentials() {
		if x.Project == s.project && x.Server == s.id && x.Client == s.settings.ClientID {
			return x.Issuer
		}
	}
	return or
}

// apart returns a redirect URI for one issuer alone, if that issuer doesn't say in its answers who it is. So its answers
// can't be taken for those of another one, which is the other defence against mix-up (RFC 9700 §4.4.2).
func (s *Server) apart(is *oauth.Issuer, redirect string) string {
	if is.SaysIss || s.settings.Callback != "" {
		return redirect
	}
	return redirect + "/" + flowID(is.Issuer)[:32]
}

// registered returns the client that we have registered before, or registers one.
func (s *Server) registered(ctx context.Context, safe *store.Safe, f found, redirect string) (c oauth.Client, err error) {
	row, ok := safe.Store().Snapshot().Registration(f.issuer.Issuer, redirect)
	if ok && !over(row.Until) {
		var k keptClient
		if err := reveal(ctx, safe, &row, row.Sealed, &k); err != nil {
			return c, err
		}
		return k.client()
	}
	n := oauth.NewClient{Name: ourName, Redirects: redirects(redirect), Device: f.issuer.Device != ""}
	if c, err = oauth.Register(ctx, s.d.reach(f.near, s), f.issuer, n); err != nil {
		return c, err
	}
	c.Issuer = f.issuer.Issuer
	fresh := store.Registration{Issuer: f.issuer.Issuer, Redirect: redirect, Client: c.ID, Until: c.Until}
	kept := false
	err = safe.Keep(ctx, s.d.me, &fresh, pack(keepClient(c)), func(x *store.Tx, sealed []byte) (err error) {
		fresh.Sealed = sealed
		kept, err = x.SetRegistration(fresh, row.Client)
		return err
	})
	if err != nil || kept {
		return c, err
	}
	return s.registered(ctx, safe, f, redirect) // another process was faster
}

// redirects returns the redirect URIs to register: the exact one, and if it's on this machine, the same without a
// port, which issuers that follow RFC 8252 §7.3 take for every port.
func redirects(redirect string) []string {
	u, err := url.Parse(redirect)
	if err != nil || u.Port() == "" || u.Scheme != "http" {
		return []string{redirect}
	}
	u.Host = strings.TrimSuffix(u.Host, ":"+u.Port())
	return []string{redirect, u.String()}
}

// quote returns a name as people see it.
func quote(name string) string { return strconv.Quote(name) }
