package signin

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/base/secret"
	"github.com/dragoman-mcp/dragoman/internal/team/store"
	"github.com/dragoman-mcp/dragoman/internal/team/vault"
	"github.com/dragoman-mcp/dragoman/internal/transport"
)

// TestWays signs in without the listener: with a pasted address, and with a code on another machine. The first way that
// leads to a credential ends the others.
func TestWays(t *testing.T) {
	for name, way := range map[string]func(t *testing.T, to *strict, f *Flow) error{
		"the whole address": func(t *testing.T, to *strict, f *Flow) error {
			back, err := to.consent(t.Context(), f.Link(), "ada")
			return errors.Join(err, f.Paste(t.Context(), "  "+back+"\n"))
		},
		"the query": func(t *testing.T, to *strict, f *Flow) error {
			back, err := to.consent(t.Context(), f.Link(), "ada")
			_, query, _ := strings.Cut(back, "?")
			return errors.Join(err, f.Paste(t.Context(), query))
		},
		"a code": func(t *testing.T, to *strict, f *Flow) error {
			dev, err := f.Device(t.Context())
			if err != nil || dev.User != "ABCD-EFGH" || dev.Page != to.URL+"/activate" {
				return fmt.Errorf("the code is %+v: %w", dev, err)
			}
			to.mu.Lock()
			for _, g := range to.devices {
				g.approved = true
			}
			to.mu.Unlock()
			return f.Wait(t.Context())
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			to := newStrict(t)
			to.device = true
			r := newRig(t, file(t), to, Settings{}, nil)
			f, err := r.s.begin(t.Context(), r.s.Of(nil), false)
			if err != nil {
				t.Fatal(err)
			}
			if err := way(t, to, f); err != nil || f.Err() != nil {
				t.Errorf("%v; the sign-in: %v", err, f.Err())
			}
			if status, err := r.call(t.Context(), ""); status != 200 || err != nil {
				t.Errorf("a call: %d, %v", status, err)
			}
		})
	}
}

// TestPasteOfRefusal pastes the address of somebody who has refused: the sign-in is over, so nobody is told to paste again.
func TestPasteOfRefusal(t *testing.T) {
	to := newStrict(t)
	r := newRig(t, file(t), to, Settings{}, nil)
	f, err := r.s.begin(t.Context(), r.s.Of(nil), false)
	if err != nil {
		t.Fatal(err)
	}
	if err := f.Paste(t.Context(), "?code=x&state=other"); err == nil || f.Err() != nil {
		t.Errorf("another address: %v; the sign-in: %v", err, f.Err())
	}
	if err := f.Paste(t.Context(), "?error=access_denied&state="+f.kept.State+"&iss="+f.kept.Issuer.Issuer); err == nil || f.Err() == nil {
		t.Errorf("a refusal: %v; the sign-in: %v", err, f.Err())
	}
}

// TestSettingsOfFlow changes the settings while a sign-in is under way, such as a wrong client id at which the issuer's
// page ends. The next one who asks gets another link, and nobody else does.
func TestSettingsOfFlow(t *testing.T) {
	to, p := newStrict(t), file(t)
	first := newRig(t, p, to, Settings{ClientID: "wrong"}, nil)
	old, err := first.s.begin(t.Context(), first.s.Of(nil), false)
	if err != nil {
		t.Fatal(err)
	}
	at := func(d *Desk, settings Settings) *Flow {
		t.Helper()
		s, err := d.Server("default", "srv", first.to, settings)
		if err != nil {
			t.Fatal(err)
		}
		f, err := s.begin(t.Context(), s.Of(nil), false)
		if err != nil {
			t.Fatal(err)
		}
		return f
	}
	other := newRig(t, p, to, Settings{}, nil) // another process
	for _, same := range []*Flow{at(first.Desk, Settings{}), at(first.Desk, Settings{ClientID: "wrong"}), at(other.Desk, Settings{})} {
		if same.Link() != old.Link() {
			t.Errorf("another link without another client: %s", same.Link())
		}
	}
	second := at(first.Desk, Settings{ClientID: "right"})
	if !strings.Contains(second.Link(), "client_id=right&") {
		t.Fatalf("in the same process: %s", second.Link())
	}
	if <-old.Done(); old.Err() == nil {
		t.Error("the first sign-in has ended well")
	}
	if third := at(newRig(t, p, to, Settings{}, nil).Desk, Settings{ClientID: "third"}); !strings.Contains(third.Link(), "client_id=third&") {
		t.Errorf("in another process: %s", third.Link())
	}
}

// TestDeviceNeedsAnIssuer checks what people are told where no code can be typed.
func TestDeviceNeedsAnIssuer(t *testing.T) {
	to := newStrict(t)
	r := newRig(t, file(t), to, Settings{}, nil)
	f, err := r.s.begin(t.Context(), r.s.Of(nil), false)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.Device(t.Context()); err == nil || f.HasDevice() || !strings.Contains(err.Error(), "no sign-in with a code") {
		t.Errorf("a device flow: %v", err)
	}
}

// TestTabsComeOneByOne begins ten sign-ins at once: there's never more than one tab that waits for its person.
func TestTabsComeOneByOne(t *testing.T) {
	t.Parallel()
	p := file(t)
	to := newStrict(t)
	r := newRig(t, p, to, Settings{}, nil)
	for i := range 10 {
		s, err := r.Desk.Server("default", fmt.Sprint("srv", i), to.URL+"/mcp", Settings{})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.Begin(t.Context(), store.SignIn{Project: "default", Server: s.id, Subject: fmt.Sprint("p:", i)}, true); err != nil {
			t.Fatal(err)
		}
	}
	for i := range 10 {
		link := <-r.tabs
		time.Sleep(2 * lookEvery)
		if len(r.tabs) > 0 {
			t.Fatalf("a tab is opened while %d is open", i)
		}
		if status, _, err := to.visit(t.Context(), link, "ada"); status != 200 || err != nil {
			t.Errorf("tab %d ends with %d: %v", i, status, err)
		}
	}
	// Whoever goes away keeps the others waiting for two minutes only.
	safe := r.safe.Load()
	if _, err := r.s.begin(t.Context(), r.s.Of(nil), true); err != nil {
		t.Fatal(err)
	}
	<-r.tabs
	f, err := r.s.begin(t.Context(), store.SignIn{Project: "default", Server: r.s.id, Subject: "p:late"}, false)
	if err != nil {
		t.Fatal(err)
	}
	for _, after := range []time.Duration{0, tabTime + time.Second} {
		may := false
		now := time.Now().Add(after)
		err := safe.Store().Write(t.Context(), "test", func(x *store.Tx) (err error) {
			may, err = x.OpenFlow(f.row.ID, now, now.Add(-tabTime))
			return err
		})
		if err != nil || may != (after > 0) {
			t.Errorf("after %s, the next tab may be opened: %t (%v)", after, may, err)
		}
	}
}

// TestPortOfAnother lets another program take our port, which says what we have said there, as the program of another
// user of the machine can. A sign-in gets another port and another registration; with a configured port, people are told.
func TestPortOfAnother(t *testing.T) {
	t.Parallel()
	to, p := newStrict(t), file(t)
	r := newRig(t, p, to, Settings{}, nil)
	if _, err := r.s.begin(t.Context(), r.s.Of(nil), false); err != nil {
		t.Fatal(err)
	}
	c, _, err := r.callback(t.Context(), r.safe.Load())
	if err != nil {
		t.Fatal(err)
	}
	at := fmt.Sprintf("127.0.0.1:%d", c.Port)
	req, _ := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+at+"/", nil)
	req.Header.Set(ourHeader, "a question")
	said, err := http.DefaultClient.Do(req)
	if err != nil || said.Header.Get(ourHeader) == "" || strings.Contains(fmt.Sprint(said.Header), c.Name) {
		t.Fatalf("our page says %v, %v", said, err)
	}
	_ = said.Body.Close()
	r.signIn(t, to, r.s.Of(nil), "ada")
	l, err := net.Listen("tcp4", at)
	for end := time.Now().Add(10 * time.Second); err != nil && time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		l, err = net.Listen("tcp4", at) // until the door is closed
	}
	if err != nil {
		t.Fatal(err)
	}
	other := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set(ourHeader, said.Header.Get(ourHeader))
	}))
	other.Listener = l
	other.Start()
	defer other.Close()
	f, err := r.s.begin(t.Context(), r.s.Of(nil), false)
	if err != nil || f.Port() == c.Port || to.counted("register") != 2 {
		t.Errorf("the port is %d, after %d: %v", f.Port(), c.Port, err)
	}
	fixed := newRig(t, file(t), to, Settings{Callback: "http://localhost:" + fmt.Sprint(c.Port) + "/back"}, nil)
	_, err = fixed.s.begin(t.Context(), fixed.s.Of(nil), false)
	says, next := Explain(err)
	if !strings.Contains(says, fmt.Sprint(c.Port)) || !strings.Contains(next, "callback") {
		t.Errorf("people are told %q, %q", says, next)
	}
	// The process whose public URL it is listens there itself, also at what an issuer has for itself.
	for _, silent := range []bool{false, true} {
		to.silent = silent
		public := newRig(t, file(t), to, Settings{}, func(o *Options) { o.Public = other.URL })
		if f, err := public.s.begin(t.Context(), public.s.Of(nil), false); err != nil || !strings.HasPrefix(f.kept.Redirect, other.URL+"/oauth/callback") {
			t.Errorf("with a public URL on this machine: %v", err)
		}
	}
}

// TestNothingToWriteTo keeps the credential in memory where there's no place for a file.
func TestNothingToWriteTo(t *testing.T) {
	to := newStrict(t)
	s, err := store.Open(t.Context(), store.Options{MayForget: true})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Close() }()
	r := newRig(t, place{}, to, Settings{}, func(o *Options) {
		o.Open = func(context.Context) (*store.Safe, error) {
			return store.NewSafe(s, vault.New(vault.Options{Memory: true})), nil
		}
	})
	defer r.Close()
	r.signIn(t, to, r.s.Of(nil), "ada")
	if status, err := r.call(t.Context(), ""); status != 200 || err != nil || s.State().Place != store.Memory {
		t.Errorf("a call: %d, %v; %s", status, err, s.State().Place)
	}
}

// TestStoreCannotBeOpened checks what whoever calls is told: one sentence and the next step.
func TestStoreCannotBeOpened(t *testing.T) {
	to := newStrict(t)
	r := newRig(t, place{}, to, Settings{}, func(o *Options) {
		o.Open = func(context.Context) (*store.Safe, error) {
			return nil, &store.Error{Text: "the database is damaged", Next: "restore it"}
		}
	})
	_, err := r.call(t.Context(), "")
	if says, next := Explain(err); says != "sign-ins cannot be read: the database is damaged" || next != "restore it" {
		t.Errorf("it says %q, %q", says, next)
	}
}

// TestRegistrationIsGone lets the issuer forget its clients. The refresh is refused, the next sign-in registers another
// client, and the scopes that were asked for are asked for again.
func TestRegistrationIsGone(t *testing.T) {
	to := newStrict(t)
	r := newRig(t, file(t), to, Settings{Scopes: []string{"a"}}, nil)
	r.signIn(t, to, r.s.Of(nil), "ada")
	to.mu.Lock()
	to.clients, to.access = map[string][]string{}, map[string]*grant{}
	to.mu.Unlock()
	_, err := r.call(t.Context(), "")
	if n := needed(t, err); !strings.Contains(n.Why, "no longer knows the client") {
		t.Errorf("why: %q", n.Why)
	}
	r.signIn(t, to, r.s.Of(nil), "ada")
	if status, err := r.call(t.Context(), ""); status != 200 || err != nil || to.counted("register") != 2 || fmt.Sprint(to.asked) != "[a a]" {
		t.Errorf("afterwards: %d, %v, %v, %q", status, err, to.counts, to.asked)
	}
}

// TestSilentIssuer gives an issuer that doesn't say who it is in its answers a redirect URI of its own.
func TestSilentIssuer(t *testing.T) {
	to, other := newStrict(t), newStrict(t)
	to.silent, other.silent = true, true
	p := file(t)
	a, b := newRig(t, p, to, Settings{}, nil), newRig(t, p, other, Settings{}, nil)
	f, err := a.s.begin(t.Context(), a.s.Of(nil), false)
	if err != nil {
		t.Fatal(err)
	}
	g, err := b.s.begin(t.Context(), b.s.Of(nil), false)
	if err != nil {
		t.Fatal(err)
	}
	if f.kept.Redirect == g.kept.Redirect || f.Port() != g.Port() {
		t.Errorf("two issuers send browsers to %s and %s", f.kept.Redirect, g.kept.Redirect)
	}
	// Mix-up: the answer of one arrives with the state of the other.
	mixed := a.Finish(t.Context(), pathOf(g.kept.Redirect), url.Values{"state": {f.kept.State}, "code": {"x"}})
	if mixed == nil || to.counted("authorization_code")+other.counted("authorization_code") > 0 {
		t.Errorf("a mixed-up answer: %v", mixed)
	}
	for x, link := range map[*strict]string{to: f.Link(), other: g.Link()} {
		if status, _, err := x.visit(t.Context(), link, "ada"); status != 200 || err != nil {
			t.Errorf("the page: %d, %v", status, err)
		}
	}
}

// TestTA30OtherIssuer moves a server to another issuer: nothing of the old one is used there.
func TestTA30OtherIssuer(t *testing.T) {
	to, next := newStrict(t), newStrict(t)
	p := file(t)
	r := newRig(t, p, to, Settings{}, nil)
	r.signIn(t, to, r.s.Of(nil), "ada")
	old, _ := r.s.account(local).current(t.Context(), r.safe.Load())
	to.mu.Lock()
	to.issuer = next.URL
	for _, g := range to.access {
		g.root().revoked = true
	}
	to.mu.Unlock()
	next.mu.Lock()
	next.server = to.URL
	next.mu.Unlock()
	_, err := r.call(t.Context(), "")
	needed(t, err)
	f, err := r.s.begin(t.Context(), r.s.Of(nil), false)
	if err != nil {
		t.Fatal(err)
	}
	if status, _, err := next.visit(t.Context(), f.Link(), "ada"); status != 200 || err != nil {
		t.Fatalf("the page: %d, %v", status, err)
	}
	if err := f.Wait(t.Context()); err != nil {
		t.Fatal(err)
	}
	now, err := r.s.account(local).current(t.Context(), r.safe.Load())
	if err != nil || now.issuer.Issuer != next.URL || now.client.ID == old.client.ID || next.counted("register") != 1 || next.counted("refresh_token") != 0 {
		t.Errorf("the new credential is of %s; %v, %v", now.issuer.Issuer, next.counts, err)
	}
	// A client that somebody has registered at the old issuer isn't shown to the new one.
	fixed := newRig(t, p, to, Settings{ClientID: old.client.ID}, nil)
	if _, err := fixed.s.begin(t.Context(), store.SignIn{Project: "default", Server: fixed.s.id, Subject: "p:bob"}, false); err == nil || !strings.Contains(err.Error(), to.URL) {
		t.Errorf("a client of the old issuer: %v", err)
	}
}

// TestFreshTokenIsFree reads a token that is fresh, from many goroutines while the store changes. It takes no allocation.
func TestFreshTokenIsFree(t *testing.T) {
	to := newStrict(t)
	r := newRig(t, file(t), to, Settings{}, nil)
	r.signIn(t, to, r.s.Of(nil), "ada")
	read := func() {
		if h, _, err := r.s.Sign(context.Background(), "", "POST", r.to); err != nil || len(h) != 1 {
			t.Error(h, err)
		}
	}
	if n := testing.AllocsPerRun(1000, read); n != 0 {
		t.Errorf("a read of a fresh token takes %.1f allocations", n)
	}
	var all sync.WaitGroup
	ctx, stop := context.WithCancel(t.Context())
	for range 4 {
		all.Go(func() {
			for ctx.Err() == nil {
				read()
				runtime.Gosched()
			}
		})
	}
	for i := range 20 {
		if err := r.safe.Load().SetSecret(ctx, "ada", "shop", fmt.Sprint("s", i), []byte("x")); err != nil {
			t.Error(err)
		}
	}
	stop()
	all.Wait()
}

// BenchmarkSign reads a token that is fresh. It should take less than 2 µs.
func BenchmarkSign(b *testing.B) {
	t := &token{headers: []transport.HeaderField{{Name: "Authorization", Value: "Bearer x"}}, access: secret.New("x"), renewAt: time.Now().Add(time.Hour), deadAt: time.Now().Add(time.Hour)}
	s, err := store.Open(b.Context(), store.Options{MayForget: true})
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = s.Close() }()
	d := New(Options{Open: func(context.Context) (*store.Safe, error) {
		return store.NewSafe(s, vault.New(vault.Options{Memory: true})), nil
	}, Known: true, Alone: true})
	defer d.Close()
	srv, err := d.Server("default", "srv", "http://127.0.0.1:1/mcp", Settings{})
	if err != nil {
		b.Fatal(err)
	}
	srv.account(local).view.Store(&view{s.Snapshot(), t})
	b.ReportAllocs()
	for b.Loop() {
		if h, _, err := srv.Sign(b.Context(), "", "POST", "http://127.0.0.1:1/mcp"); err != nil || len(h) != 1 {
			b.Fatal(h, err)
		}
	}
}

// TestTA28BrowserIsNoShell checks which programs get which arguments, and that what an issuer publishes starts nothing
// unless it is an address: no command, no flag and no other scheme.
func TestTA28BrowserIsNoShell(t *testing.T) {
	const link = "https://id.example/authorize?state=A&x=%24%28touch%20/tmp/x%29%3B--flag"
	for name, c := range map[string]struct {
		system string
		env    map[string]string
		link   string
		want   string // commands, in their order; all but the last one fail
		open   bool   // HasBrowser
		tunnel string
	}{
		"a desktop":    {"linux", map[string]string{"DISPLAY": ":0"}, link, "[xdg-open LINK]", true, ""},
		"Wayland":      {"linux", map[string]string{"WAYLAND_DISPLAY": "w"}, link, "[xdg-open LINK]", true, ""},
		"a server":     {"linux", nil, link, "[xdg-open LINK]", false, ""},
		"a Mac":        {"darwin", nil, link, "[open LINK]", true, ""},
		"Windows":      {"windows", nil, link, "[rundll32 url.dll,FileProtocolHandler LINK]", true, ""},
		"BROWSER":      {"linux", map[string]string{"BROWSER": "my-browser --new"}, link, "[my-browser --new LINK]", true, ""},
		"several":      {"darwin", map[string]string{"BROWSER": "one:two -u %s -x"}, link, "[one LINK] [two -u LINK -x]", true, ""},
		"SSH":          {"linux", map[string]string{"SSH_CONNECTION": "10.0.0.9 51000 10.0.0.2 22", "USER": "ada"}, link, "[xdg-open LINK]", false, "ssh -N -L 4711:127.0.0.1:4711 ada@10.0.0.2"},
		"SSH to a Mac": {"darwin", map[string]string{"SSH_TTY": "/dev/tty1"}, link, "[open LINK]", false, "ssh -N -L 4711:127.0.0.1:4711 THIS-MACHINE"},
		"SSH, with X":  {"linux", map[string]string{"SSH_TTY": "/dev/tty1", "DISPLAY": "localhost:10.0", "USER": "ada"}, link, "[xdg-open LINK]", true, "ssh -N -L 4711:127.0.0.1:4711 ada@THIS-MACHINE"},
	} {
		t.Run(name, func(t *testing.T) {
			var ran []string
			w := World{Getenv: func(k string) string { return c.env[k] }, System: c.system}
			wants := strings.Count(c.want, "[")
			w.Run = func(_ context.Context, name string, args ...string) error {
				ran = append(ran, fmt.Sprint(append([]string{name}, slices.Clone(args)...)))
				if len(ran) < wants {
					return errors.New("no such program")
				}
				return nil
			}
			err := w.Open(t.Context(), c.link)
			if got := strings.Join(ran, " "); got != strings.ReplaceAll(c.want, "LINK", c.link) || (err != nil) != (c.want == "") {
				t.Errorf("it starts %s: %v", got, err)
			}
			if w.HasBrowser() != c.open || w.Tunnel(4711) != c.tunnel || w.Tunnel(0) != "" {
				t.Errorf("a browser: %t; a tunnel: %q", w.HasBrowser(), w.Tunnel(4711))
			}
		})
	}
	w := World{Getenv: func(string) string { return "" }, System: "linux", Run: func(context.Context, string, ...string) error {
		t.Error("a program was started")
		return nil
	}}
	for _, bad := range []string{
		"https://id.example/$(touch x)", "https://id.example/`id`", "https://id.example/a;id", "https://id.example/a|id", "https://id.example/a'b", `https://id.example/a"b`,
		"https://id.example/a\nb", "https://id.example/a b", "https://id.example/ü", "--flag", "-https://id.example", "javascript:alert(1)", "file:///etc/passwd", "data:text/html,x",
		"HTTPS:id.example", "https:///x", "//id.example", "", "vscode://x/y", "https://id.example/%zz",
		link + "&$(id)", link + `"&calc`, link + "`id`", link + "\n--x", "--version", "javascript:alert(1)//https://x", "calc.exe",
	} {
		if err := w.Open(t.Context(), bad); err == nil || bad != "" && strings.Contains(err.Error(), bad) {
			t.Errorf("%q: %v", bad, err)
		}
	}
}

// TestIdleBrowser has a browser that keeps a connection open on which it asks nothing, as browsers do in advance. The command
// doesn't wait for it.
func TestIdleBrowser(t *testing.T) {
	to := newStrict(t)
	r := newRig(t, file(t), to, Settings{}, nil)
	f, err := r.s.begin(t.Context(), r.s.Of(nil), false)
	if err != nil {
		t.Fatal(err)
	}
	c, err := net.Dial("tcp4", fmt.Sprintf("127.0.0.1:%d", f.Port()))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close() }()
	if status, _, err := to.visit(t.Context(), f.Link(), "ada"); status != 200 || err != nil {
		t.Fatalf("the page: %d, %v", status, err)
	}
	if err := f.Wait(t.Context()); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	if r.Close(); time.Since(began) > 4*time.Second {
		t.Errorf("the process ends after %s", time.Since(began))
	}
}
