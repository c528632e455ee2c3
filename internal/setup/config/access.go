package config

import (
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/dragoman-mcp/dragoman/internal/base/identity"
	"github.com/dragoman-mcp/dragoman/internal/transport"
)

// Access says who may come in.
type Access struct {
	LoopbackKeys bool     // clients on this machine need an API key or a token, too
	Issuers      []Issuer // whose tokens count
	Own          OwnSignIn
	Login        *Login // where people sign in to the console; nil if they need an invitation
	// TrustedProxies are the addresses of proxies whose X-Forwarded-For says where a request comes from.
	TrustedProxies []netip.Prefix
}

// Issuer is an issuer of access tokens; see issuers.Issuer.
type Issuer struct {
	Issuer       string
	Audience     []string // values of the claim aud, or of Claim
	Claim        string   // "" for aud
	Scopes       []string
	Roles        Roles
	Header       string // in canonical form; "" for Authorization
	Keys         string // a URL, or ""
	ClientID     string // who asks about opaque tokens; "" if nobody does
	ClientSecret Secret
}

// Login is an OpenID provider at which people sign in to the console.
type Login struct {
	Issuer       string
	ClientID     string
	ClientSecret Secret
	Scopes       []string // besides openid
	Roles        Roles
}

// Roles says which roles the values of a claim give.
type Roles struct {
	Claim string
	Map   []MappedRole // in file order
}

// MappedRole is a role that a value of a claim gives in a project.
type MappedRole struct {
	Value, Project string
	Role           identity.Role
}

// readAccess reads who may come in. s already says where we listen, and at which URL.
func (c *compiler) readAccess(o *object, s *Snapshot) {
	if o == nil {
		return
	}
	a := &s.Access
	a.LoopbackKeys = o.choice("loopback", []string{"open", "keys"}, 0) == 1
	if n := o.get("issuers"); n != nil {
		if n.kind != sequenceKind {
			c.problem(n, o.at("issuers"), "must be a list, not "+n.kind.String(), "write a - before each issuer")
		}
		for i, item := range n.items {
			x := c.readIssuer(c.object(item, o.at("issuers")+"["+strconv.Itoa(i)+"]"))
			if slices.ContainsFunc(a.Issuers, func(y Issuer) bool {
				return y.Header == x.Header && (y.Issuer == x.Issuer || y.ClientID != "" && x.ClientID != "")
			}) {
				c.problem(item, o.at("issuers"), "has two entries for the same tokens", "keep one for each issuer, and let one alone have introspect, since an opaque token doesn't say whose it is")
			}
			a.Issuers = append(a.Issuers, x)
		}
		if len(a.Issuers) > 0 && (s.openToAll() || s.AllowUnauthenticatedNetworkAccess) {
			hint := "add " + o.at("loopback") + ": keys"
			if s.AllowUnauthenticatedNetworkAccess {
				hint = "remove allowUnauthenticatedNetworkAccess"
			}
			c.warning(n, o.at("issuers"), "has no effect, because everybody is let in at "+s.Listen, hint)
		}
	}
	a.TrustedProxies = c.readProxies(o)
	c.readOwnSignIn(o, s)
	c.readLogin(o, s)
	o.done()
}

// judgePublicURL warns of a public URL with which people can't do what the rest of the configuration lets them do.
func (c *compiler) judgePublicURL(o *object, s *Snapshot) {
	u, err := url.Parse(s.PublicURL)
	if s.PublicURL == "" || err != nil {
		return
	}
	n := o.get("publicURL")
	if u.Scheme == "http" && !transport.IsLoopback(u.Hostname()) && !s.openToAll() && !s.AllowUnauthenticatedNetworkAccess {
		c.warning(n, o.at("publicURL"), "is not https, so everybody on the way could read the keys of clients, and people can't use the console there", "let the proxy speak TLS, and write https")
	}
	if u.Scheme == "https" && u.Path != "" && s.Access.Own.On {
		c.warning(n, o.at("publicURL"), "has a path, so nobody can agree to a sign-in: below a path, the console has no place, and people no session", "give Dragoman a host name of its own at the proxy")
	}
}

// readProxies reads whose X-Forwarded-For counts.
func (c *compiler) readProxies(o *object) (all []netip.Prefix) {
	o.list("trustedProxies", false, func(n *node, path string, e expansion) {
		p, err := netip.ParsePrefix(e.text)
		if a, bad := netip.ParseAddr(e.text); bad == nil && a.Zone() == "" {
			p, err = netip.PrefixFrom(a, a.BitLen()), nil
		}
		switch {
		case err != nil || p.Addr().Is4In6():
			c.problem(n, path, n.shown()+" is not a network", "write the address of the proxy, or its network, such as 10.0.0.0/8")
		case p.Bits() == 0:
			c.problem(n, path, "trusts everybody, so everybody could choose an address", "write the address of the proxy, or its network, such as 10.0.0.0/8")
		default:
			all = append(all, p.Masked())
		}
	})
	return all
}

// openToAll reports whether clients on this machine need nothing, and others can't reach the address.
func (s *Snapshot) openToAll() bool {
	host, _, err := net.SplitHostPort(s.Listen)
	return err == nil && transport.IsLoopback(host) && !s.Access.LoopbackKeys
}

func (c *compiler) readIssuer(o *object) (x Issuer) {
	x.Issuer = c.readIssuerURL(o)
	if n := o.get("audience"); n != nil && n.kind == mappingKind {
		m := o.object("audience")
		m.text("claim", &x.Claim)
		x.Audience = m.texts("values")
		if x.Claim == "" || len(x.Audience) == 0 {
			c.problem(n, m.path, "needs a claim and its values", "write {claim: client_id, values: [ID]}, or a list of audiences")
		}
		m.done()
	} else {
		x.Audience = o.texts("audience")
	}
	x.Scopes = c.readScopes(o)
	x.Roles = c.readRoles(o)
	if n := o.text("header", &x.Header); n != nil {
		bad, _ := badHeader(x.Header)
		x.Header = http.CanonicalHeaderKey(x.Header)
		if bad != "" || slices.Contains([]string{"Authorization", "X-Api-Key", "Cookie", "Host", "Forwarded", "Dpop"}, x.Header) || strings.HasPrefix(x.Header, "X-Forwarded-") {
			c.problem(n, o.at("header"), "is not a header in which a proxy can send an assertion", "name the header with the signed assertion, such as Cf-Access-Jwt-Assertion, or remove this key")
		}
	}
	if n := o.text("keys", &x.Keys); n != nil && badIssuer(x.Keys) {
		c.problem(n, o.at("keys"), "is not an https URL", "write the URL of the issuer's JWK set, or remove this key if the issuer publishes metadata")
	}
	if i := o.object("introspect"); i != nil {
		c.readClient(i, &x.ClientID, &x.ClientSecret)
		i.done()
	}
	o.done()
	return x
}

// readIssuerURL reads the key issuer, which is required.
func (c *compiler) readIssuerURL(o *object) (issuer string) {
	switch n := o.text("issuer", &issuer); {
	case o.get("issuer") == nil:
		c.problem(o.n, o.at("issuer"), "is missing", "write the issuer's identifier, exactly as its metadata spell it")
	case n != nil && badIssuer(issuer):
		c.problem(n, o.at("issuer"), "is not an https URL", "write the issuer's identifier, exactly as its metadata spell it")
	}
	return issuer
}

// badIssuer reports whether a text can't be the identifier of an issuer (RFC 8414 §2). Plain http is for issuers on
// this machine; who makes the requests sees to that.
func badIssuer(text string) bool {
	u, err := url.Parse(text)
	return err != nil || u.Scheme != "https" && (u.Scheme != "http" || !transport.IsLoopback(u.Hostname())) || u.Host == "" || u.User != nil || u.RawQuery != "" || u.ForceQuery || u.Fragment != ""
}

// readClient reads a client id and its secret, which are both required.
func (c *compiler) readClient(o *object, id *string, secret *Secret) {
	o.text("clientID", id)
	if n := o.get("clientSecret"); n != nil {
		if e, ok := c.masked(n, o.at("clientSecret")); ok {
			*secret = NewSecret(e.text)
		}
	}
	for _, key := range []string{"clientID", "clientSecret"} {
		if o.get(key) == nil {
			c.problem(o.n, o.at(key), "is missing", "register Dragoman as a client with a secret at the issuer, and write both clientID and clientSecret")
		}
	}
}

func (c *compiler) readScopes(o *object) (scopes []string) {
	o.list("scopes", false, func(n *node, path string, e expansion) {
		// RFC 6749 §3.3: printable ASCII without quotes, backslashes and spaces.
		if e.text == "" || strings.ContainsFunc(e.text, func(r rune) bool { return r <= ' ' || r > '~' || r == '"' || r == '\\' }) {
			c.problem(n, path, n.shown()+" is not a scope", "write each scope by itself")
			return
		}
		scopes = append(scopes, e.text)
	})
	return scopes
}

// readRoles reads which roles the values of a claim give. Who has none of them has no role, so without any nobody
// could do anything.
func (c *compiler) readRoles(o *object) (r Roles) {
	const hint = "write roles: {claim: groups, map: {GROUP: caller}}; without a mapped role, nobody may do anything"
	m := o.object("roles")
	if m == nil {
		c.problem(o.n, o.at("roles"), "is missing", hint)
		return r
	}
	m.text("claim", &r.Claim)
	listed := false // be it wrongly
	if values := m.object("map"); values != nil {
		listed = len(values.n.members) > 0
		for _, x := range values.n.members {
			values.list(x.key, true, func(n *node, path string, e expansion) {
				project, name, named := strings.Cut(e.text, "/")
				if !named {
					project, name = "default", e.text
				}
				role, ok := identity.RoleOf(name)
				if !ok || badName(project) != "" {
					c.problem(n, path, n.shown()+" is not a role", "write caller, viewer, operator or admin, or PROJECT/ROLE for another project than default")
					return
				}
				r.Map = append(r.Map, MappedRole{x.key, project, role})
			})
		}
	}
	if r.Claim == "" || !listed {
		c.problem(m.n, m.path, "needs a claim and a map", hint)
	}
	m.done()
	return r
}

// readLogin reads how people sign in to the console.
func (c *compiler) readLogin(o *object, s *Snapshot) {
	by := 0
	if p := o.object("people"); p != nil {
		by = p.choice("by", []string{"link", "oidc"}, 0)
		p.done()
	}
	l := o.object("oidc")
	if l != nil {
		x := &Login{Issuer: c.readIssuerURL(l)}
		c.readClient(l, &x.ClientID, &x.ClientSecret)
		x.Scopes = c.readScopes(l)
		x.Roles = c.readRoles(l)
		l.done()
		if by == 1 {
			s.Access.Login = x
		} else {
			c.warning(l.n, l.path, "has no effect", "add "+o.at("people")+": {by: oidc}")
		}
	}
	if by == 0 {
		return
	}
	switch u, err := url.Parse(s.PublicURL); {
	case l == nil:
		c.problem(o.get("people"), join(o.at("people"), "by"), "is oidc, but no provider is configured", "add "+o.at("oidc")+": {issuer: URL, clientID: ID, clientSecret: …, roles: …}")
	case err != nil || u.Scheme != "https" || u.Path != "":
		c.problem(o.get("people"), join(o.at("people"), "by"), "is oidc, which needs an https URL that the provider can send people back to", "set "+join(c.home, "publicURL")+" to an https URL without a path")
	}
}

// access prints who may come in.
func (p *printer) access(a *Access) {
	if !a.LoopbackKeys && len(a.TrustedProxies)+len(a.Issuers) == 0 && a.Login == nil && !a.Own.any() {
		return
	}
	p.line(1, "access:")
	if a.LoopbackKeys {
		p.text(2, "loopback", "keys")
	}
	var proxies []string
	for _, x := range a.TrustedProxies {
		proxies = append(proxies, x.String())
	}
	p.list(2, "trustedProxies", proxies)
	p.ownSignIn(&a.Own)
	if len(a.Issuers) > 0 {
		p.line(2, "issuers:")
	}
	for _, x := range a.Issuers {
		p.line(3, "-")
		p.text(4, "issuer", x.Issuer)
		if x.Claim != "" {
			p.line(4, "audience:")
			p.text(5, "claim", x.Claim)
			p.list(5, "values", x.Audience)
		} else {
			p.list(4, "audience", x.Audience)
		}
		p.list(4, "scopes", x.Scopes)
		p.roles(4, &x.Roles)
		if x.Header != "" {
			p.text(4, "header", x.Header)
		}
		if x.Keys != "" {
			p.text(4, "keys", x.Keys)
		}
		if x.ClientID != "" {
			p.line(4, "introspect:")
			p.text(5, "clientID", x.ClientID)
			p.text(5, "clientSecret", mask)
		}
	}
	if x := a.Login; x != nil {
		p.line(2, "people:")
		p.text(3, "by", "oidc")
		p.line(2, "oidc:")
		p.text(3, "issuer", x.Issuer)
		p.text(3, "clientID", x.ClientID)
		p.text(3, "clientSecret", mask)
		p.list(3, "scopes", x.Scopes)
		p.roles(3, &x.Roles)
	}
}

func (p *printer) roles(indent int, r *Roles) {
	p.line(indent, "roles:")
	p.text(indent+1, "claim", r.Claim)
	p.line(indent+1, "map:")
	done := map[string]bool{}
	for _, x := range r.Map {
		if done[x.Value] {
			continue
		}
		done[x.Value] = true
		var all []string
		for _, y := range r.Map {
			if y.Value == x.Value {
				all = append(all, y.Project+"/"+y.Role.String())
			}
		}
		p.list(indent+2, word(x.Value), all)
	}
}
