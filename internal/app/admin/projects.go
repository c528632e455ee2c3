package admin

import (
	"maps"
	"net/http"
	"slices"
	"sync"

	"github.com/dragoman-mcp/dragoman/internal/app/runtime"
	"github.com/dragoman-mcp/dragoman/internal/base/excerpt"
	"github.com/dragoman-mcp/dragoman/internal/base/work"
)

// projectParameter is the query parameter of nearly every route that names the project.
var projectParameter = parameter{"project", "string", "the project; the default is `default`"}

// others has an API for each project that a request has named, other than the API's own. So runs,
// examinations, streams and their limits are each project's own, and an id of one project means nothing
// in another. An API lives until its project is gone.
type others struct {
	running work.Group

	mu       sync.Mutex
	all      map[string]*API
	closing  chan struct{} // closed by close; made by the first in
	draining bool
	closed   bool
}

// in returns the API of the project that a request names, or a if it names none.
func (a *API) in(r *http.Request) (*API, *Problem) {
	name, bad := a.door.projectOf(r)
	if bad != nil {
		return nil, bad
	}
	if x, _ := a.For(name); x != nil {
		return x, nil
	}
	return nil, noProject(name)
}

// For returns the API of a project and the project itself, or nil if it isn't in use. The API is the one that answers
// requests about the project; it lives until the project is gone. For doesn't ask who may see the project.
func (a *API) For(name string) (*API, *runtime.Project) {
	if name == a.project.name() {
		return a, a.opts.Project
	}
	if a.opts.Others == nil {
		return nil, nil
	}
	p := a.opts.Others.Project(name)
	if p == nil {
		return nil, nil
	}
	o := &a.others
	o.mu.Lock()
	defer o.mu.Unlock()
	x := o.all[name]
	if x != nil && x.opts.Project == p {
		return x, p
	}
	// The project has no file of its own, so nothing of it can be written there.
	x = New(Options{
		Project: p, Budget: p.Budget(), Recent: p.Recent(), Calls: p.Calls(), Losses: a.opts.Losses,
		Log: a.opts.Log, Version: a.opts.Version, Local: a.opts.Local, PublicURL: a.opts.PublicURL, Access: a.opts.Access,
		ConsoleOff: a.opts.ConsoleOff, Env: a.opts.Env, Desk: a.opts.Desk, Roster: a.opts.Roster, Safe: a.opts.Safe, Trail: a.opts.Trail, SignIns: a.opts.SignIns, Fleet: a.opts.Fleet, AliasKey: a.opts.AliasKey,
	})
	x.ruleAPI.projects, x.ruleAPI.open = a.ruleAPI.projects, a.ruleAPI.open
	x.draftAPI.home = &textHome{x.keyAPI.house, a.ruleAPI.projects}
	if o.all == nil {
		o.all, o.closing = make(map[string]*API), make(chan struct{})
	}
	if o.draining {
		x.Drain()
	}
	if o.closed || !o.running.Go(func() { o.keep(name, x) }) {
		return nil, nil
	}
	o.all[name] = x
	return x, p
}

// keep closes the API of a project when the project is gone, or when the others are closed.
func (o *others) keep(name string, x *API) {
	select {
	case <-x.opts.Project.Gone():
	case <-o.closing:
	}
	o.mu.Lock()
	if o.all[name] == x {
		delete(o.all, name)
	}
	o.mu.Unlock()
	x.Close()
}

// drain ends the streams of all projects.
func (o *others) drain() {
	o.mu.Lock()
	o.draining = true
	o.mu.Unlock()
	for _, x := range o.list() {
		x.Drain()
	}
}

// list returns the APIs of all projects that there are now.
func (o *others) list() []*API {
	o.mu.Lock()
	defer o.mu.Unlock()
	return slices.Collect(maps.Values(o.all))
}

// close closes the APIs of all projects, and waits until they are closed.
func (o *others) close() {
	o.mu.Lock()
	if o.closing != nil && !o.closed {
		close(o.closing)
	}
	o.closed = true
	o.mu.Unlock()
	o.running.Wait()
}

func noProject(name string) *Problem {
	return &Problem{Type: "no-such-project", Title: "No such project", Status: http.StatusNotFound, Detail: "No project is named " + excerpt.Quote(name, maxName) + "."}
}

// ProjectNames returns the names of all projects that are in use, default first.
func (a *API) ProjectNames() []string {
	names := []string{a.project.name()}
	if a.opts.Others != nil {
		for _, p := range a.opts.Others.Projects() {
			names = append(names, p.Name())
		}
	}
	return names
}

// allProjects returns this project and all others that are in use.
func (a *API) allProjects() []project {
	all := []project{a.project}
	if a.opts.Others != nil {
		for _, p := range a.opts.Others.Projects() {
			if p.Name() != a.project.name() {
				all = append(all, project{p})
			}
		}
	}
	return all
}

// inUse returns a project that is in use, or nil.
func (a *API) inUse(name string) *runtime.Project {
	if a.opts.Others == nil {
		return nil
	}
	return a.opts.Others.Project(name)
}
