package admin

import (
	"cmp"
	"fmt"
	"iter"
	"slices"
	"strings"

	"github.com/dragoman-mcp/dragoman/internal/app/tool"
	"github.com/dragoman-mcp/dragoman/internal/relay/catalog"
	"github.com/dragoman-mcp/dragoman/internal/setup/config"
)

// ToolQuery selects tools for FindTools. The zero value selects the first page of all tools, sorted
// by their names at /mcp.
type ToolQuery struct {
	Server, Effect, State string // "" selects all
	Text                  string // what the tools should do, or a part of their names
	// Sort is name, tokens, server or effect. A "-" in front reverses the order. If Sort is "", the
	// best matches for Text come first; if Text is "" too, the tools are sorted by their names at
	// /mcp.
	Sort  string
	From  int // the number of tools to skip
	Limit int // 0 means 50
	// Brief leaves out About and Signature, because they take the most time to compute.
	Brief bool
}

// FoundTools is a page of tools.
type FoundTools struct {
	Tools  []FoundTool
	Total  int // the number of matching tools on all pages
	Tokens int // estimated number of tokens of the matching tools that clients see at /mcp
}

// FoundTool is one tool with its whole description.
type FoundTool struct {
	Tool
	About string
}

// FindTools returns a page of tools from the lists that Dragoman has already read.
func (a *catalogAPI) FindTools(q ToolQuery) FoundTools {
	name, descending := strings.CutPrefix(q.Sort, "-")
	search := toolQuery{
		server: q.Server, effect: q.Effect, state: q.State, text: q.Text, byName: name != "",
	}
	found, cost := search.find(a.project)
	if name != "" {
		order := toolOrders[name]
		if order == nil {
			order = toolOrders["name"]
		}
		slices.SortStableFunc(found, func(x, y foundTool) int {
			if descending {
				return order(&y, &x)
			}
			return order(&x, &y)
		})
	}
	out := FoundTools{Tokens: cost, Total: len(found)}
	from := min(max(q.From, 0), len(found))
	ready := a.readyServers()
	for i := from; i < min(from+cmp.Or(max(q.Limit, 0), usualPage), len(found)); i++ {
		x := found[i].Item
		if q.Brief {
			out.Tools = append(out.Tools, FoundTool{Tool: a.shownTool(x, ready)})
			continue
		}
		about := shownText(a.project.Clean(x.Server), tool.Of(x.JSON).Text("description"), maxAbout)
		out.Tools = append(out.Tools, FoundTool{a.signedTool(x, ready), about})
	}
	return out
}

var toolOrders = map[string]func(x, y *foundTool) int{
	"name":   func(x, y *foundTool) int { return strings.Compare(strings.ToLower(x.Name), strings.ToLower(y.Name)) },
	"tokens": func(x, y *foundTool) int { return cmp.Compare(x.Tokens, y.Tokens) },
	"server": func(x, y *foundTool) int {
		return strings.Compare(strings.ToLower(x.Server), strings.ToLower(y.Server))
	},
	"effect": func(x, y *foundTool) int { return strings.Compare(x.effect(), y.effect()) },
}

// FindTool returns one tool of a server, even if clients do not see the tool. It uses the list that
// Dragoman has already read. The problem is nil after success.
func (a *catalogAPI) FindTool(server, name string) (ToolDetail, *Problem) {
	x, bad := a.project.knownTool(server, name)
	if bad != nil {
		return ToolDetail{}, bad
	}
	return a.toolDetail(x), nil
}

// ToolsCost says what the tools of a project cost a client in its model's context, by the lists that were read last.
type ToolsCost struct {
	Mode         string `json:"mode" enum:"list,search,auto" doc:"the setting tools.mode: whether clients list all tools, or search them"`
	Tools        int    `json:"tools" doc:"number of tools that clients list, if they list all"`
	Tokens       int    `json:"tokens" doc:"the estimated tokens of these tools in a model's context"`
	SearchTokens int    `json:"searchTokens" doc:"the estimated tokens of what a client lists in search mode, with the tools of tools.always"`
}

// toolsOf returns what the tools of a project cost, or nil if it's not in use.
func toolsOf(p project) *ToolsCost {
	if p.Project == nil || p.Lists() == nil {
		return nil
	}
	all := toolCosts(p.tools())[0]
	return &ToolsCost{p.Current().Tools.Mode.String(), all.Tools, all.Tokens, p.Lists().SearchTokens()}
}

// With more than this, search mode is suggested.
const (
	manyTools  = 60
	manyTokens = 10_000 // of about four bytes; see gateway.Find.Auto
)

// Line says in one line what search mode saves, or would save. It's "" if clients list all tools, and those are few.
func (x *ToolsCost) Line() string {
	switch {
	case x == nil:
		return ""
	case x.Mode == config.ListTools.String() && x.Tools <= manyTools && x.Tokens <= manyTokens:
		return ""
	case x.Mode == config.ListTools.String():
		return fmt.Sprintf("tools: clients list %s, about %s; with tools.mode: auto, those that don't search by themselves would list about %d", number(x.Tools, "tool"), number(x.Tokens, "token"), x.SearchTokens)
	}
	return fmt.Sprintf("tools: %s mode; %s would be about %s, clients that search list %d", x.Mode, number(x.Tools, "tool"), number(x.Tokens, "token"), x.SearchTokens)
}

// ToolCost estimates how many tokens the tools of one endpoint need in a model's context.
type ToolCost struct {
	Endpoint string // the path of the endpoint
	Server   string // the only server of the endpoint; "" for the endpoint of all servers
	Tools    int    // the number of tools that clients see at the endpoint
	Tokens   int    // the estimated number of tokens of these tools
}

// ToolCosts returns the cost of each endpoint: first the endpoint of all servers, then the
// endpoints of single servers, the most expensive first. It uses the lists that Dragoman has
// already read.
func (a *catalogAPI) ToolCosts() []ToolCost { return toolCosts(a.project.tools()) }

func toolCosts(all iter.Seq[*catalog.Item]) []ToolCost {
	joined, at, out := ToolCost{Endpoint: "/mcp"}, map[string]int{}, []ToolCost{}
	for t := range all {
		if t.Name == "" {
			continue
		}
		if t.Hidden == "" {
			joined.Tools, joined.Tokens = joined.Tools+1, joined.Tokens+t.Tokens
		}
		if t.Everywhere {
			continue
		}
		n, known := at[t.Server]
		if !known {
			n = len(out)
			at[t.Server] = n
			out = append(out, ToolCost{Endpoint: endpointOf(t.Server), Server: t.Server})
		}
		out[n].Tools, out[n].Tokens = out[n].Tools+1, out[n].Tokens+t.Tokens
	}
	slices.SortFunc(out, func(x, y ToolCost) int {
		return cmp.Or(cmp.Compare(y.Tokens, x.Tokens), strings.Compare(x.Server, y.Server))
	})
	return append([]ToolCost{joined}, out...)
}
