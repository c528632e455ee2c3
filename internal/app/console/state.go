package console

import (
	"context"
	"net/http"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/app/admin"
	"github.com/dragoman-mcp/dragoman/internal/app/runtime"
	"github.com/dragoman-mcp/dragoman/internal/base/identity"
)

// states makes the states of responses.
type states struct {
	project string // what the responses are about
	access  *admin.Access
	source  interface {
		Report() *admin.Report
		OwnQuestions(who *identity.Principal) int
		WaitingSignIns(who *identity.Principal) []admin.SignIn
	}
	clients func() []runtime.ClientReport // may be nil
	names   func() []string               // the names of all projects; may be nil
	traffic *traffic
}

// begin returns the state of a response to a viewer. feed says that it consists only of live values.
func (s *states) begin(v viewer, feed bool) *state {
	return &state{from: s, live: &Live{}, viewer: v, feed: feed}
}

// state has the data of one response. All parts of the response use the same data, so they show the
// state at the same moment.
type state struct {
	from   *states
	live   *Live
	viewer viewer
	feed   bool // the response consists only of live values
	moving bool // the page changes without events; see View.Moving
	status *admin.Report
	sums   *sums
}

type stateKey struct{}

func withState(r *http.Request, s *state) *http.Request {
	return r.WithContext(context.WithValue(r.Context(), stateKey{}, s))
}

func stateOf(r *http.Request) *state { return r.Context().Value(stateKey{}).(*state) }

// may reports whether the user for whom a response is made has at least the role least.
func may(r *http.Request, least identity.Role) bool {
	return stateOf(r).viewer.may(least)
}

// projectOf returns the name of the project that a response is about.
func projectOf(r *http.Request) string { return stateOf(r).from.project }

// guestOf returns the name of the invited person for whom a response is made, or "" if it's for somebody else.
func guestOf(r *http.Request) string {
	s := stateOf(r)
	return s.from.access.NameOf(s.viewer.who)
}

// waits returns a request if somebody waits for the response, and has sent what shows who that is. A feed is for
// whoever has the page open, and asks no other replica.
func waits(r *http.Request) *http.Request {
	if stateOf(r).feed {
		return nil
	}
	return r
}

// replicated reports whether other replicas have calls and questions, too.
func replicated(r *http.Request) bool { return len(statusOf(r).Replicas) > 1 }

// statusOf returns the report that all parts of one response use.
func statusOf(r *http.Request) *admin.Report {
	s := stateOf(r)
	if s.status == nil {
		s.status = s.from.source.Report()
	}
	return s.status
}

// sumsOf returns the traffic data that all parts of one response use.
func sumsOf(r *http.Request) *sums {
	s := stateOf(r)
	if s.sums == nil {
		var connected []runtime.ClientReport
		if s.from.clients != nil {
			connected = s.from.clients()
		}
		s.sums = s.from.traffic.sums(time.Now(), connected)
	}
	return s.sums
}

// asked returns how many questions wait for the viewer.
func asked(r *http.Request) int {
	s := stateOf(r)
	n := s.viewer.waits
	if s.viewer.who != nil && s.feed { // a feed of their own, which lasts longer than what was true when it began
		n = s.from.waits(&s.viewer)
	}
	if s.viewer.may(identity.Operator) {
		n += statusOf(r).Questions
	}
	return n
}

// findServer returns the server whose name is in the path of r.
func findServer(r *http.Request) (*admin.Server, error) {
	status, name := statusOf(r), r.PathValue("name")
	var names []string
	for i := range status.Servers {
		if status.Servers[i].Name == name {
			return &status.Servers[i], nil
		}
		names = append(names, status.Servers[i].Name)
	}
	return nil, noServer(name, names)
}
