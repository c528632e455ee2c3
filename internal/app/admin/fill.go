package admin

import (
	"cmp"
	"errors"
	"maps"
	"net/http"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/app/runtime"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
	"github.com/dragoman-mcp/dragoman/internal/relay/calls"
	"github.com/dragoman-mcp/dragoman/internal/relay/catalog"
	"github.com/dragoman-mcp/dragoman/internal/relay/limits"
	"github.com/dragoman-mcp/dragoman/internal/relay/upstream"
	"github.com/dragoman-mcp/dragoman/internal/team/audit"
	"github.com/dragoman-mcp/dragoman/internal/team/store"
	"github.com/dragoman-mcp/dragoman/internal/transport"
)

// statusAPI reports on the whole process, and on a project.
type statusAPI struct {
	project     project
	others      *runtime.Runtime // see Options.Others
	budget      *transport.Budget
	calls       *calls.Ring
	losses      func(project string) []Loss
	refusal     func() *Refusal    // may be nil
	homes       Homes              // may be nil
	store       func() store.State // may be nil
	replicas    func() []Replica   // may be nil
	trail       *audit.Trail       // may be nil
	alias       *aliases
	started     time.Time
	version     string
	config      string   // see Options.Config
	demoClients []string // see Options.DemoClients
}

// Report returns the state of the program. It neither sends anything to a server nor waits for a
// server.
func (a *statusAPI) Report() *Report {
	now, state := time.Now(), a.project.Report()
	r := &Report{
		Name: "dragoman", Version: a.version, Project: a.project.name(), Projects: a.projects(), PID: os.Getpid(), State: "serving",
		Started: a.started.UTC(), UptimeSeconds: int64(now.Sub(a.started).Seconds()), Configured: state.Configured.UTC(), Config: a.config,
		Conversations: map[string]int{}, Endpoints: []Endpoint{}, Servers: []Server{},
		Parked: []ParkedCall{}, Questions: state.Questions, Listens: []Listens{}, Losses: a.losses(a.project.name()), DemoClients: a.demoClients,
	}
	r.InFlight, r.Tools = InFlight(a.budget.State()), toolsOf(a.project)
	if state.Draining {
		r.State = "stopping"
	}
	if a.refusal != nil {
		r.Refusal = a.refusal()
	}
	if a.homes != nil {
		r.ProjectProblems = slices.Concat(a.homes.Problems())
	}
	if a.store != nil {
		r.Store = storeOf(a.store())
		r.Audit = auditOf(a.trail)
	}
	if a.replicas != nil {
		r.Replicas = a.replicas()
	}
	for _, x := range state.Endpoints {
		e := Endpoint{Path: x.Path, Server: x.Server, Conversations: map[string]int{}, Requests: x.Requests}
		r.Requests += x.Requests
		for transport, n := range x.Conversations {
			if n != 0 {
				e.Conversations[transport] = n
				r.Conversations[transport] += n
			}
		}
		r.Endpoints = append(r.Endpoints, e)
	}
	counts := a.calls.Counts()
	for _, u := range state.Servers {
		s := a.server(u.Report, state.Lists, u.Clean)
		s.Calls, s.FailedCalls = counts[s.Name].Ended, counts[s.Name].Failed
		if s.Shared = a.project.Shares(s.Name); s.Shared {
			s.Sessions = []Session{} // some are of other projects' clients
		}
		r.Servers = append(r.Servers, s)
	}
	for _, p := range state.Parked {
		r.Parked = append(r.Parked, ParkedCall{
			Server: p.Server, Method: p.Method, Principal: a.alias.of(p.Principal), Since: p.Since.UTC(), Questions: p.Questions,
		})
	}
	for who, n := range state.Listens {
		if principal, ok := strings.CutPrefix(who, "principal "); ok {
			who = a.alias.of(principal)
		}
		r.Listens = append(r.Listens, Listens{Client: who, Open: n})
	}
	for _, x := range a.project.Refusals() {
		l := LimitRefusals{Per: x.Per.String(), Of: x.ID, Limit: x.What.String(), Refused: x.Times}
		if x.Per == limits.Key || x.Per == limits.Person {
			l.Of = a.alias.of(x.ID)
		}
		r.Limits = append(r.Limits, l)
	}
	slices.SortFunc(r.Listens, func(x, y Listens) int { return cmp.Compare(x.Client, y.Client) })
	return r
}

// readStatus answers GET /status.
func (a *API) readStatus(asked *http.Request) *Report {
	r := a.Report()
	r.RuleWarnings = a.ruleAPI.RuleWarnings()
	if len(r.Replicas) > 0 {
		r.Digest = a.project.Current().Digest()
		a.gatherStatus(asked, r)
	}
	return r
}

// gatherStatus adds to each replica that runs what it says itself.
func (a *API) gatherStatus(asked *http.Request, r *Report) {
	by := map[string]*Replica{} // those that run, whose names differ
	for i := range r.Replicas {
		x := &r.Replicas[i]
		if x.Self {
			x.fill(r)
		}
		if x.runs() {
			by[x.Name] = x
		}
	}
	missing := gather(a.fleet, asked, a.fleet.path("/status", nil), func(of Other, said *Report) {
		if x := by[of.Name]; x != nil {
			x.fill(said)
		}
	})
	for _, m := range missing {
		if x := by[m.Replica]; x != nil {
			x.Problem = m.Problem
		}
	}
}

// runs reports whether the others know nothing of an end.
func (x *Replica) runs() bool { return x.State != "gone" && x.State != "dead" }

// fill sets what a replica says of itself.
func (x *Replica) fill(r *Report) {
	x.Digest, x.Requests, x.Parked, x.Questions = r.Digest, r.Requests, len(r.Parked), r.Questions
	for _, n := range r.Conversations {
		x.Sessions += n
	}
	for i := range r.Servers {
		s := &r.Servers[i]
		y := ReplicaServer{Name: s.Name, State: s.State, Running: s.Running, Calls: s.Calls, FailedCalls: s.FailedCalls}
		if y.Reason = s.Reason; s.Failure != nil && s.State != string(upstream.Ready) {
			y.Reason = s.Failure.Sentence
		}
		x.Servers = append(x.Servers, y)
	}
}

func storeOf(x store.State) *Store {
	s := &Store{Place: string(x.Place), Database: x.Database}
	if x.Problem != nil {
		s.Problem = x.Problem.Error()
		var e *store.Error
		if errors.As(x.Problem, &e) {
			s.Action = e.Next
		}
	}
	return s
}

func (a *statusAPI) server(u upstream.Report, lists []catalog.ListReport, clean func(string) string) Server {
	s := Server{
		Name: u.Name, State: string(u.State), Since: u.Since.UTC(), Reason: clean(u.Reason), Failure: u.Failure,
		Era: u.Revision.Era(), Transport: u.Transport, Isolation: string(u.Isolation), Restarts: u.Restarts,
		Attempts: u.Attempts, RetryAt: at(u.Retry), Running: u.Running, Opening: u.Opening, Hearers: u.Hearers,
		Unasked: u.Unasked, Odd: u.Odd, Late: u.Late, Broadcasts: u.Broadcasts, WorkerVersion: u.Version, WorkerCause: clean(u.Cause),
		Sessions: []Session{}, Lists: []List{},
	}
	if u.Revision != mcp.Unknown {
		s.Revision = u.Revision.String()
	}
	if u.Fault.Text != "" {
		s.LastError = &Fault{At: u.Fault.At.UTC(), Text: clean(u.Fault.Text), Failure: u.Fault.Failure}
	}
	if len(u.Trace) > 0 {
		s.Handshake = &Handshake{At: u.TracedAt.UTC()}
		for _, line := range u.Trace {
			s.Handshake.Trace = append(s.Handshake.Trace, clean(line))
		}
	}
	if u.Listen != nil {
		s.Listen = &Filter{Tools: u.Listen.Tools, Prompts: u.Listen.Prompts, Resources: u.Listen.Resources, URIs: len(u.Listen.URIs)}
	}
	for _, x := range u.Sessions {
		caps := x.Capabilities
		if caps == nil {
			caps = []string{}
		}
		s.Sessions = append(s.Sessions, Session{
			Principal: a.alias.of(x.Principal), Capabilities: caps, Role: string(x.Role), Revision: x.Revision.String(),
			PID: x.PID, Opened: x.Opened.UTC(), Running: x.Running, IdleSince: at(x.Idle), Hearers: x.Hearers, Watched: x.Watched,
		})
	}
	// The lists of a server that is not running are stale, because the server may offer
	// different lists after a restart.
	away := u.State == upstream.Broken || u.State == upstream.Stopped || u.State == upstream.Idle && u.Reason != ""
	for _, l := range lists {
		if l.Server != u.Name {
			continue
		}
		out := List{
			Method: l.Method, Items: l.Items, ReadAt: at(l.Read), KeptAt: at(l.Kept), Stale: l.Stale || away && !l.Read.IsZero(),
			Reading: l.Reading, CutOff: l.CutOff, Failed: clean(l.Failed),
		}
		left := u.LeftOut[l.Method]
		for _, name := range slices.Sorted(maps.Keys(left)) {
			out.Odd = append(out.Odd, RejectedItem{Name: clean(name), Why: clean(left[name])})
		}
		for _, x := range l.Rejected {
			out.Odd = append(out.Odd, RejectedItem{Name: clean(x.Name), Why: clean(x.Why)})
		}
		s.Lists = append(s.Lists, out)
	}
	return s
}

// at returns t in UTC, or nil for the zero time.
func at(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	t = t.UTC()
	return &t
}

// projects returns the names of all projects if there are several, and if the API knows the others.
func (a *statusAPI) projects() (names []string) {
	if a.others == nil {
		return nil
	}
	all := a.others.Projects()
	if len(all) < 2 {
		return nil
	}
	for _, p := range all {
		names = append(names, p.Name())
	}
	return names
}
