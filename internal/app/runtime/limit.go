package runtime

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/base/identity"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
	"github.com/dragoman-mcp/dragoman/internal/relay/event"
	"github.com/dragoman-mcp/dragoman/internal/relay/finder"
	"github.com/dragoman-mcp/dragoman/internal/relay/limits"
	"github.com/dragoman-mcp/dragoman/internal/relay/policy"
	"github.com/dragoman-mcp/dragoman/internal/setup/config"
)

// limit is the step that refuses the calls of whoever has sent too many. It stands before confirm, so that a loop of
// calls doesn't flood a person. A call counts as in flight only from when it's sent: while a person thinks about it,
// it costs nobody anything.
type limit struct{ *limiter }

// limiter has the limits of a project. It outlives configurations.
type limiter struct {
	table   *limits.Table // of all projects
	project string
	caller  func(*identity.Principal) policy.Caller
	now     atomic.Pointer[traffic]
}

// traffic is what a configuration says of limits.
type traffic struct {
	own, house []limits.Limit  // house has those that hold for shared servers
	shared     map[string]bool // the servers of default that the project uses
	since      time.Time       // when the configuration came
	named      bool            // whom a limit is for depends on who asks
}

// trafficOf returns what a configuration says, or nil if it limits nobody.
func trafficOf(s *config.Snapshot) *traffic {
	x := &traffic{own: s.Limits.Traffic, since: time.Now(), shared: make(map[string]bool)}
	for _, srv := range s.Servers {
		if srv.Shared {
			x.shared[srv.Name], x.house = true, s.HouseTraffic
		}
	}
	if len(x.own)+len(x.house) == 0 {
		return nil
	}
	for _, list := range [][]limits.Limit{x.own, x.house} {
		for i := range list {
			x.named = x.named || list[i].Named()
		}
	}
	return x
}

// maxClaims is how many limits can count for one call: one of each scope, and that of default for a shared server.
const maxClaims = 5

// claims returns the limits that count for a call. room is where to put them.
func (l *limiter) claims(c *policy.Call, room *[maxClaims]limits.Claim) []limits.Claim {
	if l == nil || !counts(c) {
		return nil
	}
	x := l.now.Load()
	if x == nil {
		return nil
	}
	var who policy.Caller
	if x.named {
		who = l.caller(c.Who)
	}
	all := room[:0]
	add := func(list []limits.Limit, p limits.Party) {
		if m := limits.First(list, p.Per, who, c.Server); m != nil {
			all = append(all, limits.Claim{Party: p, Limit: m, Since: x.since})
		}
	}
	add(x.own, limits.Party{Per: limits.Key, Project: l.project, ID: c.Who.SeatKey()})
	add(x.own, limits.Party{Per: limits.Person, Project: l.project, ID: c.Who.Key()})
	add(x.own, limits.Party{Per: limits.Project, Project: l.project})
	if c.Server != "" && c.Server != policy.ProjectPrompts {
		add(x.own, limits.Party{Per: limits.Server, Project: l.project, ID: c.Server})
		if x.shared[c.Server] {
			add(x.house, limits.Party{Per: limits.Server, Project: event.DefaultProject, ID: c.Server})
		}
	}
	return all
}

// counts reports whether a request counts. What reaches a server does, which lists do only at the endpoint of one
// server, and so does a search: it costs nobody else anything, but one client could keep us busy with nothing but
// searches. What ends something doesn't, or a client that has sent too much could not stop it.
func counts(c *policy.Call) bool {
	switch c.Request.Msg.Method {
	case mcp.MethodUnsubscribe, mcp.MethodCancelTask, mcp.MethodSetLevel, mcp.MethodListen:
		return false
	}
	switch {
	case c.Who.Looks(): // an admin doesn't use up what somebody else may send
		return false
	case c.Server != "":
		return true
	case c.Request.Msg.Method == mcp.MethodReadResource: // a result that we keep
		return true
	}
	// A tool that we answer ourselves. With Via, it's a call that names no tool, of which no server hears.
	return c.Request.Msg.Method == mcp.MethodCallTool && c.Via == "" && finder.Ours(c.Name)
}

// Before implements policy.Step.
func (l limit) Before(_ context.Context, c *policy.Call) policy.Verdict {
	var room [maxClaims]limits.Claim
	claims := l.claims(c, &room)
	if len(claims) == 0 || c.Counted {
		return policy.Verdict{}
	}
	if r := l.table.Admit(claims); r != nil {
		return policy.Verdict{Refuse: l.refuse(c, r)}
	}
	return policy.Verdict{}
}

// Send implements policy.Sending.
func (l limit) Send(_ context.Context, c *policy.Call) (done func(), err error) {
	var room [maxClaims]limits.Claim
	claims := l.claims(c, &room)
	if len(claims) == 0 {
		return func() {}, nil
	}
	done, r := l.table.Begin(claims)
	if r != nil {
		return nil, l.refuse(c, r)
	}
	return done, nil
}

// After implements policy.Step. The bytes of a request that no server got don't count.
func (l limit) After(_ context.Context, c *policy.Call, a *policy.Answer) {
	if a.Outcome == mcp.NotSent || a.Outcome == event.Refused {
		return
	}
	var room [maxClaims]limits.Claim
	if claims := l.claims(c, &room); len(claims) > 0 {
		l.table.Spend(claims, len(c.Request.Msg.Raw)+a.Size)
	}
}

// refuse returns the error for a call over a limit, and counts it.
func (l limit) refuse(c *policy.Call, r *limits.Refusal) error {
	l.table.Note(r)
	var how string
	switch r.What {
	case limits.Calls:
		how = fmt.Sprintf("gets at most %s calls per second, and %d at once", strconv.FormatFloat(r.Limit.Calls, 'f', -1, 64), r.Limit.Burst)
	case limits.InFlight:
		how = fmt.Sprintf("gets at most %d calls in flight", r.Limit.InFlight)
		if r.Limit.InFlight == 1 {
			how = "gets at most 1 call in flight"
		}
	case limits.Bytes:
		how = fmt.Sprintf("gets at most %d bytes per minute, with all answers", r.Limit.Bytes)
	}
	after := time.Duration(math.Ceil(r.After.Seconds()*10)) * time.Second / 10
	return &mcp.Error{
		Origin: mcp.FromGateway, Upstream: c.Server, Cause: "limit", Outcome: mcp.NotSent, Retryable: true, RetryAfter: r.After.Truncate(time.Millisecond) + time.Millisecond,
		Message: fmt.Sprintf("the request was not sent: %s %s; send it again in %s, or ask whoever runs Dragoman for more", l.whose(c, r), how, after),
	}
}

// whose returns whom a limit is of, as the beginning of a sentence.
func (l limit) whose(c *policy.Call, r *limits.Refusal) string {
	who := l.caller(c.Who)
	switch {
	case r.Per == limits.Project:
		return "the project " + quoted(r.Project)
	case r.Per == limits.Server:
		return "the server " + quoted(r.ID)
	case r.Per == limits.Person && who.Person != "":
		return quoted(who.Person) + " with all keys together"
	case who.Key != "":
		return "the key " + quoted(who.Key)
	case c.Who.Key() == "":
		return "whoever has no key"
	case c.Who.Name != "":
		return "the sign-in of " + quoted(c.Who.Name)
	}
	return "this sign-in"
}

// Traffic returns what is used of the limits of all projects.
func (r *Runtime) Traffic() *limits.Table { return &r.traffic }

// Refusals returns how often limits have refused calls, of all projects.
func (r *Runtime) Refusals() []limits.Refused { return r.traffic.Refused() }

// Refusals returns how often the project's limits have refused calls.
func (p *Project) Refusals() []limits.Refused {
	return slices.DeleteFunc(p.runtime.Refusals(), func(x limits.Refused) bool { return x.Project != p.name })
}
