package runtime

import (
	"slices"

	"github.com/dragoman-mcp/dragoman/internal/relay/catalog"
	"github.com/dragoman-mcp/dragoman/internal/relay/gateway"
	"github.com/dragoman-mcp/dragoman/internal/relay/pins"
	"github.com/dragoman-mcp/dragoman/internal/relay/policy"
	"github.com/dragoman-mcp/dragoman/internal/setup/config"
)

// findBy returns how clients find tools with a configuration.
func (p *Project) findBy(s *config.Snapshot, r *rules, enabled []config.Server) gateway.Find {
	f := gateway.Find{
		Search: s.Tools.Mode == config.SearchTools, Auto: s.Tools.Mode == config.AutoTools,
		Always: s.Tools.Always, Unchecked: s.Tools.Unchecked, Hints: make(map[string]string),
	}
	trusts := make(map[string]bool)
	for _, c := range enabled {
		if c.Hint != "" {
			f.Hints[c.Name] = c.Hint
		}
		trusts[c.Name] = c.TrustAnnotations
	}
	f.Trusted = func(server, name string) bool {
		if as := r.as[server].As(server, itemName(catalog.KindTool, name)); as != nil && slices.ContainsFunc(as.Hints, func(h policy.Hint) bool { return h.Name == "readOnlyHint" }) {
			return true // people say it
		}
		return trusts[server] && p.approved(server, name)
	}
	return f
}

// approved reports whether the definition of a server's tool is one that was approved, or the first that was seen.
func (p *Project) approved(server, name string) bool {
	switch p.PinMode() {
	case pins.Hold:
		return true // clients see no other
	case pins.Warn:
		return p.pins.unread == nil && p.pins.book.Settled(pins.ID{Server: server, Kind: pinKinds[catalog.KindTool], Name: name})
	}
	return false
}
