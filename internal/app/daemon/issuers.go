package daemon

import (
	"context"

	"github.com/dragoman-mcp/dragoman/internal/setup/config"
	"github.com/dragoman-mcp/dragoman/internal/team/access"
	"github.com/dragoman-mcp/dragoman/internal/team/authserver"
	"github.com/dragoman-mcp/dragoman/internal/team/egress"
	"github.com/dragoman-mcp/dragoman/internal/team/issuers"
	"github.com/dragoman-mcp/dragoman/internal/team/signin/oauth"
)

// protect makes the gate accept the tokens of the configured issuers, and say where clients get these and ours. At an open
// gate nobody needs one, so OAuth stays off: there's no document, and no challenge names one.
func (e *entry) protect(o *ServeOptions) {
	e.resources = access.NewResources(o.Config.PublicURL, o.Config.Identity.Name)
	e.gate.Protect(e.resources)
	if e.ledger != nil {
		e.resources.UseOwn(authserver.Scope)
	}
	list := o.Config.Access.Issuers
	if len(list) == 0 || e.gate.Open() {
		return
	}
	all := make([]issuers.Issuer, 0, len(list))
	for _, x := range list {
		all = append(all, issuers.Issuer{
			Issuer: x.Issuer, Audience: x.Audience, Claim: x.Claim, Scopes: x.Scopes, RolesClaim: x.Roles.Claim, Roles: grantsOf(x.Roles),
			Header: x.Header, Keys: x.Keys, Client: issuers.Client{ID: x.ClientID, Secret: x.ClientSecret},
		})
	}
	e.issuers = issuers.New(issuers.Options{Issuers: all, Reach: e.reach, Find: oauth.FindIssuer, Log: o.Log})
	e.gate.Accept("", e.issuers, e.issuers.Headers()...) // after tokens with a mark of their own
	e.resources.UseIssuers(e.issuers.SignIn())
}

// loginOf returns how people sign in to the console, or nil if they need an invitation.
func (e *entry) loginOf(o *ServeOptions) *issuers.Login {
	x := o.Config.Access.Login
	if x == nil {
		return nil
	}
	return issuers.NewLogin(issuers.Provider{
		Issuer: x.Issuer, Client: issuers.Client{ID: x.ClientID, Secret: x.ClientSecret}, Scopes: x.Scopes, RolesClaim: x.Roles.Claim, Roles: grantsOf(x.Roles),
	}, issuers.Options{Reach: e.reach, Find: oauth.FindIssuer, Log: o.Log})
}

// others reports whether people can come in who have neither a key nor an invitation.
func (e *entry) others(o *ServeOptions) bool {
	return e.ledger != nil || e.issuers != nil || o.Config.Access.Login != nil
}

// close ends what the entry has begun.
func (e *entry) close() {
	if e.issuers != nil {
		e.issuers.Close()
	}
	if e.login != nil {
		e.login.Close()
	}
}

// grantsOf returns which roles the values of a claim give.
func grantsOf(r config.Roles) map[string][]issuers.Grant {
	grants := map[string][]issuers.Grant{}
	for _, x := range r.Map {
		grants[x.Value] = append(grants[x.Value], issuers.Grant{Project: x.Project, Role: x.Role})
	}
	return grants
}

// reach returns what makes the requests to an issuer. Whatever its metadata name lies no nearer than the issuer.
func (e *entry) reach(ctx context.Context, issuer string) (oauth.Doer, error) {
	near, err := e.egress.Near(ctx, issuer)
	if err != nil {
		return nil, err
	}
	return e.egress.From(near, egress.Bounds{}), nil
}
