package admin

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"net/http"
	"slices"
	"strings"

	"github.com/dragoman-mcp/dragoman/internal/app/runtime"
	"github.com/dragoman-mcp/dragoman/internal/base/excerpt"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
	"github.com/dragoman-mcp/dragoman/internal/relay/catalog"
	"github.com/dragoman-mcp/dragoman/internal/relay/event"
	"github.com/dragoman-mcp/dragoman/internal/setup/config"
)

// project is what the parts of an API ask about its project: its name and its paths, and which servers
// it has, with their tools and items.
type project struct {
	*runtime.Project // nil only in tests
}

// name returns the name of the project.
func (p project) name() string {
	if p.Project == nil {
		return event.DefaultProject
	}
	return p.Name()
}

// path returns the path of an endpoint of the project. of is its path in the default project.
func (p project) path(of string) string { return pathIn(p.name(), of) }

// pathIn does the same for the project with a name.
func pathIn(project, of string) string {
	if project == event.DefaultProject {
		return of
	}
	return "/p/" + project + of
}

// hiddenAt returns a list with the paths of the project.
func (p project) hiddenAt(list []Hidden) []Hidden {
	if p.name() == event.DefaultProject {
		return list
	}
	list = slices.Clone(list)
	for i := range list {
		list[i].Endpoint = p.path(list[i].Endpoint)
	}
	return list
}

// noServer returns a problem if a server is not configured, and nil if it is.
func (p project) noServer(name string) *Problem {
	if _, ok := p.Config(name); ok {
		return nil
	}
	bad := &Problem{Type: "no-such-server", Title: "No such server", Status: http.StatusNotFound, Detail: "No server is named " + excerpt.Quote(name, maxName) + "."}
	if s := p.Current(); s != nil {
		var names []string
		for _, c := range s.Servers {
			if !c.Disabled {
				names = append(names, c.Name)
			} else if c.Name == name {
				bad.Detail = "Server " + excerpt.Quote(name, maxName) + " is disabled in the configuration."
				return bad
			}
		}
		if near := config.Suggest(name, names); near != "" {
			bad.Detail += " Did you mean " + excerpt.Quote(near, maxName) + "?"
		}
	}
	return bad
}

// tools returns the tools of all servers, sorted by the names under which clients see them.
func (p project) tools() iter.Seq[*catalog.Item] {
	if lists := p.Lists(); lists != nil {
		return p.ruled(lists.All(catalog.KindTool))
	}
	return slices.Values[[]*catalog.Item](nil)
}

// ruled marks the tools as hidden that rules deny to everybody.
func (p project) ruled(all iter.Seq[*catalog.Item]) iter.Seq[*catalog.Item] {
	return func(yield func(*catalog.Item) bool) {
		denied := p.Denied()
		for x := range all {
			if said := denied(x.Server, x.Name); x.Hidden == "" && said.Rule != nil {
				y := *x
				y.Hidden, y.Everywhere = fmt.Sprintf("rule %d of %s, %s, denies it to everybody", said.Rule.Number, said.Rule.Of, said.Match), true
				x = &y
			}
			if !yield(x) {
				return
			}
		}
	}
}

// search returns the tools that fit a query, the best first. At the end are those that only have it in their names,
// as people see them who are still typing.
func (p project) search(query string) iter.Seq[*catalog.Item] {
	return p.ruled(func(yield func(*catalog.Item) bool) {
		lists := p.Lists()
		if lists == nil {
			return
		}
		found := lists.Search(query)
		has := make(map[*catalog.Item]bool, len(found))
		for _, x := range found {
			if has[x] = true; !yield(x) {
				return
			}
		}
		part := strings.ToLower(strings.TrimSpace(query))
		for x := range lists.All(catalog.KindTool) {
			if !has[x] && strings.Contains(strings.ToLower(x.Offered), part) && !yield(x) {
				return
			}
		}
	})
}

// items returns a list of one server. If the list for clients without capabilities has not been
// read, items returns the longest list that other clients have received.
func (p project) items(server, method string) (out catalog.Items) {
	if lists := p.Lists(); lists != nil {
		for _, x := range lists.Of(method) {
			if x.Server != server {
				continue
			}
			if !x.Have && len(x.Others) > 0 {
				size := func(l catalog.OtherList) int { return len(l.Shown) + len(l.Hidden) }
				longest := slices.MaxFunc(x.Others, func(a, b catalog.OtherList) int { return cmp.Compare(size(a), size(b)) })
				x.Have, x.Version, x.Shown, x.Hidden = true, longest.Version, longest.Shown, longest.Hidden
			}
			return x
		}
	}
	return out
}

// refresh reads a list of a server again if the cached list is not fresh. It waits only briefly
// for the result.
func (p project) refresh(ctx context.Context, server, method string) {
	if lists := p.Lists(); lists != nil {
		lists.Refresh(ctx, server, method)
	}
}

// findTool returns a tool of a server, even if clients do not see the tool. It reads the list again
// if the cached list is not fresh.
func (p project) findTool(ctx context.Context, server, name string) (*catalog.Item, *Problem) {
	if bad := p.noServer(server); bad != nil {
		return nil, bad
	}
	p.refresh(ctx, server, mcp.MethodListTools)
	return p.knownTool(server, name)
}

// knownTool does the same as findTool, but does not read the list again.
func (p project) knownTool(server, name string) (*catalog.Item, *Problem) {
	if bad := p.noServer(server); bad != nil {
		return nil, bad
	}
	var names []string
	for x := range p.tools() {
		if x.Server != server {
			continue
		}
		if x.Name == name {
			return x, nil
		}
		names = append(names, x.Name)
	}
	bad := &Problem{Type: "no-such-tool", Title: "No such tool", Status: http.StatusNotFound, Detail: "Server " + excerpt.Quote(server, maxName) + " lists no tool " + excerpt.Quote(name, maxName) + "."}
	if near := config.Suggest(name, names); near != "" {
		bad.Detail += " Did you mean " + excerpt.Quote(near, maxName) + "?"
	}
	return nil, bad
}
