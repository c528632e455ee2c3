package registry

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// play is a registry made after the OpenAPI document of the API v0.1. entries are ServerResponses.
func play(t *testing.T, entries ...string) *httptest.Server {
	t.Helper()
	type entry struct{ name, version, raw string }
	var all []entry
	for _, raw := range entries {
		var r struct {
			Server struct{ Name, Version string }
		}
		_ = json.Unmarshal([]byte(raw), &r)
		all = append(all, entry{r.Server.Name, r.Server.Version, raw})
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /v0.1/servers", func(w http.ResponseWriter, r *http.Request) {
		q := r.URL.Query()
		from, _ := strconv.Atoi(q.Get("cursor"))
		limit, _ := strconv.Atoi(q.Get("limit"))
		var page []string
		next := ""
		for i := from; i < len(all); i++ {
			if len(page) == cmp.Or(limit, 30) {
				next = strconv.Itoa(i)
				break
			}
			if strings.Contains(all[i].name, q.Get("search")) {
				page = append(page, all[i].raw)
			}
		}
		fmt.Fprintf(w, `{"servers":[%s],"metadata":{"nextCursor":%q,"count":%d}}`, strings.Join(page, ","), next, len(page))
	})
	mux.HandleFunc("GET /v0.1/servers/{name}/versions/{version}", func(w http.ResponseWriter, r *http.Request) {
		version := r.PathValue("version")
		i := slices.IndexFunc(all, func(e entry) bool {
			return e.name == r.PathValue("name") && (e.version == version || version == "latest")
		})
		if i < 0 {
			w.WriteHeader(http.StatusNotFound)
			fmt.Fprint(w, `{"error":"Server not found"}`)
			return
		}
		fmt.Fprint(w, all[i].raw)
	})
	s := httptest.NewServer(mux)
	t.Cleanup(s.Close)
	return s
}

func client(t *testing.T, base string) *Registry {
	t.Helper()
	c := &http.Client{Transport: &http.Transport{}}
	t.Cleanup(c.CloseIdleConnections)
	r, err := New(base, c)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func response(name, version, more string) string {
	return fmt.Sprintf(`{"server":{"name":%q,"description":"about %s","version":%q%s},"_meta":{}}`, name, name, version, more)
}

func TestSearch(t *testing.T) {
	entries := []string{
		response("io.github.a/weather", "1.0.0", `,"title":"Forecasts"`),
		response("io.github.a/weather", "0.9.0", ""),
		response("io.github.b/weather-maps", "2.0.0", ""),
		`{"server":{"name":"io.github.c/weather-old","description":"x","version":"1"},"_meta":{"io.modelcontextprotocol.registry/official":{"status":"deleted"}}}`,
		`{"server":{"name":"io.github.d/weather","description":7,"version":"1"}}`,
		`{"server":{"name":"weather; rm -rf /","description":"x","version":"1"}}`,
		response("io.github.e/other", "1.0.0", ""),
	}
	r := client(t, play(t, entries...).URL)
	names := func(words ...string) (out []string) {
		t.Helper()
		f, err := r.Search(t.Context(), words)
		if err != nil || f.More {
			t.Fatalf("%+v, %v", f, err)
		}
		for _, s := range f.Servers {
			out = append(out, s.Name)
		}
		return out
	}
	if got, want := names("weather"), []string{"io.github.a/weather", "io.github.b/weather-maps"}; !slices.Equal(got, want) {
		t.Errorf("got %q", got)
	}
	if got, want := names("weather", "foreCAST"), []string{"io.github.a/weather"}; !slices.Equal(got, want) {
		t.Errorf("got %q", got)
	}
	if f, _ := r.Search(t.Context(), nil); f.Unread != 2 || len(f.Servers) != 3 {
		t.Errorf("%+v", f)
	}
}

// TestSearchNoRegistry searches what answers, but is no registry.
func TestSearchNoRegistry(t *testing.T) {
	for _, answer := range []http.HandlerFunc{
		http.NotFound,
		func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, `{"status":"ok"}`) },
		func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "<html>") },
	} {
		s := httptest.NewServer(answer)
		if f, err := client(t, s.URL).Search(t.Context(), []string{"x"}); err == nil || !strings.Contains(err.Error(), s.URL+" does not answer like an MCP registry") {
			t.Errorf("%+v, %v", f, err)
		}
		s.Close()
	}
}

// A registry with very many servers, or one that never stops, costs a bounded number of requests.
func TestSearchIsBounded(t *testing.T) {
	var many []string
	for i := range maxFound + 50 {
		many = append(many, response(fmt.Sprintf("io.github.a/s%d", i), "1.0.0", ""))
	}
	f, err := client(t, play(t, many...).URL).Search(t.Context(), nil)
	if err != nil || len(f.Servers) != maxFound || !f.More {
		t.Errorf("%d servers, %v, %v", len(f.Servers), f.More, err)
	}
	asked := 0
	endless := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked++
		fmt.Fprintf(w, `{"servers":[{"server":{}}],"metadata":{"nextCursor":"%d"}}`, asked)
	}))
	t.Cleanup(endless.Close)
	f, err = client(t, endless.URL).Search(t.Context(), []string{"x"})
	if err != nil || asked != maxPages || !f.More || f.Unread != maxPages {
		t.Errorf("%d requests, %+v, %v", asked, f, err)
	}
}

func TestGet(t *testing.T) {
	r := client(t, play(t,
		response("io.github.a/weather", "1.0.0+build", ""),
		`{"server":{"name":"io.github.a/old","description":"\u001b[31mred\nline\u202e","version":"1"},"_meta":{"io.modelcontextprotocol.registry/official":{"status":"deprecated","statusMessage":"use\u0007 weather"}}}`,
		`{"server":{"name":"io.github.a/gone","version":"1"},"_meta":{"io.modelcontextprotocol.registry/official":{"status":"deleted"}}}`,
	).URL)
	for _, version := range []string{"", "1.0.0+build"} {
		if s, err := r.Get(t.Context(), "io.github.a/weather", version); err != nil || s.Version != "1.0.0+build" || s.Short() != "weather" {
			t.Errorf("%+v, %v", s, err)
		}
	}
	s, err := r.Get(t.Context(), "io.github.a/old", "")
	if err != nil || s.Status != Deprecated || s.StatusNote != "use weather" || s.Description != "[31mred line" {
		t.Errorf("%+v, %v", s, err)
	}
	for _, c := range [][2]string{{"io.github.a/gone", ""}, {"io.github.a/none", ""}, {"io.github.a/weather", "2.0.0"}} {
		_, err := r.Get(t.Context(), c[0], c[1])
		if _, ok := errors.AsType[*NotFound](err); !ok {
			t.Errorf("%v: %v", c, err)
		}
	}
	for _, name := range []string{"weather", "a/b", "io.x/../admin", "io.github.a/b/c", "-x.y/z", "io.x/a b", strings.Repeat("a.", 200) + "/x", ""} {
		if _, err := r.Get(t.Context(), name, ""); err == nil || !strings.Contains(err.Error(), "is not the name") {
			t.Errorf("%q: %v", name, err)
		}
	}
}

func TestHostileRegistry(t *testing.T) {
	elsewhere := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("the other host was asked") }))
	t.Cleanup(elsewhere.Close)
	for _, c := range []struct {
		name, want string
		answer     http.HandlerFunc
	}{
		{"another host", "redirects to another host", func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, elsewhere.URL+r.URL.Path, http.StatusFound)
		}},
		{"a loop", "redirects too often", func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, r.URL.Path, http.StatusFound)
		}},
		{"too large", "larger than 8 MiB", func(w http.ResponseWriter, _ *http.Request) {
			_, _ = w.Write([]byte(strings.Repeat(" ", maxBody+1)))
		}},
		{"a web page", "does not answer like an MCP registry", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "<html>") }},
		{"an error", `status 500: "no [2J database"`, func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusInternalServerError)
			fmt.Fprint(w, `{"detail":"no\u001b[2J database"}`)
		}},
		{"another server", "but answered with io.github.evil/x", func(w http.ResponseWriter, _ *http.Request) {
			fmt.Fprint(w, response("io.github.evil/x", "1.0.0", ""))
		}},
		{"another version", "but answered with 6.6.6", func(w http.ResponseWriter, _ *http.Request) {
			fmt.Fprint(w, response("io.github.a/x", "6.6.6", ""))
		}},
		{"nothing", "it has no server", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "{}") }},
		{"deep", "does not answer like an MCP registry", func(w http.ResponseWriter, _ *http.Request) {
			fmt.Fprint(w, strings.Repeat("[", 1<<20))
		}},
	} {
		s := httptest.NewServer(c.answer)
		_, err := client(t, s.URL).Get(t.Context(), "io.github.a/x", "1.0.0")
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", c.name, err)
		}
		s.Close()
	}
}

func TestRegistryURL(t *testing.T) {
	for base, ok := range map[string]bool{
		Official: true, "https://registry.example.com/mcp/": true, "http://127.0.0.1:1": true, "http://localhost": true, "http://[::1]:80/x": true,
		"http://example.com": false, "ftp://example.com": false, "registry.example.com": false, "https://u:p@example.com": false,
		"https://example.com?x=1": false, "https://": false, "": false, "http://127.0.0.1.evil.com": false,
	} {
		if _, err := New(base, http.DefaultClient); (err == nil) != ok {
			t.Errorf("%q: %v", base, err)
		}
	}
}
