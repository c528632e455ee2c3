//go:build unix

package daemon

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/setup/config"
	"github.com/dragoman-mcp/dragoman/internal/team/signin"
	"github.com/dragoman-mcp/dragoman/internal/workbench/fake"
)

// secured starts a server that wants a sign-in, with the pages of an issuer that asks nothing.
func secured(t *testing.T, profile string, set ...string) (*fake.OAuth, config.Server) {
	t.Helper()
	o := fake.Options{Set: map[string]string{"revision": "2025-06-18", "consent": "none"}}
	for _, kv := range set {
		k, v, _ := strings.Cut(kv, "=")
		o.Set[k] = v
	}
	a, err := fake.NewOAuth(profile, o)
	if err != nil {
		t.Fatal(err)
	}
	web := httptest.NewServer(a.Handler())
	t.Cleanup(func() {
		_ = a.Close()
		web.Close()
		if v := a.Violations(); len(v) > 0 {
			t.Errorf("%q", v)
		}
	})
	c, problem := config.Complete(config.Server{Name: "gh", URL: web.URL + a.Path()})
	if problem != nil {
		t.Fatal(problem)
	}
	return a, c
}

// visit is a browser: it opens a link and follows it back to us.
func visit(ctx context.Context, link string) error {
	c := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, link, nil)
	if err != nil {
		return err
	}
	resp, err := c.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if b, _ := io.ReadAll(resp.Body); resp.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s", resp.Status, b)
	}
	return nil
}

// signInAs signs the user of a command in at a server.
func signInAs(t *testing.T, c config.Server, database string) {
	t.Helper()
	d := OpenDesk(DeskOptions{Database: database, Browser: visit})
	defer d.Close()
	s, err := Connect(t.Context(), ConnectOptions{Server: c, Desk: d})
	var needed *signin.Needed
	if !errors.As(err, &needed) {
		t.Fatalf("a session without a sign-in: %v, %v", s, err)
	}
	f, err := d.At("default", c).Begin(t.Context(), needed.Of, true)
	if err == nil {
		err = f.Wait(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
	if s, err = Connect(t.Context(), ConnectOptions{Server: c, Desk: d}); err != nil {
		t.Fatal(err)
	}
	if l, err := s.List(t.Context(), "tools"); err != nil || len(l.Items) == 0 {
		t.Errorf("%d tools, %v", len(l.Items), err)
	}
	_ = s.Close()
}

// TestSignInOfACommandCountsForServe signs in with a command while serve runs. Serve must use the credential at once,
// and again after it was started anew, and must lose it with the sign-out.
func TestSignInOfACommandCountsForServe(t *testing.T) {
	a, c := secured(t, "ok")
	database := filepath.Join(t.TempDir(), "dragoman.db")
	s := *config.Default()
	s.Servers = []config.Server{c}
	at := func(o *ServeOptions) { o.Database = database }
	tools := func(r *rig) string { return r.modern("/s/gh/mcp", "1", "tools/list", "", "").body }
	r := serve(t, &s, at)
	if got := tools(r); !strings.Contains(got, `"sign_in"`) {
		t.Fatalf("before the sign-in: %s", got)
	}
	if a := r.do(t.Context(), "GET", "/readyz", nil); a.status != 200 || !strings.Contains(a.body, "sign-in") {
		t.Errorf("nobody who could sign in reaches a serve that isn't ready: %d %s", a.status, a.body)
	}
	signInAs(t, c, database)
	for end := time.Now().Add(20 * time.Second); strings.Contains(tools(r), `"sign_in"`); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("after the sign-in: %s", tools(r))
		}
	}
	if err := r.stop(); err != nil {
		t.Fatal(err)
	}
	r = serve(t, &s, at)
	if got := tools(r); strings.Contains(got, `"sign_in"`) {
		t.Errorf("the next serve: %s", got)
	}
	if n := a.Counts(); n["register"] != 1 || n["authorize"] != 1 {
		t.Errorf("%v", n)
	}
	d := OpenDesk(DeskOptions{Database: database})
	defer d.Close()
	all, err := d.SignedIn(t.Context())
	if err != nil || len(all) != 1 || all[0].Subject != "local" || all[0].Project != "default" {
		t.Fatalf("%+v, %v", all, err)
	}
	there, revoked, err := d.SignOut(t.Context(), "me", all[0].SignIn)
	if !there || !revoked || err != nil {
		t.Errorf("%v, %v, %v", there, revoked, err)
	}
	for end := time.Now().Add(20 * time.Second); !strings.Contains(tools(r), `"sign_in"`); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("after the sign-out: %s", tools(r))
		}
	}
}

// TestNoSignInOpensNoDatabase checks that a command at a server that wants no sign-in, or gets a header, and one that
// refuses without asking for OAuth, makes no file.
func TestNoSignInOpensNoDatabase(t *testing.T) {
	_, wants := secured(t, "ok")
	wants.Header = []config.Field{{Name: "Authorization", Value: config.NewSecret("Bearer no")}}
	wants.SignIn.How = config.HowHeaders
	refuses := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "no", http.StatusUnauthorized) }))
	defer refuses.Close()
	open, err := fake.NewOAuth("ok", fake.Options{Set: map[string]string{"revision": "2025-06-18"}})
	if err != nil {
		t.Fatal(err)
	}
	defer open.Close()
	for name, url := range map[string]string{"a header": wants.URL, "a 401 without OAuth": refuses.URL + "/mcp"} {
		c := wants
		if c.URL = url; name != "a header" {
			c.Header, c.SignIn = nil, config.SignIn{}
		}
		folder := t.TempDir()
		d := OpenDesk(DeskOptions{Database: filepath.Join(folder, "dragoman.db"), AtOnce: true, Browser: func(context.Context, string) error {
			t.Errorf("%s: a browser was opened", name)
			return nil
		}})
		if _, err := Connect(t.Context(), ConnectOptions{Server: c, Desk: d}); err == nil {
			t.Errorf("%s: no error", name)
		}
		d.Close()
		if all, _ := os.ReadDir(folder); len(all) > 0 {
			t.Errorf("%s: there is %s", name, all[0].Name())
		}
	}
}

// TestRunWithoutAPlaceForTheSignIn starts run where no database can be made. Whoever calls the tool sign_in hears what is
// wrong.
func TestRunWithoutAPlaceForTheSignIn(t *testing.T) {
	_, c := secured(t, "ok")
	const gone = "/proc/none" // where nobody can make a folder, and the reason isn't a missing permission
	if _, err := os.Stat("/proc/self"); err != nil {
		t.Skip("this system has no /proc")
	}
	p := pipeTo(t, func(ctx context.Context, log *slog.Logger, in io.Reader, out io.WriteCloser) error {
		d := OpenDesk(DeskOptions{Database: filepath.Join(gone, "dragoman.db")})
		defer d.Close()
		return Run(ctx, RunOptions{Server: c, Desk: d, Log: log, Stdin: in, Stdout: out, Version: "test"})
	})
	p.initialize("{}")
	p.send(`{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"sign_in","arguments":{}}}`)
	if m := p.answerTo("7"); !strings.Contains(string(m.Raw), "database") || !strings.Contains(string(m.Raw), gone) {
		t.Errorf("the client hears %s", m.Raw)
	}
}

// TestRunHearsOfItsOwnServer signs in at another server while run serves one, and then at that one. Run's client hears
// of the second one alone.
func TestRunHearsOfItsOwnServer(t *testing.T) {
	_, own := secured(t, "ok")
	_, other := secured(t, "ok")
	database := filepath.Join(t.TempDir(), "dragoman.db")
	d := OpenDesk(DeskOptions{Database: database})
	p := pipeTo(t, func(ctx context.Context, log *slog.Logger, in io.Reader, out io.WriteCloser) error {
		defer d.Close()
		return Run(ctx, RunOptions{Server: own, Desk: d, Log: log, Stdin: in, Stdout: out, Version: "test"})
	})
	p.initialize("{}")
	p.send(`{"jsonrpc":"2.0","id":7,"method":"tools/list"}`)
	if m := p.answerTo("7"); !strings.Contains(string(m.Raw), `"sign_in"`) {
		t.Fatalf("before the sign-in: %s", m.Raw)
	}
	seen := d.Changed()
	signInAs(t, other, database)
	select {
	case <-seen:
	case <-time.After(patience(10 * time.Second)):
		t.Fatal("nobody heard of the other sign-in")
	}
	select {
	case line := <-p.out:
		t.Errorf("after a sign-in at another server: %s", line)
	case <-time.After(300 * time.Millisecond):
	}
	signInAs(t, own, database)
	for end := time.Now().Add(patience(10 * time.Second)); !strings.Contains(string(p.read().Raw), "tools/list_changed"); {
		if time.Now().After(end) {
			t.Fatal("the client didn't hear of the sign-in")
		}
	}
}

// TestRunSignsIn starts run for a client on stdio, with a browser. The client gets its answers as from a server that wants
// no sign-in. The second run asks nobody.
func TestRunSignsIn(t *testing.T) {
	a, c := secured(t, "ok")
	database := filepath.Join(t.TempDir(), "dragoman.db")
	var opened atomic.Int32
	start := func() *pipe {
		return pipeTo(t, func(ctx context.Context, log *slog.Logger, in io.Reader, out io.WriteCloser) error {
			d := OpenDesk(DeskOptions{Database: database, AtOnce: true, Log: log, Browser: func(ctx context.Context, link string) error {
				opened.Add(1)
				return visit(ctx, link)
			}})
			defer d.Close()
			return Run(ctx, RunOptions{Server: c, Desk: d, Log: log, Stdin: in, Stdout: out, Version: "test"})
		})
	}
	for i := range 2 {
		p := start()
		p.initialize("{}")
		p.send(`{"jsonrpc":"2.0","id":7,"method":"tools/list"}`)
		if m := p.answerTo("7"); m.Kind != jsonrpc.Result || strings.Contains(string(m.Raw), `"sign_in"`) {
			t.Errorf("run %d: %s", i+1, m.Raw)
		}
		_ = p.in.Close()
		if err := p.wait(10 * time.Second); err != nil {
			t.Error(err)
		}
	}
	if n := a.Counts(); opened.Load() != 1 || n["register"] != 1 || n["authorization_code"] != 1 {
		t.Errorf("%d tabs, %v", opened.Load(), n)
	}
}
