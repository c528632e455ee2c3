package doctor

import (
	"bytes"
	"context"
	"errors"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/base/secret"
	"github.com/dragoman-mcp/dragoman/internal/base/work"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
	"github.com/dragoman-mcp/dragoman/internal/team/signin/oauth"
	"github.com/dragoman-mcp/dragoman/internal/transport"
)

// personTime is how long a person may take to sign in.
const personTime = 5 * time.Minute

// callbacks is where a browser arrives after a sign-in.
type callbacks struct {
	uri string
	got chan url.Values
	end func()
}

// listenForBrowser listens on this machine for a browser that comes back.
func listenForBrowser(ctx context.Context) (*callbacks, error) {
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp4", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	c := &callbacks{uri: "http://" + l.Addr().String() + "/callback", got: make(chan url.Values, 1)}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /callback", func(w http.ResponseWriter, r *http.Request) {
		select {
		case c.got <- r.URL.Query():
		default:
		}
		_, _ = w.Write([]byte("Dragoman's doctor goes on. You can close this page.\n"))
	})
	server := &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second}
	var serving work.Group
	serving.Go(func() { _ = server.Serve(l) })
	c.end = func() {
		_ = server.Close()
		serving.Close()
	}
	return c, nil
}

// meetPerson lets a person sign in, and examines what comes of it: the token, and its renewal.
func (s *signIn) meetPerson(ctx context.Context, is *oauth.Issuer, c oauth.Client, back *callbacks) {
	e := &oauth.Endpoint{Doer: s.doer(), Issuer: is, Client: c}
	scopes := oauth.Scopes(nil, s.asked, s.found, is)
	var t oauth.Token
	for granted := false; ; granted = true {
		var ok bool
		if t, ok = s.signPersonIn(ctx, e, back, scopes); !ok {
			return
		}
		status, challenge := s.knock(ctx, t)
		more := oauth.Union(scopes, challenge.Scopes)
		switch {
		case status == http.StatusUnauthorized:
			s.find(OwnTokenRefused, "")
			return
		case challenge.Error != "insufficient_scope":
		case granted || len(more) == len(scopes):
			s.find(EndlessScope, "")
			return
		default:
			scopes = more // AU §Step-Up Authorization Flow: once is enough to see whether it helps
			continue
		}
		break
	}
	s.lastsLong(ctx, e, t)
}

// signPersonIn makes one sign-in.
func (s *signIn) signPersonIn(ctx context.Context, e *oauth.Endpoint, back *callbacks, scopes []string) (t oauth.Token, ok bool) {
	r := oauth.Request{State: oauth.Random(), Verifier: secret.New(oauth.Random()), Redirect: back.uri, Resource: s.uri(), Scopes: scopes}
	at, err := e.Issuer.AuthorizeURL(e.Client, r)
	if err != nil {
		return t, false // Signs has said why
	}
	if s.e.o.Progress != nil {
		s.e.o.Progress("waiting for you to sign in")
	}
	s.last = "> " + s.e.redact([]byte("the browser opens "+e.Issuer.Authorize))
	ctx, stop := context.WithTimeout(ctx, personTime)
	defer stop()
	if err := s.e.o.SignIn(ctx, at); err != nil {
		s.find(SignInFails, err.Error())
		return t, false
	}
	var q url.Values
	select {
	case q = <-back.got:
	case <-ctx.Done():
		s.find(SignInFails, "nobody came back from the authorization server within "+personTime.String())
		return t, false
	}
	code, err := oauth.ReadCallback(q, oauth.Expected{State: r.State, Issuer: e.Issuer.Issuer, SaysIss: e.Issuer.SaysIss})
	if err == nil {
		if t, err = e.Code(ctx, code, r); err == nil {
			return t, true
		}
	}
	f, _ := errors.AsType[*oauth.Fault](err)
	switch {
	case f != nil && f.Code == oauth.IssMissing:
		s.find(IssUnsent, f.Says)
	case f != nil && f.Code == oauth.IssMismatch:
		s.find(IssWrong, f.Says)
	default:
		s.find(SignInFails, err.Error())
	}
	return t, false
}

// uri returns what the server is called to the issuer.
func (s *signIn) uri() string {
	if s.found != nil {
		return s.found.Resource
	}
	uri, _ := oauth.Canonical(s.e.t.URL.String())
	return uri
}

// knock sends initialize with a token, and returns the status of the answer and its challenge. 0 means that there was none.
func (s *signIn) knock(ctx context.Context, t oauth.Token) (status int, c oauth.Challenge) {
	ctx, stop := context.WithTimeout(ctx, s.e.o.Patience)
	defer stop()
	body := jsonrpc.AppendRequest(nil, "1", mcp.MethodInitialize, []byte("{"+greeting(mcp.LatestLegacy.String())+"}"))
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, s.e.t.URL.String(), bytes.NewReader(body))
	if err != nil {
		return 0, c
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json, text/event-stream")
	req.Header.Set("Authorization", t.Type+" "+t.Access.Reveal())
	s.last = "> POST " + s.e.redact([]byte(s.e.t.URL.String())) + " with the token"
	resp, err := s.e.t.Transport.RoundTrip(req)
	if err != nil {
		return 0, c
	}
	_ = resp.Body.Close()
	fields := resp.Header.Values("WWW-Authenticate")
	s.last = evidence(s.last, "< HTTP status "+strconv.Itoa(resp.StatusCode))
	if len(fields) > 0 {
		s.last = evidence(s.last, "< WWW-Authenticate: "+s.e.redact([]byte(spaced(fields[0]))))
	}
	all := oauth.Challenges((&transport.StatusError{Authenticate: fields}).Challenges())
	c, _ = oauth.Best(all)
	return resp.StatusCode, c
}

// lastsLong renews a token that the server takes, three times, and revokes what is left.
func (s *signIn) lastsLong(ctx context.Context, e *oauth.Endpoint, first oauth.Token) {
	if r, err := oauth.FindResource(ctx, s.doer(), s.e.t.URL.String(), s.asked.ResourceMetadata); s.found != nil && err == nil && r != nil && !slices.Equal(r.Servers, s.found.Servers) {
		s.find(IssuerMoves, "at first it named "+s.found.Servers[0])
		return
	}
	if first.Refresh.Reveal() == "" {
		return
	}
	second, ok := s.renew(ctx, e, first)
	if !ok {
		return
	}
	rotates := !second.Refresh.Equal(first.Refresh)
	if !rotates && e.Client.Secret.Reveal() == "" {
		s.find(NoRotation, "the answer has the refresh token of the one before, or none")
	}
	if status, _ := s.knock(ctx, second); status == http.StatusUnauthorized {
		s.find(RefreshLosesAudience, "the token came of a refresh with the parameter resource; the one before was taken")
		return
	}
	third, ok := s.renew(ctx, e, second)
	if !ok {
		return
	}
	if rotates {
		// Who has lost the last answer sends its token again. There's no harm in a refusal, unless it ends everything.
		if _, err := e.Refresh(ctx, second.Refresh, s.uri(), nil); err != nil && !oauth.Weather(err) {
			if last, err := e.Refresh(ctx, third.Refresh, s.uri(), nil); err == nil {
				third = last
			} else if oauth.Refused(err, "invalid_grant") {
				s.find(NoGrace, "a refresh token was used twice, and then the newest one is refused")
				return
			}
		}
	}
	_ = e.Revoke(ctx, third.Refresh, "refresh_token")
	_ = e.Revoke(ctx, third.Access, "access_token")
}

// renew makes one refresh.
func (s *signIn) renew(ctx context.Context, e *oauth.Endpoint, t oauth.Token) (oauth.Token, bool) {
	fresh, err := e.Refresh(ctx, t.Refresh, s.uri(), nil)
	switch {
	case err == nil:
		return fresh, true
	case oauth.Weather(err):
		s.find(IssuerUnreached, err.Error())
	case oauth.Refused(err, "invalid_client"):
		s.find(ForgetsClients, err.Error())
	default:
		s.find(RefreshRefused, err.Error())
	}
	return fresh, false
}
