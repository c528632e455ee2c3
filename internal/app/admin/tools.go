package admin

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"slices"
	"strings"
	"sync"

	"github.com/dragoman-mcp/dragoman/internal/app/tool"
	"github.com/dragoman-mcp/dragoman/internal/base/excerpt"
	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/base/tokens"
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
	Tokens int    `json:"tokens" doc:"estimated number of tokens, in a model's context, of the matching tools that clients see at /mcp"`
	Next   string `json:"next,omitempty" doc:"the cursor of the next page"`
}

// Tool is one tool of a server. Long texts from the server are cut, and secrets in them are masked.
type Tool struct {
	Server      string `json:"server" doc:"the name of the server"`
	Name        string `json:"name" doc:"the name that the server uses"`
	Offered     string `json:"offered" doc:"the name of the tool at /mcp"`
	Title       string `json:"title,omitempty" doc:"the title for people, from the server; at most 200 bytes"`
	Description string `json:"description,omitempty" doc:"the first 400 bytes of the description; the member about of ToolDetail has the whole description"`
	Signature   string `json:"signature" doc:"the name of the tool with its arguments, their types and its result; at most 400 bytes"`
	Tokens      int    `json:"tokens" doc:"estimated number of tokens of the tool in a model's context"`
	// Effect is the effect that the tool's annotations claim. The claim may be wrong.
	Effect string     `json:"effect" enum:"read-only,write,destructive,unknown" doc:"the effect that the annotations claim"`
	State  string     `json:"state" enum:"shown,hidden,invalid" doc:"whether clients see the tool at /mcp"`
	Hidden []Hidden   `json:"hidden,omitempty" doc:"the endpoints at which clients do not see the tool"`
	Hints  []ToolHint `json:"hints,omitempty" doc:"the annotations of the tool that are true or false"`
	// AppOnly is tool.Tool.AppOnly.
	AppOnly bool `json:"appOnly,omitempty" doc:"true if only the page of an app may call the tool, so that hosts do not show the tool to the model"`
	// Needs is nil if clients without capabilities see the tool, or if all lists that have been
	// read contain the tool. It is empty, but not nil, if Dragoman does not know which capabilities
	// a client needs.
	Needs []string `json:"needs,omitzero" doc:"the server shows the tool only to clients that have at least one of these capabilities; empty if Dragoman does not know which capabilities the tool needs; left out if the tool needs none"`
	Stale bool     `json:"stale" doc:"true if the server is not ready, so that its list of tools may have changed"`
}

// Hidden says at which endpoint clients do not see an item, and why.
type Hidden struct {
	Endpoint string `json:"endpoint" doc:"the path of the endpoint"`
	Rule     string `json:"rule,omitempty" doc:"the setting that hides the item, such as expose.tools.deny: delete_*"`
	Why      string `json:"why" doc:"the reason in words, as a phrase"`
}

// ToolHint is one annotation of a tool.
type ToolHint struct {
	Name string `json:"name" doc:"the name of the annotation, such as readOnlyHint"`
	Text string `json:"text" doc:"what the annotation says, in words"`
}

// ToolDetail describes one tool in detail.
type ToolDetail struct {
	Tool
	About     string         `json:"about,omitempty" doc:"the whole description"`
	Arguments []ToolArgument `json:"arguments" doc:"the arguments, as the JSON Schema of the tool describes them"`
	Returns   string         `json:"returns" doc:"the type of the structured result, or the word content if the tool does not describe its result"`
	// Definition is the tool as the server sent it, but with secrets masked.
	Definition json.RawMessage `json:"definition" doc:"the tool as the server sent it, with masked secrets"`
}

// ToolArgument is one argument of a tool or a prompt.
type ToolArgument struct {
	Name     string `json:"name" doc:"the name of the argument"`
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

// indexed is one tool with the values that a search needs.
type indexed struct {
	Tool
	raw    []byte
	text   string // names, title and description in lower case
	sorted string // the sort key
}

// toolIndex caches the tools of all servers. It is rebuilt only after a list or the configuration
// has changed. After a change of a list, the tools from unchanged lists are reused. The zero value
// is ready to use. It is safe for concurrent use.
type toolIndex struct {
	mu     sync.Mutex // held only for short assignments
	made   bool
	config *config.Snapshot     // the configuration from which all was built
	lists  []uint64             // the versions of the tool lists from which all was built
	parts  map[string]*toolPart // the tools of each server, by the server's name
	all    []indexed            // in the order of indexed.sorted; the slice is never changed, only replaced
}

// toolPart contains the tools of one server.
type toolPart struct {
	version uint64
	tools   []indexed
}

// toolsOf returns the tools of all servers, sorted by the names under which clients see them.
// The caller must not change the slice.
func (a *API) toolsOf() []indexed {
	rt := a.opts.Runtime
	lists, snapshot := rt.Lists(), rt.Current()
	if lists == nil || snapshot == nil {
		return nil
	}
	return a.tools.of(lists.Of(mcp.MethodListTools), snapshot, lists.Offered, rt.Clean)
}

// of returns the tools of the given lists, sorted by the names under which clients see them.
// snapshot, offered and cleaner must come from the same configuration.
func (x *toolIndex) of(items []catalog.Items, snapshot *config.Snapshot, offered func(server, name string) string, cleaner func(server string) func(string) string) []indexed {
	versions := make([]uint64, len(items))
	for i := range items {
		versions[i] = versionOf(&items[i])
	}
	x.mu.Lock()
	have, all := x.made, x.all
	known := x.parts
	if x.config != snapshot {
		known = nil // another configuration may have other names and rules
	}
	same := have && x.config == snapshot && slices.Equal(x.lists, versions)
	x.mu.Unlock()
	if same {
		return all
	}
	parts := make(map[string]*toolPart, len(items))
	first := map[string]string{} // the server that offers each name; the key is a name at /mcp
	all = nil
	for i := range items {
		list := &items[i]
		part := known[list.Server]
		if part == nil || part.version != versions[i] {
			part = &toolPart{version: versions[i]}
			server, _ := snapshot.Server(list.Server)
			server.Name = list.Server // the snapshot does not have the server if a reload has removed it
			clean := cleaner(list.Server)
			add := func(raw []byte, exposed bool) {
				part.tools = append(part.tools, indexTool(server, raw, exposed, offered, clean))
			}
			for _, raw := range list.Shown {
				add(raw, true)
			}
			for _, raw := range list.Hidden {
				add(raw, false)
			}
			addOthers(list, func(raw []byte, exposed bool, needs []string) {
				add(raw, exposed)
				part.tools[len(part.tools)-1].Needs = needs
			})
		}
		parts[list.Server] = part
		for j, t := range part.tools {
			if t.State == shown {
				if by, taken := first[t.Offered]; taken {
					t.State = hidden
					why := fmt.Sprintf("server %q has a tool with this name and comes first", by)
					if by == t.Server {
						why = "the server lists this name more than once, and Dragoman shows the first tool"
					}
					t.Hidden = append(slices.Clip(t.Hidden), Hidden{Endpoint: "/mcp", Why: why})
				} else {
					first[t.Offered] = t.Server
				}
			}
			t.sorted = t.Offered + "\x00" + t.Server + "\x00" + fmt.Sprintf("%06d", j)
			all = append(all, t)
		}
	}
	slices.SortFunc(all, func(a, b indexed) int { return cmp.Compare(a.sorted, b.sorted) })
	x.mu.Lock()
	defer x.mu.Unlock()
	x.made, x.config, x.lists, x.parts, x.all = true, snapshot, versions, parts, all
	return all
}

// versionOf returns a number that changes whenever the items of a server change for any client.
func versionOf(list *catalog.Items) uint64 {
	v := list.Version
	for i := range list.Others {
		v = (v ^ list.Others[i].Version) * 1099511628211 // as in FNV-1a, so that a change of any list changes v
	}
	return v
}

// addOthers calls add for each tool that is missing in the list for clients without capabilities. A
// client must declare at least one of the capabilities in needs to see the tool. needs is empty,
// but not nil, if these capabilities are not known. needs is nil if the list for clients without
// capabilities has not been read, and all other lists contain the tool.
func addOthers(list *catalog.Items, add func(raw []byte, exposed bool, needs []string)) {
	if len(list.Others) == 0 {
		return
	}
	names := func(all ...[][]byte) map[string]bool {
		out := map[string]bool{}
		for _, raw := range slices.Concat(all...) {
			out[tool.Of(raw).Name()] = true
		}
		return out
	}
	known := names(list.Shown, list.Hidden)
	lists := make([]map[string]bool, len(list.Others))
	for i := range list.Others {
		lists[i] = names(list.Others[i].Shown, list.Others[i].Hidden)
	}
	for i := range list.Others {
		for at, raw := range slices.Concat(list.Others[i].Shown, list.Others[i].Hidden) {
			name := tool.Of(raw).Name()
			if known[name] {
				continue
			}
			known[name] = true
			if !list.Have && !slices.ContainsFunc(lists, func(l map[string]bool) bool { return !l[name] }) {
				add(raw, at < len(list.Others[i].Shown), nil)
				continue
			}
			// Keep each capability that all clients with this tool declare, and that no other
			// client declares.
			needs := slices.Clone(list.Others[i].Capabilities)
			for j := range list.Others {
				needs = slices.DeleteFunc(needs, func(c string) bool { return slices.Contains(list.Others[j].Capabilities, c) != lists[j][name] })
			}
			add(raw, at < len(list.Others[i].Shown), append([]string{}, needs...))
		}
	}
}

// indexTool returns the index entry of one tool.
func indexTool(server config.Server, raw []byte, exposed bool, offered func(server, name string) string, clean func(string) string) indexed {
	t := tool.Of(raw)
	about := shownText(clean, t.Text("description"), maxAbout)
	name, named := jsonrpc.Text(raw, jsonrpc.Find(raw, jsonrpc.Whole(raw), "name"))
	out := indexed{raw: raw, Tool: Tool{
		Server: server.Name, Name: name, Title: shownText(clean, t.Title(), maxTitle), Description: excerpt.Cut(about, maxDescription),
		Tokens: tokens.Tool(raw, jsonrpc.Whole(raw)), Effect: effectOf(t), State: shown,
		AppOnly: t.AppOnly(),
	}}
	for _, h := range t.Hints() {
		out.Hints = append(out.Hints, ToolHint{h.Name, h.Text})
	}
	switch {
	case !named || name == "":
		out.State = invalid
		out.Hidden = []Hidden{{Endpoint: "/mcp", Why: "the tool has no name"}}
	case !exposed:
		out.State = hidden
		out.Hidden = hiddenBy(server, "tools", server.Expose.Tools, name)
	}
	if named {
		out.Offered = offered(server.Name, name)
	}
	out.text = strings.ToLower(strings.Join([]string{out.Offered, out.Name, out.Title, about}, "\n"))
	return out
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
func (a *API) readTools(r *http.Request) (any, *Problem) {
	query := r.URL.Query()
	server, effect, state := r.PathValue("name"), query.Get("effect"), query.Get("state")
	if server == "" {
		server = query.Get("server")
	}
	if server != "" {
		if bad := a.noServer(server); bad != nil {
			return nil, bad
		}
		a.refreshList(r.Context(), server, mcp.MethodListTools)
	}
	q := toolQuery{server: server, effect: effect, state: state, words: strings.Fields(strings.ToLower(excerpt.Cut(query.Get("q"), maxQuery)))}
	switch sort := query.Get("sort"); sort {
	case "":
	case "name":
		q.byName = true
	case "tokens":
		q.byTokens = true
	default:
		return nil, badParameter("sort", "Use sort=name or sort=tokens.")
	}
	found, cost := q.find(a.toolsOf())
	out := Tools{Tools: []Tool{}, Tokens: cost}
	p, bad := pageOf(r, found, func(x *indexed) string { return x.sorted })
	if bad != nil {
		return nil, bad
	}
	ready := a.readyServers()
	for i := range p.items {
		out.Tools = append(out.Tools, a.shownTool(&p.items[i], ready))
	}
	out.Total, out.Next = len(found), p.next
	return out, nil
}

// toolQuery says which tools a request asks for, and in which order.
type toolQuery struct {
	server, effect, state string   // "" selects all
	words                 []string // a tool must contain all these words
	byName, byTokens      bool     // the order of the results; if neither is set, the best matches come first
}

// find returns the matching tools in order. cost is the total number of tokens of the matching
// tools that clients see.
func (q *toolQuery) find(all []indexed) (found []indexed, cost int) {
	ranked := q.byTokens || !q.byName && len(q.words) > 0
	for i := range all {
		x := &all[i]
		if q.server != "" && x.Server != q.server || q.effect != "" && x.Effect != q.effect || q.state != "" && x.State != q.state || !hasAll(x.text, q.words) {
			continue
		}
		if x.State == shown {
			cost += x.Tokens
		}
		found = append(found, *x)
		switch last := &found[len(found)-1]; {
		case q.byTokens:
			last.sorted = fmt.Sprintf("%010d", math.MaxInt32-x.Tokens) + x.sorted
		case ranked:
			last.sorted = string(rank(x, q.words)) + x.sorted
		}
	}
	if ranked {
		slices.SortFunc(found, func(a, b indexed) int { return cmp.Compare(a.sorted, b.sorted) })
	}
	return found, cost
}

// maxQuery is the maximum length of a search text in bytes.
const maxQuery = 256

func hasAll(text string, words []string) bool {
	for _, w := range words {
		if !strings.Contains(text, w) {
			return false
		}
	}
	return true
}

// rank returns a letter that says how well a tool matches a search. It returns 'a' for the
// best match: the server's name for the tool begins with the first word. It returns 'b' if the name
// at /mcp contains this word, and 'c' otherwise.
func rank(x *indexed, words []string) byte {
	name := strings.ToLower(x.Name)
	switch {
	case strings.HasPrefix(name, words[0]):
		return 'a'
	case strings.Contains(strings.ToLower(x.Offered), words[0]):
		return 'b'
	}
	return 'c'
}

// readyServers reports for each server whether its lists are up to date.
func (a *API) readyServers() map[string]bool {
	out := map[string]bool{}
	for _, s := range a.opts.Runtime.Statuses() {
		out[s.Name] = s.State == "ready" || s.State == "idle" && s.Reason == ""
	}
	return out
}

// shownTool prepares a tool of the index for a response. It computes the signature, because the
// index does not contain it.
func (a *API) shownTool(x *indexed, ready map[string]bool) Tool {
	out := x.Tool
	out.Signature = shownText(a.opts.Runtime.Clean(x.Server), tool.Of(x.raw).Signature(), maxDescription)
	out.Stale = !ready[x.Server]
	return out
}

// readTool answers /servers/{name}/tools/{tool}.
func (a *API) readTool(r *http.Request) (any, *Problem) {
	x, bad := a.findTool(r.Context(), r.PathValue("name"), r.PathValue("tool"))
	if bad != nil {
		return nil, bad
	}
	return a.toolDetail(x), nil
}

// toolDetail returns a tool of the index with all details.
func (a *API) toolDetail(x *indexed) ToolDetail {
	clean := a.opts.Runtime.Clean(x.Server)
	t := tool.Of(x.raw)
	out := ToolDetail{
		Tool: a.shownTool(x, a.readyServers()), About: shownText(clean, t.Text("description"), maxAbout), Arguments: []ToolArgument{},
		Returns: shownText(clean, t.Returns(), maxDescription), Definition: cleanJSON(clean, x.raw),
	}
	for _, arg := range t.Arguments() {
		out.Arguments = append(out.Arguments, ToolArgument{
			Name: clean(arg.Name), Required: arg.Required, Type: clean(arg.Type), Default: shownText(clean, arg.Default, maxDescription), About: shownText(clean, arg.About, maxDescription),
		})
	}
	return out
}

// findTool returns a tool of a server, even if clients do not see the tool. It reads the list again
// if the cached list is not fresh.
func (a *API) findTool(ctx context.Context, server, name string) (*indexed, *Problem) {
	if bad := a.noServer(server); bad != nil {
		return nil, bad
	}
	a.refreshList(ctx, server, mcp.MethodListTools)
	return a.knownTool(server, name)
}

// knownTool does the same as findTool, but does not read the list again.
func (a *API) knownTool(server, name string) (*indexed, *Problem) {
	if bad := a.noServer(server); bad != nil {
		return nil, bad
	}
	var names []string
	all := a.toolsOf()
	for i := range all {
		if all[i].Server != server {
			continue
		}
		if all[i].Name == name {
			return &all[i], nil
		}
		names = append(names, all[i].Name)
	}
	p := &Problem{Type: "no-such-tool", Title: "No such tool", Status: http.StatusNotFound, Detail: "Server " + excerpt.Quote(server, maxName) + " lists no tool " + excerpt.Quote(name, maxName) + "."}
	if near := config.Suggest(name, names); near != "" {
		p.Detail += " Did you mean " + excerpt.Quote(near, maxName) + "?"
	}
	return nil, p
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

// itemsOf returns a list of one server. If the list for clients without capabilities has not been
// read, itemsOf returns the longest list that other clients have received.
func (a *API) itemsOf(server, method string) (out catalog.Items) {
	if lists := a.opts.Runtime.Lists(); lists != nil {
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

// refreshList reads a list of a server again if the cached list is not fresh. It waits only briefly
// for the result.
func (a *API) refreshList(ctx context.Context, server, method string) {
	if lists := a.opts.Runtime.Lists(); lists != nil {
		lists.Refresh(ctx, server, method)
	}
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
