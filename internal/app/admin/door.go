package admin

import (
	"errors"
	"net/http"
	"slices"

	"github.com/dragoman-mcp/dragoman/internal/base/identity"
	"github.com/dragoman-mcp/dragoman/internal/team/store"
)

// door decides which requests an API answers: whether they have come safely, who the sender is, whether
// the role suffices, and which project they are about.
type door struct {
	project project // of requests that name none
	access  *Access
	closed  bool            // see Options.Closed
	names   func() []string // the names of all projects
}

// allows reports whether the sender of a request may use the route x: we ask who it is, and then
// whether the role in the project suffices. Only after that anybody looks whether there is such a
// project. Before it returns false, it writes the error response.
func (d *door) allows(w http.ResponseWriter, r *http.Request, x *route) bool {
	err := d.may(r, x)
	if err == nil {
		return true
	}
	if bad, ok := err.(*Problem); ok {
		bad.Instance = r.URL.Path
		refuse(w, *bad)
		return false
	}
	denied, ok := err.(*Denied)
	if !ok {
		denied = &Denied{Status: http.StatusForbidden, Kind: "no-access"}
	}
	if denied.Status == http.StatusUnauthorized {
		w.Header().Set("WWW-Authenticate", `Bearer realm="dragoman"`)
	}
	refuse(w, denied.Problem(r.URL.Path))
	return false
}

// may returns nil if the sender of a request may use the route x now, and a *Denied otherwise.
func (d *door) may(r *http.Request, x *route) error {
	who, err := d.access.Check(r)
	if err != nil {
		var denied *Denied
		if x.open && !d.closed && errors.As(err, &denied) && denied.nobody && d.access.here(r) {
			return nil // the route is open to this machine, whoever asks
		}
		return err
	}
	name, bad := d.project.name(), (*Problem)(nil)
	switch {
	case x.anywhere && slices.ContainsFunc(d.names(), func(name string) bool { return d.access.May(who, name, x.least) == nil }):
		return nil
	case x.named && d.access.May(who, name, identity.Admin) == nil:
		return nil
	case x.named:
		name = r.PathValue("name")
	case !x.process:
		if name, bad = d.projectOf(r); bad == nil && x.house && d.access.May(who, d.project.name(), identity.Admin) == nil {
			return nil // who adds a project makes its first key
		}
	}
	if bad == nil && d.hides(who, name) {
		if bad = noProject(name); x.named && x.method == http.MethodPut {
			bad.Detail += " Only an admin of the project default may add projects."
		}
	}
	if bad != nil {
		return bad
	}
	if x.people && d.access.May(who, name, identity.Caller) == nil {
		if s := d.access.SignedIn(r); s != nil && s.Seat == who.Seat {
			return nil // a caller's key is for MCP only
		}
	}
	return d.access.May(who, name, x.least)
}

// through returns a request whose changes are recorded with that through which they were made.
func (d *door) through(r *http.Request) *http.Request {
	who, err := d.access.Check(r)
	if err != nil {
		return r
	}
	via := cameBy(r, who)
	if who.Seat != who.Subject {
		via += " " + who.Seat
	}
	return r.WithContext(store.By(store.Through(r.Context(), via), who.Subject))
}

// cameBy returns whether who has sent a request from the console, or with a key or a token to the API.
func cameBy(r *http.Request, who *identity.Principal) string {
	if len(r.Header["Authorization"]) > 0 || len(r.Header["X-Api-Key"]) > 0 || !who.IsLocal() && who.Via != "link" {
		return identity.API
	}
	return identity.Console
}

// projectOf returns the name of the project that a request is about.
func (d *door) projectOf(r *http.Request) (string, *Problem) {
	switch names := r.URL.Query()[projectParameter.name]; {
	case len(names) > 1:
		return "", badParameter(projectParameter.name, "Write it once.")
	case len(names) == 1 && names[0] != "":
		return names[0], nil
	}
	return d.project.name(), nil
}

// noOther refuses a request to a route of the process that names another project: nothing may be changed
// in a project that the sender did not mean.
func (d *door) noOther(r *http.Request) *Problem {
	if name, bad := d.projectOf(r); bad != nil || name != d.project.name() {
		return badParameter(projectParameter.name, "This path is not about a project, so leave the parameter out.")
	}
	return nil
}

// sees reports whether who may read of a project. An admin of the default project may read of all: they
// can change the configuration of the whole process.
func (d *door) sees(who *identity.Principal, name string) bool {
	return d.access.May(who, name, identity.Viewer) == nil || d.access.May(who, d.project.name(), identity.Admin) == nil
}

// hides reports whether a project must look to who as if it did not exist, because who has no role in
// it. The default project is no secret.
func (d *door) hides(who *identity.Principal, name string) bool {
	return name != d.project.name() && d.access.May(who, name, identity.Caller) != nil && d.access.May(who, name, identity.Viewer) != nil
}
