package admin

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"slices"
	"strings"

	"github.com/dragoman-mcp/dragoman/internal/app/tool"
	"github.com/dragoman-mcp/dragoman/internal/base/excerpt"
	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
	"github.com/dragoman-mcp/dragoman/internal/relay/catalog"
	"github.com/dragoman-mcp/dragoman/internal/setup/config"
)

// Tools is a page of tools.
type Tools struct {
	Tools []Tool `json:"tools" doc:"the tools of this page"`
	Total int    `json:"total" doc:"number of matching tools on all pages"`
	// Tokens is the estimated number of tokens that the matching tools need in a model's context.
	// It includes only the tools that clients see at /mcp.
	Tokens int    `json:"tokens" doc:"the estimated tokens, in a model's context, of the matching tools that clients see at /mcp"`
	Next   string `json:"next,omitempty" doc:"the cursor of the next page"`
}

// Tool is one tool of a server. Long texts from the server are cut, and secrets in them are masked.
type Tool struct {
	Server      string `json:"server" doc:"the server's name"`
	Name        string `json:"name" doc:"the name that the server uses"`
	Offered     string `json:"offered" doc:"the name of the tool at /mcp"`
	Title       string `json:"title,omitempty" doc:"the title for people, from the server; at most 200 bytes"`
	Description string `json:"description,omitempty" doc:"the first 400 bytes of the description; the member about of ToolDetail has all of it"`
	Signature   string `json:"signature" doc:"the tool's name with its arguments, their types and its result; at most 400 bytes"`
	Tokens      int    `json:"tokens" doc:"the estimated tokens of the tool in a model's context"`
	// Effect is the effect that the tool's annotations claim. The claim may be wrong.
	Effect string     `json:"effect" enum:"read-only,write,destructive,unknown" doc:"the effect that the annotations claim"`
	State  string     `json:"state" enum:"shown,hidden,invalid" doc:"whether clients see the tool at /mcp"`
	Hidden []Hidden   `json:"hidden,omitempty" doc:"the endpoints where clients don't see the tool"`
	Hints  []ToolHint `json:"hints,omitempty" doc:"the annotations of the tool that are true or false"`
	// AppOnly is tool.Tool.AppOnly.
	AppOnly bool `json:"appOnly,omitempty" doc:"true if only an app's page may call the tool, so hosts don't show it to the model"`
	// Needs is nil if clients without capabilities see the tool, or if all lists that have been
	// read contain the tool. It is empty, but not nil, if Dragoman does not know which capabilities
	// a client needs.
	Needs []string `json:"needs,omitzero" doc:"the server shows the tool only to clients with at least one of these capabilities; empty if we don't know which; left out if it needs none"`
	Stale bool     `json:"stale" doc:"true if the server isn't ready, so its tools may have changed"`
}

// Hidden says at which endpoint clients do not see an item, and why.
type Hidden struct {
	Endpoint string `json:"endpoint" doc:"the endpoint's path"`
	Rule     string `json:"rule,omitempty" doc:"the setting that hides the item, such as expose.tools.deny: delete_*"`
	Why      string `json:"why" doc:"the reason in words, as a phrase"`
}

// ToolHint is one annotation of a tool.
type ToolHint struct {
	Name string `json:"name" doc:"the annotation's name, such as readOnlyHint"`
	Text string `json:"text" doc:"what the annotation says, in words"`
}

// ToolDetail describes one tool in detail.
type ToolDetail struct {
	Tool
	About     string         `json:"about,omitempty" doc:"the whole description"`
	Arguments []ToolArgument `json:"arguments" doc:"the arguments, as the tool's JSON Schema describes them"`
	Returns   string         `json:"returns" doc:"the type of the structured result, or the word content if the tool doesn't describe its result"`
	// Definition is the tool as the server sent it, but with secrets masked.
	Definition json.RawMessage `json:"definition" doc:"the tool as the server sent it, with masked secrets"`
}

// ToolArgument is one argument of a tool or a prompt.
type ToolArgument struct {
	Name     string `json:"name" doc:"the argument's name"`
	Required bool   `json:"required" doc:"whether the argument is required"`
	Type     string `json:"type" doc:"the type in a short notation; always string for an argument of a prompt"`
	Default  string `json:"default,omitempty" doc:"the beginning of the default value, as JSON"`
	About    string `json:"about,omitempty" doc:"the description from the server; at most 400 bytes"`
}

// The maximum lengths, in bytes, of texts from a server.
const (
	maxTitle       = 200
	maxDescription = 400
	maxAbout       = 64 << 10
)

// The values of Tool.State.
const (
	shown   = "shown"
	hidden  = "hidden"
	invalid = "invalid"
)

// catalogAPI shows the tools, resources, templates and prompts of servers.
type catalogAPI struct{ project project }

// stateOf returns whether clients see a tool at /mcp.
func stateOf(x *catalog.Item) string {
	switch {
	case x.Name == "":
		return invalid
	case x.Hidden != "":
		return hidden
	}
	return shown
}

// whyHidden returns the endpoints at which clients do not see a tool, with their paths in the default project.
func (a *catalogAPI) whyHidden(x *catalog.Item) []Hidden {
	server, _ := a.project.Config(x.Server)
	switch by := hiddenBy(server, "tools", server.Expose.Tools, x.Name); {
	case x.Hidden == "":
		return nil
	case x.Everywhere && by != nil:
		return by
	case x.Everywhere:
		return []Hidden{{Endpoint: "/mcp", Why: x.Hidden}, {Endpoint: endpointOf(x.Server), Why: x.Hidden}}
	}
	return []Hidden{{Endpoint: "/mcp", Why: x.Hidden}}
}

// hiddenBy returns the endpoints at which the configuration hides an item, and the setting that
// hides it.
func hiddenBy(server config.Server, kind string, f config.Filter, name string) []Hidden {
	pattern, is := f.Hides(name)
	if !is {
		return nil
	}
	h := Hidden{Rule: "expose." + kind + ".deny: " + pattern, Why: "the configuration denies it"}
	if pattern == "" {
		h = Hidden{Rule: "expose." + kind + ".allow", Why: "the configuration allows only other " + kind}
	}
	out := []Hidden{h, h}
	out[0].Endpoint, out[1].Endpoint = "/mcp", endpointOf(server.Name)
	return out
}

func endpointOf(server string) string { return "/s/" + server + "/mcp" }

// effectOf returns the effect of a tool according to its annotations.
func effectOf(t tool.Tool) string {
	claims := map[string]string{}
	for _, h := range t.Hints() {
		claims[h.Name] = h.Text
	}
	is := func(name string) (yes, known bool) {
		raw := t.Raw()
		notes := jsonrpc.Find(raw, jsonrpc.Whole(raw), "annotations")
		kind := jsonrpc.KindOf(raw, jsonrpc.Find(raw, notes, name))
		return kind == 't', kind == 't' || kind == 'f'
	}
	if yes, _ := is("readOnlyHint"); yes {
		return "read-only"
	}
	yes, known := is("destructiveHint")
	switch {
	case yes:
		return "destructive"
	case known || len(claims) > 0:
		return "write"
	}
	return "unknown"
}

// shownText masks secrets in a text from a server and cuts the text to limit bytes. It keeps line
// breaks.
func shownText(clean func(string) string, text string, limit int) string {
	return excerpt.Cut(clean(text), limit)
}

// readTools answers /tools, and /servers/{name}/tools.
func (a *catalogAPI) readTools(r *http.Request) (any, *Problem) {
	query := r.URL.Query()
	server, effect, state := r.PathValue("name"), query.Get("effect"), query.Get("state")
	if server == "" {
		server = query.Get("server")
	}
	if server != "" {
		if bad := a.project.noServer(server); bad != nil {
			return nil, bad
		}
		a.project.refresh(r.Context(), server, mcp.MethodListTools)
	}
	q := toolQuery{server: server, effect: effect, state: state, text: query.Get("q")}
	switch sort := query.Get("sort"); sort {
	case "":
	case "name":
		q.byName = true
	case "tokens":
		q.byTokens = true
	default:
		return nil, badParameter("sort", "Use sort=name or sort=tokens.")
	}
	found, cost := q.find(a.project)
	out := Tools{Tools: []Tool{}, Tokens: cost}
	p, bad := pageOf(r, found, func(x *foundTool) string { return x.sorted })
	if bad != nil {
		return nil, bad
	}
	ready := a.readyServers()
	for _, x := range p.items {
		out.Tools = append(out.Tools, a.signedTool(x.Item, ready))
	}
	out.Total, out.Next = len(found), p.next
	return out, nil
}

// toolQuery says which tools a request asks for, and in which order.
type toolQuery struct {
	server, effect, state string // "" selects all
	text                  string // what a tool must fit
	byName, byTokens      bool   // the order of the results; if neither is set, the best matches come first
}

// foundTool is a tool that matches a query.
type foundTool struct {
	*catalog.Item
	sorted string // the sort key
}

func (x *foundTool) effect() string { return effectOf(tool.Of(x.JSON)) }

// find returns the matching tools in order. cost is the total number of tokens of the matching
// tools that clients see.
func (q *toolQuery) find(p project) (found []foundTool, cost int) {
	all, ranked := p.tools(), false
	if text := strings.TrimSpace(excerpt.Cut(q.text, maxQuery)); text != "" {
		all, ranked = p.search(text), !q.byName && !q.byTokens
	}
	for x := range all {
		if q.server != "" && x.Server != q.server || q.state != "" && stateOf(x) != q.state {
			continue
		}
		y := foundTool{x, x.Key}
		if q.effect != "" && y.effect() != q.effect {
			continue
		}
		if x.Hidden == "" {
			cost += x.Tokens
		}
		switch {
		case q.byTokens:
			y.sorted = fmt.Sprintf("%010d", math.MaxInt32-x.Tokens) + x.Key
		case ranked:
			y.sorted = fmt.Sprintf("%06d", len(found)) + x.Key
		}
		found = append(found, y)
	}
	if !ranked {
		slices.SortFunc(found, func(a, b foundTool) int { return cmp.Compare(a.sorted, b.sorted) })
	}
	return found, cost
}

// maxQuery is the maximum length of a search text in bytes.
const maxQuery = 256

// readyServers reports for each server whether its lists are up to date.
func (a *catalogAPI) readyServers() map[string]bool {
	out := map[string]bool{}
	for _, s := range a.project.Statuses() {
		out[s.Name] = s.State == "ready" || s.State == "idle" && s.Reason == ""
	}
	return out
}

// shownTool prepares a tool for a response, without its signature, which takes the most time.
func (a *catalogAPI) shownTool(x *catalog.Item, ready map[string]bool) Tool {
	t, clean := tool.Of(x.JSON), a.project.Clean(x.Server)
	out := Tool{
		Server: x.Server, Name: x.Name, Offered: x.Offered, Title: shownText(clean, t.Title(), maxTitle),
		Description: excerpt.Cut(shownText(clean, t.Text("description"), maxAbout), maxDescription),
		Tokens:      x.Tokens, Effect: effectOf(t), State: stateOf(x), Hidden: a.project.hiddenAt(a.whyHidden(x)), AppOnly: t.AppOnly(), Needs: x.Needs, Stale: !ready[x.Server],
	}
	for _, h := range t.Hints() {
		out.Hints = append(out.Hints, ToolHint{h.Name, h.Text})
	}
	return out
}

// signedTool does the same as shownTool, with the signature.
func (a *catalogAPI) signedTool(x *catalog.Item, ready map[string]bool) Tool {
	out := a.shownTool(x, ready)
	out.Signature = shownText(a.project.Clean(x.Server), tool.Of(x.JSON).Signature(), maxDescription)
	return out
}

// readTool answers /servers/{name}/tools/{tool}.
func (a *catalogAPI) readTool(r *http.Request) (any, *Problem) {
	x, bad := a.project.findTool(r.Context(), r.PathValue("name"), r.PathValue("tool"))
	if bad != nil {
		return nil, bad
	}
	return a.toolDetail(x), nil
}

// toolDetail returns a tool with all details.
func (a *catalogAPI) toolDetail(x *catalog.Item) ToolDetail {
	clean := a.project.Clean(x.Server)
	t := tool.Of(x.JSON)
	out := ToolDetail{
		Tool: a.signedTool(x, a.readyServers()), About: shownText(clean, t.Text("description"), maxAbout), Arguments: []ToolArgument{},
		Returns: shownText(clean, t.Returns(), maxDescription), Definition: cleanJSON(clean, x.JSON),
	}
	for _, arg := range t.Arguments() {
		out.Arguments = append(out.Arguments, ToolArgument{
			Name: clean(arg.Name), Required: arg.Required, Type: clean(arg.Type), Default: shownText(clean, arg.Default, maxDescription), About: shownText(clean, arg.About, maxDescription),
		})
	}
	return out
}

// cleanJSON masks the secrets in JSON from a server. It returns null if the masked text is not
// valid JSON.
func cleanJSON(clean func(string) string, raw []byte) json.RawMessage {
	text := excerpt.MaskJSON(string(raw), clean)
	if text == string(raw) {
		return raw
	}
	if b := []byte(text); json.Valid(b) {
		return b
	}
	return json.RawMessage("null")
}

// textOfJSON returns the text of a JSON string. It returns "" for any other value.
func textOfJSON(raw []byte) string {
	raw = bytes.TrimSpace(raw)
	if len(raw) == 0 {
		return ""
	}
	s, _ := jsonrpc.Text(raw, jsonrpc.Whole(raw))
	return jsonrpc.Shown(s)
}
