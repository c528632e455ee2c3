package admin

import (
	"net/http"
	"slices"
	"strings"

	"github.com/dragoman-mcp/dragoman/internal/base/identity"
)

// route is one operation of the admin API. The mux, the OpenAPI document and docs/api.md are
// generated from the routes.
type route struct {
	method, path string // the path is a pattern of http.ServeMux below /api/v1
	// least is the least role that may use the route. If open is true, a program on this machine needs
	// no credential; but who sends one needs the role.
	least    identity.Role
	open     bool
	name     string // the operationId in the OpenAPI document
	summary  string // a sentence without a full stop
	query    []parameter
	named    bool   // the element name of the path is the project; process is set too
	house    bool   // the route is about the keys, people, secrets or prompts of a project, and an admin of default may use it in each
	matches  bool   // the route needs a version in If-Match
	people   bool   // whoever has signed in may use the route with any role in the project
	anywhere bool   // the route is about all projects, and a role in one of them suffices; process is set too
	process  bool   // the route is about the process or its configuration file, and not about a project
	body     any    // a value that has the type of the JSON body; nil if the request has no body
	answer   any    // a value that has the type of the JSON response
	status   int    // the status after success; 0 means 200
	kind     string // the content type of a response that is not JSON
	events   []streamed
	problems []int // the error statuses, without the statuses that every route can have

	// Exactly one of serve, write and read is set. read returns the response or a problem. write
	// writes a response that is not JSON, or returns a problem.
	serve func(a *API, w http.ResponseWriter, r *http.Request)
	write func(a *API, w http.ResponseWriter, r *http.Request) *Problem
	read  func(a *API, r *http.Request) (any, *Problem)
}

// parameter is a query parameter of a route.
type parameter struct {
	name, kind, about string // kind is a type of JSON Schema
}

// streamed describes one kind of event in an event stream.
type streamed struct {
	name string
	data any // a value that has the type of the event's data; nil if the data is {}
}

// apiRoot is the path below which the admin API is.
const apiRoot = "/api/v1"

var (
	pageParameters = []parameter{
		{"limit", "integer", "how many items to return, 1 to 500; the default is 50"},
		{"cursor", "string", "the member `next` of the previous page"},
	}
	logParameters = []parameter{
		{"limit", "integer", "how many past records to send, 0 to 20000; the default is 100"},
		{"after", "string", "only records after the one with this id; with replicas, only those of the one that answers"},
	}
)

// routes returns all routes. The files that implement parts of the API define their own routes.
func routes() []route {
	all := []route{
		{
			method: http.MethodGet, path: "/openapi.json", open: true, process: true, least: identity.Viewer, name: "document",
			summary: "This API as OpenAPI 3.1", kind: "application/json", read: func(a *API, _ *http.Request) (any, *Problem) { return a.document(), nil },
		},
		{
			method: http.MethodGet, path: "/status", open: true, least: identity.Viewer, name: "status",
			summary: "What `dragoman status` shows", answer: Report{}, read: func(a *API, r *http.Request) (any, *Problem) { return a.readStatus(r), nil },
		},
		{
			method: http.MethodGet, path: "/logs", open: true, least: identity.Viewer, name: "logs",
			summary: "The last records of the log and of the servers' stderr, the oldest first",
			query:   append([]parameter{{"server", "string", "only records about this server"}}, logParameters...),
			answer:  Logs{}, problems: []int{400, 404}, read: (*API).readLogs,
		},
		{
			method: http.MethodGet, path: "/logs/stream", open: true, least: identity.Viewer, name: "logStream",
			summary: "The last records of the log and of the servers' stderr as server-sent events, and then each new one",
			query:   append([]parameter{{"server", "string", "only records about this server"}}, logParameters...),
			events:  []streamed{{EventRecord, LogRecord{}}, {EventMissing, Missing{}}}, problems: []int{400, 404, 503}, write: (*API).writeLogStream,
		},
		{
			method: http.MethodGet, path: "/calls", open: true, least: identity.Viewer, name: "calls",
			summary: "Running and ended calls of clients, the newest first", query: callParameters,
			answer: Calls{}, problems: []int{400}, read: (*API).readCalls,
		},
		{
			method: http.MethodGet, path: "/calls/stream", open: true, least: identity.Viewer, name: "callStream",
			summary: "Ended calls as server-sent events: the last ones, the oldest first, and then each when it ends",
			query:   callParameters, events: []streamed{{EventCall, Call{}}, {EventMissing, Missing{}}}, problems: []int{400, 503}, write: (*API).writeCallStream,
		},
		{
			method: http.MethodPost, path: "/console/link", process: true, least: identity.Admin, name: "consoleLink",
			summary: "A new link that opens the console once", answer: ConsoleLink{}, problems: []int{409}, serve: (*API).serveConsoleLink,
		},
	}
	return slices.Concat(all, storyRoutes, serverRoutes, []route{settingsRoute, reloadRoute}, runRoutes, exampleRoutes, examRoutes, draftRoutes, editRoutes, keyRoutes, peopleRoutes, grantRoutes, auditRoutes, secretRoutes, promptRoutes, pinRoutes, ruleRoutes, questionRoutes, signInRoutes, projectRoutes)
}

var callParameters = []parameter{
	{"server", "string", "only calls to this server"},
	{"client", "string", "only calls of the client with this name or principal"},
	{"method", "string", "only calls of this method"},
	{"outcome", "string", "only calls with this outcome; loss selects calls of which a part was left out"},
	{"q", "string", "only calls that contain this text in a name, a URI, the cause or the trace id"},
	{"before", "integer", "only calls older than the one with this number; with replicas, a time in microseconds since 1970, as in the answer"},
	{"limit", "integer", "how many calls to return, 0 to 2000; the default is 50"},
}

// result returns the results of a route's read function: answer if bad is nil, otherwise bad.
func result[T any](answer T, bad *Problem) (any, *Problem) {
	if bad != nil {
		return nil, bad
	}
	return answer, nil
}

// byPath returns a route's read function that calls get with the element key of the path.
func byPath[T any](key string, get func(*API, string) (T, *Problem)) func(*API, *http.Request) (any, *Problem) {
	return func(a *API, r *http.Request) (any, *Problem) { return result(get(a, r.PathValue(key))) }
}

// withBody returns a route's read function that reads the body of a request and calls do. The body
// may have at most the given number of bytes.
func withBody[Q, T any](most int64, do func(*API, *http.Request, Q) (T, *Problem)) func(*API, *http.Request) (any, *Problem) {
	return func(a *API, r *http.Request) (any, *Problem) {
		var q Q
		if bad := readBody(r, most, &q); bad != nil {
			return nil, bad
		}
		return result(do(a, r, q))
	}
}

// register registers the routes with a mux.
func (a *API) register(mux *http.ServeMux) {
	byPath := map[string][]route{}
	for _, x := range routes() {
		byPath[x.path] = append(byPath[x.path], x)
	}
	for path, list := range byPath {
		mux.HandleFunc(apiRoot+path, func(w http.ResponseWriter, r *http.Request) { a.dispatch(w, r, list) })
	}
	mux.HandleFunc("/api/", func(w http.ResponseWriter, r *http.Request) {
		refuse(w, Problem{Type: "not-found", Title: "Not found", Status: http.StatusNotFound, Instance: r.URL.Path, Detail: "GET " + apiRoot + "/openapi.json lists the paths."})
	})
}

// dispatch answers a request with the route in list that has the method of the request. All routes
// in list have the same path.
func (a *API) dispatch(w http.ResponseWriter, r *http.Request, list []route) {
	var allowed []string
	for i := range list {
		x := &list[i]
		if r.Method != x.method && !(r.Method == http.MethodHead && x.method == http.MethodGet) {
			allowed = append(allowed, x.method)
			if x.method == http.MethodGet {
				allowed = append(allowed, http.MethodHead)
			}
			continue
		}
		ReadPathNames(r)
		if !a.door.allows(w, r, x) {
			return
		}
		if r.Method != http.MethodGet && r.Method != http.MethodHead {
			r = a.door.through(r)
		}
		if asked := r; len(x.events) > 0 {
			r = While(r, func() bool { return a.door.may(asked, x) == nil })
		}
		a.answer(w, r, x)
		return
	}
	w.Header().Set("Allow", strings.Join(allowed, ", "))
	refuse(w, Problem{Type: "method", Title: "Method not allowed", Status: http.StatusMethodNotAllowed, Instance: r.URL.Path, Detail: "Use " + strings.Join(allowed, " or ") + "."})
}

// answer answers a request with the route x, in the project that the request names.
func (a *API) answer(w http.ResponseWriter, r *http.Request, x *route) {
	var answer any
	var bad *Problem
	if x.process {
		bad = a.door.noOther(r)
	} else {
		a, bad = a.in(r)
	}
	switch {
	case bad != nil:
	case x.serve != nil:
		x.serve(a, w, r)
		return
	case x.read != nil:
		answer, bad = x.read(a, r)
	default:
		if bad = x.write(a, w, r); bad == nil {
			return
		}
	}
	if bad != nil {
		out := *bad
		out.Instance = r.URL.Path
		refuse(w, out)
		return
	}
	status := x.status
	if status == 0 {
		status = http.StatusOK
	}
	writeStatus(w, r, status, answer)
}

// parameters returns the query parameters of the route.
func (x *route) parameters() []parameter {
	if x.process {
		return x.query
	}
	return slices.Concat(x.query, []parameter{projectParameter})
}
