package runtime

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/base/failure"
	"github.com/dragoman-mcp/dragoman/internal/base/identity"
	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
	"github.com/dragoman-mcp/dragoman/internal/relay/gateway"
	"github.com/dragoman-mcp/dragoman/internal/relay/upstream"
	"github.com/dragoman-mcp/dragoman/internal/setup/config"
	"github.com/dragoman-mcp/dragoman/internal/transport"
	"github.com/dragoman-mcp/dragoman/internal/workbench/fake"
)

// desk signs people in to servers without an issuer: each has a link, and is signed in when finish is called
// with it. A person who has not signed in has the scope "", or one of their own if personal is set.
type desk struct {
	personal bool
	hold     time.Duration
	refuse   error // what SignIn returns; nil begins a sign-in

	mu     sync.Mutex
	tokens map[string]string // by server and subject; see token
	flows  map[string]*deskFlow
	began  int // number of sign-ins that were begun
}

type deskFlow struct {
	gateway.SigningIn
	key, server string
	done        chan struct{}
	err         error
}

func newDesk() *desk {
	return &desk{hold: 100 * time.Millisecond, tokens: map[string]string{}, flows: map[string]*deskFlow{}}
}

func (d *desk) key(server string, who *identity.Principal) string {
	return server + " " + cmp.Or(who.Key(), "local")
}

// signedIn reports whether a person has a token for a server.
func (d *desk) signedIn(server string, who *identity.Principal) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.tokens[d.key(server, who)] != ""
}

// deskSigner is a desk as what signs people in to the servers of a project.
type deskSigner struct{ *desk }

func (d deskSigner) CanSignIn(string) bool { return true }

func (d deskSigner) SignedIn(who *identity.Principal, server string) bool {
	return d.signedIn(server, who)
}

func (d deskSigner) SignIn(_ context.Context, who *identity.Principal, server string) (*gateway.SigningIn, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.refuse != nil {
		return nil, d.refuse
	}
	key := d.key(server, who)
	for _, f := range d.flows {
		if f.key == key && f.err == nil {
			s := f.SigningIn
			return &s, nil
		}
	}
	d.began++
	f := &deskFlow{key: key, server: server, done: make(chan struct{})}
	f.SigningIn = gateway.SigningIn{
		Link: fmt.Sprintf("https://issuer.example/authorize?n=%d", d.began), Expires: time.Now().Add(10 * time.Minute), Hold: d.hold, Done: f.done,
		Err: func() error { return f.err },
	}
	d.flows[f.Link] = f
	s := f.SigningIn
	return &s, nil
}

// finish is what the person with a link does at the issuer. It may be called more than once.
func (d *desk) finish(link string, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	f := d.flows[link]
	if f == nil {
		return
	}
	select {
	case <-f.done:
		return
	default:
	}
	if f.err = err; err == nil {
		d.tokens[f.key] = strings.ReplaceAll("token "+f.key, " ", "-")
	} else {
		delete(d.flows, link)
	}
	close(f.done)
}

// signOut makes a person need another sign-in.
func (d *desk) signOut(server string, who *identity.Principal) {
	d.mu.Lock()
	defer d.mu.Unlock()
	key := d.key(server, who)
	delete(d.tokens, key)
	for link, f := range d.flows {
		if f.key == key {
			delete(d.flows, link)
		}
	}
}

// deskCredentials are the credentials for one server.
type deskCredentials struct {
	*desk
	server string
}

func (c deskCredentials) Scope(who *identity.Principal) string {
	if c.personal || c.signedIn(c.server, who) {
		return cmp.Or(who.Key(), "local")
	}
	return "" // nobody has a token for it
}

func (c deskCredentials) Sign(_ context.Context, scope, _, _ string) ([]transport.HeaderField, uint64, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if token := c.tokens[c.server+" "+scope]; token != "" {
		return []transport.HeaderField{{Name: "Authorization", Value: "Bearer " + token}}, 1, nil
	}
	return nil, 0, nil
}

func (c deskCredentials) Refused(context.Context, string, uint64, []string) (bool, error) {
	return false, wanted{}
}

// wanted is the error of credentials that nobody has got yet.
type wanted struct{}

func (wanted) Error() string { return "sign in" }

func (wanted) DescribeFailure(f *failure.Facts) {
	if f.Class == "" {
		f.Class = failure.NeedsSignIn
	}
}

// guarded lets only requests with a token through to a server.
func (d *desk) guarded(inner http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		token, _ := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
		good := false
		d.mu.Lock()
		for _, t := range d.tokens {
			good = good || t == token
		}
		d.mu.Unlock()
		if !good {
			w.Header().Set("WWW-Authenticate", `Bearer resource_metadata="https://h.example/.well-known/oauth-protected-resource"`)
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		inner.ServeHTTP(w, r)
	})
}

// openGuarded runs two servers, one of each era, that want a sign-in. principal says who everybody is.
func openGuarded(t *testing.T, d *desk, principal func(*http.Request) (*identity.Principal, error)) *house {
	h := &house{gate: &gate{}}
	text := "mcpServers:\n"
	for name, profile := range map[string]string{"old": "strict-2025-06-18", "new": "strict-2026-07-28"} {
		s, err := fake.NewServer(profile, fake.Options{Capture: h})
		if err != nil {
			t.Fatal(err)
		}
		web := httptest.NewServer(d.guarded(s.Handler()))
		t.Cleanup(func() {
			_ = s.Close()
			web.Close()
		})
		text += fmt.Sprintf("  %s: {url: %q, type: http}\n", name, web.URL+"/mcp")
	}
	h.open(t, text, func(o *Options) {
		o.Principal, o.Reach = principal, anybody
		o.Credentials = func(_ string, c config.Server) upstream.Credentials { return deskCredentials{d, c.Name} }
		o.SignIn = func(string) gateway.Signer { return deskSigner{d} }
	})
	return h
}

// signInCase is a client in TestTA36.
type signInCase struct {
	revision string
	without  []string
	pipe     bool
	action   string // accept, decline or cancel; "" if the client can't be asked
}

// TestTA36_OnlyWhoCanOpenALinkIsAsked lets clients of every revision call a tool of a server that wants a sign-in, in
// every way in which they can learn of the link, at the endpoint of all servers and at those of single ones.
// A link comes by elicitation only to those who have declared that they can open one, and it's never in a
// form. The call runs once, when the person is done, or never.
func TestTA36_OnlyWhoCanOpenALinkIsAsked(t *testing.T) {
	var cases []signInCase
	for _, pipe := range []bool{false, true} {
		for _, r := range mcp.Revisions() {
			switch {
			case r.Can(mcp.URLElicitation):
				for _, action := range []string{"accept", "decline", "cancel"} {
					cases = append(cases, signInCase{r.String(), nil, pipe, action})
				}
				cases = append(cases, signInCase{r.String(), []string{"url"}, pipe, ""}, signInCase{r.String(), []string{"elicitation"}, pipe, ""})
			default:
				cases = append(cases, signInCase{r.String(), nil, pipe, ""})
			}
		}
	}
	for _, personal := range []bool{false, true} {
		d := newDesk()
		d.personal = personal
		ann := identity.Named("ann")
		h := openGuarded(t, d, func(*http.Request) (*identity.Principal, error) { return ann, nil })
		for _, x := range cases {
			for _, door := range []struct{ server, path, prefix string }{{"old", "", "old__"}, {"new", "", "new__"}, {"old", "/s/old", ""}, {"new", "/s/new", ""}} {
				who := ann
				if x.pipe {
					who = identity.Local
				}
				t.Run(fmt.Sprintf("personal %t %s without %v pipe %t %s %s%s", personal, x.revision, x.without, x.pipe, x.action, door.path, door.prefix), func(t *testing.T) {
					d.signOut(door.server, who)
					h.Default().SignedIn(door.server, deskCredentials{d, door.server}.Scope(who))
					h.forgive()
					h.signInCase(t, d, x, door.server, door.path, door.prefix)
				})
			}
		}
	}
}

// TestListsOfTheLocalUser signs the local user in and lets ann, who hasn't signed in, ask for the tools first. What is
// read for all who haven't is not read with the token of the local user.
func TestListsOfTheLocalUser(t *testing.T) {
	d := newDesk()
	ann := identity.Named("ann")
	h := openGuarded(t, d, func(*http.Request) (*identity.Principal, error) { return ann, nil })
	d.mu.Lock()
	for _, server := range []string{"old", "new"} {
		d.tokens[d.key(server, identity.Local)] = "the-local-token-" + server
	}
	d.mu.Unlock()
	for _, revision := range []string{"2025-06-18", "2026-07-28"} {
		for _, x := range []struct {
			at         fake.Where
			has, lacks string
			both       bool // the door is that of both servers
		}{
			{fake.Where{URL: h.url + "/mcp"}, `__sign_in"`, `__add"`, true},
			{fake.Where{URL: h.url + "/s/old/mcp"}, `"sign_in"`, `"add"`, false},
			{fake.Where{URL: h.url + "/s/new/mcp"}, `"sign_in"`, `"add"`, false},
			{pipeTo(t, h.Default().Joined()), `__add"`, `__sign_in"`, true},
		} {
			c, err := fake.OpenClient(t.Context(), "strict-"+revision, x.at, fake.ClientOptions{Without: []string{"elicitation", "sampling", "roots"}})
			if err != nil {
				t.Fatal(err)
			}
			r, err := c.Call(t.Context(), mcp.MethodListTools, nil, fake.CallOptions{})
			if err != nil || r.Err != nil {
				t.Fatal(err, r)
			}
			if n := strings.Count(string(r.Result), x.has); n == 0 || x.both && n != 2 || strings.Contains(string(r.Result), x.lacks) {
				t.Errorf("%s at %s sees %.600s", revision, x.at.URL, r.Result)
			}
			if err := c.Close(); err != nil {
				t.Error(err)
			}
		}
	}
}

// forgive forgets who doesn't want to be asked.
func (h *house) forgive() {
	p := h.Default()
	p.signIn = NewSignIn(&p.signers, "")
	p.signIn.Signed = p.SignedIn
	p.mu.Lock()
	defer p.mu.Unlock()
	p.gateway.SignIn = p.signIn
	for _, x := range p.singles {
		x.SignIn = p.signIn
	}
}

func (h *house) signInCase(t *testing.T, d *desk, x signInCase, server, path, prefix string) {
	revision, _ := mcp.ParseRevision(x.revision)
	at := fake.Where{URL: h.url + path + "/mcp"}
	if !revision.Can(mcp.StreamableHTTP) {
		at.URL = h.url + path + "/sse"
	}
	if x.pipe {
		e := h.Default().Joined()
		if path != "" {
			e = h.Default().mount(server).clients
		}
		at = pipeTo(t, e)
	}
	asked := 0
	var mu sync.Mutex
	c, err := fake.OpenClient(t.Context(), "strict-"+x.revision, at, fake.ClientOptions{Without: x.without,
		Answer: func(_ context.Context, a fake.Ask) ([]byte, *jsonrpc.Error) {
			mu.Lock()
			asked++
			mu.Unlock()
			link, _ := jsonrpc.Text(a.Params, jsonrpc.Find(a.Params, jsonrpc.Whole(a.Params), "url"))
			if x.action == "accept" {
				time.AfterFunc(250*time.Millisecond, func() { d.finish(link, nil) }) // longer than a call is held
			}
			return []byte(`{"action":"` + x.action + `"}`), nil
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
		if bad := c.Violations(); len(bad) > 0 {
			t.Errorf("the client saw violations: %q", bad)
		}
	}()
	text := strings.NewReplacer("/", "_", " ", "_", "#", "_").Replace(t.Name())
	call := func() string {
		t.Helper()
		r, err := c.Call(t.Context(), mcp.MethodCallTool, []byte(`{"name":"`+prefix+`echo","arguments":{"text":"`+text+`"}}`), fake.CallOptions{Progress: true})
		switch {
		case err != nil:
			t.Fatal(err)
		case r.Err != nil:
			return r.Err.Error()
		}
		return string(r.Result)
	}
	tools := func() string {
		t.Helper()
		r, err := c.Call(t.Context(), mcp.MethodListTools, nil, fake.CallOptions{})
		if err != nil || r.Err != nil {
			t.Fatal(err, r)
		}
		return string(r.Result)
	}
	if x.action == "accept" || x.action == "" {
		sub, err := c.Subscribe(t.Context(), fake.Filter{Tools: true})
		if err != nil {
			t.Fatal(err)
		}
		defer sub.Close(context.Background())
	}
	heard := c.Serial()
	if path == "" || x.action == "" { // else the first that the server hears of the client is the call
		// Who has a scope of their own before the sign-in sees what they saw before they signed out.
		if got := tools(); strings.Contains(got, prefix+`sign_in"`) == strings.Contains(got, prefix+`add"`) || !d.personal && !strings.Contains(got, prefix+`sign_in"`) {
			t.Errorf("before the sign-in, the tools are %s", got)
		}
	}
	got := call()
	want, ran := text, 1
	switch x.action {
	case "":
		if !strings.Contains(got, `"isError":true`) || !strings.Contains(got, "https://issuer.example/authorize") || !strings.Contains(got, mcp.KeySignIn) || h.executions(text) != 0 {
			t.Fatalf("the client got %s", got)
		}
		link := got[strings.Index(got, "https://"):]
		d.finish(link[:strings.IndexAny(link, ` "`)], nil)
		h.Default().SignedIn(server, d.scopeOf(t, server, x))
		got = call()
	case "accept":
		if asked != 1 {
			t.Errorf("the person was asked %d times", asked)
		}
		if revision.Can(mcp.ElicitationIDs) && !heardOf(c, mcp.NoteElicitComplete) {
			t.Error("the client did not hear that the person is done")
		}
	default:
		if again := call(); asked != 1 || !strings.Contains(again, "was declined") {
			t.Errorf("after the person has refused, they were asked %d times, and the client got %s", asked, again)
		}
		want, ran = "was declined", 0
	}
	if !strings.Contains(got, want) || h.executions(text) != ran {
		t.Errorf("the client got %s, and the server was called %d times", got, h.executions(text))
	}
	if ran == 1 {
		ctx, stop := context.WithTimeout(t.Context(), 20*time.Second)
		defer stop()
		if _, err := c.Await(ctx, heard, func(n fake.Notice) bool { return n.Method == mcp.NoteToolsChanged }); err != nil {
			t.Errorf("the client did not hear that the tools have changed: %v", err)
		}
		if got := tools(); strings.Contains(got, `sign_in"`) && !strings.Contains(got, `_sign_in"`) || !strings.Contains(got, prefix+`add"`) {
			t.Errorf("after the sign-in, the tools are %s", got)
		}
	}
}

// scopeOf returns the scope of the person of a case who has signed in.
func (d *desk) scopeOf(t *testing.T, server string, x signInCase) string {
	who := identity.Named("ann")
	if x.pipe {
		who = identity.Local
	}
	if !d.signedIn(server, who) {
		t.Error("the person is not signed in")
	}
	return deskCredentials{d, server}.Scope(who)
}

func heardOf(c *fake.Client, method string) bool {
	for _, n := range c.Notices() {
		if n.Method == method {
			return true
		}
	}
	return false
}
