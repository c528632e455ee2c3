package authserver

import (
	"crypto/hmac"
	"encoding/base64"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/base/identity"
	"github.com/dragoman-mcp/dragoman/internal/team/access"
	"github.com/dragoman-mcp/dragoman/internal/transport/httpdoor"
)

// request is an authorization request (RFC 6749 §4.1.1, RFC 7636, RFC 8707) whose client and redirect URI are good.
type request struct {
	raw                        string // the query
	issuer                     string // see Server.Issuer
	client                     *Client
	redirect, state, challenge string
	resource                   string // the path of the endpoint
}

const (
	mostQuery = 3000 // bytes; a cookie has to hold it
	atQuery   = "dragoman_at"
	flowLife  = 10 * time.Minute
)

// authorize answers a browser that a client has sent. Another site has opened this page, so the browser doesn't show
// us the cookie of its session, which is SameSite=Strict. So this is a page that goes on to the next one, on
// our own site. Nothing is kept here, whoever asks.
func (s *Server) authorize(w http.ResponseWriter, r *http.Request) {
	q := s.begin(w, r)
	if q == nil {
		return
	}
	if at := s.o.Address(r); s.atAddress(r) && r.Host != at { // where a link to the console is opened
		http.Redirect(w, r, "http://"+at+s.below()+pathAuthorize+"?"+withoutAt(q.raw)+"&"+atQuery+"="+r.Host, http.StatusSeeOther)
		return
	}
	onward := pathConsent + "?" + q.raw
	if !s.atAddress(r) {
		s.setFlow(w, r, q)
		s.o.Show(w, r, http.StatusOK, &Page{Title: "Signing in", Texts: []string{"One moment."}, Onward: s.below() + onward})
		return
	}
	// On loopback, people have the console at a name that nobody else may learn, so we can't send them there. When
	// they open a link, they go on with what the cookie has.
	s.setReturn(w, r, q)
	s.o.Show(w, r, http.StatusOK, &Page{
		Title:   "Open the console to go on",
		Texts:   []string{q.client.title() + " asks for access to this Dragoman. To decide about it, open the console from this browser: run this command in a terminal, as the user who started Dragoman, within 10 minutes."},
		Command: s.o.Command(r), Password: s.below() + onward,
	})
}

// begin reads the request of a client, or answers and returns nil.
func (s *Server) begin(w http.ResponseWriter, r *http.Request) *request {
	const title = "This sign-in is not possible"
	if r.Method != http.MethodGet && r.Method != http.MethodHead && r.Method != http.MethodPost {
		httpdoor.RefuseMethod(w, "GET, HEAD, POST")
		return nil
	}
	if s.o.PublicURL == "" && s.atAddress(r) && !isOurHost(r.Host) {
		s.fail(w, r, http.StatusBadRequest, title, "Use localhost, 127.0.0.1 or [::1] in the URL of the client.")
		return nil
	}
	raw := r.URL.RawQuery
	if r.Method == http.MethodPost { // from the consent page
		raw = r.PostFormValue("query")
	}
	v, err := url.ParseQuery(raw)
	if err != nil || len(raw) > mostQuery || slices.ContainsFunc(values(v), func(all []string) bool { return len(all) > 1 || strings.ContainsFunc(all[0], isControl) }) {
		s.fail(w, r, http.StatusBadRequest, title, "The client's request is malformed or too long. Start again in the client; if that doesn't help, tell whoever makes it.")
		return nil
	}
	c, err := s.client(r, v.Get("client_id"))
	var doc *documentError
	switch {
	case errors.As(err, &doc), errors.Is(err, errUnknown), errors.Is(err, errRefused):
		s.fail(w, r, http.StatusBadRequest, title, capital(err.Error())+".")
		return nil
	case err != nil:
		s.broken(w, r, err)
		return nil
	}
	q := &request{raw: raw, issuer: s.issuerAt(hostOfFlow(r, v)), client: c, redirect: v.Get("redirect_uri"), state: v.Get("state"), challenge: v.Get("code_challenge")}
	if q.redirect == "" || !c.allows(q.redirect) {
		s.fail(w, r, http.StatusBadRequest, title, "The client wants to get the answer at an address that is none of its own, so nothing was sent there.")
		return nil
	}
	if p := s.check(v, q); p != nil {
		s.send(w, r, q, url.Values{"error": {p.Code}, "error_description": {p.Text}}, isLoopback(q.redirect) || known(c.ID) != nil)
		return nil
	}
	return q
}

// hostOfFlow returns the host at which a flow has begun. If the browser has gone to another of our names, the request
// says it. All of them have the same port, so nobody can make us speak for another program.
func hostOfFlow(r *http.Request, v url.Values) string {
	if at := v.Get(atQuery); isOurHost(at) && portOf(at) == portOf(r.Host) {
		return at
	}
	return r.Host
}

// check returns what is wrong with a request whose client may hear of it.
func (s *Server) check(v url.Values, q *request) *problem {
	resource := v.Get("resource")
	path, ours := "", true
	if resource != "" {
		path, ours = s.resourcePath(q.issuer, resource)
	}
	q.resource = path
	switch {
	case v.Get("response_type") != "code":
		return bad("unsupported_response_type", "response_type must be code")
	case v.Get("response_mode") != "" && v.Get("response_mode") != "query":
		return bad("invalid_request", "response_mode must be query")
	case v.Get("request") != "":
		return bad("request_not_supported", "request objects are not supported")
	case v.Get("request_uri") != "":
		return bad("request_uri_not_supported", "request objects are not supported")
	case !isRandom(q.challenge):
		return bad("invalid_request", "code_challenge must be the S256 challenge of PKCE")
	case v.Get("code_challenge_method") != "S256": // absent means plain (RFC 7636 §4.3)
		return bad("invalid_request", "code_challenge_method must be S256")
	case !ours:
		return bad("invalid_target", "resource is no endpoint of this Dragoman")
	case strings.Contains(" "+v.Get("prompt")+" ", " none "):
		return bad("interaction_required", "somebody has to agree on a page")
	}
	return nil // scopes that we don't know are left out of the token (RFC 6749 §3.3)
}

// isRandom reports whether a text can be a result of oauth.Random, or a challenge of PKCE: 32 bytes.
func isRandom(s string) bool {
	b, err := base64.RawURLEncoding.Strict().DecodeString(s)
	return err == nil && len(b) == 32
}

// consent asks a person whether a client may have access, and acts on the answer.
func (s *Server) consent(w http.ResponseWriter, r *http.Request) {
	r.Body = http.MaxBytesReader(w, r.Body, mostBody)
	if s.cross.Check(r) != nil {
		s.fail(w, r, http.StatusForbidden, "This request was refused", "A page of another site has sent it.")
		return
	}
	q := s.begin(w, r)
	if q == nil {
		return
	}
	flow, there := s.flow(r)
	if !there {
		if !s.atAddress(r) {
			s.fail(w, r, http.StatusForbidden, "Start again in the client", "This page belongs to a sign-in that this browser has not begun, or that has taken longer than 10 minutes.")
			return
		}
		flow = s.setFlow(w, r, q)
	}
	who := s.o.Sessions.SignedIn(r)
	if who == nil {
		s.signIn(w, r, q)
		return
	}
	if !s.o.Ledger.Calls(who.Subject) {
		s.fail(w, r, http.StatusForbidden, "Your role does not allow this", "You have no role with which a client could use this Dragoman for you. Ask an admin of the project for the role caller.")
		return
	}
	if r.Method == http.MethodPost {
		s.decide(w, r, q, who, flow)
		return
	}
	id, remembered, err := s.remembered(r, q, who)
	switch {
	case err != nil:
		s.broken(w, r, err)
	case remembered && r.Method == http.MethodGet && r.Header.Get("Sec-Purpose") == "":
		s.allow(w, r, q, who, id)
	default:
		s.ask(w, r, q, who, flow)
	}
}

func (s *Server) broken(w http.ResponseWriter, r *http.Request, err error) {
	s.o.Log.Warn("the authorization server cannot use the database", "cause", err.Error())
	s.fail(w, r, http.StatusServiceUnavailable, "This is not possible now", "Dragoman can't use its database. Try again later.")
}

// signIn tells somebody without a session how to get one.
func (s *Server) signIn(w http.ResponseWriter, r *http.Request, q *request) {
	s.setReturn(w, r, q)
	if s.atAddress(r) {
		// Browsers that can't open the console's name have a password instead (RFC 7617 §2.2).
		w.Header().Set("WWW-Authenticate", `Basic realm="Dragoman console", charset="UTF-8"`)
		s.o.Show(w, r, http.StatusUnauthorized, &Page{
			Title: "Open the console to go on", Texts: []string{"This browser has no session of the console. Run this command in a terminal, as the user who started Dragoman."}, Command: s.o.Command(r),
		})
		return
	}
	p := &Page{Title: "Sign in first", Texts: []string{
		"This browser is not signed in to Dragoman. Open the link of your invitation in it, within 10 minutes, and this sign-in goes on. If your link was used, ask an admin for another one.",
	}}
	if s.o.Provider != nil {
		if p.Provider = s.o.Provider(r); p.Provider != "" {
			p.Texts[0] = "This browser is not signed in to Dragoman. Sign in within 10 minutes, here or with the link of an invitation, and this sign-in goes on."
		}
	}
	if s.o.PublicURL == "" {
		p.Texts, p.Command = []string{"This browser has no session of the console, or it has ended. Run this command in a terminal, as the user who started Dragoman, and this sign-in goes on."}, s.o.Command(r)
	}
	s.o.Show(w, r, http.StatusUnauthorized, p)
}

// consentID returns what a consent is remembered by, or "" if it isn't remembered: nobody can prove which program
// listens on loopback or has a scheme (2025-11-25 §Security Best Practices, "Localhost Redirect URI Risks"). A
// client that says something else about itself asks anew.
func (s *Server) consentID(r *http.Request, q *request, who *identity.Principal) (string, error) {
	if isLoopback(q.redirect) || isApp(q.redirect) {
		return "", nil
	}
	key, err := s.o.Ledger.Key(r.Context(), "consents")
	if err != nil {
		return "", err
	}
	c := q.client
	texts := append([]string{who.Subject, c.ID, c.Name, q.redirect, q.resource, Scope}, slices.Sorted(slices.Values(c.Redirects))...)
	return base64.RawURLEncoding.EncodeToString(mac(key, texts...)), nil
}

func (s *Server) remembered(r *http.Request, q *request, who *identity.Principal) (id string, is bool, err error) {
	if id, err = s.consentID(r, q, who); err != nil || id == "" {
		return id, false, err
	}
	is, err = s.o.Ledger.Consented(r.Context(), id)
	return id, is, err
}

// decide acts on the form of the consent page.
func (s *Server) decide(w http.ResponseWriter, r *http.Request, q *request, who *identity.Principal, flow string) {
	want, err := s.formToken(r, q, who, flow, r.PostFormValue("made"))
	made, bad := strconv.ParseInt(r.PostFormValue("made"), 10, 64)
	switch age := time.Since(time.Unix(made, 0)); {
	case err != nil:
		s.broken(w, r, err)
	case bad != nil || age < -time.Minute || age > flowLife || !hmac.Equal([]byte(want), []byte(r.PostFormValue("token"))):
		s.fail(w, r, http.StatusForbidden, "Start again in the client", "This page is older than 10 minutes, or was made for somebody else.")
	case r.PostFormValue("answer") == "allow":
		id, err := s.consentID(r, q, who)
		if err != nil {
			s.broken(w, r, err)
			return
		}
		s.allow(w, r, q, who, id)
	default:
		s.send(w, r, q, url.Values{"error": {"access_denied"}}, true)
	}
}

// allow makes a code and sends it to the client.
func (s *Server) allow(w http.ResponseWriter, r *http.Request, q *request, who *identity.Principal, consent string) {
	code, err := s.o.Ledger.Begin(r.Context(), who.Subject, q.client.ID, consent, access.Terms{
		Redirect: q.redirect, Challenge: q.challenge, Resource: q.resource, Scopes: []string{Scope}, Name: q.client.Name, Proof: q.client.Proof,
	})
	if err != nil {
		s.broken(w, r, err)
		return
	}
	s.send(w, r, q, url.Values{"code": {code}}, true)
}

// formToken returns the token of the consent page's form. It's good for one person, one browser and one request.
func (s *Server) formToken(r *http.Request, q *request, who *identity.Principal, flow, made string) (string, error) {
	key, err := s.o.Ledger.Key(r.Context(), "forms")
	return base64.RawURLEncoding.EncodeToString(mac(key, who.Seat, who.Subject, flow, q.raw, made)), err
}

// ask shows the consent page. The host that vouches comes first: a client can call itself as it likes.
func (s *Server) ask(w http.ResponseWriter, r *http.Request, q *request, who *identity.Principal, flow string) {
	made := strconv.FormatInt(time.Now().Unix(), 10)
	token, err := s.formToken(r, q, who, flow, made)
	if err != nil {
		s.broken(w, r, err)
		return
	}
	c, p := q.client, &Page{}
	calls := "It has no name."
	if c.Name != "" {
		calls = "It calls itself “" + c.Name + "”."
	}
	switch loopback := isLoopback(q.redirect) || isApp(q.redirect); {
	case c.Host == "":
		p.Title = "An unverified client asks for access"
		p.Texts = []string{calls + " Anybody can register a client with any name, so go on only if you have just started this sign-in yourself."}
	case loopback:
		p.Title = "A program asks for access"
		p.Texts = []string{"It says that it comes from " + c.Host + ". " + calls}
	default:
		p.Title = c.Host + " asks for access"
		p.Texts = []string{calls}
	}
	switch {
	case isLoopback(q.redirect):
		p.Note = "The answer goes to a program on the machine with this browser. Any program there could pretend to be this one. Allow it only if you have just started the sign-in there."
	case isApp(q.redirect):
		p.Note = "The answer goes to a program on this machine that has registered for " + hostOf(q.redirect) + ". Allow it only if you have just started the sign-in there."
	}
	p.Facts = []Fact{
		{"You are", NameOf(who)}, {"Answer goes to", hostOf(q.redirect)}, {"It may use", "as you: the tools, resources and prompts of " + q.issuer + q.resource + ", as far as your role goes"},
		{"Until", "you end it, or it has not been used for 30 days; at most until " + time.Now().Add(access.GrantLife).UTC().Format("2 January 2006")},
	}
	p.Ask = &Ask{
		Path: s.below() + pathConsent, Fields: []Fact{{"query", q.raw}, {"made", made}, {"token", token}},
		Deny: "Deny", Allow: "Allow", Sends: sendsTo(q.redirect),
	}
	s.o.Show(w, r, http.StatusOK, p)
}

// NameOf returns what people are called on pages.
func NameOf(who *identity.Principal) string {
	switch {
	case who.Name != "":
		return who.Name
	case who.Subject == identity.Local.Subject:
		return "the user who runs this Dragoman"
	}
	return who.Subject
}

func values(v url.Values) (all [][]string) {
	for _, x := range v {
		all = append(all, x)
	}
	return all
}

func isControl(r rune) bool { return r < ' ' || r == 0x7f }

func capital(s string) string {
	if s == "" {
		return s
	}
	return strings.ToUpper(s[:1]) + s[1:]
}
