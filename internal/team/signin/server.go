package signin

import (
	"context"
	"maps"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/base/identity"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
	"github.com/dragoman-mcp/dragoman/internal/team/signin/oauth"
	"github.com/dragoman-mcp/dragoman/internal/team/store"
	"github.com/dragoman-mcp/dragoman/internal/transport"
)

// Server signs the requests to one server. It is an upstream.Credentials, and safe for concurrent use.
type Server struct {
	d                      *Desk
	project, name, url, id string
	settings               Settings
	service                *service // nil if people sign in

	asked atomic.Bool          // the server has asked for a sign-in
	sign  atomic.Pointer[sign] // nil until somebody has looked whether there is a sign-in

	mu       sync.Mutex
	accounts atomic.Pointer[map[string]*account] // by subject; replaced by a changed copy
}

// Server returns what signs the requests to the server of a project with a name and a URL.
func (d *Desk) Server(project, name, url string, settings Settings) (*Server, error) {
	id, err := oauth.Canonical(url)
	if err != nil {
		return nil, err
	}
	s := &Server{d: d, project: project, name: name, url: url, id: id, settings: settings}
	if settings.How != Person {
		s.service = &service{s: s}
	}
	s.accounts.Store(&map[string]*account{})
	d.mu.Lock()
	defer d.mu.Unlock()
	d.servers[s] = struct{}{}
	return s, nil
}

// Person reports whether a person can sign in. Otherwise the server's tokens come from elsewhere; see How.
func (s *Server) Person() bool { return s.service == nil }

// Extension implements upstream.Extended.
func (s *Server) Extension() string {
	switch s.settings.How {
	case ClientOnly:
		return mcp.ExtensionClientCredentials
	case Enterprise:
		return mcp.ExtensionEnterprise
	}
	return ""
}

// Close lets the Desk forget the server.
func (s *Server) Close() {
	s.d.mu.Lock()
	defer s.d.mu.Unlock()
	delete(s.d.servers, s)
}

// local is the subject of whoever needn't say who they are.
const local = "local"

// Of returns whose sign-in the requests of a principal need.
func (s *Server) Of(who *identity.Principal) store.SignIn {
	subject := local
	switch {
	case s.settings.shared():
		subject = store.Shared
	case who.Key() != "":
		subject = who.Subject
	}
	return store.SignIn{Project: s.project, Server: s.id, Subject: subject}
}

// Scope implements upstream.Credentials. "" is the scope of all who have no credential of their own, so that a thousand
// of them cost no more than one. It has a credential only if nobody could use it who mayn't: if all share it, or if
// nobody but the local user is there.
func (s *Server) Scope(who *identity.Principal) string {
	switch {
	case s.settings.shared():
		return ""
	case who.Looks(): // with nobody's credential, since an admin isn't the one who has signed in
		return map[bool]string{true: identity.Look}[s.d.o.Alone]
	case s.d.o.Alone:
		return who.Key() // "" for the local user; whoever else there may be never has that one's scope
	}
	of := s.Of(who)
	if safe := s.d.safe.Load(); safe == nil || len(safe.Store().Snapshot().Credentials(of)) == 0 {
		return ""
	}
	return of.Subject
}

// settled reports whether somebody has a credential that the server hasn't refused. They may have signed in while a
// call of theirs was on its way without one.
func (s *Server) settled(ctx context.Context, of store.SignIn) bool {
	safe := s.d.safe.Load()
	if safe == nil {
		return false
	}
	a := s.account(of.Subject)
	t, err := a.current(ctx, safe)
	if err != nil || t == nil || !t.renewable() && !t.usable(time.Now()) {
		return false
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	return !a.lacks || t.generation > a.lacking
}

// subject returns whose credential a scope has, or "" for none.
func (s *Server) subject(scope string) string {
	switch {
	case scope != "":
		return scope
	case s.settings.shared():
		return store.Shared
	case s.d.o.Alone:
		return local
	}
	return ""
}

// Sign implements upstream.Credentials. With a token that is fresh, it takes no lock and allocates nothing.
func (s *Server) Sign(ctx context.Context, scope, method, url string) ([]transport.HeaderField, uint64, error) {
	if s.service != nil {
		return s.service.sign(ctx, method, url)
	}
	safe := s.d.safe.Load()
	subject := s.subject(scope)
	if safe == nil || subject == "" {
		return nil, 0, nil // if that isn't enough, we'll hear of it in Refused
	}
	a := s.account(subject)
	t, err := a.current(ctx, safe)
	if err != nil || t == nil {
		return nil, 0, err
	}
	if now := time.Now(); !t.renewAt.IsZero() && !now.Before(t.renewAt) {
		if t, err = a.renewed(ctx, safe, t, now); err != nil || t == nil {
			return nil, 0, err
		}
	}
	h, err := t.sign(method, url)
	return h, t.generation, err
}

// account returns the account of a subject.
func (s *Server) account(subject string) *account {
	if a := (*s.accounts.Load())[subject]; a != nil {
		return a
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	old := *s.accounts.Load()
	if a := old[subject]; a != nil {
		return a
	}
	all := maps.Clone(old)
	a := &account{s: s, of: store.SignIn{Project: s.project, Server: s.id, Subject: subject}}
	all[subject] = a
	s.accounts.Store(&all)
	return a
}

// stepUp is the error of a token that lacks a scope (RFC 6750 §3.1).
const stepUp = "insufficient_scope"

// Refused implements upstream.Credentials.
func (s *Server) Refused(ctx context.Context, scope string, generation uint64, challenges []string) (again bool, err error) {
	all := oauth.Challenges(challenges)
	c, asks := oauth.Best(all)
	subject := s.subject(scope)
	if t := s.known(subject); t != nil && t.prover != nil && slices.ContainsFunc(all, wantsNonce) {
		return true, nil // Nonce has heard it just before, so the next proof holds it
	}
	if s.service != nil {
		return s.service.refused(ctx, generation, c)
	}
	if c.ResourceMetadata == "" && generation == 0 && !s.hasIssuer(ctx, asks) {
		return false, nil // this server wants something else, such as a key in a header
	}
	s.asked.Store(true)
	if subject == "" {
		return false, s.Needs(store.SignIn{Project: s.project, Server: s.id})
	}
	safe, err := s.d.open(ctx)
	if err != nil {
		return false, err
	}
	a := s.account(subject)
	a.heard(c)
	if err := safe.Store().Refresh(ctx); err != nil {
		return false, err
	}
	t, err := a.current(ctx, safe)
	switch {
	case err != nil:
		return false, err
	case t != nil && t.generation > generation && (t.usable(time.Now()) || t.renewable()):
		return true, nil
	case t != nil && c.Error == stepUp:
		err = a.mayStepUp(c.Scopes, within(c.Scopes, t.requested), time.Now())
	case t != nil && t.renewable() && !a.justForced(t.generation, time.Now()):
		again, err = a.renewForced(ctx, safe, t)
		if err == nil && !again {
			t, err = a.current(ctx, safe)
		}
	}
	if again || err != nil {
		return again, err
	}
	needed := s.Needs(a.of)
	if t != nil {
		needed.Why = t.why
		needed.Scopes = missing(c.Scopes, t.granted)
	}
	a.lack(generation, t)
	return false, needed
}

// wantsNonce reports whether a challenge is about the nonce in a proof, and not about the token (RFC 9449 §9).
func wantsNonce(c oauth.Challenge) bool { return c.Error == "use_dpop_nonce" }

// Nonce implements upstream.Nonces.
func (s *Server) Nonce(scope, url, nonce string) {
	if t := s.known(s.subject(scope)); t != nil && t.prover != nil {
		t.prover.Learn(url, nonce)
	}
}

// known returns the token that was used last for a subject, without a look at the store. It returns nil for none.
func (s *Server) known(subject string) *token {
	if s.service != nil {
		return s.service.now.Load()
	}
	if a := (*s.accounts.Load())[subject]; a != nil {
		if v := a.view.Load(); v != nil {
			return v.t
		}
	}
	return nil
}

// Needs returns the error that says who has to sign in.
func (s *Server) Needs(of store.SignIn) *Needed {
	return &Needed{Server: s.name, Of: of, Shared: s.settings.shared()}
}

// sign is whether a server that doesn't say where its metadata is has a sign-in, and until when we believe that.
type sign struct {
	has   bool
	until time.Time
}

// signFor is how long we believe whether a server has a sign-in.
const signFor = 5 * time.Minute

// hasIssuer reports whether there's a sign-in at all, at a server that refuses us and doesn't say where its metadata is.
// It doesn't look again for a while. asks says that the server wants a token: also a key may be one, so that is no proof.
func (s *Server) hasIssuer(ctx context.Context, asks bool) bool {
	if s.settings.Issuer != "" || s.settings.AuthorizationURL != "" {
		return true
	}
	if x := s.sign.Load(); x != nil && time.Now().Before(x.until) {
		return x.has
	}
	f, err := s.discover(ctx, oauth.Challenge{})
	has := err == nil && !f.issuer.Guessed
	if asks && !has {
		has = err != nil || s.hasPage(ctx, f)
	}
	s.sign.Store(&sign{has, time.Now().Add(signFor)})
	return has
}

// hasPage reports whether something is at the address to which clients of 2025-03-26 send people (2025-03-26
// Authorization, Fallbacks for Servers without Metadata Discovery).
func (s *Server) hasPage(ctx context.Context, f found) bool {
	req, err := http.NewRequest(http.MethodGet, f.issuer.Authorize, nil)
	if err != nil {
		return false
	}
	a, err := s.d.reach(f.near, s).Do(ctx, req)
	return err != nil || a.Status != http.StatusNotFound
}

// account is what a process knows about one sign-in.
type account struct {
	s  *Server
	of store.SignIn

	view atomic.Pointer[view]

	mu     sync.Mutex
	asked  oauth.Challenge // the server's last challenge
	passed []Passed        // the steps of the last sign-in that this process has prepared
	steps  []step          // of the last hour
	later  pause
	// lacking is the generation of the token with which the server refused us last, if it has.
	lacks   bool
	lacking uint64
	begun   uint64 // the generation of the last token for which a sign-in was begun; see Options.AtOnce
	// forced is the generation of the last token that replaced one which the server had refused, and when that was.
	forced   uint64
	forcedAt time.Time
}

// view is the token that a snapshot of the store has.
type view struct {
	of *store.Snapshot
	t  *token // nil for none
}

// current returns the token that the store has, or nil.
func (a *account) current(ctx context.Context, safe *store.Safe) (*token, error) {
	snap := safe.Store().Snapshot()
	v := a.view.Load()
	if v != nil && v.of == snap {
		return v.t, nil
	}
	next := &view{of: snap}
	for _, row := range snap.Credentials(a.of) {
		if !a.s.settings.fits(&row) {
			continue
		}
		if v != nil && v.t != nil && v.t.row.Generation == row.Generation && v.t.row.Spent == row.Spent {
			next.t = v.t
			break
		}
		var k keptCredential
		err := reveal(ctx, safe, &row, row.Sealed, &k)
		if err == nil {
			next.t, err = newToken(row, &k)
		}
		if err == nil && v != nil && v.t != nil && v.t.prover != nil && next.t.prover != nil && v.t.prover.Thumbprint() == next.t.prover.Thumbprint() {
			next.t.prover = v.t.prover // it knows the nonces
		}
		if err != nil {
			says, step := Explain(err)
			return nil, &Problem{Says: "the credential for server " + quote(a.s.name) + " cannot be read: " + says, Next: step, Err: err}
		}
		break
	}
	// Another goroutine may have stored an older or a newer view meanwhile. Whoever comes next compares it with
	// the snapshot, so that makes no difference.
	a.view.Store(next)
	return next.t, nil
}

// justForced reports whether a token is so new that there's no use in renewing it because the server refuses it.
func (a *account) justForced(generation uint64, now time.Time) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.forced == generation && now.Sub(a.forcedAt) < time.Minute
}

// lack notes that the server has refused us for good with a token, which is t if it's not nil. If that's what the process
// is for, it begins a sign-in.
func (a *account) lack(generation uint64, t *token) {
	d, who := a.s.d, a.of.Subject
	a.mu.Lock()
	a.lacks, a.lacking = true, generation
	begin := d.o.AtOnce && t != nil && a.begun != t.generation && (who == local || who == store.Shared)
	if begin {
		a.begun = t.generation
	}
	a.mu.Unlock()
	if !begin {
		return
	}
	if f, err := d.join(a.s, a.of); err == nil {
		f.own.Store(true)
	}
}

// heard remembers what the server asks for.
func (a *account) heard(c oauth.Challenge) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.asked = c
}

// challenge returns what the server asked for last.
func (a *account) challenge() oauth.Challenge {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.asked
}

// step is a request for more scopes.
type step struct {
	at     time.Time
	scopes string
}

const (
	mostSteps  = 3 // for the same scopes
	mostInVain = 2 // the same, if they were asked for before, and the server still wants them
	stepsEvery = time.Hour
)

// mayStepUp returns an error if the server has asked for the same scopes too often (AU, Step-Up Authorization
// Flow: clients SHOULD limit this). again says that we have asked the issuer for them already.
func (a *account) mayStepUp(scopes []string, again bool, now time.Time) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	wants := joined(scopes)
	n := 0
	for i := len(a.steps) - 1; i >= 0 && now.Sub(a.steps[i].at) < stepsEvery; i-- {
		if a.steps[i].scopes == wants {
			n++
		}
	}
	if n >= mostSteps || again && n >= mostInVain {
		return notNow("server "+quote(a.s.name)+" asks for the scope "+quote(wants)+" again and again, although it was granted",
			"ask the operator of the server whether you may have it", nil)
	}
	a.steps = append(a.steps, step{now, wants})
	if len(a.steps) > 100 {
		a.steps = a.steps[50:]
	}
	return nil
}
