package oauth

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/base/secret"
	"github.com/dragoman-mcp/dragoman/internal/transport"
)

// Means says how an issuer knows a client.
type Means string

// The means, in the order in which they are tried (AR).
const (
	Preregistered Means = "preregistered" // the operator configured it
	Document      Means = "document"      // client id metadata document: the id is its URL
	Registered    Means = "registered"    // dynamic client registration (RFC 7591)
)

// The methods of authentication at a token endpoint.
const (
	MethodNone  = "none"
	MethodBasic = "client_secret_basic"
	MethodPost  = "client_secret_post"
	MethodKey   = "private_key_jwt"
)

// Client is who we are to an issuer.
type Client struct {
	ID       string
	Secret   secret.Text
	Method   string    // one of the methods above; "" means that the issuer's metadata decides
	Key      *Key      // for MethodKey
	Redirect string    // the redirect URI, with its port
	Until    time.Time // when the secret expires; zero for never
	How      Means
	// Issuer is whose client this is. An Endpoint of another issuer refuses to use it (AR §Authorization
	// Server Binding). It's "" for a Document, which is good everywhere.
	Issuer string
}

// method returns how the client authenticates at an issuer: as the registration said, else with what it has
// and the issuer takes. Without a list, the default of RFC 8414 §2 is basic.
func (c *Client) method(is *Issuer) string {
	switch {
	case c.Method != "":
		return c.Method
	case c.Key != nil:
		return MethodKey
	case c.Secret.Reveal() == "":
		return MethodNone
	case is.Methods == nil:
		return MethodBasic
	}
	for _, m := range []string{MethodBasic, MethodPost, MethodNone} {
		if slices.Contains(is.Methods, m) {
			return m
		}
	}
	return MethodBasic
}

// NewClient is what we want to register.
type NewClient struct {
	Name      string
	Redirects []string // exact, the one that we use first; loopback ones also without their port
	Device    bool     // also ask for the device grant
}

// Choose says which means is to be used with an issuer: preregistered if pre is not nil, document if there
// is one (a URL) and the issuer reads them, else registered; or the *Fault with the redirect URI that the
// operator has to register (AR). It also refuses an issuer where nobody can sign in; see [Issuer.Signs].
func Choose(is *Issuer, pre *Client, document, redirect string) (Means, error) {
	if err := is.Signs(); err != nil {
		return "", err
	}
	switch {
	case pre != nil && pre.isOthers(is):
		return "", otherIssuer(*pre, is)
	case pre != nil:
		return Preregistered, nil
	case document != "" && is.ClientDocuments:
		return Document, nil
	case is.Register != "":
		return Registered, nil
	}
	return "", fault(RegistrationMissing, is.At, "the authorization server %s lets no client register by itself", show(is.Issuer)).
		next("register one there with the redirect URI " + redirect + ", and set its id as signIn.clientID")
}

// isOthers reports whether the client was registered at another issuer. An operator may have written this one
// with or without its last slash.
func (c *Client) isOthers(is *Issuer) bool {
	return c.Issuer != "" && !SameIssuer(is.Issuer, c.Issuer)
}

func otherIssuer(c Client, is *Issuer) *Fault {
	return fault(ClientMismatch, is.At, "the client id is one of %s, but the server now wants tokens of %s", show(c.Issuer), show(is.Issuer)).
		next("register a client at " + show(is.Issuer) + " and set its id as signIn.clientID and the issuer as signIn.issuer")
}

// Register registers a client (RFC 7591, AR §Dynamic Client Registration). If the issuer refuses, it is
// tried once more with the other application_type. Nothing of an answer with a secret gets into an error.
func Register(ctx context.Context, d Doer, is *Issuer, n NewClient) (Client, error) {
	kinds := []string{"native", "web"}
	if !isNative(n.Redirects[0]) {
		slices.Reverse(kinds)
	}
	var last error
	for _, kind := range kinds {
		c, err := register(ctx, d, is, n, kind)
		if e, refused := err.(*Error); !refused || e.Status != http.StatusBadRequest {
			return c, explain(err, is, n)
		}
		if last == nil {
			last = err // what it said about the type that suits the redirect URI
		}
	}
	return Client{}, explain(last, is, n)
}

// isNative reports whether a redirect URI is one of a program on the person's machine (AR §Application Type
// and Redirect URI Constraints).
func isNative(redirect string) bool {
	u, err := url.Parse(redirect)
	return err != nil || u.Scheme != "https" && u.Scheme != "http" || transport.IsLoopback(u.Hostname())
}

// explain turns the refusal of a registration into a sentence that names the redirect URI.
func explain(err error, is *Issuer, n NewClient) error {
	e, ok := err.(*Error)
	if !ok || Weather(err) {
		return err
	}
	return fault(RegistrationRefused, is.Register, "the authorization server didn't register us: %v", e).
		next("register a client there with the redirect URI " + n.Redirects[0] + ", and set its id as signIn.clientID")
}

func register(ctx context.Context, d Doer, is *Issuer, n NewClient, kind string) (Client, error) {
	body := registration{
		Name: n.Name, Redirects: n.Redirects, Kind: kind,
		Grants: []string{"authorization_code", "refresh_token"}, Responses: []string{"code"}, Method: is.registers(),
	}
	if n.Device && is.Device != "" {
		body.Grants = append(body.Grants, grantDevice)
	}
	raw, err := json.Marshal(body)
	if err != nil {
		return Client{}, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, is.Register, bytes.NewReader(raw))
	if err != nil {
		return Client{}, fault(EndpointInvalid, is.At, "the registration_endpoint of %s is not a URL", show(is.Issuer))
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json")
	a, err := d.Do(ctx, req)
	switch {
	case err != nil:
		return Client{}, undone(is.Register, AnswerInvalid, err)
	case a.Status != http.StatusCreated && a.Status != http.StatusOK:
		return Client{}, notRegistered(a, is)
	}
	c, err := readRegistration(a.Body, n.Redirects[0])
	c.Issuer = is.Issuer
	return c, err
}

// registration is the body of RFC 7591 §2.
type registration struct {
	Name      string   `json:"client_name"`
	Redirects []string `json:"redirect_uris"`
	Grants    []string `json:"grant_types"`
	Responses []string `json:"response_types"`
	Method    string   `json:"token_endpoint_auth_method"`
	Kind      string   `json:"application_type"`
}

// registers returns the method to register with: none where the issuer takes it or doesn't say, since a
// program that everybody can read keeps no secret.
func (is *Issuer) registers() string {
	for _, m := range []string{MethodNone, MethodBasic, MethodPost} {
		if slices.Contains(is.Methods, m) {
			return m
		}
	}
	return MethodNone
}

// notRegistered returns the error for an answer that registered nobody. RFC 7591 §3.2.2 has the form of a
// token endpoint's errors. Answers without it, to clients that lack a token for registering, are refusals
// too.
func notRegistered(a *Answer, is *Issuer) error {
	err := refusal(a, is.Register)
	if t, ok := err.(*Trouble); ok && !isWeather(t.Status) && t.Status/100 == 4 {
		return newError(is.Register, "HTTP "+strconv.Itoa(t.Status), "", t.Status)
	}
	if e, ok := err.(*Error); ok && hasSecret(a.Body) {
		e.Description = ""
	}
	return err
}

// lastSecond is the end of the year 9999.
const lastSecond = 253402300799

func hasSecret(raw []byte) bool {
	return bytes.Contains(raw, []byte("client_secret")) || bytes.Contains(raw, []byte("access_token"))
}

// readRegistration reads the answer to a registration. Errors show nothing of it.
func readRegistration(raw []byte, redirect string) (Client, error) {
	bad := func(why string) (Client, error) {
		return Client{}, fault(AnswerInvalid, "", "the authorization server's answer to our registration can't be used: %s", why).
			next("register a client there with the redirect URI " + redirect + ", and set its id as signIn.clientID")
	}
	d, err := parse(raw)
	if err != nil {
		return bad("it is not a valid JSON object")
	}
	c := Client{ID: d.text("client_id"), Method: d.text("token_endpoint_auth_method"), Redirect: redirect, How: Registered}
	hidden := d.text("client_secret")
	expires, timed := d.seconds("client_secret_expires_at")
	redirects := d.list("redirect_uris")
	switch {
	case d.err != nil:
		return bad(d.err.Error())
	case !isVisible(c.ID, 2048):
		return bad("it has no client_id, or a malformed one")
	case hidden != "" && !isVisible(hidden, 4096):
		return bad("its client_secret is malformed")
	case !slices.Contains([]string{"", MethodNone, MethodBasic, MethodPost}, c.Method):
		return bad("we didn't ask for its token_endpoint_auth_method")
	case (c.Method == MethodBasic || c.Method == MethodPost) && hidden == "":
		return bad("it has no client_secret, which its token_endpoint_auth_method needs")
	case len(redirects) > 0 && !slices.ContainsFunc(redirects, func(s string) bool { return s == redirect || isPortless(s, redirect) }):
		return bad("it has another redirect URI than ours")
	}
	if hidden != "" {
		c.Secret = secret.New(hidden)
	}
	// RFC 7591 §3.2.1: 0 means never.
	if timed && expires > 0 && hidden != "" {
		c.Until = time.Unix(min(expires, lastSecond), 0)
	}
	return c, nil
}

// isPortless reports whether registered is ours without its port (RFC 8252 §7.3).
func isPortless(registered, ours string) bool {
	r, err1 := url.Parse(registered)
	o, err2 := url.Parse(ours)
	return err1 == nil && err2 == nil && transport.IsLoopback(o.Hostname()) && r.Port() == "" && r.Hostname() == o.Hostname() && r.Scheme == o.Scheme && r.RequestURI() == o.RequestURI()
}
