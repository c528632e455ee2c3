package cli

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// playRegistry plays a registry with these servers. A server is the members of its server.json, after
// the name and the version.
func playRegistry(t *testing.T, servers map[string]string) string {
	t.Helper()
	entry := func(name string) string {
		return fmt.Sprintf(`{"server":{"name":%q,"version":"1.0.0",%s}}`, name, servers[name])
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /v0.1/servers", func(w http.ResponseWriter, r *http.Request) {
		var all []string
		for name := range servers {
			if strings.Contains(name, r.URL.Query().Get("search")) {
				all = append(all, entry(name))
			}
		}
		fmt.Fprintf(w, `{"servers":[%s],"metadata":{}}`, strings.Join(all, ","))
	})
	mux.HandleFunc("GET /v0.1/servers/{name}/versions/{version}", func(w http.ResponseWriter, r *http.Request) {
		if name := r.PathValue("name"); servers[name] != "" {
			fmt.Fprint(w, entry(name))
			return
		}
		http.NotFound(w, r)
	})
	s := httptest.NewServer(mux)
	t.Cleanup(s.Close)
	return s.URL
}

func TestSearch(t *testing.T) {
	u := newUser(t)
	url := playRegistry(t, map[string]string{
		"io.github.a/weather": `"description":"\u001b[31mRain\u202e"`,
		"io.github.b/maps":    `"description":"Maps"`,
		"bad name/weather":    `"description":"x"`,
	})
	code, out, said := u.run("search", "weather", "rain", "--registry", url)
	if code != exitOK || out != "NAME                 VERSION  WHAT\nio.github.a/weather  1.0.0    [31mRain\n" || !strings.Contains(said, "left out 1 server") {
		t.Errorf("%d\n%s\n%s", code, out, said)
	}
	code, out, _ = u.run("search", "maps", "--json", "--registry", url)
	if code != exitOK || !strings.Contains(out, `{"servers":[{"name":"io.github.b/maps","version":"1.0.0","description":"Maps","status":"active"}],"more":false`) {
		t.Errorf("%d\n%s", code, out)
	}
	if code, out, said = u.run("search", "nothing", "--registry", url); code != exitOK || out != "" || !strings.Contains(said, "nothing found") {
		t.Errorf("%d\n%s%s", code, out, said)
	}
	for _, args := range [][]string{{"search"}, {"search", " "}, {"search", "x", "--registry", "http://example.com"}} {
		if code, _, said := u.run(args...); code != exitUsage {
			t.Errorf("%v: %d\n%s", args, code, said)
		}
	}
}
