package runtime

import (
	"fmt"
	"net/http"

	"github.com/dragoman-mcp/dragoman/internal/excerpt"
)

// Routes puts the paths of all endpoints on mux. Endpoints of single servers come and go
// with the configuration, so they are looked up by name.
func (r *Runtime) Routes(mux *http.ServeMux) {
	r.joined.endpoint.Mount(mux, "")
	r.joined.endpoint.Mount(mux, "/p/default")
	for _, prefix := range []string{"/s/{server}/", "/p/default/s/{server}/"} {
		for _, leaf := range leaves {
			mux.HandleFunc(prefix+leaf, func(w http.ResponseWriter, req *http.Request) { r.serveSingle(w, req, leaf) })
		}
	}
}

func (r *Runtime) serveSingle(w http.ResponseWriter, req *http.Request, leaf string) {
	name := req.PathValue("server")
	r.mu.Lock()
	m := r.single[name]
	if r.singles[name] == nil {
		m = nil
	}
	r.mu.Unlock()
	if m == nil {
		http.Error(w, fmt.Sprintf("there is no server %q here", excerpt.Line(name, 64)), http.StatusNotFound)
		return
	}
	m.endpoint.leaf(leaf).ServeHTTP(w, req)
}
