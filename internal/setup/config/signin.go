package config

import (
	"maps"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/setup/clientfile"
	"github.com/dragoman-mcp/dragoman/internal/transport"
)

// How says how Dragoman gets the credentials for a server with a URL.
type How uint8

// The values of How.
const (
	HowAuto       How = iota // a person signs in if the server asks for it
	HowHeaders               // only the configured headers; a 401 is an error
	HowNone                  // no credentials; a 401 is an error
	HowClient                // OAuth client credentials (RFC 6749 §4.4)
	HowWorkload              // an assertion of the machine (RFC 7523)
	HowEnterprise            // the person's login at the organisation's provider
	HowExchange              // token exchange (RFC 8693)
)

var hows = []string{"auto", "headers", "none", "client-credentials", "workload", "enterprise", "exchange"}

func (h How) String() string { return nameOf(hows, int(h)) }

// Program reports whether nobody signs in, since a program gets the credentials.
func (h How) Program() bool { return h >= HowClient }

// The values of SignIn.Resource that are not a URI.
const (
	ResourceAuto = ""     // what the server publishes, or its URL
	ResourceOmit = "omit" // no resource parameter
)

// SignIn says how Dragoman signs in to a server with a URL. In the zero value, each person signs in for
// themselves when the server asks for it.
type SignIn struct {
	How    How
	Shared bool // all use one credential, which an operator signs in
	// Anonymous means that people on other machines come in without a name, so nobody can sign in for
	// themselves. Only a shared credential can be used then.
	Anonymous bool

	Scopes       []string // to ask for; empty means those that the server asks for
	ClientID     string   // of a client that was registered before
	ClientSecret Secret
	PrivateKey   Secret // a PEM key, instead of ClientSecret
	// Assertion is the path of a file, or the URL, with the JWT for HowWorkload, or the token for HowEnterprise
	// and HowExchange. It is read at each use.
	Assertion string
	Provider  Provider // for HowEnterprise

	Issuer                     string // which of several issuers, or the one of a server that names none
	AuthorizationURL, TokenURL string // of an issuer without metadata
	ClientMetadataURL          string // the document that describes us to issuers
	Callback                   string // the redirect URI that was registered; "" for our own
	Resource                   string // ResourceAuto, ResourceOmit or a URI
	Params                     map[string]string
	Hold                       time.Duration // how long a call waits for the person; 0 for the default
}

// Provider is an organisation's identity provider, and the client that was registered there.
type Provider struct {
	Issuer, ClientID string
	ClientSecret     Secret
}

// hash calls text and count for all that a running server can't adopt, which is everything but Hold.
func (s *SignIn) hash(text func(string), count func(int)) {
	text(s.How.String())
	for _, b := range []bool{s.Shared, s.Anonymous} {
		if count(0); b {
			count(1)
		}
	}
	count(len(s.Scopes))
	for _, x := range s.Scopes {
		text(x)
	}
	for _, x := range []string{
		s.ClientID, s.ClientSecret.Reveal(), s.PrivateKey.Reveal(), s.Assertion, s.Issuer, s.AuthorizationURL, s.TokenURL,
		s.ClientMetadataURL, s.Callback, s.Resource,
	} {
		text(x)
	}
	count(len(s.Params))
	for _, name := range slices.Sorted(maps.Keys(s.Params)) {
		text(name)
		text(s.Params[name])
	}
}

const (
	leastHold = time.Second
	mostHold  = 10 * time.Minute // as long as a link to sign in works
)

// ownParams are the parameters of an authorization request that we set. The value is the setting that
// changes the parameter, or "".
var ownParams = map[string]string{
	"client_id": "clientID", "redirect_uri": "callback", "scope": "scopes", "resource": "resource",
	"response_type": "", "response_mode": "", "state": "", "nonce": "", "code_challenge": "", "code_challenge_method": "", "request": "", "request_uri": "", "dpop_jkt": "",
}

// readSignIn reads the setting signIn of a server, on top of what the server's entry says. It may be
// absent.
func (c *compiler) readSignIn(o *object, srv *Server, s *Snapshot) {
	host, _, _ := net.SplitHostPort(s.Listen)
	srv.SignIn.Anonymous = s.AllowUnauthenticatedNetworkAccess && !transport.IsLoopback(host)
	if o != nil {
		c.readSignInKeys(o, srv)
		o.done()
	}
	if srv.URL == "" && srv.Command != "" {
		if o != nil && len(o.n.members) > 0 {
			c.warning(o.n, o.path, "is ignored, because the server has a command", "pass a token to the command in its env")
		}
		srv.SignIn = SignIn{}
		return
	}
	c.settleSignIn(o, srv)
}

// readSignInKeys reads the keys of a mapping signIn.
func (c *compiler) readSignInKeys(o *object, srv *Server) {
	x := &srv.SignIn
	x.How = How(o.choice("how", hows, int(x.How)))
	shared := 0
	if x.Shared {
		shared = 1
	}
	x.Shared = o.choice("per", []string{"person", "shared"}, shared) == 1
	if n := o.get("per"); n != nil && n.text == "person" && x.Anonymous {
		c.problem(n, o.at("per"), "nobody on the network has a name, because "+ourKey+".allowUnauthenticatedNetworkAccess lets everybody in, so all would share one person's credential",
			"write per: shared, or give people API keys and remove allowUnauthenticatedNetworkAccess")
	}
	if o.get("scopes") != nil {
		x.Scopes = nil
		o.list("scopes", true, func(n *node, path string, e expansion) {
			for _, scope := range strings.Fields(e.text) {
				if strings.ContainsFunc(scope, func(r rune) bool { return r <= ' ' || r == '"' || r == '\\' || r > 0x7e }) { // RFC 6749 §3.3
					c.problem(n, path, n.shown()+" is not a scope", "write a list of scopes, as the documentation of the server names them")
					return
				}
				x.Scopes = append(x.Scopes, scope)
			}
		})
	}
	if n := o.text("clientID", &x.ClientID); n != nil && (x.ClientID == "" || strings.ContainsFunc(x.ClientID, isControl)) {
		c.problem(n, o.at("clientID"), "is not the id of a client", "write the id that the issuer gave you, or remove the key")
	}
	c.readSecretKey(o, "clientSecret", &x.ClientSecret, srv)
	if n := c.readSecretKey(o, "privateKey", &x.PrivateKey, srv); n != nil && !strings.Contains(x.PrivateKey.Reveal(), "-----BEGIN ") && x.PrivateKey.Reveal() != mask {
		c.problem(n, o.at("privateKey"), "is not a key in PEM", "write ${secret:NAME}, and store the key with `dragoman secrets set NAME < key.pem`")
	}
	c.readAssertion(o, x)
	c.readProvider(o.object("provider"), srv)
	for _, u := range []struct {
		key  string
		dst  *string
		path bool // it must have one
	}{{"issuer", &x.Issuer, false}, {"authorizationURL", &x.AuthorizationURL, false}, {"tokenURL", &x.TokenURL, false}, {"clientMetadataURL", &x.ClientMetadataURL, true}} {
		if n := o.text(u.key, u.dst); n != nil {
			if bad, hint := badOAuthURL(*u.dst, u.path); bad != "" {
				c.problem(n, o.at(u.key), bad, hint)
			}
		}
	}
	if n := o.text("callback", &x.Callback); n != nil {
		if bad, hint := badCallback(x.Callback); bad != "" {
			c.problem(n, o.at("callback"), bad, hint)
		}
	}
	c.readResource(o, x)
	c.readParams(o.object("params"), x)
	o.duration("hold", &x.Hold, leastHold, mostHold)
}

func (c *compiler) readSecretKey(o *object, key string, dst *Secret, srv *Server) *node {
	n := o.get(key)
	if n == nil {
		return nil
	}
	e, ok := c.masked(n, o.at(key))
	if !ok {
		return nil
	}
	*dst = NewSecret(e.text)
	srv.outside = append(srv.outside, e.outside...)
	if e.text == "" {
		c.problem(n, o.at(key), "is empty", "remove the key, or write ${secret:NAME}")
		return nil
	}
	return n
}

// readAssertion reads where the assertion is. A project of the store may not read a file of the machine, or an address
// that only the machine reaches: its operator could have it sent to an address of theirs.
func (c *compiler) readAssertion(o *object, x *SignIn) {
	n := o.text("assertion", &x.Assertion)
	if n == nil {
		return
	}
	if u, err := url.Parse(x.Assertion); err == nil && !c.stored && (u.Scheme == "http" || u.Scheme == "https") {
		if bad, hint := badURL(x.Assertion); bad != "" {
			c.problem(n, o.at("assertion"), bad, hint)
		}
		return
	}
	switch {
	case c.stored:
		c.problem(n, o.at("assertion"), "works only in the configuration file, but the project is in the store", "use how: client-credentials, with ${secret:NAME} as clientSecret")
	case strings.Count(x.Assertion, ".") >= 2 && strings.HasPrefix(x.Assertion, "ey"):
		c.problem(n, o.at("assertion"), "is not a path", "write the token into a file of its own, and the path of this file here")
	default:
		x.Assertion = c.relative(n, o.at("assertion"), x.Assertion)
	}
}

// readProvider reads where how: enterprise exchanges what a person's login gave.
func (c *compiler) readProvider(o *object, srv *Server) {
	if o == nil {
		return
	}
	x := &srv.SignIn.Provider
	if n := o.text("issuer", &x.Issuer); n != nil {
		if bad, hint := badOAuthURL(x.Issuer, false); bad != "" {
			c.problem(n, o.at("issuer"), bad, hint)
		}
	}
	o.text("clientID", &x.ClientID)
	c.readSecretKey(o, "clientSecret", &x.ClientSecret, srv)
	if x.Issuer == "" || x.ClientID == "" {
		c.problem(o.n, o.path, "needs an issuer and a clientID", "write provider: {issuer: URL, clientID: ID}")
	}
	o.done()
}

func (c *compiler) readResource(o *object, x *SignIn) {
	n := o.text("resource", &x.Resource)
	switch {
	case n == nil, x.Resource == ResourceOmit:
	case x.Resource == "auto":
		x.Resource = ResourceAuto
	default:
		if u, err := url.Parse(x.Resource); err != nil || !u.IsAbs() || u.Fragment != "" || strings.ContainsRune(x.Resource, '#') { // RFC 8707 §2
			c.problem(n, o.at("resource"), n.shown()+" is not a resource", "write auto, omit, or an absolute URI without #")
		}
	}
}

func (c *compiler) readParams(o *object, x *SignIn) {
	if o == nil {
		return
	}
	x.Params = maps.Clone(x.Params)
	if x.Params == nil {
		x.Params = map[string]string{}
	}
	for _, m := range o.n.members {
		instead, own := ownParams[m.key]
		switch {
		case own && instead != "":
			c.problem(m.place(), o.at(m.key), "Dragoman sets this parameter itself", "write signIn."+instead)
			continue
		case own:
			c.problem(m.place(), o.at(m.key), "Dragoman sets this parameter itself", "remove it")
			continue
		case m.key == "" || strings.ContainsFunc(m.key, func(r rune) bool { return r <= ' ' || r > 0x7e }):
			c.problem(m.place(), o.path, "has a name that is not a parameter", "")
			continue
		}
		if e, ok := c.scalar(m.value, o.at(m.key)); ok {
			x.Params[m.key] = e.text
		}
	}
}

// settleSignIn checks what belongs together, and lets a configured Authorization header win.
func (c *compiler) settleSignIn(o *object, srv *Server) {
	x := &srv.SignIn
	at, path := &node{}, c.setting(srv.Name, "signIn")
	given := o != nil && len(o.n.members) > 0
	if o != nil {
		at, path = o.n, o.path
	}
	if given && (x.How == HowNone || x.How == HowHeaders) {
		var idle []string
		for _, m := range o.n.members {
			if m.key != "how" {
				idle = append(idle, m.key)
			}
		}
		if len(idle) > 0 {
			c.warning(at, path, "has keys that have no effect beside how: "+x.How.String()+": "+strings.Join(idle, ", "), "remove them, or write how: auto")
		}
	}
	if srv.authorized() {
		switch {
		case x.How == HowHeaders || x.How == HowNone:
		case x.How != HowAuto || given && o.get("how") != nil:
			c.problem(at, path, "the server has an Authorization header, so how: "+x.How.String()+" cannot work", "remove the header, or write how: headers")
		case given:
			c.warning(at, path, "is ignored, because the server has an Authorization header", "remove the header to sign in instead")
			fallthrough
		default:
			x.How = HowHeaders
		}
		return
	}
	secret, key := x.ClientSecret.Reveal() != "", x.PrivateKey.Reveal() != ""
	switch {
	case secret && key:
		c.problem(at, path, "has both clientSecret and privateKey", "keep one of them")
	case x.ClientID == "" && secret:
		c.problem(at, path, "has a clientSecret, but no clientID", "add clientID")
	case x.ClientID == "" && key:
		c.problem(at, path, "has a privateKey, but no clientID", "add clientID")
	case x.AuthorizationURL != "" && x.TokenURL == "":
		c.problem(at, path, "has an authorizationURL, but no tokenURL", "add tokenURL")
	case x.TokenURL != "" && x.AuthorizationURL == "" && x.How == HowAuto:
		c.problem(at, path, "has a tokenURL, but no authorizationURL", "add authorizationURL")
	case x.How == HowClient && (x.ClientID == "" || !secret && !key) && srv.Unusable == nil:
		c.problem(at, path, "how: client-credentials needs a clientID, and a clientSecret or a privateKey", "add them")
	case x.How > HowClient && x.Assertion == "" && srv.Unusable == nil:
		c.problem(at, path, "how: "+x.How.String()+" needs an assertion", "add assertion, the path of the file or the URL that has it")
	case x.How == HowEnterprise && x.Provider.Issuer == "":
		c.problem(at, path, "how: enterprise needs a provider", "add provider: {issuer: URL, clientID: ID}")
	case x.How != HowEnterprise && x.Provider.Issuer != "":
		c.warning(at, path, "has a provider, which has no effect", "write how: enterprise, or remove it")
	}
}

// authorized reports whether the configured headers or the URL have credentials for Authorization.
func (s *Server) authorized() bool {
	if slices.ContainsFunc(s.Header, func(f Field) bool { return http.CanonicalHeaderKey(f.Name) == "Authorization" }) {
		return true
	}
	u, err := url.Parse(s.URL)
	return err == nil && u.User != nil
}

// badOAuthURL returns the problem with a URL of an issuer, or "". Without https, only this machine may be
// the issuer.
func badOAuthURL(text string, path bool) (bad, hint string) {
	const form = "write an https URL, as the issuer's documentation has it"
	u, err := url.Parse(text)
	switch {
	case err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "":
		return "is not an https URL", form
	case u.User != nil || u.Fragment != "" || strings.ContainsRune(text, '#'):
		return "must not have a user name or a fragment", form
	case path && (u.Scheme != "https" || strings.Trim(u.Path, "/") == "" || u.RawQuery != ""):
		return "is not the URL of a client's document", "write an https URL with a path and without a query"
	}
	return "", ""
}

// badCallback returns the problem with a redirect URI, or "".
func badCallback(text string) (bad, hint string) {
	const form = "write a URI on this machine, such as http://localhost:3118/callback, exactly as it was registered"
	u, err := url.Parse(text)
	switch {
	case err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https":
		return "is not a redirect URI", form
	case u.User != nil || u.Fragment != "" || strings.ContainsRune(text, '#'):
		return "must not have a user name or a fragment", form
	case u.Scheme == "http" && !transport.IsLoopback(u.Hostname()):
		return "is http on another machine, which nobody can protect", form
	case u.Scheme == "http" && u.Port() == "":
		return "has no port", form
	}
	return "", ""
}

// readForeignSignIn reads the keys with which other clients say how to sign in, from a server's entry.
func (c *compiler) readForeignSignIn(o *object, srv *Server) {
	entry := &clientfile.Value{Kind: clientfile.Map}
	for _, key := range clientfile.SignInKeys() {
		if n := o.get(key); n != nil {
			v, _ := toValue(n)
			entry.Members = append(entry.Members, clientfile.Member{Key: key, Value: v, Line: n.line, Col: n.col})
		}
	}
	settings, notes := clientfile.SignIn(entry)
	for _, n := range notes {
		c.warning(&node{line: n.Line, col: n.Col}, o.path, n.String(), "write "+c.setting(srv.Name, "signIn"))
	}
	if len(settings.Members) > 0 {
		c.readSignInKeys(c.object(fromValue(settings), o.at("oauth")), srv)
	}
}

// readEgress reads which hosts may be nearer than the server that names them.
func (c *compiler) readEgress(o *object, s *Snapshot) {
	if o == nil {
		return
	}
	o.list("allow", false, func(n *node, path string, e expansion) {
		if bad := badEgressHost(e.text); bad != "" {
			c.problem(n, path, n.shown()+" "+bad, "write a host name, host:port, or *.domain for all hosts of a domain")
			return
		}
		s.Egress.Allow = append(s.Egress.Allow, strings.ToLower(e.text))
	})
	o.done()
}

// badEgressHost returns the problem with an item of egress.allow, or "".
func badEgressHost(h string) string {
	if domain, ok := strings.CutPrefix(h, "*."); ok {
		if !strings.Contains(strings.Trim(domain, "."), ".") && !strings.EqualFold(domain, "internal") && !strings.EqualFold(domain, "local") {
			return "contains *, which allows too much"
		}
		h = domain
	}
	if strings.Count(h, ":") > 1 && !strings.HasPrefix(h, "[") {
		h = "[" + h + "]" // an IPv6 address
	}
	return badHost(h)
}
