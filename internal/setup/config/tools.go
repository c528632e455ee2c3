package config

import (
	"strconv"
	"strings"

	"github.com/dragoman-mcp/dragoman/internal/relay/policy"
)

// Tools says how clients find the tools of a project at the endpoint of all servers. The zero value lists them.
type Tools struct {
	Mode ToolMode
	// Always are patterns of tools that are listed in search mode, too: SERVER/TOOL, with the server's own names, as
	// in rules.
	Always []string
	// Unchecked means that the arguments of calls in search mode aren't checked against the tool's schema.
	Unchecked bool
}

// ToolMode says whether clients list all tools, or search them.
type ToolMode uint8

// The modes. AutoTools is one of the two others, depending on the client and on how much there is to list.
const (
	ListTools ToolMode = iota
	SearchTools
	AutoTools
)

var toolModes = []string{"list", "search", "auto"}

func (m ToolMode) String() string { return nameOf(toolModes, int(m)) }

// maxAlways is the maximum number of patterns in tools.always, which are matched for each tool.
const maxAlways = 20

// readFinding reads how clients find tools. A project has what default has, unless it says otherwise.
func (c *compiler) readFinding(o *object, t *Tools) {
	if o == nil {
		return
	}
	t.Mode = ToolMode(o.choice("mode", toolModes, int(t.Mode)))
	if n := o.get("always"); n != nil {
		t.Always = nil
		o.list("always", true, func(n *node, path string, e expansion) {
			server, item, found := strings.Cut(e.text, "/")
			if kind, _ := policy.Item(item); !strings.Contains(e.text, "*") && (!found || server == "" || item == "" || kind != "tool") {
				c.problem(n, path, n.shown()+" can never match a tool", "write SERVER/TOOL; a * matches any text")
			}
			t.Always = append(t.Always, e.text)
		})
		if len(t.Always) > maxAlways {
			c.problem(n, o.at("always"), "has more than "+strconv.Itoa(maxAlways)+" patterns", "list what every task needs, and let clients find the rest")
		}
	}
	t.Unchecked = o.choice("validate", []string{"on", "off"}, map[bool]int{true: 1}[t.Unchecked]) == 1
	o.done()
}

// tools prints how clients find tools, if the file says it.
func (p *printer) tools(t *Tools) {
	if t.Mode == ListTools && len(t.Always) == 0 && !t.Unchecked {
		return
	}
	p.line(1, "tools:")
	p.text(2, "mode", t.Mode.String())
	if len(t.Always) > 0 {
		p.list(2, "always", t.Always)
	}
	if t.Unchecked {
		p.text(2, "validate", "off")
	}
}

// maxHint is the maximum length of what an operator says about a server in one line.
const maxHint = 200

// readHint reads what people say about a server for clients that search, and whether they trust what it says about
// its tools.
func (c *compiler) readHint(o *object, srv *Server) {
	if n := o.text("hint", &srv.Hint); n != nil && (len(srv.Hint) > maxHint || strings.ContainsFunc(srv.Hint, isControl)) {
		c.problem(n, o.at("hint"), "must have at most "+strconv.Itoa(maxHint)+" bytes in one line", "write what the server is for, such as issues and pull requests")
	}
	srv.TrustAnnotations = o.choice("trust", []string{"annotations"}, -1) == 0
}
