//go:build unix

package daemon

import (
	"bytes"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/base/identity"
	"github.com/dragoman-mcp/dragoman/internal/setup/config"
	"github.com/dragoman-mcp/dragoman/internal/team/access"
	"github.com/dragoman-mcp/dragoman/internal/workbench/fake"
)

// carrier sends all requests with headers that are meant for us alone.
type carrier map[string]string

func (c carrier) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	for name, value := range c {
		r.Header.Set(name, value)
	}
	return http.DefaultTransport.RoundTrip(r)
}

// heard are the bytes that a server gets, headers included.
type heard struct {
	mu   sync.Mutex
	text []byte
}

func (h *heard) record(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		dump, err := httputil.DumpRequest(r, true)
		if err != nil {
			dump = []byte(err.Error())
		}
		h.mu.Lock()
		h.text = append(h.text, dump...)
		h.mu.Unlock()
		next.ServeHTTP(w, r)
	})
}

// TestTA25_TM05_NothingOfTheClientsHeadersReachesAServer puts canaries into the headers of clients of both eras over
// every transport, one of which is the client's API key. No server, of either era on either transport, gets
// one. A server's own header does reach it.
func TestTA25_TM05_NothingOfTheClientsHeadersReachesAServer(t *testing.T) {
	t.Parallel()
	var servers []*upstreamUnderTest
	got := map[string]func() []byte{}
	for name, profile := range map[string]string{"old": legacyProfile, "new": modernProfile} {
		f, err := fake.NewServer(profile, fake.Options{})
		if err != nil {
			t.Fatal(err)
		}
		h := &heard{}
		web := httptest.NewServer(h.record(f.Handler()))
		t.Cleanup(func() {
			_ = f.Close()
			web.Close()
		})
		s, problem := config.Complete(config.Server{Name: name + "-web", URL: web.URL + f.Path(), Header: []config.Field{{Name: "X-Own", Value: config.NewSecret("its-own-header")}}})
		if problem != nil {
			t.Fatal(problem)
		}
		servers = append(servers, &upstreamUnderTest{Server: s})
		got[s.Name] = func() []byte {
			h.mu.Lock()
			defer h.mu.Unlock()
			return bytes.Clone(h.text)
		}

		file := filepath.Join(t.TempDir(), "stdin")
		pipe := child(t, name+"-pipe", "fake "+profile, func(s *config.Server) {
			s.Command, s.Args = "sh", []string{"-c", `env > "$0.env"; tee -a "$0" | "$1"`, file, os.Args[0]}
		})
		servers = append(servers, pipe)
		got[pipe.Name] = func() []byte {
			text, _ := os.ReadFile(file)
			env, _ := os.ReadFile(file + ".env")
			return append(text, env...)
		}
	}

	database := filepath.Join(t.TempDir(), "dragoman.db")
	r := serve(t, snapshot(servers...), func(o *ServeOptions) {
		o.Database, o.Config.Access.LoopbackKeys = database, true
	})
	key, _ := makeKey(t, deskAt(t, database), access.Wish{Name: "ann", Project: "default", Role: identity.Caller})
	canaries := carrier{
		"Authorization": key[1], "Cookie": "session=canary-1", "Proxy-Authorization": "Basic canary-2", "X-Forwarded-User": "canary-3", "X_Forwarded_User": "canary-4",
		"X-Auth-Token": "canary-5", "X-Goog-Iap-Jwt-Assertion": "canary-6", "Forwarded": "for=canary-7", "X-Forwarded-Access-Token": "canary-8",
		"X-Own": "canary-9", "Referer": "http://canary.10/", "Baggage": "a=canary-11", "User-Agent": "canary-12", "Tracestate": "canary=13",
	}
	ann := *r
	ann.http = &http.Client{Transport: canaries}
	soon(t, "the key counts", func() bool { return ann.modern("/mcp", "1", "tools/list", "", "").status == 200 })
	for _, s := range servers {
		path := "/s/" + s.Name
		ann.call(path+"/mcp", "echo", `{"text":"modern"}`).wantText(t, "modern")
		session := ann.initialize(path+"/mcp", "2025-11-25", "{}")
		ann.post(path+"/mcp", toolCall("5", "echo", `{"text":"legacy"}`), "Mcp-Session-Id", session, "MCP-Protocol-Version", "2025-11-25").wantText(t, "legacy")
		old := dialSSE(&ann, path+"/sse")
		old.send(initializeBody("2024-11-05", "{}"))
		old.send(toolCall("6", "echo", `{"text":"oldest"}`))
		await(t, "the answer over SSE", 20*time.Second, func() bool {
			m := old.events.event()
			return m != nil && strings.Contains(string(m.Raw[:]), "oldest")
		})
		old.events.stop()
	}
	for _, s := range servers {
		text := got[s.Name]()
		for _, want := range []string{`"modern"`, `"legacy"`, `"oldest"`} {
			if !bytes.Contains(text, []byte(want)) {
				t.Errorf("%s did not get %s", s.Name, want)
			}
		}
		if s.URL != "" && !bytes.Contains(text, []byte("X-Own: its-own-header")) {
			t.Errorf("%s did not get its own header", s.Name)
		}
		for name, value := range canaries {
			for _, x := range []string{value, strings.TrimPrefix(value, "Bearer "), "canary"} {
				if i := bytes.Index(text, []byte(x)); i >= 0 {
					t.Errorf("%s got %s: %s", s.Name, name, fmt.Sprintf("%.120q", text[max(0, i-60):]))
				}
			}
		}
	}
}
