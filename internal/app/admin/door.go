package admin

import (
	"net/http"

	"github.com/dragoman-mcp/dragoman/internal/base/identity"
)

// door decides which requests an API answers: whether this machine sent them, who the sender is, whether
// the role suffices, and which project they are about.
type door struct {
	project project // of requests that name none
	access  *Access
	local   bool // see Options.Local
	closed  bool // see Options.Closed
}

// admits reports whether a request may read those parts of the API that need no key. Before it
// returns false, it writes the error response. The API shows processes, sessions and their clients,
// so only this machine may read it. admits refuses every request if other machines can reach the
// listener. It also refuses requests that a proxy forwarded or that a page of another site sent.
func (d *door) admits(w http.ResponseWriter, r *http.Request) bool {
	const title = "Only this machine may read the status"
	switch {
	case !d.local:
		refuse(w, Problem{
			Type: "local-only", Title: title, Status: http.StatusForbidden, Instance: r.URL.Path,
			Detail: "Dragoman listens on an address that other machines can reach. Send SIGUSR1 to the process to write the status to stderr.",
		})
	case d.access.indirect(r):
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
		denied = &Denied{http.StatusForbidden, "no-access", ""}
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
	switch {
	case err == nil:
	case x.open && !d.closed:
		return nil // the route is open to this machine, whoever asks
	default:
		return err
	}
	name, bad := d.project.name(), (*Problem)(nil)
	if !x.process {
		name, bad = d.projectOf(r)
	}
	if bad == nil && d.hides(who, name) {
		bad = noProject(name)
	}
	if bad != nil {
		return bad
	}
	return d.access.May(who, name, x.least)
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

// hides reports whether a project must look to who as if it did not exist, because who has no role in
// it. The default project is no secret.
func (d *door) hides(who *identity.Principal, name string) bool {
	return name != d.project.name() && d.access.May(who, name, identity.Caller) != nil && d.access.May(who, name, identity.Viewer) != nil
}
