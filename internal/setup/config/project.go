package config

import (
	"reflect"
	"slices"
	"strings"

	"github.com/dragoman-mcp/dragoman/internal/relay/event"
)

// Project is a set of servers with endpoints of its own, beside that of the file's top, which is default.
type Project struct {
	Name  string
	Title string // "" for none
	// Config is the project's configuration: what the file says for all, such as the revisions, and the
	// project's own servers, limits, instructions and Expose. It's nil exactly if Unusable is set.
	Config *Snapshot
	// Unusable is the first of the problems for which the project can't be used.
	Unusable *Problem
}

// ParseProject reads the text that the store keeps of a project. It's what the file would have under
// dragoman.projects.NAME, as YAML or JSON. The project gets the settings for all, and the servers that it
// may use, from house, the configuration of default. It sees nothing of the machine's environment, and
// secrets looks up its own secrets; nil means that nobody can read any. Like Parse, ParseProject has no side
// effects, and reports all problems at once. They have no File.
func ParseProject(name string, text []byte, house *Snapshot, secrets Secrets) (Project, Problems) {
	none := func(string) (string, bool) { return "", false }
	c := &compiler{process: none, env: none, stored: true, project: name, dialects: house.Dialects, common: house.Servers}
	c.hideSecrets(secrets)
	root := c.readTree(text)
	if root == nil {
		root = &node{line: 1, col: 1}
	}
	base := *house
	base.InheritEnv = nil // the commands of the project get no variables but those of their env
	p := c.readProject(c.object(root, ""), &base)
	c.problems.sort()
	c.source.show(c.file, c.problems)
	if p.Config != nil {
		p.Config.File, p.Config.secrets, p.Config.readsSecrets, p.Config.secretUses = "", secrets, c.readsSecrets, c.uses
	}
	return p, c.problems
}

// CheckProject returns nil if name can be the name of a project beside default. Otherwise it returns a
// Problem without a position.
func CheckProject(name string) *Problem {
	if bad := badName(name); bad != "" {
		return &Problem{Text: "the name " + bad, Hint: nameRules}
	}
	switch {
	case strings.EqualFold(name, event.DefaultProject):
		return &Problem{Text: "default is the project of the servers at the top of the file", Hint: "write its servers under mcpServers, or choose another name"}
	case slices.Contains(routes, strings.ToLower(name)):
		return &Problem{Text: "the name is a part of Dragoman's own URLs", Hint: "choose another name"}
	}
	return nil
}

// routes are the words of our own paths. In /p/NAME/mcp, a project with such a name would read like
// another address.
var routes = []string{"api", "console", "find", "healthz", "mcp", "messages", "metrics", "p", "readyz", "s", "sse"}

// Project returns the project with the given name. It returns false if the file has none.
func (s *Snapshot) Project(name string) (Project, bool) {
	for _, p := range s.Projects {
		if p.Name == name {
			return p, true
		}
	}
	return Project{}, false
}

// HasServers reports whether default or another project has servers, even if it can't be used.
func (s *Snapshot) HasServers() bool {
	return len(s.Servers) > 0 || slices.ContainsFunc(s.Projects, func(p Project) bool { return p.Config == nil || len(p.Config.Servers) > 0 })
}

// Equal reports whether p and q have the same content.
func (p Project) Equal(q Project) bool { return reflect.DeepEqual(p.unplaced(), q.unplaced()) }

// unplaced does the same as [Snapshot.unplaced].
func (p Project) unplaced() Project {
	if p.Config != nil {
		p.Config = p.Config.unplaced()
	}
	if p.Unusable != nil {
		q := p.Unusable.Unplaced()
		p.Unusable = &q
	}
	return p
}

// readProjects reads dragoman.projects, after all that is for default.
func (c *compiler) readProjects(o *object, s *Snapshot) {
	if o == nil {
		return
	}
	c.common = s.Servers
	home := c.home
	for _, m := range o.n.members {
		c.project, c.home, c.broken = m.key, o.at(m.key), nil
		s.Projects = append(s.Projects, c.readProject(c.object(m.whole(), c.home), s))
	}
	c.project, c.home, c.broken = "", home, nil
}

// readProject reads one project. house is the configuration of default, without projects.
func (c *compiler) readProject(o *object, house *Snapshot) Project {
	p := Project{Name: c.project}
	if bad := CheckProject(p.Name); bad != nil {
		c.problem(o.n, o.path, bad.Text, bad.Hint)
	}
	s := *house
	s.Servers, s.Projects, s.Empty = nil, nil, false
	s.Policy, s.House, s.HouseTraffic = nil, house.Policy, house.Limits.Traffic
	o.text("title", &p.Title)
	s.Identity = Identity{Name: house.Identity.Name, Title: p.Title, Version: house.Identity.Version}
	c.readIdentity(o.object("server"), &s)
	given := c.startGiven
	defer func() { c.startGiven = given }() // it's that of the house
	c.startGiven = given || house.Limits.Start != Default().Limits.Start
	s.Limits.Alone = false // that's only for the house
	c.readLimits(o.object("limits"), &s.Limits)
	traffic := c.traffic
	c.readExpose(o.object("expose"), &s.Expose)
	readPins(o, &s)
	readQuestions(o, &s)
	c.readFinding(o.object("tools"), &s.Tools)
	s.Servers = c.readUse(o, s.also())
	entries, settings, rules := o.get("mcpServers"), o.object("servers"), o.get("policy")
	o.done()
	c.readServers(entries, settings, &s)
	c.checkFrom(&s)
	c.readTraffic(traffic, &s)
	c.readPolicy(rules, &s)
	if p.Unusable = c.broken; p.Unusable == nil {
		p.Config = &s
	}
	return p
}

// also returns what a project exposes of all its servers, for [Server.Also].
func (s *Snapshot) also() []Expose {
	if s.Expose.IsZero() {
		return nil
	}
	return []Expose{s.Expose}
}

// readUse returns the servers of default that a project uses. If default has no such server, that is the
// problem of this server alone.
func (c *compiler) readUse(o *object, also []Expose) (all []Server) {
	o.list("use", false, func(n *node, path string, e expansion) {
		name := e.text
		if slices.ContainsFunc(all, func(x Server) bool { return x.Name == name }) {
			c.warning(n, path, n.shown()+" is listed twice", "")
			return
		}
		x := Server{Name: name, Shared: true, Also: also}
		var names []string
		for _, s := range c.common {
			names = append(names, s.Name)
		}
		if !slices.Contains(names, name) {
			hint := "add it to the mcpServers at the top of the file, or remove it here"
			if g := Suggest(name, names); g != "" {
				hint = "did you mean " + printable(g) + "?"
			}
			p := c.add(n, Problem{Path: path, Text: "the project default has no server " + n.shown(), Hint: hint, Server: name})
			x.Unusable = &p
		}
		all = append(all, x)
	})
	return all
}

// readShared reads the settings of a server that a project uses. All others are those of default. o may be
// nil.
func (c *compiler) readShared(o *object, srv *Server, prefixes map[string]string) {
	path := join(join(c.home, "servers"), srv.Name)
	at := &node{}
	if o != nil {
		at = o.n
		c.readPrefix(o, srv)
		c.readExpose(o.object("expose"), &srv.Expose)
		for _, key := range settingKeys {
			if n := o.get(key); n != nil && key != "prefix" && key != "expose" {
				c.problem(n, o.at(key), "belongs to the server, which the project only uses", "write "+ourKey+".servers."+printable(srv.Name)+"."+key)
			}
		}
		o.done()
	}
	bound := srv.bind(c.common)
	c.claim(prefixes, at, path, &bound)
}

// Bind returns the configuration of a project, in which the servers that it shares are as default, whose
// configuration is of, has them now.
func (s *Snapshot) Bind(of *Snapshot) *Snapshot {
	out := *s
	out.Servers = slices.Clone(s.Servers)
	for i := range out.Servers {
		out.Servers[i] = out.Servers[i].bind(of.Servers)
	}
	return &out
}

// Shares reports whether the configuration of a project has servers of default.
func (s *Snapshot) Shares() bool {
	return slices.ContainsFunc(s.Servers, func(x Server) bool { return x.Shared })
}

// bind does the same as [Snapshot.Bind] for one server. A server that default doesn't have stays without
// anything to open.
func (s Server) bind(common []Server) Server {
	i := slices.IndexFunc(common, func(x Server) bool { return x.Name == s.Name })
	switch {
	case !s.Shared:
		return s
	case i < 0 && s.Unusable == nil:
		s.Unusable = &Problem{Server: s.Name, Text: "the project default has no server " + s.Name + " any more", Hint: "add it to the mcpServers at the top of the file, or remove it from use"}
		fallthrough
	case i < 0:
		s.Prefix = effective(s.Prefix, s.Unprefixed, s.Name)
		return s
	}
	out := common[i]
	out.Shared = true
	if s.Prefix != "" || s.Unprefixed {
		out.Prefix, out.Unprefixed = s.Prefix, s.Unprefixed
	}
	// What default hides stays hidden: the project can only show less.
	out.Expose, out.Also = s.Expose, append(slices.Clone(s.Also), out.Expose)
	return out
}

// effective returns the prefix that is in use.
func effective(prefix string, unprefixed bool, name string) string {
	if prefix == "" && !unprefixed {
		return name
	}
	return prefix
}
