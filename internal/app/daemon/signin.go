package daemon

import (
	"cmp"
	"context"
	"crypto/x509"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/app/admin"
	"github.com/dragoman-mcp/dragoman/internal/app/runtime"
	"github.com/dragoman-mcp/dragoman/internal/base/identity"
	"github.com/dragoman-mcp/dragoman/internal/relay/event"
	"github.com/dragoman-mcp/dragoman/internal/relay/gateway"
	"github.com/dragoman-mcp/dragoman/internal/relay/upstream"
	"github.com/dragoman-mcp/dragoman/internal/setup/config"
	"github.com/dragoman-mcp/dragoman/internal/team/access"
	"github.com/dragoman-mcp/dragoman/internal/team/authserver"
	"github.com/dragoman-mcp/dragoman/internal/team/egress"
	"github.com/dragoman-mcp/dragoman/internal/team/signin"
	"github.com/dragoman-mcp/dragoman/internal/team/store"
	"github.com/dragoman-mcp/dragoman/internal/transport/httplink"
)

// DeskOptions say where a command keeps who is signed in at servers, and how the user gets to an issuer.
type DeskOptions struct {
	// Config names the database, the vault's key and the hosts that may be near, as for Serve.
	Config   *config.Snapshot
	Database string // as in ServeOptions
	// Browser opens a link for the user. Nil means that there's no browser.
	Browser func(ctx context.Context, link string) error
	// AtOnce begins a sign-in as soon as a client connects to a server that asks for one, and when a server no longer takes
	// what the user has signed in with.
	AtOnce bool
	Log    *slog.Logger
	Env    func(string) (string, bool)
}

// Desk signs the user of a command in at servers. It shares what it keeps with every serve and every command that has the
// same database, and opens that only when a server asks for a sign-in. The caller must call Close.
type Desk struct {
	*signin.Desk

	all *signIns
}

// OpenDesk returns a Desk.
func OpenDesk(o DeskOptions) *Desk {
	if o.Config == nil {
		o.Config = config.Default()
	}
	o.Log = orDiscard(o.Log)
	d := &Desk{Desk: signin.New(signin.Options{
		Open: func(ctx context.Context) (*store.Safe, error) {
			return openSafe(ctx, &ServeOptions{Config: o.Config, Database: o.Database, Env: o.Env, Log: o.Log}, "command")
		},
		Egress: egress.New(egress.Options{Allow: o.Config.Egress.Allow}), Browser: o.Browser, AtOnce: o.AtOnce, Alone: true, Log: o.Log,
	})}
	d.all = newSignIns(d.Desk)
	d.all.browser = o.Browser != nil && o.AtOnce
	return d
}

// Close ends the sign-ins of this process. Those that aren't done may go on in others.
func (d *Desk) Close() {
	d.Desk.Close()
	if s := d.Opened(); s != nil {
		_ = s.Store().Close()
	}
}

// Forgets reports whether what is kept will be gone with the process, because there is no place for a file.
func (d *Desk) Forgets() bool {
	s := d.Opened()
	return s != nil && s.Store().State().Place == store.Memory
}

// Secrets looks up the secrets of the projects, for a configuration that refers to them.
func (d *Desk) Secrets(ctx context.Context) (config.Secrets, error) {
	s, err := d.Safe(ctx)
	if err != nil {
		return nil, err
	}
	return secretsOf(ctx, s), nil
}

// Project returns a project of the store. house is the configuration of default. ok is false if there is none with this
// name.
func (d *Desk) Project(ctx context.Context, name string, house *config.Snapshot) (p config.Project, ok bool, err error) {
	safe, err := d.Safe(ctx)
	if err != nil {
		return p, false, err
	}
	x, ok := safe.Store().Snapshot().Project(name)
	if !ok {
		return p, false, nil
	}
	switch signed, err := access.NewDesk(safe).HasSigned(ctx, &x); {
	case err != nil:
		return p, true, err
	case !signed:
		return p, true, fmt.Errorf("the text of project %q in the database is not one that dragoman has written", name)
	}
	p, _ = config.ParseProject(name, []byte(x.Text), house, secretsOf(ctx, safe))
	return p, true, nil
}

// credentials is runtime.Hooks.Credentials. d may be nil.
func (d *Desk) credentials(project string) func(config.Server) upstream.Credentials {
	if d == nil {
		return nil
	}
	return func(c config.Server) upstream.Credentials {
		return d.all.credentials(cmp.Or(project, event.DefaultProject), c)
	}
}

// serve lets the clients of one server sign in at it, and tells them and the server when somebody has, here or in another
// process. The caller must call the function that it returns.
func (d *Desk) serve(ctx context.Context, host *gateway.Single, u *upstream.Upstream, version string) func() {
	host.SignIn = runtime.NewSignIn(d.all.of(event.DefaultProject), version)
	host.SignIn.AtHandshake = d.all.browser
	host.SignIn.Signed = func(_, scope string) { host.SignedIn(scope) }
	at := d.all.at(event.DefaultProject, u.Name())
	if at.Server == nil {
		return func() {}
	}
	ctx, end := context.WithCancel(ctx)
	var following sync.WaitGroup
	following.Go(func() {
		for seen := 0; ; {
			changed := d.Changed()
			if n := d.Changes(at.Of(nil)); n != seen {
				seen = n
				u.Renewed("")
				host.SignedIn("")
			}
			select {
			case <-ctx.Done():
				return
			case <-changed:
			}
		}
	})
	return func() {
		end()
		following.Wait()
	}
}

// At returns what signs the requests to a server of a project, or nil if nobody signs in at it.
func (d *Desk) At(project string, c config.Server) *signin.Server {
	if x := d.all.at(project, c.Name); x.Server != nil {
		return x.Server
	}
	return d.all.add(project, c)
}

// signIns are what signs people in to the servers of all projects.
type signIns struct {
	desk *signin.Desk // nil if there's no store
	// strangers says that whoever comes in from another machine has no name, so that only what is shared can be used.
	strangers bool
	// alone says that nobody but the local user uses this process.
	alone bool
	// browser says that this process opens a browser for a person whom a server asks for.
	browser bool

	// public says that issuers send browsers back to the public URL.
	public bool
	// returns has where browsers go on that have come back to a port of this machine, by the IDs of the flows.
	returns returns

	mu      sync.Mutex
	base    string // where browsers reach the page behind our links; "" if they can't
	servers map[serverOf]signInAt
}

// signInAt is the sign-in at a server. The zero value is that of one at which nobody signs in.
type signInAt struct {
	*signin.Server
	hold time.Duration // how long a call waits for a person
}

// serverOf names a server of a project.
type serverOf struct{ project, server string }

// add returns what signs the requests to a server of a project, or nil if nobody signs in at it. It replaces that
// of a server with the same name.
func (s *signIns) add(project string, c config.Server) *signin.Server {
	var x *signin.Server
	switch {
	case s.desk == nil, c.URL == "", c.SignIn.How == config.HowHeaders, c.SignIn.How == config.HowNone:
	case (s.strangers || c.SignIn.Anonymous) && !c.SignIn.Shared && !c.SignIn.How.Program():
	default:
		x, _ = s.desk.Server(project, c.Name, c.URL, signInSettings(&c)) // whoever opens the server says what's wrong with its URL
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	key := serverOf{project, c.Name}
	if old := s.servers[key]; old.Server != nil {
		old.Close()
	}
	delete(s.servers, key)
	if x != nil {
		s.servers[key] = signInAt{x, c.SignIn.Hold}
	}
	return x
}

func (s *signIns) at(project, server string) signInAt {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.servers[serverOf{project, server}]
}

// credentials is runtime.Options.Credentials.
func (s *signIns) credentials(project string, c config.Server) upstream.Credentials {
	if x := s.add(project, c); x != nil {
		return x
	}
	return nil // not an interface value that contains a nil *signin.Server
}

// of is runtime.Options.SignIn.
func (s *signIns) of(project string) gateway.Signer { return signer{s, project} }

// signer signs people in to the servers of one project.
type signer struct {
	all     *signIns
	project string
}

// CanSignIn implements gateway.Signer.
func (s signer) CanSignIn(server string) bool {
	x := s.all.at(s.project, server)
	return x.Server != nil && x.Person()
}

// SignedIn implements gateway.Signer.
func (s signer) SignedIn(who *identity.Principal, server string) bool {
	x := s.all.at(s.project, server)
	return x.Server != nil && s.all.desk.Has(x.Of(who))
}

// SignIn implements gateway.Signer. The local user gets the issuer's link, and everybody else one of ours, which verifies
// who opens it; see connectPage. What all share is an operator's business.
func (s signer) SignIn(ctx context.Context, who *identity.Principal, server string) (*gateway.SigningIn, error) {
	x := s.all.at(s.project, server)
	if x.Server == nil {
		return nil, fmt.Errorf("nobody signs in to server %q any more", server)
	}
	of := x.Of(who)
	if who.Key() != "" && (of.Subject == store.Shared || s.all.link("") == "") {
		return nil, &signin.Needed{Server: server, Of: of, Shared: of.Subject == store.Shared}
	}
	f, err := x.Begin(ctx, of, false)
	if err != nil {
		return nil, err
	}
	out := &gateway.SigningIn{Link: f.Link(), Expires: f.Until(), Hold: x.hold, Done: f.Done(), Err: func() error { return f.Wait(context.Background()) }}
	if who.Key() != "" {
		out.Link = s.all.link(f.ID())
	}
	if s.all.browser {
		out.Browse = f.Browse
	}
	return out, nil
}

func signInSettings(c *config.Server) signin.Settings {
	x := c.SignIn
	out := signin.Settings{
		Scopes: x.Scopes, ClientID: x.ClientID, ClientSecret: x.ClientSecret, PrivateKey: x.PrivateKey,
		Issuer: x.Issuer, AuthorizationURL: x.AuthorizationURL, TokenURL: x.TokenURL, ClientMetadataURL: x.ClientMetadataURL,
		Callback: x.Callback, Resource: x.Resource, Params: x.Params, Shared: x.Shared,
	}
	if x.How.Program() {
		out.How, out.Assertion = signin.How(x.How.String()), x.Assertion
		out.Provider = signin.Provider{Issuer: x.Provider.Issuer, ClientID: x.Provider.ClientID, ClientSecret: x.Provider.ClientSecret}
	}
	if file := c.CAFile; file != "" {
		out.CAs = func() *x509.CertPool {
			all, _ := httplink.LoadCAs(file) // without it the server can't be reached either, and then that's what people are told
			return all
		}
	}
	return out
}

// openSignIns returns what signs people in to the servers of a Serve. open says that clients need no key, and local that
// they're all on this machine.
func openSignIns(o *ServeOptions, open, local bool) *signIns {
	s := newSignIns(nil)
	s.strangers, s.alone = open && !local, open && local
	if !open { // otherwise, whoever comes in has no name, or sits at this machine
		s.base = strings.TrimRight(o.Config.PublicURL, "/")
		s.public = s.base != ""
	}
	if o.safe != nil {
		s.desk = signin.New(signin.Options{
			Open:   func(context.Context) (*store.Safe, error) { return o.safe, nil },
			Known:  true,
			Egress: egress.New(egress.Options{Allow: o.Config.Egress.Allow}),
			Alone:  s.alone,
			Public: s.base,
			Back:   s.returns.take,
			Log:    o.Log,
		})
	}
	return s
}

// listening tells where we listen. Without a public URL, links lead there.
func (s *signIns) listening(base string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.base = cmp.Or(s.base, base)
}

// link returns our link to a flow, or "" if there can't be one.
func (s *signIns) link(id string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.base == "" {
		return ""
	}
	return s.base + connectPath + id
}

// page returns the page behind our links, or nil if there are none.
func (s *signIns) page(o *ServeOptions, open bool, a *admin.Access, denied access.Denials) *connectPage {
	if s.desk == nil || open {
		return nil
	}
	return &connectPage{
		desk: s.desk, public: s.base, below: o.Config.PublicPath(), cookies: authserver.Cookies{PublicURL: s.base}, who: a.SignedIn, log: o.Log, denied: denied, cross: http.NewCrossOriginProtection(),
		operates: func(who *identity.Principal, project string) bool {
			return a.May(who, project, identity.Operator) == nil
		},
		command: o.openConsole,
	}
}

func newSignIns(d *signin.Desk) *signIns {
	return &signIns{desk: d, servers: make(map[serverOf]signInAt)}
}

// close ends the sign-ins of this process.
func (s *signIns) close() {
	if s.desk != nil {
		s.desk.Close()
	}
}

// follow opens servers again as soon as somebody has signed in or out at them, in whichever process that was, until
// ctx ends.
func (s *signIns) follow(ctx context.Context, r *runtime.Runtime, log *slog.Logger) {
	before := map[store.SignIn]signin.Entry{}
	for {
		changed := s.desk.Changed()
		now, err := s.desk.SignedIn(ctx)
		if err != nil {
			if ctx.Err() == nil {
				log.Warn("the sign-ins could not be read", "cause", err.Error())
			}
			return
		}
		after := make(map[store.SignIn]signin.Entry, len(now))
		for _, x := range now {
			if old, ok := before[x.SignIn]; !ok || old.Spent != x.Spent || !old.Since.Equal(x.Since) {
				s.renewed(r, x.SignIn)
			}
			delete(before, x.SignIn)
			after[x.SignIn] = x
		}
		for of := range before {
			s.renewed(r, of)
		}
		before = after
		select {
		case <-ctx.Done():
			return
		case <-changed:
		}
	}
}

// renewed tells the servers that a sign-in is about, for those whom it is about.
func (s *signIns) renewed(r *runtime.Runtime, of store.SignIn) {
	p := r.Project(of.Project)
	if p == nil {
		return
	}
	s.mu.Lock()
	var names []string
	for key, x := range s.servers {
		if key.project == of.Project && x.Of(nil).Server == of.Server {
			names = append(names, key.server)
		}
	}
	s.mu.Unlock()
	scope := of.Subject
	if of.Subject == store.Shared || s.alone {
		scope = "" // of what all share, or of the only one who is there
	}
	for _, name := range names {
		p.SignedIn(name, scope)
	}
}
