package admin

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/calls"
	"github.com/dragoman-mcp/dragoman/internal/excerpt"
	"github.com/dragoman-mcp/dragoman/internal/logring"
	"github.com/dragoman-mcp/dragoman/internal/runtime"
	"github.com/dragoman-mcp/dragoman/internal/transport"
	"github.com/dragoman-mcp/dragoman/internal/transport/httpdoor"
)

// Options are the options of New. Runtime, Budget, Recent and Losses are required.
type Options struct {
	Runtime *runtime.Runtime
	Budget  *transport.Budget
	Recent  *logring.Ring
	Calls   *calls.Ring   // the calls of clients; if it is nil, New creates a ring that stays empty
	Losses  func() []Loss // sorted by Server and What
	Log     *slog.Logger  // gets a record of each trial of a server; if it is nil, nothing is logged
	Version string
	Config  string // the full path of the configuration file; "" if there is none
	Local   bool   // Local means that only this machine can reach the listener
	// PublicURL is the URL at which clients reach "/" through a reverse proxy. "" means that there
	// is no proxy.
	PublicURL string
	// Access decides who may see messages and change something. If it is nil, New creates one.
	Access *Access
	// ConsoleOff is a sentence that says why there is no console. "" means that there is a console.
	ConsoleOff string
	// Env returns an environment variable, for the files of clients and the variables of new
	// servers. If Env is nil, no variable is set.
	Env func(string) (string, bool)
	// Refusal returns why the configuration file, as it is now, is not used; nil if it is used. If
	// Refusal is nil, the program reads no file.
	Refusal func() *Refusal
	// Reload makes the program use the configuration file as it is now, and returns when the
	// program uses it. If Reload is nil, the program reads no file.
	Reload func(context.Context) error
	// DemoClients are the names of the clients that `serve --demo` runs itself.
	DemoClients []string
}

// API reports the state of the running program. Use New. Safe for concurrent use.
type API struct {
	opts    Options
	started time.Time
	alias   aliases
	tools   toolIndex
	// document returns the OpenAPI document. It builds the document at the first call.
	document func() object
	within   func() *http.ServeMux // the routes for Invoke

	logStreams  *Streams
	callStreams *Streams
	runStreams  *Streams
	examStreams *Streams
	runs        runs
	exams       exams
	drafts      drafts
}

// New returns an API. The uptime that it reports begins now.
func New(o Options) *API {
	if o.Access == nil {
		o.Access = NewAccess(o.Local)
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Calls == nil {
		o.Calls = calls.New(calls.Options{})
	}
	a := &API{
		opts: o, started: time.Now(), document: sync.OnceValue(func() object { return document(o.Version) }),
		logStreams: NewStreams(mostLogStreams), callStreams: NewStreams(mostCallStreams), runStreams: NewStreams(mostRunStreams), examStreams: NewStreams(mostExamStreams),
	}
	a.within = sync.OnceValue(a.innerMux)
	return a
}

// Access returns the Access that decides who may see messages and change something.
func (a *API) Access() *Access { return a.opts.Access }

// Drain ends the streams, so that the listener can stop. It may be called more than once.
func (a *API) Drain() {
	a.logStreams.Drain()
	a.callStreams.Drain()
	a.runStreams.Drain()
	a.examStreams.Drain()
}

// Routes registers the page at /, /healthz, /readyz and /api/ with mux. It also answers paths that
// have no other handler in mux.
func (a *API) Routes(mux *http.ServeMux) {
	mux.HandleFunc("/{$}", a.servePage)
	mux.HandleFunc("/", httpdoor.NotFound)
	mux.HandleFunc("/healthz", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		_, _ = io.WriteString(w, "ok\n")
	})
	mux.HandleFunc("/readyz", a.serveReady)
	a.register(mux)
}

// admits reports whether a request may read the API. If it returns false, it has written the error
// response. The API names processes, sessions and their clients, so only this machine may read it.
// Reading the API needs no key. Therefore admits refuses every request if other machines can reach
// the listener, and refuses requests that a proxy forwarded or that a page of another site sent.
func (a *API) admits(w http.ResponseWriter, r *http.Request) bool {
	const title = "Only this machine may read the status"
	switch {
	case !a.opts.Local:
		refuse(w, Problem{
			Type: "local-only", Title: title, Status: http.StatusForbidden, Instance: r.URL.Path,
			Detail: "Dragoman listens on an address that other machines can reach. Send SIGUSR1 to the process to write the status to stderr.",
		})
	case forwarded(r):
		refuse(w, Problem{
			Type: "local-only", Title: title, Status: http.StatusForbidden, Instance: r.URL.Path,
			Detail: "A proxy forwarded the request. Send it directly, without a proxy.",
		})
	case foreignPage(r):
		refuse(w, Problem{
			Type: "foreign-page", Title: title, Status: http.StatusForbidden, Instance: r.URL.Path,
			Detail: "A page of another site sent the request.",
		})
	default:
		return true
	}
	return false
}

// serveStatus answers /api/v1/status.
func (a *API) serveStatus(w http.ResponseWriter, r *http.Request) {
	writeJSON(w, r, a.Report())
}

// writeJSON answers with a value as JSON.
func writeJSON(w http.ResponseWriter, r *http.Request, value any) {
	writeStatus(w, r, http.StatusOK, value)
}

// writeStatus answers with a status and a value as JSON.
func writeStatus(w http.ResponseWriter, r *http.Request, status int, value any) {
	var body bytes.Buffer
	out := json.NewEncoder(&body)
	out.SetEscapeHTML(false)
	out.SetIndent("", "  ")
	if out.Encode(value) != nil {
		refuse(w, Problem{Type: "internal", Title: "The answer could not be encoded", Status: http.StatusInternalServerError, Instance: r.URL.Path})
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(status)
	_, _ = w.Write(excerpt.JSON(body.Bytes()))
}

// proxyHeaders are headers that proxies add, besides those that begin with X-Forwarded.
var proxyHeaders = []string{
	"Forwarded", "Via", "X-Real-Ip", "X-Client-Ip", "X-Cluster-Client-Ip", "X-Original-Host", "X-Original-Forwarded-For", "X-Envoy-External-Address",
	"True-Client-Ip", "Cf-Connecting-Ip", "Cf-Ray", "Cdn-Loop", "Fastly-Client-Ip", "Fly-Client-Ip", "X-Azure-Clientip", "X-Appengine-User-Ip",
	"Tailscale-User-Login",
}

// forwarded reports whether a proxy forwarded the request: the request has a header that
// proxies add, or its Host is not this machine.
func forwarded(r *http.Request) bool {
	for _, name := range proxyHeaders {
		if len(r.Header[name]) > 0 {
			return true
		}
	}
	for name := range r.Header {
		if strings.HasPrefix(name, "X-Forwarded") {
			return true
		}
	}
	return !httpdoor.IsLocal(r.Host)
}

// foreignPage reports whether the request comes from a page of another site that embeds the
// response. A request for an image has no Origin header, so the check of that header does not
// refuse it. A link that the user follows is not refused.
func foreignPage(r *http.Request) bool {
	switch r.Header.Get("Sec-Fetch-Site") {
	case "cross-site", "same-site":
		return r.Header.Get("Sec-Fetch-Dest") != "document"
	}
	return false
}

// Close ends the streams. It cancels runs, examinations and trials, and waits for them. It must be
// called before the runtime is closed.
func (a *API) Close() {
	a.Drain()
	a.runs.close()
	a.exams.close()
	a.drafts.close()
}
