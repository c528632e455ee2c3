//go:build unix

package daemon

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/app/admin"
	"github.com/dragoman-mcp/dragoman/internal/base/identity"
	"github.com/dragoman-mcp/dragoman/internal/setup/config"
	"github.com/dragoman-mcp/dragoman/internal/team/access"
	"github.com/dragoman-mcp/dragoman/internal/team/store"
	"github.com/dragoman-mcp/dragoman/internal/team/vault"
)

// deskAt returns a desk with the same database as a serve, as another process would have it.
func deskAt(t testing.TB, database string) *access.Desk {
	t.Helper()
	s, err := store.Open(t.Context(), store.Options{Database: database})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return access.NewDesk(store.NewSafe(s, vault.New(vault.Options{File: filepath.Join(filepath.Dir(database), "vault.key")})))
}

func makeKey(t testing.TB, d *access.Desk, w access.Wish) (header []string, id string) {
	t.Helper()
	text, k, err := d.Make(t.Context(), "local", w)
	if err != nil {
		t.Fatal(err)
	}
	return []string{"Authorization", "Bearer " + text}, k.ID
}

// soon asks again until it holds, and returns how long that took.
func soon(t testing.TB, what string, holds func() bool) time.Duration {
	t.Helper()
	began := time.Now()
	for !holds() {
		if time.Since(began) > patience(5*time.Second) {
			t.Fatalf("%s: not after %v", what, time.Since(began))
		}
		time.Sleep(20 * time.Millisecond)
	}
	return time.Since(began)
}

// TestTA11KeysOfAnotherProcess makes and revokes keys in another process while serve runs. Who has no key
// gets one refusal everywhere. Ann may use one server of two, in both eras; when her key is revoked, her
// calls are refused and her stream ends, and so does what a short-lived key has opened. Bob, whose key is
// for everything, goes on.
func TestTA11KeysOfAnotherProcess(t *testing.T) {
	t.Parallel()
	database := filepath.Join(t.TempDir(), "house", "dragoman.db")
	few := func(s *webServer) {
		s.tools = `{"name":"echo","inputSchema":{"type":"object"}},{"name":"hang","inputSchema":{"type":"object"}}`
	}
	c := snapshot(newWeb(t, false, few).as(t, "old"), newWeb(t, true, few).as(t, "new"))
	c.Access.LoopbackKeys = true
	r := serve(t, c, func(o *ServeOptions) { o.Database = database })
	stranger := r.modern("/mcp", "1", "tools/list", "", "")
	if stranger.status != 401 || stranger.header.Get("WWW-Authenticate") != `Bearer realm="dragoman"` {
		t.Fatalf("a stranger gets %d %v %s", stranger.status, stranger.header, stranger.body)
	}
	for _, path := range []string{"/s/old/mcp", "/s/none/mcp", "/p/default/mcp", "/p/none/mcp", "/sse"} {
		if a := r.modern(path, "1", "tools/list", "", ""); a.status != 401 || a.body != stranger.body {
			t.Errorf("a stranger at %s: %d %s", path, a.status, a.body)
		}
	}
	desk := deskAt(t, database)
	ann, annsID := makeKey(t, desk, access.Wish{Name: "ann", Project: "default", Role: identity.Caller, Servers: []string{"old"}})
	bob, _ := makeKey(t, desk, access.Wish{Name: "bob", Project: "default", Role: identity.Caller})
	viewer, _ := makeKey(t, desk, access.Wish{Name: "viewer", Project: "default", Role: identity.Viewer})
	foreign, _ := makeKey(t, desk, access.Wish{Name: "foreign", Project: "shop", Role: identity.Caller})
	short, _ := makeKey(t, desk, access.Wish{Name: "short", Project: "default", Role: identity.Caller, Life: 8 * time.Second})
	lists := func(who []string) answer { return r.modern("/mcp", "1", "tools/list", "", "", who...) }
	soon(t, "the keys count", func() bool { return lists(short).status == 200 })
	for name, x := range map[string]struct {
		who      []string
		old, new bool
	}{"ann": {ann, true, false}, "bob": {bob, true, true}} {
		if a := lists(x.who); strings.Contains(a.body, `"old__echo"`) != x.old || strings.Contains(a.body, `"new__echo"`) != x.new {
			t.Errorf("%s sees %d %s", name, a.status, a.body)
		}
	}
	if a := lists(viewer); a.status != 403 || !strings.Contains(a.body, "MCP clients need the role caller") {
		t.Errorf("viewer gets %d %s", a.status, a.body)
	}
	for name, who := range map[string][]string{"viewer": viewer, "foreign": foreign} {
		none := r.modern("/p/none/mcp", "1", "tools/list", "", "", who...)
		if a := lists(foreign); none.status != 404 || a.status != none.status {
			t.Errorf("%s gets %d and %d %s", name, none.status, a.status, a.body)
		}
	}
	streams := map[string]*stream{}
	sessions := map[string][]string{}
	for name, who := range map[string][]string{"ann": ann, "bob": bob, "short": short} {
		a := r.post("/mcp", initializeBody("2025-11-25", "{}"), who...)
		sessions[name] = append([]string{"Mcp-Session-Id", a.header.Get("Mcp-Session-Id"), "MCP-Protocol-Version", "2025-11-25"}, who...)
		if n := r.post("/mcp", `{"jsonrpc":"2.0","method":"notifications/initialized"}`, sessions[name]...); n.status != 202 {
			t.Fatalf("%s: %d %s", name, n.status, n.body)
		}
		streams[name] = r.open(http.MethodGet, "/mcp", "", append([]string{"Accept", "text/event-stream"}, sessions[name]...)...)
		streams[name+", listening"] = r.open(http.MethodPost, "/mcp", modernBody("5", "subscriptions/listen", `"notifications":{"toolsListChanged":true}`), append(modernHeader("subscriptions/listen", ""), who...)...)
	}
	running := make(chan string, 2)
	for _, header := range [][]string{append(modernHeader("tools/call", "old__hang"), ann...), sessions["ann"]} {
		body := toolCall("9", "old__hang", "{}")
		if header[0] != "Mcp-Session-Id" {
			body = modernBody("9", "tools/call", `"name":"old__hang","arguments":{}`)
		}
		go func() {
			answer, _ := r.postQuietly("/mcp", body, header...)
			running <- answer
		}()
	}
	calls := func(name, tool string) answer { return r.post("/mcp", toolCall("7", tool, "{}"), sessions[name]...) }
	if a := calls("ann", "old__echo"); a.status != 200 || a.code(t) != 0 {
		t.Errorf("ann calls her tool: %d %s", a.status, a.body)
	}
	if a := calls("ann", "new__echo"); a.code(t) != -32602 {
		t.Errorf("ann calls another tool: %d %s", a.status, a.body)
	}
	if a := r.post("/mcp", toolCall("7", "old__echo", "{}"), append(sessions["ann"][:4:4], bob...)...); a.status != 404 {
		t.Errorf("bob uses ann's session: %d %s", a.status, a.body)
	}
	soon(t, "the short-lived key expires", func() bool { return refused(calls("short", "old__echo")) })
	ended(t, streams["short"], streams["short, listening"])
	if err := desk.Revoke(t.Context(), "local", annsID); err != nil {
		t.Fatal(err)
	}
	soon(t, "ann's key is revoked", func() bool { return refused(calls("ann", "old__echo")) && refused(lists(ann)) })
	ended(t, streams["ann"], streams["ann, listening"])
	for range cap(running) {
		if a := <-running; !strings.Contains(a, "the API key was revoked or has expired") {
			t.Errorf("ann's running call ended with %s", a)
		}
	}
	if a := calls("bob", "new__echo"); a.status != 200 || a.code(t) != 0 {
		t.Errorf("bob calls a tool: %d %s", a.status, a.body)
	}
	for _, name := range []string{"bob", "bob, listening"} {
		if !goesOn(streams[name]) {
			t.Errorf("%s: the stream has ended, too", name)
		}
	}
	for _, path := range []string{"/api/v1/status", "/api/v1/servers", "/api/v1/calls", "/api/v1/logs", "/api/v1/clients"} {
		if a := r.do(t.Context(), "GET", path, nil, bob...); a.status != 403 || strings.Contains(a.body, "old") {
			t.Errorf("bob reads %s: %d %s", path, a.status, a.body)
		}
	}
	if text := r.log.String(); strings.Contains(text, ann[1][20:50]) {
		t.Error("the log has a key")
	}
}

// TestAPIOfKeys lets a key with the role admin in, as itself: what it makes and revokes has its subject. The streams of
// the key that it revokes end, and those of an innocent viewer go on. No key opens the console.
func TestAPIOfKeys(t *testing.T) {
	t.Parallel()
	database := filepath.Join(t.TempDir(), "house", "dragoman.db")
	r := serve(t, snapshot(), func(o *ServeOptions) { o.Database = database })
	desk := deskAt(t, database)
	root, id := makeKey(t, desk, access.Wish{Name: "root", Project: "default", Role: identity.Admin})
	made := func() (a answer) {
		soon(t, "the admin's key counts", func() bool {
			a = r.post("/api/v1/keys", `{"name":"mallory","role":"viewer"}`, append(root, "Content-Type", "application/json")...)
			return a.status == 201
		})
		return a
	}()
	var key, gone struct{ ID, Text, By string }
	if err := json.Unmarshal([]byte(made.body), &key); err != nil || key.By != "k:"+id {
		t.Fatalf("%v: made by %q, want %q", err, key.By, "k:"+id)
	}
	viewers := map[string][]string{"mallory": {"X-API-Key", key.Text}}
	viewers["ivan"], _ = makeKey(t, desk, access.Wish{Name: "ivan", Project: "default", Role: identity.Viewer})
	streams, bodies := map[string]chan struct{}{}, []io.Closer(nil)
	for who, header := range viewers {
		soon(t, who+"'s key counts", func() bool { return r.do(t.Context(), "GET", "/api/v1/recording", nil, header...).status == 200 })
		if a := r.post("/api/v1/recording", "{}", append(header, "Content-Type", "application/json")...); a.status != 403 {
			t.Errorf("%s may record: %d %s", who, a.status, a.body)
		}
		for _, path := range []string{"/api/v1/logs/stream", "/api/v1/calls/stream"} {
			resp, err := r.request(t.Context(), http.MethodGet, path, nil, header...)
			if err != nil || resp.StatusCode != 200 {
				t.Fatal(resp, err)
			}
			done := make(chan struct{})
			streams[who+path], bodies = done, append(bodies, resp.Body)
			go func() {
				defer close(done)
				_, _ = io.Copy(io.Discard, resp.Body)
			}()
		}
		for _, path := range []string{"/console/", "/console/calls", "/console/events"} {
			if a := r.do(t.Context(), "GET", path, nil, header...); a.status != 401 {
				t.Errorf("%s opens %s with a key: %d", who, path, a.status)
			}
		}
	}
	if a := r.do(t.Context(), "DELETE", "/api/v1/keys/"+key.ID, nil, root...); a.status != 200 || json.Unmarshal([]byte(a.body), &gone) != nil {
		t.Fatalf("%d %s", a.status, a.body)
	}
	soon(t, "the revoked key is refused", func() bool {
		return refused(r.do(t.Context(), "GET", "/api/v1/recording", nil, viewers["mallory"]...))
	})
	for name, done := range streams {
		innocent := strings.HasPrefix(name, "ivan")
		select {
		case <-done:
			if innocent {
				t.Errorf("%s has ended, too", name)
			}
		case <-time.After(map[bool]time.Duration{true: 3 * time.Second, false: patience(5 * time.Second)}[innocent]):
			if !innocent {
				t.Errorf("%s goes on", name)
			}
		}
	}
	if a := r.do(t.Context(), "GET", "/api/v1/status", nil, viewers["ivan"]...); a.status != 200 {
		t.Errorf("ivan reads the status: %d %s", a.status, a.body)
	}
	for _, b := range bodies {
		_ = b.Close()
	}
	if text := r.log.String(); strings.Contains(text, key.Text[20:50]) {
		t.Error("the log has a key")
	}
}

// refused reports whether a key was refused. The address has sent many wrong ones.
func refused(a answer) bool { return a.status == 401 || a.status == 429 }

// ended fails the test if streams have not ended after five seconds.
func ended(t *testing.T, all ...*stream) {
	t.Helper()
	for _, s := range all {
		endsWithin(t, "after five seconds", 5*time.Second, s)
	}
}

// endsWithin fails the test if a stream has not ended after a time.
func endsWithin(t *testing.T, what string, d time.Duration, s *stream) {
	t.Helper()
	limit := time.After(patience(d))
	for open := true; open; {
		select {
		case _, open = <-s.next:
		case <-limit:
			t.Fatalf("%s: a stream goes on", what)
		}
	}
}

// goesOn reports whether a stream has not ended. It drops what has come meanwhile.
func goesOn(s *stream) bool {
	for {
		select {
		case _, open := <-s.next:
			if !open {
				return false
			}
		default:
			return true
		}
	}
}

// TestNetworkNeedsKeys starts serve at an address that other machines can reach: it's refused without a
// key, works with one, and lets everybody in if that's said.
func TestNetworkNeedsKeys(t *testing.T) {
	t.Parallel()
	database := filepath.Join(t.TempDir(), "dragoman.db")
	c := *config.Default()
	network := func(o *ServeOptions) { o.Database, o.Listen = database, "0.0.0.0:0" }
	o := ServeOptions{Config: &c, Ready: func(string) { t.Error("it listens") }}
	network(&o)
	err := Serve(t.Context(), o)
	var refused *Refused
	if !errors.As(err, &refused) || !strings.Contains(refused.Text, "nobody has an API key") || !strings.Contains(refused.Next, "dragoman keys add") {
		t.Errorf("without a key: %v", err)
	}
	asks := func(r *rig, header ...string) int {
		r.base = strings.Replace(r.base, "[::]", "127.0.0.1", 1)
		return r.modern("/mcp", "1", "tools/list", "", "", append(header, "Host", "localhost")...).status
	}
	if got := asks(serve(t, &c, network, func(o *ServeOptions) { o.Open = true })); got != 200 {
		t.Errorf("an open address answers %d", got)
	}
	key, _ := makeKey(t, deskAt(t, database), access.Wish{Name: "ci", Project: "default", Role: identity.Caller})
	r := serve(t, &c, network)
	if without, with := asks(r), asks(r, key...); without != 401 || with != 200 {
		t.Errorf("without a key %d, with one %d", without, with)
	}
}

// TestOwnAddressIsAHost connects to serve under the address at which it listens, which is what it prints, and
// under another name.
func TestOwnAddressIsAHost(t *testing.T) {
	t.Parallel()
	for address, want := range map[string][2]string{
		"192.0.2.7:443":       {"192.0.2.7", "https://192.0.2.7"},
		"[2001:db8::1]:7300":  {"[2001:db8::1]", "https://[2001:db8::1]:7300"},
		"MCP.example.com:443": {"mcp.example.com", "https://mcp.example.com"},
		"0.0.0.0:443":         {}, "[::]:443": {}, ":443": {},
	} {
		if host, origin := ownHost(address); host != want[0] || origin != want[1] {
			t.Errorf("%s: %q, %q", address, host, origin)
		}
	}
	if runtime.GOOS != "linux" {
		t.Skip("only Linux has more loopback addresses than one")
	}
	r := serve(t, config.Default(), func(o *ServeOptions) { o.Listen = "127.0.0.9:0" })
	for host, want := range map[string]int{"": 200, "127.0.0.9": 200, "127.0.0.8": 403, "evil.example": 403} {
		var header []string
		if host != "" {
			header = []string{"Host", host}
		}
		if a := r.modern("/mcp", "1", "tools/list", "", "", header...); a.status != want {
			t.Errorf("%q: %d %s", host, a.status, a.body)
		}
	}
}

// TestWhoSeesTheServers checks who may read /metrics and learn the names of servers at /readyz and /:
// where clients need keys, the default project's viewers and the user of the process. Everybody else
// only learns whether serve is ready, also with a forged Host or Origin.
func TestWhoSeesTheServers(t *testing.T) {
	t.Parallel()
	database := filepath.Join(t.TempDir(), "dragoman.db")
	desk, keys := deskAt(t, database), map[string][]string{"nobody": nil, "a wrong key": {"X-API-Key", "drgk_0123456789ab"}}
	for name, w := range map[string]access.Wish{
		"a caller":         {Project: "default", Role: identity.Caller},
		"a viewer":         {Project: "default", Role: identity.Viewer},
		"an admin":         {Project: "default", Role: identity.Admin},
		"another's viewer": {Project: "shop", Role: identity.Viewer},
		"a revoked viewer": {Project: "default", Role: identity.Viewer},
	} {
		w.Name = "x"
		var id string
		if keys[name], id = makeKey(t, desk, w); name == "a revoked viewer" {
			if err := desk.Revoke(t.Context(), "local", id); err != nil {
				t.Fatal(err)
			}
		}
	}
	for kind, x := range map[string]struct {
		edit func(*config.Snapshot, *ServeOptions)
		open bool
	}{
		"loopback":           {func(*config.Snapshot, *ServeOptions) {}, true},
		"loopback with keys": {func(c *config.Snapshot, _ *ServeOptions) { c.Access.LoopbackKeys = true }, false},
		"network":            {func(_ *config.Snapshot, o *ServeOptions) { o.Listen = "0.0.0.0:0" }, false},
	} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			c := snapshot(newWeb(t, true).as(t, "quill"))
			folder := t.TempDir()
			r := serve(t, c, func(o *ServeOptions) {
				o.Database, o.KeyFolders = database, []string{folder}
				x.edit(c, o)
			})
			r.base = strings.Replace(r.base, "[::]", "127.0.0.1", 1)
			r.modern("/mcp", "1", "tools/list", "", "", keys["a caller"]...)
			await(t, "the metrics name the server", 10*time.Second, func() bool {
				return strings.Contains(r.do(t.Context(), "GET", "/metrics", nil, keys["a viewer"]...).body, `server="quill"`)
			})
			for name, key := range keys {
				sees := x.open || name == "a viewer" || name == "an admin"
				if name == "a wrong key" || name == "a revoked viewer" {
					sees = false // a credential that isn't valid is an error everywhere
				}
				metrics, ready := r.do(t.Context(), "GET", "/metrics", nil, key...), r.do(t.Context(), "GET", "/readyz", nil, key...)
				if (metrics.status == 200) != sees || strings.Contains(metrics.body, "quill") != sees {
					t.Errorf("%s: the metrics are %d %.200s", name, metrics.status, metrics.body)
				}
				if ready.status != 200 || !strings.Contains(ready.body, `"ready":true`) || strings.Contains(ready.body, "quill") != sees {
					t.Errorf("%s: /readyz is %d %s", name, ready.status, ready.body)
				}
				if page := r.do(t.Context(), "GET", "/", nil, append([]string{"Accept", "text/plain"}, key...)...); strings.Contains(page.body, "quill") != x.open {
					t.Errorf("%s: / is %d %s", name, page.status, page.body)
				}
			}
			for _, header := range [][]string{{"Host", "evil.example"}, {"Origin", "https://evil.example"}} {
				for _, path := range []string{"/metrics", "/readyz"} {
					if a := r.do(t.Context(), "GET", path, nil, append(header, keys["a viewer"]...)...); a.status != 403 || strings.Contains(a.body, "quill") {
						t.Errorf("%s with %v: %d %s", path, header, a.status, a.body)
					}
				}
			}
			if kind == "loopback with keys" {
				own, err := admin.ReadKeys([]string{folder}, strings.TrimPrefix(r.base, "http://"))
				if err != nil || len(own) != 1 {
					t.Fatal(own, err)
				}
				if a := r.do(t.Context(), "GET", "/metrics", nil, "Authorization", "Bearer "+own[0]); !strings.Contains(a.body, "quill") {
					t.Errorf("the user of the process gets %d %s", a.status, a.body)
				}
			}
		})
	}
}

// TestNewKeyAtOnce checks that a key opens the endpoint as soon as the API has answered with it, also
// after a rotation, and that it opens nothing when the API has answered that it's revoked.
func TestNewKeyAtOnce(t *testing.T) {
	t.Parallel()
	c, folder := snapshot(), t.TempDir()
	c.Access.LoopbackKeys = true
	r := serve(t, c, func(o *ServeOptions) { o.KeyFolders = []string{folder} })
	own, err := admin.ReadKeys([]string{folder}, strings.TrimPrefix(r.base, "http://"))
	if err != nil || len(own) != 1 {
		t.Fatal(own, err)
	}
	api := func(method, path, body string, status int) (k admin.NewAPIKey) {
		t.Helper()
		a := r.do(t.Context(), method, "/api/v1/keys"+path, strings.NewReader(body), "Authorization", "Bearer "+own[0], "Content-Type", "application/json")
		if err := json.Unmarshal([]byte(a.body), &k); err != nil || a.status != status {
			t.Fatalf("%s: %d %s", method, a.status, a.body)
		}
		return k
	}
	asks := func(key string) int {
		return r.modern("/mcp", "1", "tools/list", "", "", "Authorization", "Bearer "+key).status
	}
	innocent := api("POST", "", `{"name":"innocent"}`, 201)
	for range 20 {
		k := api("POST", "", `{"name":"ci"}`, 201)
		made := asks(k.Text)
		rotated := api("POST", "/"+k.ID+"/rotate", `{}`, 200)
		before, after := asks(k.Text), asks(rotated.Text)
		api("DELETE", "/"+k.ID, "", 200)
		if revoked := asks(rotated.Text); made != 200 || before == 200 || after != 200 || revoked == 200 || asks(innocent.Text) != 200 {
			t.Fatalf("made: %d, rotated: %d and %d, revoked: %d", made, before, after, revoked)
		}
	}
}

// TestWhenKeysWereUsed uses a key: the API says so at once, and another process when serve has ended.
func TestWhenKeysWereUsed(t *testing.T) {
	t.Parallel()
	database := filepath.Join(t.TempDir(), "house", "dragoman.db")
	c := snapshot()
	c.Access.LoopbackKeys = true
	r := serve(t, c, func(o *ServeOptions) { o.Database = database })
	desk := deskAt(t, database)
	root, _ := makeKey(t, desk, access.Wish{Name: "root", Project: "default", Role: identity.Admin})
	ci, used := makeKey(t, desk, access.Wish{Name: "ci", Project: "default", Role: identity.Caller})
	_, idle := makeKey(t, desk, access.Wish{Name: "idle", Project: "default", Role: identity.Caller})
	soon(t, "the key counts", func() bool { return r.modern("/mcp", "1", "tools/list", "", "", ci...).status == 200 })
	var all admin.APIKeys
	soon(t, "serve knows all three keys", func() bool {
		a := r.do(t.Context(), "GET", "/api/v1/keys", nil, root...)
		all = admin.APIKeys{}
		return json.Unmarshal([]byte(a.body), &all) == nil && len(all.Keys) == 3
	})
	for _, k := range all.Keys {
		if (k.Used != nil) == (k.ID == idle) || k.Used != nil && time.Since(*k.Used) > 3*time.Minute {
			t.Errorf("%s was used at %v", k.Name, k.Used)
		}
	}
	if err := r.stop(); err != nil {
		t.Fatal(err)
	}
	if uses := desk.Uses(t.Context()); uses[used].IsZero() || !uses[idle].IsZero() || len(uses) != 2 {
		t.Errorf("after the end: %v", uses)
	}
}
