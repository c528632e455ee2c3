//go:build unix

package daemon

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/app/admin"
	"github.com/dragoman-mcp/dragoman/internal/setup/config"
	"github.com/dragoman-mcp/dragoman/internal/team/store"
	"github.com/dragoman-mcp/dragoman/internal/team/vault"
)

// sealed is a serve whose servers need secrets. Other processes are safes with the same database.
type sealed struct {
	*fileDaemon
	t        *testing.T
	database string
	key      string // of the API
}

// shouting returns the entry of a server that writes its environment and its arguments to stderr when it
// starts. more has further variables, as YAML.
func shouting(t *testing.T, name, args, more string) string {
	u := child(t, name, "legacy")
	var env []string
	for name, value := range u.Env {
		env = append(env, fmt.Sprintf("%s: %q", name, value.Reveal()))
	}
	slices.Sort(env)
	return fmt.Sprintf("  %s: {command: sh, args: [-c, 'env >&2; echo \"$@\" >&2; exec %s', sh%s], cwd: %q, env: {%s%s}}\n", name, u.Command, args, u.Dir, strings.Join(env, ", "), more)
}

func serveSealed(t *testing.T, database, servers string, more ...func(*ServeOptions)) *sealed {
	t.Helper()
	folder := t.TempDir()
	s := &sealed{t: t, database: database}
	s.fileDaemon = serveFile(t, "dragoman:\n  limits: {initializePerSecond: 1000}\nmcpServers:\n"+servers, append(more, func(o *ServeOptions) {
		o.Database, o.KeyFolders = database, []string{folder}
	})...)
	keys, err := admin.ReadKeys([]string{folder}, strings.TrimPrefix(s.base, "http://"))
	if err != nil || len(keys) != 1 {
		t.Fatal(keys, err)
	}
	s.key = keys[0]
	return s
}

// env returns the environment of a server, or why it can't be called.
func (s *sealed) env(server string) string {
	a := s.call("/s/"+server+"/mcp", "env", "{}")
	if a.status != 200 || a.code(s.t) != 0 {
		return a.body
	}
	return toolText(a.message(s.t))
}

func (s *sealed) pid(server string) string {
	return toolText(s.call("/s/"+server+"/mcp", "pid", "{}").message(s.t))
}

// TestTM19_TA37_SecretsOfTheStore lets servers use secrets that other processes store, change and remove while
// serve runs. Only the servers whose secrets have changed are restarted, and nothing that we show has a
// secret (TA37), neither a current nor a former one.
func TestTM19_TA37_SecretsOfTheStore(t *testing.T) {
	t.Parallel()
	database := filepath.Join(t.TempDir(), "house", "dragoman.db")
	other := safeAt(t, database)
	put(t, other, "default", "gh", "canary-gh-1")
	put(t, other, "default", "other", "canary-other-1")
	put(t, other, "shop", "theirs", "canary-theirs-1")
	web := newWeb(t, false)
	s := serveSealed(t, database, shouting(t, "a", "", `, GH: "${secret:gh}"`)+shouting(t, "b", `, "--token", "${secret:other}"`, "")+shouting(t, "c", "", "")+
		shouting(t, "none", "", `, K: "${secret:none}"`)+shouting(t, "theirs", "", `, K: "${secret:theirs}"`)+
		"  off: {command: x, disabled: true, env: {K: \"${secret:gh}\"}}\n"+
		fmt.Sprintf("  web: {url: %q, headers: {X-Key: \"Bearer ${secret:gh}\"}}\n", web.web.URL))
	sent := func() string {
		s.call("/s/web/mcp", "echo", "{}")
		web.mu.Lock()
		defer web.mu.Unlock()
		return web.requests[len(web.requests)-1].header.Get("X-Key")
	}
	if got := s.env("a"); !strings.Contains(got, "GH=canary-gh-1\n") || sent() != "Bearer canary-gh-1" {
		t.Errorf("a has %s, and web %q", got, sent())
	}
	// TA41: a secret of another project isn't there.
	for name, secret := range map[string]string{"none": "none", "theirs": "theirs"} {
		if got, want := s.env(name), "there is no secret "+secret+", so server"; !strings.Contains(got, want) || !strings.Contains(got, "dragoman secrets set "+secret) {
			t.Errorf("%s: %s", name, got)
		}
		if n := s.log.count(`level=WARN msg="a server is not started" server=` + name); n != 1 {
			t.Errorf("the log says %d times that %s isn't started", n, name)
		}
	}
	if n := s.log.count("only dragoman serve reads secrets"); n > 0 {
		t.Error("serve says that only serve reads secrets")
	}
	pids := map[string]string{}
	for _, name := range []string{"a", "b", "c"} {
		pids[name] = s.pid(name)
	}
	same := func(what string, names ...string) {
		t.Helper()
		for _, name := range names {
			if now := s.pid(name); now == "" || now != pids[name] {
				t.Errorf("%s: %s has the process %s, before %s", what, name, now, pids[name])
			}
		}
	}
	put(t, other, "default", "gh", "canary-gh-2")
	soon(t, "the new secret is in use", func() bool { return strings.Contains(s.env("a"), "GH=canary-gh-2\n") && sent() == "Bearer canary-gh-2" })
	same("another server's secret", "b", "c")
	if n := s.log.count("code=server_changed server=a settings=env effect=restarted", "code=server_changed server=web settings=headers effect=restarted"); n != 2 || s.log.count("code=server_changed") != 2 {
		t.Errorf("the log names %d of the two servers", n)
	}
	pids["a"] = s.pid("a")

	// A new secret starts the server that has lacked it. What is stored again with its value, resealed,
	// or another project's, restarts nothing.
	if _, err := other.RotateKey(t.Context(), "ada"); err != nil {
		t.Fatal(err)
	}
	put(t, other, "default", "other", "canary-other-1")
	put(t, other, "shop", "gh", "canary-theirs-2")
	put(t, other, "default", "none", "canary-none-1")
	soon(t, "the new secret starts its server", func() bool { return strings.Contains(s.env("none"), "K=canary-none-1\n") })
	same("secrets that stay as they are", "a", "b", "c")
	if err := other.Store().Write(t.Context(), "ada", func(x *store.Tx) error { _, err := x.RemoveSecret("default", "gh"); return err }); err != nil {
		t.Fatal(err)
	}
	soon(t, "the server without its secret is stopped", func() bool { return strings.Contains(s.env("a"), "there is no secret gh") })
	same("another server's secret is gone", "b", "c")
	s.showsNothing("canary-gh-1", "canary-gh-2", "canary-other-1", "canary-theirs-1", "canary-theirs-2", "canary-none-1")
}

// showsNothing looks for secrets in the log, and in what the API and the console show.
func (s *sealed) showsNothing(canaries ...string) {
	s.t.Helper()
	shown := map[string]string{"log": s.log.String()}
	get := func(path string, header ...string) {
		s.t.Helper()
		a := s.do(s.t.Context(), "GET", path, nil, header...)
		if a.status != 200 {
			s.t.Errorf("%s: %d %s", path, a.status, a.body)
		}
		shown[path] = a.body
	}
	bearer := []string{"Authorization", "Bearer " + s.key}
	for _, path := range []string{
		"/status", "/logs", "/logs?server=a", "/logs?server=b", "/calls", "/calls/1", "/calls/1/transcript", "/servers", "/servers/a", "/servers/b", "/servers/none", "/servers/web",
		"/servers/a/handshake", "/servers/web/handshake", "/servers/a/settings", "/servers/b/settings", "/servers/none/settings", "/servers/web/settings",
		"/servers/a/log", "/servers/b/log", "/tools", "/clients", "/client-files", "/recording",
	} {
		get("/api/v1"+path, bearer...)
	}
	get("/metrics")
	get("/readyz")
	made := s.post("/api/v1/console/link", "", bearer...)
	var link admin.ConsoleLink
	if err := json.Unmarshal([]byte(made.body), &link); err != nil {
		s.t.Fatalf("%v: %s", err, made.body)
	}
	browser := s.enter(link.URL)
	for _, path := range []string{"", "servers/a", "servers/b", "servers/none", "calls", "calls/1", "events", "settings"} {
		get("/console/"+path, browser...)
	}
	if !strings.Contains(shown["/api/v1/logs?server=a"], "GH=***") || !strings.Contains(shown["/api/v1/logs?server=b"], "--token ***") {
		s.t.Errorf("the servers haven't shouted: %s", shown["/api/v1/logs?server=a"])
	}
	for where, text := range shown {
		for _, canary := range canaries {
			if at := strings.Index(text, canary); at >= 0 {
				s.t.Errorf("%s has %s: …%s…", where, canary, text[max(0, at-100):at+20])
			}
		}
	}
}

// TestSecretsNeedTheKey rotates the vault's key so that serve can't know the new one. The servers stay as
// they are, the status says why, and with the key the new secret counts.
func TestSecretsNeedTheKey(t *testing.T) {
	t.Parallel()
	database := filepath.Join(t.TempDir(), "house", "dragoman.db")
	file := filepath.Join(filepath.Dir(database), "vault.key")
	put(t, safeAt(t, database), "default", "gh", "canary-gh-1")
	s := serveSealed(t, database, shouting(t, "a", "", `, GH: "${secret:gh}"`))
	if got := s.env("a"); !strings.Contains(got, "GH=canary-gh-1\n") {
		t.Fatal(got)
	}
	first := s.pid("a")
	elsewhere := filepath.Join(t.TempDir(), "vault.key")
	key, err := os.ReadFile(file)
	if err = errors.Join(err, os.WriteFile(elsewhere, key, 0o600)); err != nil {
		t.Fatal(err)
	}
	other := store.NewSafe(safeAt(t, database).Store(), vault.New(vault.Options{File: elsewhere}))
	if _, err := other.RotateKey(t.Context(), "ada"); err != nil {
		t.Fatal(err)
	}
	soon(t, "the status says that the key is another one", func() bool {
		r, _ := s.status()
		return r.Refusal != nil && strings.Contains(r.Refusal.Text, "the vault's key in "+file+" is not the one") && strings.Contains(r.Refusal.Text, "restore the key")
	})
	if now := s.pid("a"); now != first {
		t.Errorf("without the key, a has the process %s, before %s", now, first)
	}
	key, err = os.ReadFile(elsewhere)
	if err = errors.Join(err, os.WriteFile(file, key, 0o600)); err != nil {
		t.Fatal(err)
	}
	put(t, other, "default", "gh", "canary-gh-2")
	soon(t, "with the key, the new secret counts", func() bool { return strings.Contains(s.env("a"), "GH=canary-gh-2\n") })
	if r, _ := s.status(); r.Refusal != nil {
		t.Errorf("%+v", r.Refusal)
	}
}

// TestStrictSecrets checks that --strict refuses a file in which a server lacks a secret, but not one whose
// secrets are in the store. With the demo, whose servers aren't in the file, the file's servers have secrets
// too.
func TestStrictSecrets(t *testing.T) {
	t.Parallel()
	database := filepath.Join(t.TempDir(), "house", "dragoman.db")
	put(t, safeAt(t, database), "default", "gh", "canary-gh-1")
	strict := func(o *ServeOptions) { o.Strict = true }
	s := serveSealed(t, database, shouting(t, "a", "", `, GH: "${secret:gh}"`), strict)
	if got := s.env("a"); !strings.Contains(got, "GH=canary-gh-1\n") {
		t.Error(got)
	}
	if err := safeAt(t, database).Store().Write(t.Context(), "ada", func(x *store.Tx) error { _, err := x.RemoveSecret("default", "gh"); return err }); err != nil {
		t.Fatal(err)
	}
	await(t, "the file is refused", time.Minute, func() bool { r, _ := s.status(); return r.Refusal != nil })
	if got := s.env("a"); !strings.Contains(got, "GH=canary-gh-1\n") {
		t.Error(got)
	}
	c, _ := config.Load(s.path)
	var bad *config.Error
	if err := Serve(t.Context(), ServeOptions{Config: c, ConfigPath: s.path, Listen: "127.0.0.1:0", Database: database, Strict: true}); !errors.As(err, &bad) || !strings.Contains(err.Error(), "there is no secret gh") {
		t.Errorf("without the secret, serve --strict starts: %v", err)
	}
	put(t, safeAt(t, database), "default", "gh", "canary-gh-2")
	demo := child(t, "demo", "legacy")
	s = serveSealed(t, database, shouting(t, "a", "", `, GH: "${secret:gh}"`), strict, func(o *ServeOptions) {
		o.ConfigPath, o.Extend = "", func(s *config.Snapshot) (*config.Snapshot, error) {
			s.Servers = append(s.Servers, demo.Server)
			return s, nil
		}
	})
	if got := s.env("a"); !strings.Contains(got, "GH=canary-gh-2\n") || s.pid("demo") == "" {
		t.Error(got)
	}
}
