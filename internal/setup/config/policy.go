package config

import (
	"slices"
	"strconv"
	"strings"

	"github.com/dragoman-mcp/dragoman/internal/base/identity"
	"github.com/dragoman-mcp/dragoman/internal/relay/pins"
	"github.com/dragoman-mcp/dragoman/internal/relay/policy"
)

// Limits of a list of rules: each of them is compared with all before it, and each use of an item may ask them all.
const (
	mostRules    = 1000
	mostPatterns = 5000 // in all match of the list together
)

// readPolicy reads the rules of a project, whose servers s has already. A rule that can't be read is an error of
// the whole file or project, since without it something would be allowed that it denies.
func (c *compiler) readPolicy(n *node, s *Snapshot) {
	if n == nil {
		return
	}
	path := join(c.home, "policy")
	if n.kind != sequenceKind {
		c.problem(n, path, "must be a list, not "+n.kind.String(), "write a - before each rule")
		return
	}
	patterns := 0
	for _, item := range n.items {
		for _, m := range item.members {
			if m.key == "match" {
				patterns += max(len(m.value.items), 1)
			}
		}
	}
	switch {
	case len(n.items) > mostRules:
		c.problem(n, path, "has more than "+strconv.Itoa(mostRules)+" rules", "write one rule with several patterns, or with a *, instead of many")
		return
	case patterns > mostPatterns:
		c.problem(n, path, "has more than "+strconv.Itoa(mostPatterns)+" patterns in match", "write patterns with a *, which are for many items")
		return
	}
	for i, item := range n.items {
		at := path + "[" + strconv.Itoa(i) + "]"
		r := c.readRule(c.object(item, at), s)
		if by := shadow(s.Policy, r); by >= 0 {
			c.problem(item, at, "can never decide anything, because "+path+"["+strconv.Itoa(by)+"] comes first and is for everybody", "move it up, or remove it")
		}
		c.collides(item, at, s.Policy, r)
		s.Policy = append(s.Policy, r)
	}
}

func (c *compiler) readRule(o *object, s *Snapshot) (r policy.Rule) {
	if o.get("match") == nil {
		c.problem(o.n, o.at("match"), "is missing", `write match: "SERVER/TOOL", SERVER/prompt:NAME or SERVER/resource:URI; a * matches any text`)
	}
	o.list("match", true, func(n *node, path string, e expansion) {
		server, item, found := strings.Cut(e.text, "/")
		if !strings.Contains(e.text, "*") && (!found || item == "") {
			c.problem(n, path, n.shown()+" can never match", "write SERVER/TOOL, SERVER/prompt:NAME or SERVER/resource:URI; SERVER/* is all of a server")
			return
		}
		if name, is := strings.CutPrefix(item, "tool:"); is && policy.Tool(name) == name {
			c.problem(n, path, n.shown()+" is not how a tool is written", "write "+printable(server+"/"+name)+"; tool: is for a tool whose own name begins with tool:, prompt: or resource:")
			return
		}
		if first, _, wild := strings.Cut(item, "*"); server == policy.ProjectPrompts && !strings.HasPrefix(first, "prompt:") && !(wild && strings.HasPrefix("prompt:", first)) {
			c.problem(n, path, n.shown()+" can never match", "write "+policy.ProjectPrompts+"/prompt:NAME")
			return
		}
		if !policy.MayName(e.text, policy.ProjectPrompts) && !slices.ContainsFunc(s.Servers, func(x Server) bool { return policy.MayName(e.text, x.Name) }) {
			c.warning(n, path, n.shown()+" matches nothing of a server that is configured", c.nearest(server, s))
		}
		r.Match = append(r.Match, e.text)
	})
	if n := o.get("match"); n != nil && n.kind == sequenceKind && len(n.items) == 0 {
		c.problem(n, o.at("match"), "can never match", "write at least one pattern, such as SERVER/*")
	}
	c.readWho(o, &r)
	if o.get("as") != nil {
		c.readAs(o, &r)
		o.done()
		return r
	}
	r.Do = policy.Do(o.choice("do", policy.Dos(), int(policy.Deny)))
	if o.get("do") == nil {
		c.problem(o.n, o.at("do"), "is missing", "write do: "+oneOf(policy.Dos()))
	}
	for _, p := range r.Match {
		if _, uri, is := strings.Cut(p, "/resource:"); is && r.Do == policy.Confirm && strings.Contains(uri, "{") {
			start, _, _ := strings.Cut(p, "{")
			c.problem(o.get("match"), o.at("match"), strconv.Quote(printable(p))+" is a template, which nobody reads, so nobody is asked", "write the URIs that are made from it, such as "+printable(start)+"*")
		}
	}
	o.done()
	return r
}

// readAs reads how clients see what a rule matches.
func (c *compiler) readAs(o *object, r *policy.Rule) {
	r.As = &policy.As{}
	before := len(c.problems)
	as := o.object("as")
	if as == nil {
		return // which is an error already
	}
	as.text("name", &r.As.Name)
	as.text("title", &r.As.Title)
	as.text("description", &r.As.Description)
	if hints := as.object("annotations"); hints != nil {
		for _, name := range []string{"readOnlyHint", "destructiveHint", "idempotentHint", "openWorldHint"} {
			if hints.get(name) != nil {
				h := policy.Hint{Name: name}
				hints.boolean(name, &h.Is)
				r.As.Hints = append(r.As.Hints, h)
			}
		}
		hints.done()
	}
	as.done()
	switch do := o.get("do"); {
	case r.As.Name+r.As.Title+r.As.Description == "" && len(r.As.Hints) == 0:
		if !c.failedSince(before) {
			c.problem(as.n, as.path, "changes nothing", "write name, title, description or annotations")
		}
	case !r.Everybody():
		c.problem(as.n, as.path, "can't be for some people only", "remove who, or as")
	case len(r.As.Hints) > 0 && !slices.ContainsFunc(r.Match, mayMatchTool):
		c.problem(as.get("annotations"), as.at("annotations"), "are for tools, and no tool can match", "remove annotations, or match SERVER/TOOL")
	case do != nil:
		c.problem(do, o.at("do"), "can't stand beside as, which decides nothing", "write do in a rule of its own")
	case r.As.Name != "":
		c.checkName(as, r)
	}
}

// mayMatchTool reports whether a pattern may match a tool. What begins with prompt: or resource: is none.
func mayMatchTool(p string) bool {
	_, item, _ := strings.Cut(p, "/")
	return !strings.HasPrefix(item, "prompt:") && !strings.HasPrefix(item, "resource:") || strings.Contains(p[:len(p)-len(item)], "*")
}

// checkName checks the name that a rule gives.
func (c *compiler) checkName(as *object, r *policy.Rule) {
	if len(r.Match) != 1 || strings.Contains(r.Match[0], "*") || strings.Contains(r.Match[0], "/resource:") {
		c.problem(as.get("name"), as.at("name"), "is for a single tool or prompt", "write one match without a *, SERVER/TOOL or SERVER/prompt:NAME")
	}
	odd := func(c rune) bool {
		return !strings.ContainsRune("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_./", c)
	}
	if len(r.As.Name) > 64 || strings.ContainsFunc(r.As.Name, odd) {
		c.problem(as.get("name"), as.at("name"), as.get("name").shown()+" is a name that clients refuse", "use at most 64 letters, digits, -, _, . and /")
	}
}

// collides reports a rule that gives a name which a rule before it has given to another item of the server.
func (c *compiler) collides(n *node, path string, before policy.Rules, r policy.Rule) {
	if r.As == nil || r.As.Name == "" || len(r.Match) != 1 {
		return
	}
	server, item, _ := strings.Cut(r.Match[0], "/")
	kind, _ := policy.Item(item)
	for i := range before {
		x := &before[i]
		if x.As == nil || x.As.Name != r.As.Name || len(x.Match) != 1 {
			continue
		}
		other, item, _ := strings.Cut(x.Match[0], "/")
		if of, _ := policy.Item(item); other == server && of == kind {
			c.problem(n, path, "gives the name "+strconv.Quote(r.As.Name)+" to a second "+kind+" of the server, after "+x.Match[0], "choose another name")
		}
	}
}

// nearest returns a hint for a pattern that names a server which isn't there.
func (c *compiler) nearest(server string, s *Snapshot) string {
	var names []string
	for _, x := range s.Servers {
		names = append(names, x.Name)
	}
	if g := Suggest(server, names); g != "" {
		return "did you mean " + printable(g) + "/…?"
	}
	return "write the name of a server from mcpServers before the first /"
}

// readWho reads for whom a rule is. Nothing at all after the key is an error: it would be a rule for everybody.
func (c *compiler) readWho(o *object, r *policy.Rule) {
	before := len(c.problems)
	who := o.object("who")
	if who == nil {
		if i := slices.IndexFunc(o.n.members, func(m member) bool { return m.key == "who" }); i >= 0 {
			c.problem(o.n.members[i].place(), o.at("who"), "names nobody", nobodyHint)
		}
		return
	}
	name := func(all *[]string) func(*node, string, expansion) {
		return func(n *node, path string, e expansion) {
			if e.text == "" {
				c.problem(n, path, "must not be empty", "")
			}
			*all = append(*all, e.text)
		}
	}
	who.list("keys", false, name(&r.Keys))
	who.list("people", false, name(&r.People))
	who.list("roles", false, func(n *node, path string, e expansion) {
		role, ok := identity.RoleOf(e.text)
		if !ok {
			c.problem(n, path, n.shown()+" is not a role", "write caller, viewer, operator or admin")
		}
		r.Roles = append(r.Roles, role)
	})
	who.done()
	if r.Everybody() && !c.failedSince(before) {
		c.problem(who.n, who.path, "names nobody", nobodyHint)
	}
}

// failedSince reports whether there is an error behind the first n problems, which says already why nothing was read.
func (c *compiler) failedSince(n int) bool {
	return slices.ContainsFunc(c.problems[n:], func(p Problem) bool { return !p.Warning })
}

const nobodyHint = "write keys, people or roles, each with a list; without who, the rule is for everybody"

// shadow returns the index of the first rule for everybody that matches whatever r matches, or -1.
func shadow(before policy.Rules, r policy.Rule) int {
	return slices.IndexFunc(before, func(x policy.Rule) bool {
		return x.Everybody() && (x.As == nil) == (r.As == nil) && len(r.Match) > 0 && !slices.ContainsFunc(r.Match, func(p string) bool {
			return !slices.ContainsFunc(x.Match, func(q string) bool { return covers(q, p) })
		})
	})
}

// covers reports whether a pattern q matches whatever p matches. It may miss that q does, if q has a * in the
// middle.
func covers(q, p string) bool {
	first, rest, wild := strings.Cut(q, "*")
	return q == p || wild && rest == "" && strings.HasPrefix(p, first)
}

// readPins reads what a changed definition means. A project has what default has, unless it says otherwise.
func readPins(o *object, s *Snapshot) {
	s.Pins = pins.Mode(1 + o.choice("pins", pins.Modes(), int(s.Pins)-1))
}

// readQuestions reads where questions wait that clients can't show.
func readQuestions(o *object, s *Snapshot) {
	s.Questions = o.choice("questions", []string{"off", "console"}, 0) == 1
}

// questions prints where questions wait, if they do.
func (p *printer) questions(on bool) {
	if on {
		p.text(1, "questions", "console")
	}
}

// pins prints what a changed definition means, if the file says it.
func (p *printer) pins(m pins.Mode) {
	if m != 0 {
		p.text(1, "pins", m.String())
	}
}

// policy prints the rules of a project.
func (p *printer) policy(rules policy.Rules) {
	if len(rules) == 0 {
		return
	}
	p.line(1, "policy:")
	for i := range rules {
		x := &rules[i]
		p.line(2, "-")
		p.list(3, "match", x.Match)
		p.who(3, x.Keys, x.People, x.Roles)
		if x.As != nil {
			p.as(x.As)
			continue
		}
		p.text(3, "do", x.Do.String())
	}
}

// who prints for whom a rule or a limit is, if it isn't for everybody.
func (p *printer) who(depth int, keys, people []string, roles []identity.Role) {
	if len(keys)+len(people)+len(roles) > 0 {
		p.line(depth, "who:")
	}
	var names []string
	for _, r := range roles {
		names = append(names, r.String())
	}
	for _, x := range []struct {
		key  string
		list []string
	}{{"keys", keys}, {"people", people}, {"roles", names}} {
		if len(x.list) > 0 {
			p.list(depth+1, x.key, x.list)
		}
	}
}

// as prints how clients see what a rule matches.
func (p *printer) as(as *policy.As) {
	p.line(3, "as:")
	for _, x := range []struct{ key, text string }{{"name", as.Name}, {"title", as.Title}, {"description", as.Description}} {
		if x.text != "" {
			p.text(4, x.key, x.text)
		}
	}
	if len(as.Hints) > 0 {
		p.line(4, "annotations:")
	}
	for _, h := range as.Hints {
		p.line(5, h.Name+": "+strconv.FormatBool(h.Is))
	}
}

// ParseRules reads a list of rules alone, YAML or JSON, as readPolicy does for the project that s is the configuration
// of. References in it aren't looked up.
func ParseRules(text []byte, s *Snapshot) (policy.Rules, Problems) {
	c := &compiler{process: func(string) (string, bool) { return "", false }, env: func(string) (string, bool) { return "", false }, stored: true}
	c.hideSecrets(nil)
	of := &Snapshot{Servers: s.Servers}
	c.readPolicy(c.readTree(text), of)
	c.problems.sort()
	c.source.show(c.file, c.problems)
	return of.Policy, c.problems
}
