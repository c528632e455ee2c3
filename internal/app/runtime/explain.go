package runtime

import (
	"slices"

	"github.com/dragoman-mcp/dragoman/internal/base/identity"
	"github.com/dragoman-mcp/dragoman/internal/relay/catalog"
	"github.com/dragoman-mcp/dragoman/internal/relay/event"
	"github.com/dragoman-mcp/dragoman/internal/relay/policy"
	"github.com/dragoman-mcp/dragoman/internal/setup/config"
)

// Asker is somebody as a project knows them.
type Asker struct {
	Caller policy.Caller  // as its rules do
	Show   catalog.Filter // what their credential is for; nil for everything
	In     bool           // whether they may use the project's endpoints at all
}

// Asker returns how the project knows who.
func (p *Project) Asker(who *identity.Principal) (a Asker) {
	if a.Show, a.In = p.runtime.reach(who, p.name); p.runtime.opts.Caller != nil {
		a.Caller = p.runtime.opts.Caller(who, p.name)
	}
	return a
}

// Decider is what decides whether somebody may use an item.
type Decider string

// What decides. If it's [ByNothing], nothing speaks against it.
const (
	ByNothing    Decider = ""
	ByRule       Decider = "rule"
	ByExpose     Decider = "expose"
	ByCredential Decider = "credential" // a key's servers and tools, or a role that is not for calling
)

// Decision is what decides whether somebody may use an item, and how.
type Decision struct {
	policy.Said
	By Decider
	// Of is the project whose rule or whose setting decides, and Path the setting, such as
	// servers.files.expose.tools.
	Of, Path string
}

// Decide returns what decides about the use of an item of a server by somebody. It asks what lists and calls are
// filtered with, so it says what they'd get. What is held, or can't be listed, isn't considered.
func (p *Project) Decide(a Asker, kind catalog.Kind, server, name string) (d Decision) {
	if c, ok := p.Config(server); ok {
		if d.Of, d.Path = p.hides(c, kind, name); d.Path != "" {
			d.By, d.Do = ByExpose, policy.Deny
			return d
		}
	}
	if !a.In || a.Show != nil && !a.Show.Shows(kind, server, name) {
		d.By, d.Do = ByCredential, policy.Deny
		return d
	}
	r := p.policy.Load()
	if r == nil {
		return d
	}
	if d.Said = r.filterFor(r, a.Caller).say(kind, server, name); d.Rule != nil {
		d.By, d.Of = ByRule, d.Rule.Of
	}
	return d
}

// Denied returns a function that says because of which rule nobody at all may use a tool of a server. Its Rule is nil if
// somebody may.
func (p *Project) Denied() func(server, name string) policy.Said {
	anybody := &ruling{of: make(map[string][]policy.View)}
	if r := p.policy.Load(); r != nil {
		for server, lists := range r.of {
			for _, list := range lists {
				anybody.of[server] = append(anybody.of[server], list.ForAny())
			}
		}
	}
	return func(server, name string) (said policy.Said) {
		if name == "" {
			return said
		}
		if said = anybody.say(catalog.KindTool, server, name); said.Do != policy.Deny {
			return policy.Said{}
		}
		return said
	}
}

// hides returns which setting hides an item of a server from all clients, and the project that has the setting.
func (p *Project) hides(c config.Server, kind catalog.Kind, name string) (of, path string) {
	one := func(e config.Expose) bool { return exposed{c.Name: {e}}.Shows(kind, c.Name, name) }
	leaf := map[catalog.Kind]string{catalog.KindTool: "tools", catalog.KindPrompt: "prompts"}[kind]
	if leaf == "" {
		leaf = "resources"
	}
	switch {
	case one(c.Expose) && !slices.ContainsFunc(c.Also, func(e config.Expose) bool { return !one(e) }):
		return "", ""
	case !one(c.Expose):
		return p.name, "servers." + c.Name + ".expose." + leaf
	case !one(p.Current().Expose):
		return p.name, "expose." + leaf
	}
	return event.DefaultProject, "servers." + c.Name + ".expose." + leaf
}
