package runtime

import (
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/dragoman-mcp/dragoman/internal/base/identity"
	"github.com/dragoman-mcp/dragoman/internal/setup/config"
	"github.com/dragoman-mcp/dragoman/internal/transport"
	"github.com/dragoman-mcp/dragoman/internal/transport/httpdoor"
)

// TestProjectsAreLookedUp checks that a request for an unknown project gets the same answer as a
// request for any other unknown path. The default project gives the same answers with and
// without the prefix /p/.
func TestProjectsAreLookedUp(t *testing.T) {
	s := config.Default()
	r := New(Options{
		Config: s, Log: slog.New(slog.DiscardHandler), Guard: httpdoor.NewGuard(nil, nil, nil), Principal: identity.Anyone, Budget: transport.NewBudget(1 << 20),
	})
	defer r.Close(0)
	r.Apply(s)
	mux := http.NewServeMux()
	r.Routes(mux)
	mux.HandleFunc("/", httpdoor.NotFound)
	get := func(path string) *httptest.ResponseRecorder {
		w := httptest.NewRecorder()
		mux.ServeHTTP(w, httptest.NewRequest("DELETE", "http://localhost"+path, nil))
		return w
	}
	nowhere := get("/nowhere")
	for _, path := range []string{"/p/other/mcp", "/p/other/sse", "/p/other/messages", "/p/other/s/a/mcp", "/p/mcp", "/p/Default/mcp"} {
		w := get(path)
		same := strings.Replace(w.Body.String(), `"`+path+`"`, `"/nowhere"`, 1) == nowhere.Body.String()
		if w.Code != nowhere.Code || !same || len(w.Header()) != len(nowhere.Header()) {
			t.Errorf("%s: %d %v %s", path, w.Code, w.Header(), w.Body)
		}
	}
	for _, leaf := range []string{"/mcp", "/sse", "/messages", "/s/a/mcp"} {
		with, without := get("/p/default"+leaf), get(leaf)
		if with.Code != without.Code || with.Body.String() != without.Body.String() || strings.Contains(with.Body.String(), "there is nothing at") {
			t.Errorf("%s: %d %s, without a project %d %s", leaf, with.Code, with.Body, without.Code, without.Body)
		}
	}
}
