package runtime

import (
	"maps"

	"github.com/dragoman-mcp/dragoman/internal/relay/catalog"
	"github.com/dragoman-mcp/dragoman/internal/setup/config"
)

// exposed maps the name of a server to the features that the configuration exposes. If a server is
// not in the map, all its features are exposed.
type exposed map[string]config.Expose

// exposedOf returns the filter for the given servers, or nil if the filter would show everything.
func exposedOf(all ...config.Server) catalog.Filter {
	out := make(exposed)
	for _, c := range all {
		if !c.Expose.IsZero() {
			out[c.Name] = c.Expose
		}
	}
	if len(out) == 0 {
		return nil
	}
	return out
}

// sameExposed reports whether two filters from exposedOf show the same features.
func sameExposed(a, b catalog.Filter) bool {
	x, _ := a.(exposed)
	y, _ := b.(exposed)
	return maps.EqualFunc(x, y, config.Expose.Equal)
}

// Shows implements catalog.Filter.
func (x exposed) Shows(kind catalog.Kind, server, name string) bool {
	e, limited := x[server]
	switch {
	case !limited:
		return true
	case kind == catalog.KindTool:
		return e.Tools.Allows(name)
	case kind == catalog.KindPrompt:
		return e.Prompts.Allows(name)
	case kind == catalog.KindResource, kind == catalog.KindTemplate:
		return e.Resources.Allows(name)
	}
	return true
}
