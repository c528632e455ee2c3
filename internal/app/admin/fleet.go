package admin

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/base/excerpt"
	"github.com/dragoman-mcp/dragoman/internal/base/identity"
	"github.com/dragoman-mcp/dragoman/internal/relay/event"
)

// Fleet are the replicas that serve the same clients.
type Fleet interface {
	// Self returns the name of this replica.
	Self() string
	// Others returns the other replicas that live. It returns none for a request that another replica has passed on: that
	// is about this replica alone.
	Others(*http.Request) []Other
	// Ask sends a request to another replica, with the credentials that the request has. who has sent it.
	Ask(r *http.Request, who *identity.Principal, body []byte, to Other) (*http.Response, error)
}

// Other is another replica. Home says which process it is.
type Other struct{ Name, Home string }

// Missing is a replica that has not said what it knows.
type Missing struct {
	Replica string `json:"replica" doc:"the replica's name"`
	Problem string `json:"problem" doc:"why it has said nothing, as a phrase"`
}

const (
	// fleetWithin is how long the other replicas have, all at the same time, to answer somebody who waits.
	fleetWithin = 1500 * time.Millisecond
	// mostFromOne is the size in bytes of the longest answer of a replica that is used.
	mostFromOne = 32 << 20
)

// fleet asks the other replicas for what only they know, such as their calls. They're asked only while somebody waits for
// it, with the credentials of that person, and each decides what it tells them.
type fleet struct {
	Fleet   // nil for a process alone
	access  *Access
	project project
}

// self returns the name of this replica, or "" if it's alone.
func (f *fleet) self() string {
	if f == nil || f.Fleet == nil {
		return ""
	}
	return f.Self()
}

// of returns the replicas to ask for whoever has sent r. If r is nil, nobody waits for them.
func (f *fleet) of(r *http.Request) []Other {
	if f == nil || f.Fleet == nil || r == nil {
		return nil
	}
	return f.Others(r)
}

// path returns the URL of a route for the project of f.
func (f *fleet) path(route string, query url.Values) string {
	if name := f.project.name(); name != event.DefaultProject {
		query = maps.Clone(query)
		if query == nil {
			query = url.Values{}
		}
		query.Set(projectParameter.name, name)
	}
	if len(query) == 0 {
		return apiRoot + route
	}
	return apiRoot + route + "?" + query.Encode()
}

// ask sends a request to another replica. r is the one for which it's sent.
func (f *fleet) ask(ctx context.Context, r *http.Request, to Other, method, uri string, body []byte) (*http.Response, error) {
	out := r.Clone(ctx)
	u, err := url.Parse(uri)
	if err != nil {
		return nil, err
	}
	out.Method, out.URL, out.RequestURI = method, u, ""
	for _, name := range []string{"Content-Length", "Content-Type", "Accept-Encoding", "If-None-Match", "If-Modified-Since", "Range"} {
		out.Header.Del(name)
	}
	out.Header.Set("Accept", "application/json")
	if body != nil {
		out.Header.Set("Content-Type", "application/json")
	}
	who, err := f.access.Check(r)
	if err != nil {
		who = nil // the route is open to this machine; the others see to it themselves
	}
	return f.Ask(out, who, body, to)
}

// heard is the answer of another replica.
type heard struct {
	of      Other
	status  int
	header  http.Header
	body    []byte
	problem string // why there's none, as a phrase; "" if there is
}

const unreachable = "it can't be reached"

// whole reads the answer of another replica.
func (f *fleet) whole(ctx context.Context, r *http.Request, to Other, method, uri string, body []byte) heard {
	x := heard{of: to, problem: unreachable}
	resp, err := f.ask(ctx, r, to, method, uri, body)
	if err != nil {
		return x
	}
	defer func() { _ = resp.Body.Close() }()
	x.status, x.header = resp.StatusCode, resp.Header
	if x.body, err = io.ReadAll(io.LimitReader(resp.Body, mostFromOne+1)); err != nil {
		return x
	}
	if x.problem = ""; len(x.body) > mostFromOne {
		x.problem = "its answer is too long"
	}
	return x
}

// all sends a request to all other replicas, and returns what they answer, in their order.
func (f *fleet) all(r *http.Request, method, uri string, body []byte) []heard {
	others := f.of(r)
	if len(others) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(r.Context(), fleetWithin)
	defer cancel()
	out := make([]heard, len(others))
	var running sync.WaitGroup
	for i, to := range others {
		running.Go(func() { out[i] = f.whole(ctx, r, to, method, uri, body) })
	}
	running.Wait()
	return out
}

// gather asks all other replicas for what they know, calls add with the answer of each, and returns who has none.
func gather[T any](f *fleet, r *http.Request, uri string, add func(of Other, x *T)) (missing []Missing) {
	for _, x := range f.all(r, http.MethodGet, uri, nil) {
		var answer T
		switch {
		case x.problem != "":
		case x.status != http.StatusOK:
			x.problem = "it refuses: " + x.refusal().Detail
		case json.Unmarshal(x.body, &answer) != nil:
			x.problem = "its answer can't be read"
		default:
			add(x.of, &answer)
			continue
		}
		missing = append(missing, Missing{x.of.Name, x.problem})
	}
	return missing
}

// refusal returns the problem with which a replica has answered.
func (x *heard) refusal() *Problem {
	p := &Problem{Type: "replica-refused", Title: "The replica " + x.of.Name + " refuses", Status: x.status}
	if json.Unmarshal(x.body, p) != nil || p.Detail == "" {
		p.Detail = "status " + http.StatusText(x.status)
	}
	p.Detail = excerpt.Line(p.Detail, maxReason)
	return p
}

// found returns the answer of the replica that has what a request names, if this one doesn't have it: of those that
// don't answer with status 404. Nothing happens at the others. If none has it, the result is none with who couldn't be asked.
func found[T any](f *fleet, r *http.Request, method, uri string, body []byte, none *Problem) (answer T, bad *Problem) {
	var silent []string
	for _, x := range f.all(r, method, uri, body) {
		switch {
		case x.problem != "":
			silent = append(silent, x.of.Name)
		case x.status == http.StatusNotFound:
		case x.status == http.StatusOK && json.Unmarshal(x.body, &answer) == nil:
			return answer, nil
		default:
			bad = x.refusal()
		}
	}
	if bad != nil {
		return answer, bad
	}
	if len(silent) > 0 {
		bad = new(Problem)
		*bad = *none
		bad.Detail += " It may be at " + strings.Join(silent, " or ") + ", which can't be reached."
		return answer, bad
	}
	return answer, none
}

// home splits the id of something that one replica has, such as that of a call, into the replica and the id that this
// one knows. to is nil if it's this replica, and for an id without a name.
func (f *fleet) home(r *http.Request, id string) (rest string, to *Other, bad *Problem) {
	name, rest, named := strings.Cut(id, ".")
	switch {
	case !named || f.self() == "":
		return id, nil, nil
	case name == f.self():
		return rest, nil, nil
	}
	all := f.of(r)
	i := slices.IndexFunc(all, func(x Other) bool { return x.Name == name })
	if i < 0 {
		return id, nil, &Problem{Type: "no-such-replica", Title: "No such replica", Status: http.StatusNotFound, Detail: "No replica that runs is named " + excerpt.Quote(name, maxName) + ". What a replica knows of its calls ends with it."}
	}
	return rest, &all[i], nil
}

// from asks another replica for what only that one has.
func (f *fleet) from(r *http.Request, to *Other, route string, query url.Values) ([]byte, *Problem) {
	ctx, cancel := context.WithTimeout(r.Context(), fleetWithin)
	defer cancel()
	x := f.whole(ctx, r, *to, http.MethodGet, f.path(route, query), nil)
	switch {
	case x.problem != "":
		return nil, &Problem{Type: "replica-unreachable", Title: "The replica " + to.Name + " has not answered", Status: http.StatusBadGateway, Detail: "Only the replica " + to.Name + " has it, and " + x.problem + ". Try again in some seconds."}
	case x.status != http.StatusOK:
		return nil, x.refusal()
	}
	return bytes.TrimSpace(x.body), nil
}
