package admin

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/runtime"
	"github.com/dragoman-mcp/dragoman/internal/transport"
)

// Options are those of New. All but Version and Local must be set.
type Options struct {
	Runtime *runtime.Runtime
	Budget  *transport.Budget
	Losses  func() []Loss // sorted by server and by what was lost
	Version string
	Local   bool // only this machine can reach the listener
}

// API reports the state of a running program. New makes it. Safe for concurrent use.
type API struct {
	opts    Options
	started time.Time
	alias   aliases
}

// New returns an API for a program that starts now.
func New(o Options) *API { return &API{opts: o, started: time.Now()} }

// Routes puts /healthz, /readyz and /api/ on mux.
func (a *API) Routes(mux *http.ServeMux) {
	mux.HandleFunc("/healthz", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		_, _ = io.WriteString(w, "ok\n")
	})
	mux.HandleFunc("/readyz", a.serveReady)
	mux.HandleFunc("/api/v1/status", a.serveStatus)
	mux.HandleFunc("/api/", func(w http.ResponseWriter, r *http.Request) {
		refuse(w, Problem{Type: "not-found", Title: "There is nothing here", Status: http.StatusNotFound, Instance: r.URL.Path})
	})
}

// Problem is an error of our own API (RFC 9457).
type Problem struct {
	Type     string `json:"type"` // a word of ours; written as a URI
	Title    string `json:"title"`
	Status   int    `json:"status"`
	Detail   string `json:"detail,omitempty"`
	Instance string `json:"instance,omitempty"`
}

// refuse answers with a problem.
func refuse(w http.ResponseWriter, p Problem) {
	p.Type = "urn:dragoman:problem:" + p.Type
	body, err := json.Marshal(p)
	if err != nil {
		body = []byte(`{"title":"internal error","status":500}`)
	}
	w.Header().Set("Content-Type", "application/problem+json")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(p.Status)
	_, _ = w.Write(append(body, '\n'))
}

// serveStatus answers /api/v1/status. The status names processes, sessions and their
// clients, so it is for this machine alone. As long as nobody has to authenticate, nobody
// gets it when other machines can reach the listener, and what a local proxy passes on
// from elsewhere is refused too.
func (a *API) serveStatus(w http.ResponseWriter, r *http.Request) {
	switch {
	case r.Method != http.MethodGet && r.Method != http.MethodHead:
		w.Header().Set("Allow", "GET, HEAD")
		refuse(w, Problem{Type: "method", Title: "The method is not allowed here", Status: http.StatusMethodNotAllowed, Instance: r.URL.Path})
	case !a.opts.Local:
		refuse(w, Problem{
			Type: "local-only", Title: "The status is for this machine alone", Status: http.StatusForbidden, Instance: r.URL.Path,
			Detail: "Dragoman listens where other machines can reach it. Send the process SIGUSR1, and it writes its status to standard error.",
		})
	case forwarded(r):
		refuse(w, Problem{
			Type: "local-only", Title: "The status is for this machine alone", Status: http.StatusForbidden, Instance: r.URL.Path,
			Detail: "The request was passed on by a proxy.",
		})
	default:
		var body bytes.Buffer
		out := json.NewEncoder(&body)
		out.SetEscapeHTML(false)
		out.SetIndent("", "  ")
		if out.Encode(a.Report()) != nil {
			refuse(w, Problem{Type: "internal", Title: "The status could not be written", Status: http.StatusInternalServerError, Instance: r.URL.Path})
			return
		}
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Cache-Control", "no-store")
		w.Header().Set("X-Content-Type-Options", "nosniff")
		_, _ = w.Write(body.Bytes())
	}
}

// forwarded reports whether a request says that a proxy has passed it on.
func forwarded(r *http.Request) bool {
	for _, name := range []string{"Forwarded", "X-Forwarded-For", "X-Forwarded-Host", "X-Real-Ip", "Via"} {
		if len(r.Header[name]) > 0 {
			return true
		}
	}
	return false
}
