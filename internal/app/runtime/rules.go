package runtime

import (
	"context"
	"reflect"
	"slices"
	"sync"

	"github.com/dragoman-mcp/dragoman/internal/base/excerpt"
	"github.com/dragoman-mcp/dragoman/internal/base/identity"
	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
	"github.com/dragoman-mcp/dragoman/internal/relay/catalog"
	"github.com/dragoman-mcp/dragoman/internal/relay/event"
	"github.com/dragoman-mcp/dragoman/internal/relay/policy"
	"github.com/dragoman-mcp/dragoman/internal/setup/config"
)

// rules are the rules of a project, as one configuration has them. The filter of its lists and the first steps of
// its policy are made from them, so what isn't listed can't be called. The zero value allows everything.
type rules struct {
	// of has, for each server that any rule concerns, the lists of rules that must all allow an item: the
	// project's own, and for a server of default those of default.
	of map[string][]*policy.Index
	// as has those that say how clients see the items of each server. Of a server of default, the project's own come
	// first.
	as map[string]policy.Rules
	// confirms has the servers of which a rule wants a confirmation.
	confirms map[string]bool
	caller   func(*identity.Principal) policy.Caller
	limits   *limiter // of the project; nil if it has none
	filters
	round int           // see Project.round
	now   func() *rules // returns those that the project has by now; nil if they never change
}

// inForce returns the rules that the project has by now. A call that has waited for a person began with older ones.
func (r *rules) inForce() *rules {
	if r.now == nil {
		return r
	}
	return r.now()
}

// newRules returns the rules of a configuration of the project.
func (p *Project) newRules(s *config.Snapshot) *rules {
	r := rulesOf(p.name, s, p.caller)
	r.round, r.now = p.round, p.policy.Load
	if p.limits.now.Load() != nil {
		r.limits = &p.limits
	}
	return r
}

// caller returns how the rules of the project know who.
func (p *Project) caller(who *identity.Principal) policy.Caller {
	if f := p.runtime.opts.Caller; f != nil {
		return f(who, p.name)
	}
	return policy.Caller{}
}

// rulesOf returns the rules of a configuration of the project with a name.
func rulesOf(project string, s *config.Snapshot, caller func(*identity.Principal) policy.Caller) *rules {
	r := &rules{of: make(map[string][]*policy.Index), as: make(map[string]policy.Rules), confirms: make(map[string]bool), caller: caller}
	own, as := s.Policy.Concern(policy.ProjectPrompts, project)
	if own != nil {
		r.of[policy.ProjectPrompts] = []*policy.Index{policy.NewIndex(policy.ProjectPrompts, own)}
	}
	if as != nil {
		r.as[policy.ProjectPrompts] = as
	}
	for i := range s.Servers {
		x := &s.Servers[i]
		lists, of := []policy.Rules{s.Policy}, []string{project, event.DefaultProject}
		if x.Shared {
			lists = append(lists, s.House)
		}
		for i, list := range lists {
			decide, as := list.Concern(x.Name, of[i])
			if decide != nil {
				r.of[x.Name] = append(r.of[x.Name], policy.NewIndex(x.Name, decide))
			}
			if as != nil {
				r.as[x.Name] = append(r.as[x.Name], as...)
			}
		}
	}
	for server, lists := range r.of {
		r.confirms[server] = slices.ContainsFunc(lists, (*policy.Index).Confirms)
	}
	return r
}

// same reports whether q decides like r. r may be nil. The numbers of limits don't count: the limiter has them.
func (r *rules) same(q *rules) bool {
	return r != nil && r.round == q.round && r.limits == q.limits && reflect.DeepEqual(r.of, q.of) && reflect.DeepEqual(r.as, q.as)
}

// named reports whether any rule is not for everybody.
func (r *rules) named() bool {
	for _, lists := range r.of {
		if slices.ContainsFunc(lists, (*policy.Index).Named) {
			return true
		}
	}
	return false
}

// Regraded says that somebody has other roles in a project now. If its rules depend on who asks, new handlers tell
// its clients that their lists may have changed, as after a change of the rules, and let go of what they may not
// hear any more.
func (r *Runtime) Regraded(project string) {
	r.turn <- struct{}{}
	defer func() { <-r.turn }()
	if p := r.Project(project); p != nil && p.policy.Load().named() {
		p.renew()
	}
}

// renew makes new handlers for the configuration in use.
func (p *Project) renew() {
	var out leaving
	p.mu.Lock()
	p.round++
	var enabled []config.Server
	for _, c := range p.snapshot.Servers {
		if !c.Disabled {
			enabled = append(enabled, c)
		}
	}
	moves := p.planLocked(p.snapshot, p.order, enabled, &out)
	p.mu.Unlock()
	p.move(moves, out)
}

// filter returns what the rules show of the project to who, or nil for everything.
func (r *rules) filter(who *identity.Principal) catalog.Filter {
	if r == nil || len(r.of) == 0 {
		return nil
	}
	return r.filterFor(r, r.caller(who))
}

// filters has a filter for each caller that has asked lately, so that lists recognise it.
type filters struct {
	mu  sync.Mutex
	all map[string]*ruling
}

// maxFilters is for how many callers a project keeps filters.
const maxFilters = 1000

func (f *filters) filterFor(r *rules, who policy.Caller) *ruling {
	key := make([]byte, 0, 96)
	key = append(append(append(append(key, who.Key...), 0), who.Person...), 0)
	for _, role := range who.Roles {
		key = append(key, byte(role))
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	x := f.all[string(key)]
	if x == nil {
		if f.all == nil || len(f.all) >= maxFilters {
			f.all = make(map[string]*ruling)
		}
		x = newRuling(r, who)
		f.all[string(key)] = x
	}
	return x
}

// chain returns a policy in which the rules and the limits come before all other steps.
func (r *rules) chain(then policy.Chain) policy.Chain {
	if len(r.of) == 0 && r.limits == nil {
		return then
	}
	return append(policy.Chain{authorise{r}, limit{r.limits}, confirm{r}}, then...)
}

// ruling is what rules say of one caller.
type ruling struct {
	of map[string][]policy.View // as in rules
}

func newRuling(r *rules, who policy.Caller) *ruling {
	x := &ruling{of: make(map[string][]policy.View, len(r.of))}
	for server, lists := range r.of {
		for _, list := range lists {
			x.of[server] = append(x.of[server], list.For(who))
		}
	}
	return x
}

// Shows implements catalog.Filter.
func (r *ruling) Shows(kind catalog.Kind, server, name string) bool {
	return r.say(kind, server, name).Do != policy.Deny
}

// say returns what the rules say of the use of an item. Where several lists of rules count, the strictest rule does.
func (r *ruling) say(kind catalog.Kind, server, name string) (said policy.Said) {
	item := itemName(kind, name)
	if item == "" && kind != catalog.KindServer {
		return policy.Said{Do: policy.Deny}
	}
	for _, list := range r.of[server] {
		if kind == catalog.KindServer {
			if !list.AllowServer() {
				return policy.Said{Do: policy.Deny}
			}
			continue
		}
		switch x := list.Say(item); {
		case x.Do == policy.Deny:
			return x
		case x.Do == policy.Confirm, said.Rule == nil:
			said = x
		}
	}
	return said
}

// itemName returns how rules write an item, or "" if it is none.
func itemName(kind catalog.Kind, name string) string {
	switch kind {
	case catalog.KindTool:
		return policy.Tool(name)
	case catalog.KindPrompt:
		return policy.Prompt(name)
	case catalog.KindResource, catalog.KindTemplate:
		return policy.Resource(name)
	}
	return ""
}

// authorise is the step that refuses what the rules deny. The filter has refused it before, so this is for a
// way to a server that the filter doesn't see.
type authorise struct{ rules *rules }

// Before implements policy.Step. A list has no server, or is filtered by item.
func (s authorise) Before(_ context.Context, c *policy.Call) policy.Verdict {
	show := s.rules.filter(c.Who)
	if c.Server == "" || show == nil {
		return policy.Verdict{}
	}
	kind, name := itemOf(c)
	switch {
	case kind == catalog.KindTool && name == catalog.SignIn:
		kind, name = catalog.KindServer, "" // it may be our own, which is there for all who see the server
	case c.Request.Msg.Method == mcp.MethodComplete:
		kind, name = catalog.KindResource, c.Name
		if m := c.Request.Msg; !jsonrpc.Find(m.Raw, m.Param("ref"), "name").IsZero() {
			kind = catalog.KindPrompt
		}
	}
	if show.Shows(kind, c.Server, name) {
		return policy.Verdict{}
	}
	return policy.Verdict{Refuse: notThere(kind, c)}
}

// itemOf returns which item a request is for. It's a server if the request names no item.
func itemOf(c *policy.Call) (kind catalog.Kind, name string) {
	switch c.Request.Msg.Method {
	case mcp.MethodCallTool:
		return catalog.KindTool, c.Name
	case mcp.MethodGetPrompt:
		return catalog.KindPrompt, c.Name
	case mcp.MethodReadResource, mcp.MethodSubscribe, mcp.MethodGetSkill, mcp.MethodReadDirectory:
		return catalog.KindResource, c.Name
	}
	return catalog.KindServer, ""
}

// After implements policy.Step.
func (authorise) After(context.Context, *policy.Call, *policy.Answer) {}

// notThere returns the error for a request that names something which doesn't exist.
func notThere(kind catalog.Kind, c *policy.Call) error {
	asked := c.Request
	switch kind {
	case catalog.KindTool, catalog.KindPrompt:
		name := asked.Name
		if c.Via != "" {
			name, _ = asked.Msg.At(asked.Msg.Param("arguments")).Get("name").Text()
		}
		return catalog.Unknown(kind, name)
	case catalog.KindResource:
		uri, _ := jsonrpc.Text(asked.Msg.Raw, asked.Msg.Param("uri"))
		return catalog.Missing(asked.Client, uri)
	}
	return &jsonrpc.Error{Code: jsonrpc.CodeMethodNotFound, Message: "Method not found: " + excerpt.Cut(asked.Msg.Method, 128)}
}
