package access

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/base/identity"
	"github.com/dragoman-mcp/dragoman/internal/transport/httpdoor"
)

// Tokens knows access tokens of one kind: those of other issuers, or those of our own authorization server.
type Tokens interface {
	// Principal returns who has a token, which was in a header of a request for the target. The error is a
	// *httpdoor.Denied without a Challenge, or that of ctx. Via of the principal is token.
	Principal(ctx context.Context, header, text string, at httpdoor.Target) (*identity.Principal, error)
	// Roles returns the roles that somebody has in a project, and nil if the principal isn't one of these tokens'.
	Roles(who *identity.Principal, project string) []identity.Role
}

// viaToken is Via of the principals of tokens.
const viaToken = "token"

// wrongToken begins what is told of a token that was refused; the reason follows, which has nothing of the token.
const wrongToken = "a wrong token: "

// kind is a kind of tokens.
type kind struct {
	mark string
	of   Tokens
}

// Accept lets in who has a token that begins with a mark and that t knows. Of several marks, the one that was given
// first counts, so an empty one comes last. In a header other than Authorization, t alone knows tokens, whatever
// they begin with. Accept must be called before the gate is used.
func (g *Gate) Accept(mark string, t Tokens, headers ...string) {
	g.kinds = append(g.kinds, kind{mark, t})
	for _, h := range headers {
		g.assertions = append(g.assertions, assertion{h, t})
	}
}

// assertion is a header in which a proxy sends the tokens of a kind.
type assertion struct {
	header string
	of     Tokens
}

// Protect makes the gate's challenges lead to the documents of r. It must be called before the gate is used.
func (g *Gate) Protect(r *Resources) { g.resources = r }

// tokens returns who knows a credential that is no API key, or nil if nobody does.
func (g *Gate) tokens(c credential) Tokens {
	switch c.header {
	case "Authorization":
		if i := slices.IndexFunc(g.kinds, func(k kind) bool { return strings.HasPrefix(c.text, k.mark) }); i >= 0 {
			return g.kinds[i].of
		}
	default:
		for _, a := range g.assertions {
			if a.header == c.header {
				return a.of
			}
		}
	}
	return nil
}

// holder returns who has a token, or why it lets nobody in.
func (g *Gate) holder(r *http.Request, t Tokens, c credential) (*identity.Principal, error) {
	who, err := t.Principal(r.Context(), c.header, c.text, g.resources.Target(r))
	if err == nil {
		return who, nil
	}
	var d *httpdoor.Denied // not above, where each request would allocate it
	if !errors.As(err, &d) {
		return nil, err
	}
	told := *d
	if told.Code != "" {
		told.Challenge = g.resources.Challenge(r, told.Code, told.Reason, told.Scopes)
		if told.Challenge == "" {
			told.Challenge = `Bearer error="` + told.Code + `", error_description="` + told.Reason + `"`
		}
	}
	if told.Guessed {
		return nil, g.wrong(r, &told)
	}
	if told.Code == errToken.Code && !told.Usual && g.told.Take(httpdoor.Remote(r), time.Now()) == 0 {
		g.tell(r, wrongToken+told.Reason, nil)
	}
	return nil, &told
}

// rolesOfToken returns the roles in a project of somebody who has a token.
func (g *Gate) rolesOfToken(who *identity.Principal, project string) []identity.Role {
	for _, k := range g.kinds {
		if roles := k.of.Roles(who, project); roles != nil {
			return roles
		}
	}
	return nil
}
