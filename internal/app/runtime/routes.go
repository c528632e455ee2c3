package runtime

import (
	"cmp"
	"fmt"
	"net/http"
	"strings"

	"github.com/dragoman-mcp/dragoman/internal/base/excerpt"
	"github.com/dragoman-mcp/dragoman/internal/base/identity"
	"github.com/dragoman-mcp/dragoman/internal/relay/catalog"
	"github.com/dragoman-mcp/dragoman/internal/relay/event"
	"github.com/dragoman-mcp/dragoman/internal/transport/httpdoor"
)

// below are the paths below which only endpoints are.
var below = [...]string{"/mcp/", "/sse/", "/messages/", "/s", "/s/", "/p", "/p/", "/find", "/find/"}

// Routes registers the paths of all endpoints on mux. Paths below /p/{project}/ are for that
// project, and all other paths are for the default project. The handler looks up the project and
// the server for each request, after it has asked who sent it. Options.Guard must stand before mux:
// the handler itself checks no Host and no Origin.
func (r *Runtime) Routes(mux *http.ServeMux) {
	for _, prefix := range []string{"/", "/p/{project}/", "/s/{server}/", "/p/{project}/s/{server}/", "/find/", "/p/{project}/find/"} {
		for _, leaf := range leaves {
			mux.HandleFunc(prefix+leaf, func(w http.ResponseWriter, req *http.Request) {
				r.serve(w, req, leaf, strings.HasSuffix(prefix, "/find/"))
			})
		}
	}
	for _, path := range below {
		mux.HandleFunc(path, func(w http.ResponseWriter, req *http.Request) {
			// Clients look for a way to sign in below the endpoint, too, and take a 401 there for one.
			if strings.Contains(req.URL.Path, "/.well-known/") {
				httpdoor.NotFound(w, req)
				return
			}
			if _, ok := r.opts.Guard.Identify(w, req, r.opts.Principal); ok {
				httpdoor.NotFound(w, req)
			}
		})
	}
}

// serve answers a request for an endpoint. A stranger gets the same refusal whether the project and
// the server exist or not, so we ask who it is before we look anything up. If the project does not
// exist, or if who asks has no role in it, the response is the same as for an unknown path. find says that the client
// searches tools at this address.
func (r *Runtime) serve(w http.ResponseWriter, req *http.Request, leaf string, find bool) {
	who, ok := r.opts.Guard.Identify(w, req, r.opts.Principal)
	if !ok {
		return
	}
	project := cmp.Or(req.PathValue("project"), event.DefaultProject)
	p := r.Project(project)
	if p == nil {
		httpdoor.NotFound(w, req)
		return
	}
	m, refused := p.enter(who, req.PathValue("server"), find)
	switch {
	case refused == nil:
		m.endpoint.serve(w, req, leaf, who)
	case refused.Text == "":
		httpdoor.NotFound(w, req)
	default:
		http.Error(w, refused.Text, refused.Status)
	}
}

// Refused is the answer of an endpoint that doesn't let somebody in.
type Refused struct {
	Status int    // of HTTP
	Text   string // "" for that of a path at which there is nothing
}

// enter returns the endpoint of a server for who, that of all servers for "", or the one for search if find is true. If
// who may not use it, it returns how they are refused.
func (p *Project) enter(who *identity.Principal, name string, find bool) (*mount, *Refused) {
	show, ok := p.runtime.reach(who, p.name)
	if !ok {
		if barred := p.runtime.opts.Barred; barred != nil {
			if why := barred(who, p.name); why != "" {
				return nil, &Refused{http.StatusForbidden, why}
			}
		}
		return nil, &Refused{Status: http.StatusNotFound}
	}
	m := p.mount(name)
	if find {
		m = p.find
	}
	show = catalog.Both(show, p.policy.Load().filter(who))
	if m == nil || name != "" && show != nil && !show.Shows(catalog.KindServer, name, "") {
		return nil, &Refused{http.StatusNotFound, fmt.Sprintf("no server %q is configured", excerpt.Line(name, 64))}
	}
	return m, nil
}

// Lets reports whether somebody may use the project.
func (p *Project) Lets(who *identity.Principal) bool {
	_, ok := p.runtime.reach(who, p.name)
	return ok
}

// reach calls Options.Reach.
func (r *Runtime) reach(who *identity.Principal, project string) (show catalog.Filter, ok bool) {
	if r.opts.Reach == nil {
		return nil, who.IsLocal()
	}
	return r.opts.Reach(who, project)
}

// filter returns the filter for what who may use in the project.
func (p *Project) filter(who *identity.Principal) catalog.Filter {
	return p.filterBy(p.policy.Load())(who)
}

// filterBy returns a function that returns the filter for what somebody may use by some rules.
func (p *Project) filterBy(r *rules) func(*identity.Principal) catalog.Filter {
	return func(who *identity.Principal) catalog.Filter {
		show, ok := p.runtime.reach(who, p.name)
		if !ok {
			return nothing{}
		}
		return catalog.Both(show, r.filter(who))
	}
}

// nothing hides everything.
type nothing struct{}

func (nothing) Shows(catalog.Kind, string, string) bool { return false }
