package runtime

import (
	"maps"
	"slices"

	"github.com/dragoman-mcp/dragoman/internal/relay/catalog"
	"github.com/dragoman-mcp/dragoman/internal/setup/config"
)

// exposed maps the name of a server to what the configuration exposes of it. Clients see only what all of
// its members let pass. If a server is not in the map, all its features are exposed.
type exposed map[string][]config.Expose

// exposedOf returns the filter for the given servers, or nil if the filter would show everything.
func exposedOf(all ...config.Server) catalog.Filter {
	out := make(exposed)
	for _, c := range all {
		for _, e := range append([]config.Expose{c.Expose}, c.Also...) {
			if !e.IsZero() {
				out[c.Name] = append(out[c.Name], e)
			}
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
	return maps.EqualFunc(x, y, func(a, b []config.Expose) bool { return slices.EqualFunc(a, b, config.Expose.Equal) })
}

// Shows implements catalog.Filter.
func (x exposed) Shows(kind catalog.Kind, server, name string) bool {
	for _, e := range x[server] {
		filter := config.Filter{}
		switch kind {
		case catalog.KindTool:
			filter = e.Tools
		case catalog.KindPrompt:
			filter = e.Prompts
		case catalog.KindResource, catalog.KindTemplate:
			filter = e.Resources
		}
		if !filter.Allows(name) {
			return false
		}
	}
	return true
}
