package doctor

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/dragoman-mcp/dragoman/internal/base/secret"
	"github.com/dragoman-mcp/dragoman/internal/team/egress"
	"github.com/dragoman-mcp/dragoman/internal/team/signin/oauth"
	"github.com/dragoman-mcp/dragoman/internal/transport"
)

// visitSignIn examines how people sign in to a server that wants it, as far as that goes without a person: it reads the
// challenge and the metadata, registers a client, and sends one request that the authorization server has
// to refuse. It does nothing unless a request was refused for want of credentials.
func (e *exam) visitSignIn(ctx context.Context) {
	e.mu.Lock()
	_, wanted := e.found[WantsCredentials]
	fields := e.wants
	e.mu.Unlock()
	if !wanted || ctx.Err() != nil {
		return
	}
	if e.o.Progress != nil {
		e.o.Progress("the sign-in")
	}
	s := &signIn{e: e, challenge: "# the header WWW-Authenticate of the 401 is missing"}
	if len(fields) > 0 {
		s.challenge = "< WWW-Authenticate: " + e.redact([]byte(spaced(strings.Join(fields, ", "))))
	}
	if s.from, s.asIs = e.askers(ctx); s.from == nil {
		return
	}
	c, _ := oauth.Best(oauth.Challenges((&transport.StatusError{Authenticate: fields}).Challenges()))
	good := 0
	for _, issuer := range s.resource(ctx, c) {
		if s.issuer(ctx, issuer) {
			good++
		}
	}
	if good > 0 {
		s.old(ctx)
	}
}

// spaced sets the scheme of a challenge apart from its parameters, which would be masked like a token otherwise.
func spaced(challenge string) string { return strings.ReplaceAll(challenge, "Bearer ", "Bearer; ") }

// maxIssuers bounds the authorization servers of one server that we look at.
const maxIssuers = 3

// signIn is the examination of a sign-in. It remembers its last request, as the evidence of what it finds.
type signIn struct {
	e          *exam
	from, asIs oauth.Doer // asIs doesn't follow redirects
	challenge  string     // evidence of the challenge
	asked      oauth.Challenge
	found      *oauth.Resource // nil if there is no metadata
	last       string          // evidence of the last request
}

// askers returns what asks the addresses that the server and its documents name. They may be no nearer
// than the server.
func (e *exam) askers(ctx context.Context) (from, asIs oauth.Doer) {
	if e.t.given {
		return directly{e.t.Transport}, directly{e.t.Transport}
	}
	c := egress.New(egress.Options{Allow: e.t.Allow, CAs: e.t.CAs})
	near, err := c.Near(ctx, e.t.URL.String())
	if err != nil {
		return nil, nil
	}
	return c.From(near, egress.Bounds{Time: e.o.Patience}), c.From(near, egress.Bounds{Time: e.o.Patience, AsIs: true})
}

// directly asks over the transport that somebody has given the exam.
type directly struct{ rt http.RoundTripper }

func (d directly) Do(ctx context.Context, req *http.Request) (*oauth.Answer, error) {
	resp, err := d.rt.RoundTrip(req.WithContext(ctx))
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, 256<<10+1))
	return &oauth.Answer{Status: resp.StatusCode, Header: resp.Header, Body: body, URL: req.URL.String()}, err
}

// noted is a Doer that notes what it sends and gets.
type noted struct {
	s *signIn
	d oauth.Doer
}

func (n noted) Do(ctx context.Context, req *http.Request) (*oauth.Answer, error) {
	n.s.last = "> " + n.s.e.redact([]byte(req.Method+" "+req.URL.String()))
	a, err := n.d.Do(ctx, req)
	switch {
	case err != nil:
		n.s.last = evidence(n.s.last, "# "+n.s.e.redact([]byte(err.Error())))
	case req.Method == http.MethodPost && a.Status < 300: // it may hold a secret
		n.s.last = evidence(n.s.last, "< HTTP status "+strconv.Itoa(a.Status))
	case a.Header.Get("Location") != "":
		n.s.last = evidence(n.s.last, "< HTTP status "+strconv.Itoa(a.Status)+", Location: "+n.s.e.redact([]byte(a.Header.Get("Location"))))
	default:
		n.s.last = evidence(n.s.last, "< HTTP status "+strconv.Itoa(a.Status)+": "+n.s.e.redact(a.Body))
	}
	return a, err
}

func (s *signIn) doer() oauth.Doer { return noted{s, s.from} }

// find records a finding with the last request as evidence, and what follows from it.
func (s *signIn) find(code, why string) {
	if why != "" {
		why = "# " + s.e.redact([]byte(why))
	}
	s.e.find(code, evidence(s.last, why))
}

// codesOfFaults has the findings about what package oauth refuses.
var codesOfFaults = map[oauth.Code]string{
	oauth.ResourceMissing: MetadataMissing, oauth.IssuerMissing: MetadataMissing,
	oauth.DocumentInvalid: MetadataInvalid, oauth.DocumentNotJSON: MetadataInvalid, oauth.IssuerInvalid: MetadataInvalid, oauth.DocumentMoved: MetadataMoved,
	oauth.AddressRefused: AddressTooNear, oauth.ResourceMismatch: OtherResource, oauth.ResourceNoIssuer: NamesNoIssuer, oauth.IssuerMismatch: OtherIssuer,
	oauth.EndpointInvalid: OddEndpoint, oauth.EndpointMissing: OddEndpoint, oauth.PKCEMissing: NoPKCE, oauth.RegistrationMissing: CannotRegister,
	oauth.RegistrationRefused: RefusesToRegister, oauth.AnswerInvalid: RefusesToRegister,
}

// fault records the finding that an error of package oauth stands for.
func (s *signIn) fault(err error) {
	if f, ok := errors.AsType[*oauth.Fault](err); ok {
		if code := codesOfFaults[f.Code]; code != "" {
			s.find(code, f.Says)
		}
		return
	}
	s.find(IssuerUnreached, err.Error())
}

// resource looks for the server's metadata, and returns the authorization servers that it names.
func (s *signIn) resource(ctx context.Context, c oauth.Challenge) (issuers []string) {
	server := s.e.t.URL.String()
	s.last, s.asked = s.challenge, c
	r, err := oauth.FindResource(ctx, s.doer(), server, c.ResourceMetadata)
	switch {
	case err != nil:
		s.fault(err)
		return nil
	case r == nil:
		s.legacy(ctx, server)
		return nil
	case c.ResourceMetadata == "":
		s.e.find(BareChallenge, evidence(s.challenge, s.last))
	}
	s.found = r
	if _, err := r.Issuer(""); err != nil {
		s.fault(err)
		return nil
	}
	s.unknownPath(ctx)
	return r.Servers[:min(len(r.Servers), maxIssuers)]
}

// old looks for the authorization server where clients of 2025-03-26 do, which know no metadata of the server.
func (s *signIn) old(ctx context.Context) {
	if is, err := oauth.FindLegacy(ctx, s.doer(), s.e.t.URL.String()); err == nil && is.Guessed {
		s.find(NoLegacySignIn, "")
	}
}

// unknownPath asks for a document that nobody has.
func (s *signIn) unknownPath(ctx context.Context) {
	at := url.URL{Scheme: s.e.t.URL.Scheme, Host: s.e.t.URL.Host, Path: "/.well-known/dragoman-doctor-asks-for-nothing"}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, at.String(), nil)
	if err != nil {
		return
	}
	if a, err := (noted{s, s.asIs}).Do(ctx, req); err == nil && a.Status == http.StatusOK {
		s.find(AnswersEverything, "")
	}
}

// legacy looks for a sign-in as in 2025-03-26. A server that has none wants something else, such as a key in a header,
// which is no fault.
func (s *signIn) legacy(ctx context.Context, server string) {
	is, err := oauth.FindLegacy(ctx, s.doer(), server)
	if err != nil {
		s.fault(err)
		return
	}
	if is.Guessed {
		e := oauth.Endpoint{Doer: s.doer(), Issuer: is, Client: oauth.Client{ID: "dragoman-doctor"}}
		var refused *oauth.Error
		if _, err := e.Refresh(ctx, secret.New("none"), "", nil); !errors.As(err, &refused) {
			return
		}
	}
	s.find(LegacySignIn, "")
	s.unknownPath(ctx)
	if !is.Guessed {
		s.examine(ctx, is)
	}
}

// issuer looks for the metadata of an authorization server, and examines it. It returns false if they can't be used.
func (s *signIn) issuer(ctx context.Context, name string) bool {
	is, err := oauth.FindIssuer(ctx, s.doer(), name)
	if err != nil {
		s.fault(err)
		return false
	}
	if is.Slash {
		s.find(IssuerSlash, "authorization_servers has "+name)
	}
	s.examine(ctx, is)
	return true
}

// callbackURI is the redirect URI of a program on a person's machine, and webURI that of a web application.
// Nobody listens there.
const (
	callbackURI = "http://127.0.0.1:33499/callback"
	webURI      = "https://doctor.dragoman.example/callback"
)

// examine examines an authorization server whose metadata is good.
func (s *signIn) examine(ctx context.Context, is *oauth.Issuer) {
	if !is.SaysIss {
		s.find(IssUnpromised, "")
	}
	if err := is.Signs(); err != nil {
		s.fault(err)
	}
	switch {
	case is.Register != "":
		s.register(ctx, is)
	case !is.ClientDocuments:
		s.find(CannotRegister, "")
	}
}

// register registers a client as a program on a person's machine does.
func (s *signIn) register(ctx context.Context, is *oauth.Issuer) {
	n := oauth.NewClient{Name: "Dragoman doctor", Redirects: []string{callbackURI}}
	var back *callbacks
	if s.e.o.SignIn != nil {
		var err error
		if back, err = listenForBrowser(ctx); err != nil {
			s.find(SignInFails, err.Error())
			return
		}
		defer back.end()
		n.Redirects[0] = back.uri
	}
	c, err := oauth.Register(ctx, s.doer(), is, n)
	if err == nil {
		s.iss(ctx, is, c, n.Redirects[0])
		if back != nil {
			s.meetPerson(ctx, is, c, back)
		}
		return
	}
	f, ok := errors.AsType[*oauth.Fault](err)
	if !ok || f.Code != oauth.RegistrationRefused {
		s.fault(err)
		return
	}
	proof := evidence(s.last, "# "+s.e.redact([]byte(f.Says)))
	local := n.Redirects[0]
	n.Redirects = []string{webURI}
	if _, err := oauth.Register(ctx, s.doer(), is, n); err == nil {
		s.e.find(RefusesLoopback, evidence("# with the redirect URI "+local, proof, "# with the redirect URI "+webURI, s.last))
		return
	}
	s.e.find(RefusesToRegister, proof)
}

// iss asks for a response type that doesn't exist. The refusal comes back by redirect, as that of a person would
// (RFC 6749 §4.1.2.1), so it shows whether the server says who it is. A server that shows a page instead can't
// be judged.
func (s *signIn) iss(ctx context.Context, is *oauth.Issuer, c oauth.Client, redirect string) {
	r := oauth.Request{State: oauth.Random(), Verifier: secret.New(oauth.Random()), Redirect: redirect, Resource: s.e.t.URL.String()}
	at, err := is.AuthorizeURL(c, r)
	if err != nil {
		return // Signs has said why
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, strings.Replace(at, "response_type=code", "response_type=dragoman-doctor", 1), nil)
	if err != nil {
		return
	}
	a, err := noted{s, s.asIs}.Do(ctx, req)
	if err != nil {
		return
	}
	to, query, _ := strings.Cut(a.Header.Get("Location"), "?")
	q, err := url.ParseQuery(query)
	if to != redirect || err != nil || !q.Has("error") {
		return
	}
	switch iss := q["iss"]; {
	case len(iss) == 0 && is.SaysIss:
		s.find(IssUnsent, "")
	case len(iss) > 0 && (len(iss) > 1 || iss[0] != is.Issuer):
		s.find(IssWrong, "the issuer is "+is.Issuer)
	}
}
