package console

import (
	"encoding/json"
	"net/http"

	"github.com/dragoman-mcp/dragoman/internal/base/excerpt"
	"github.com/dragoman-mcp/dragoman/internal/base/identity"
)

// mostFound is the maximum number of entries that servePalette sends.
const mostFound = 3000

// paletteItem is an entry of the search palette: the title and the kind of a page, and its path.
type paletteItem struct {
	Title string `json:"t"`
	Kind  string `json:"k"`
	Path  string `json:"p"`
}

// servePalette handles GET /console/palette.json. It sends the entries of the search palette.
func (f *frame) servePalette(w http.ResponseWriter, r *http.Request) {
	out := []paletteItem{}
	for _, e := range f.nav {
		if f.offers(r, e) {
			out = append(out, paletteItem{e.Nav, "page", prefix + e.Path})
		}
	}
	if may(r, identity.Viewer) {
		out = f.findObjects(r, out)
	}
	for i := range out {
		out[i].Path = f.at(out[i].Path)
	}
	if names := stateOf(r).from.seen(stateOf(r).viewer.who); len(names) > 1 {
		for _, name := range names {
			out = append(out, paletteItem{name, "project", projectPath(name)})
		}
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(out[:min(len(out), mostFound)])
}

// findObjects adds the entries for servers, clients and what else the pages know.
func (f *frame) findObjects(r *http.Request, out []paletteItem) []paletteItem {
	status := statusOf(r)
	for i := range status.Servers {
		out = append(out, paletteItem{excerpt.Line(status.Servers[i].Name, 128), "server", pathOf("servers", status.Servers[i].Name)})
	}
	for _, x := range sumsOf(r).Clients {
		out = append(out, paletteItem{excerpt.Line(x.Title(), 128), "client", pathOf("clients", x.ID())})
	}
	for _, find := range f.finders {
		out = append(out, find(r)...)
	}
	return out
}
