package admin

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/app/runtime"
	"github.com/dragoman-mcp/dragoman/internal/base/identity"
	"github.com/dragoman-mcp/dragoman/internal/base/logring"
	"github.com/dragoman-mcp/dragoman/internal/relay/calls"
	"github.com/dragoman-mcp/dragoman/internal/relay/event"
	"github.com/dragoman-mcp/dragoman/internal/setup/config"
	"github.com/dragoman-mcp/dragoman/internal/team/access"
	"github.com/dragoman-mcp/dragoman/internal/team/audit"
	"github.com/dragoman-mcp/dragoman/internal/team/store"
	"github.com/dragoman-mcp/dragoman/internal/team/vault"
	"github.com/dragoman-mcp/dragoman/internal/transport"
	"github.com/dragoman-mcp/dragoman/internal/transport/eventstream"
	"github.com/dragoman-mcp/dragoman/internal/transport/httpdoor"
)

// rig is an API over a runtime with real servers, and an HTTP server that serves the API.
type rig struct {
	t       testing.TB
	api     *API
	runtime *runtime.Runtime
	web     *httptest.Server
}

// demoServer returns the configuration of a demo server of an era. The server is a child
// process of the test binary.
func demoServer(t testing.TB, name, era string, more ...func(*config.Server)) config.Server {
	t.Helper()
	s := config.Server{
		Name: name, Command: os.Args[0], Dir: t.TempDir(),
		Env: map[string]config.Secret{asServer: config.NewSecret(era), "API_TOKEN": config.NewSecret("hunter2-secret")},
	}
	for _, f := range more {
		f(&s)
	}
	out, problem := config.Complete(s)
	if problem != nil {
		t.Fatal(problem)
	}
	return out
}

// serving returns a rig with servers.
func serving(t testing.TB, servers ...config.Server) *rig {
	t.Helper()
	c := *config.Default()
	c.Servers = servers
	return servingSnapshot(t, &c)
}

// servingSnapshot returns a rig with the servers of a configuration.
func servingSnapshot(t testing.TB, c *config.Snapshot, change ...func(*runtime.Options)) *rig {
	t.Helper()
	recent := logring.New()
	log := slog.New(logring.NewHandler(recent, slog.DiscardHandler))
	guard, budget := httpdoor.NewGuard(nil, nil, nil), transport.NewBudget(64<<20)
	ring := calls.New(calls.Options{Record: true})
	safe := emptySafe(t)
	desk := access.NewDesk(safe)
	o := runtime.Options{Config: c, Events: &event.Publisher{}, Calls: ring, Log: log, Recent: recent, Guard: guard, Principal: identity.Anyone, Budget: budget, Version: "test"}
	for _, f := range change {
		f(&o)
	}
	r := &rig{t: t, runtime: runtime.New(o)}
	r.runtime.Apply(event.DefaultProject, c)
	trail := audit.New(audit.Options{Folder: filepath.Join(t.TempDir(), "audit"), Settings: func() audit.Settings { return audit.Settings{Level: audit.Names, Size: 1 << 20, Files: 2} }, Store: safe.Store()})
	t.Cleanup(trail.Close)
	r.runtime.Default().Warm()
	r.api = New(Options{Project: r.runtime.Default(), Others: r.runtime, Log: log, Budget: budget, Recent: recent, Calls: ring, Losses: func(string) []Loss { return []Loss{} }, Version: "test", Local: true, Env: emptyHome(t), Desk: desk, Roster: access.NewRoster(desk, access.NewGate(true)), Safe: safe, Trail: trail, Homes: &testHomes{runtime: r.runtime, safe: safe}})
	mux := http.NewServeMux()
	r.runtime.Routes(mux)
	r.api.Routes(mux)
	r.web = httptest.NewServer(mux)
	t.Cleanup(func() {
		r.api.Drain()
		r.runtime.Drain()
		r.web.Close()
		r.api.Close()
		r.runtime.Close(runtime.StopLimit)
	})
	return r
}

// emptySafe returns a safe whose database and key are files that do not exist yet.
func emptySafe(t testing.TB) *store.Safe {
	t.Helper()
	folder := filepath.Join(t.TempDir(), "house")
	db, err := store.Open(t.Context(), store.Options{Database: filepath.Join(folder, "dragoman.db")})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	return store.NewSafe(db, vault.New(vault.Options{File: filepath.Join(folder, "vault.key")}))
}

// emptyHome returns an environment with an empty home folder.
func emptyHome(t testing.TB) func(string) (string, bool) {
	home := t.TempDir()
	return func(name string) (string, bool) {
		if name == "HOME" {
			return home, true
		}
		return "", false
	}
}

// reply is a response from the API.
type reply struct {
	status int
	header http.Header
	body   string
}

// into decodes the body.
func (a reply) into(t testing.TB, to any) {
	t.Helper()
	if err := json.Unmarshal([]byte(a.body), to); err != nil {
		t.Fatalf("%d %v: %s", a.status, err, a.body)
	}
}

// open sends a request. header alternates names and values. The caller closes the response's body.
func (r *rig) open(ctx context.Context, method, path, body string, header ...string) *http.Response {
	r.t.Helper()
	req, err := http.NewRequestWithContext(ctx, method, r.web.URL+path, strings.NewReader(body))
	if err != nil {
		r.t.Fatal(err)
	}
	for i := 0; i+1 < len(header); i += 2 {
		if header[i] == "Host" {
			req.Host = header[i+1]
			continue
		}
		req.Header.Set(header[i], header[i+1])
	}
	resp, err := r.web.Client().Do(req)
	if err != nil {
		r.t.Fatal(err)
	}
	return resp
}

// ask sends a request and reads the answer.
func (r *rig) ask(method, path, body string, header ...string) reply {
	r.t.Helper()
	resp := r.open(r.t.Context(), method, path, body, header...)
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		r.t.Fatal(err)
	}
	return reply{resp.StatusCode, resp.Header, string(b)}
}

func (r *rig) key() string { return "Bearer " + r.api.Access().Key() }

// get reads a route that every process on this machine may read.
func (r *rig) get(path string, to any) {
	r.t.Helper()
	a := r.ask(http.MethodGet, path, "")
	if a.status != http.StatusOK {
		r.t.Fatalf("GET %s: %d %s", path, a.status, a.body)
	}
	a.into(r.t, to)
}

// do sends a request with the key of the process.
func (r *rig) do(method, path, body string, header ...string) reply {
	r.t.Helper()
	return r.ask(method, path, body, append([]string{"Authorization", r.key()}, header...)...)
}

// await waits until a condition holds.
func await(t testing.TB, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(time.Minute); !ok(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%s: not within a minute", what)
		}
	}
}

// ready waits until a server is ready and its tools are known.
func (r *rig) ready(names ...string) {
	r.t.Helper()
	for _, name := range names {
		await(r.t, name+" is ready", func() bool {
			var s ServerDetail
			r.get("/api/v1/servers/"+name, &s)
			for _, l := range s.Lists {
				if l.Method == "tools/list" && l.ReadAt != nil && s.State == "ready" {
					return true
				}
			}
			return false
		})
	}
}

// state returns the state of a server.
func (r *rig) state(name string) string {
	r.t.Helper()
	var s ServerDetail
	r.get("/api/v1/servers/"+name, &s)
	return s.State
}

// events reads a stream. Each call of the returned function returns the next event.
func (r *rig) events(path string, header ...string) func() eventstream.Event {
	r.t.Helper()
	resp := r.open(r.t.Context(), http.MethodGet, path, "", append([]string{"Authorization", r.key()}, header...)...)
	r.t.Cleanup(func() { _ = resp.Body.Close() })
	if resp.StatusCode != http.StatusOK || resp.Header.Get("Content-Type") != "text/event-stream" {
		b, _ := io.ReadAll(resp.Body)
		r.t.Fatalf("GET %s: %d %s", path, resp.StatusCode, b)
	}
	in := eventstream.NewReader(resp.Body, eventstream.Limits{})
	return func() eventstream.Event {
		r.t.Helper()
		e, err := in.Next()
		if err != nil {
			r.t.Fatalf("the stream broke: %v", err)
		}
		e.Data = bytes.Clone(e.Data)
		return e
	}
}
