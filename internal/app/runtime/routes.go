package runtime

import (
	"cmp"
	"fmt"
	"net/http"

	"github.com/dragoman-mcp/dragoman/internal/base/excerpt"
	"github.com/dragoman-mcp/dragoman/internal/transport/httpdoor"
)

// Routes registers the paths of all endpoints on mux. Paths below /p/{project}/ are for that
// project, and all other paths are for the default project. The handler looks up the project and
// the server for each request.
func (r *Runtime) Routes(mux *http.ServeMux) {
	for _, prefix := range []string{"/", "/p/{project}/", "/s/{server}/", "/p/{project}/s/{server}/"} {
		for _, leaf := range leaves {
			mux.HandleFunc(prefix+leaf, func(w http.ResponseWriter, req *http.Request) { r.serve(w, req, leaf) })
		}
	}
}

// serve answers a request for an endpoint. If the project does not exist, the response is the same
// as for an unknown path.
func (r *Runtime) serve(w http.ResponseWriter, req *http.Request, leaf string) {
	p := r.projects[cmp.Or(req.PathValue("project"), defaultProject)]
	if p == nil {
		httpdoor.NotFound(w, req)
		return
	}
	m, name := p.joined, req.PathValue("server")
	if name != "" {
		r.mu.Lock()
		m = p.single[name]
		r.mu.Unlock()
	}
	if m == nil {
		http.Error(w, fmt.Sprintf("no server %q is configured", excerpt.Line(name, 64)), http.StatusNotFound)
		return
	}
	m.endpoint.leaf(leaf).ServeHTTP(w, req)
}
