package config

import (
	"cmp"
	"slices"

	"github.com/dragoman-mcp/dragoman/internal/relay/event"
)

// maxOwnText is the maximum number of bytes that references to variables in the env of one server
// may insert in total. Without a maximum, a few values that refer to each other could produce
// gigabytes of text.
const maxOwnText = 1 << 20

// ownEnv is the env of the server that is being read. A reference in the settings of the server is
// looked up in ownEnv first, and then with compiler.env.
type ownEnv struct {
	values map[string]*node // the scalars of env, by the name of the variable
	// open are the variables whose values are being expanded. If a value refers to its own variable,
	// as in PATH: ${PATH}:/opt/bin, the reference means the variable in Dragoman's environment.
	open []string
	used bool // whether a reference used a variable of values
	cost int  // the number of inserted bytes, plus one for each reference
}

// setOwn makes the env of o available to references. The parameter o is an entry of mcpServers.
func (c *compiler) setOwn(o *object) {
	c.own = ownEnv{}
	for i := range o.n.members {
		m := &o.n.members[i]
		if m.key != "env" || m.value.kind != mappingKind {
			continue
		}
		c.own.values = map[string]*node{}
		for _, v := range m.value.members {
			if v.value.kind == scalarKind {
				c.own.values[v.key] = v.value
			}
		}
	}
}

// lookups returns what finds the values of references in the settings of the server.
func (c *compiler) lookups() lookups {
	return lookups{env: c.lookup, secrets: c.secrets, note: func(name string) { c.secret, c.noted = name, append(c.noted, name) }, project: cmp.Or(c.project, event.DefaultProject), alone: c.stored}
}

// lookup returns the value of a variable for the server that is being read. If the value has an
// invalid reference, lookup returns an empty value and reports nothing, because readCommand reports
// the problem.
func (c *compiler) lookup(name string) (string, bool) {
	n := c.own.values[name]
	if n == nil || slices.Contains(c.own.open, name) {
		return c.env(name)
	}
	c.own.used = true
	if c.own.cost > maxOwnText {
		return "", true
	}
	c.own.open = append(c.own.open, name)
	e, _, _ := expand(n.text, c.lookups())
	c.own.open = c.own.open[:len(c.own.open)-1]
	before := c.own.cost
	if c.own.cost += 1 + len(e.text); before <= maxOwnText && c.own.cost > maxOwnText {
		c.problem(n, "", "the references between the variables of env insert more than 1 MiB", "shorten the values, or write them without references")
	}
	return e.text, true
}
