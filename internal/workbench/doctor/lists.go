package doctor

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/base/tokens"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
)

// Limits for reading lists and prompts.
const (
	maxPages  = 60
	deepPages = 600
	maxItems  = 20000
	maxBytes  = 64 << 20 // the maximum size in bytes of all pages of a list together

	maxArguments = 64 // the maximum number of arguments that read sends for a prompt
)

// list describes one of the lists of a server: its method, the result member that has the items, the
// member that identifies an item, and the capability. capability is "" if the list has no capability
// of its own.
type list struct{ method, member, key, capability string }

var serverLists = []list{
	{mcp.MethodListTools, "tools", "name", "tools"},
	{mcp.MethodListResources, "resources", "uri", "resources"},
	{mcp.MethodListTemplates, "resourceTemplates", "uriTemplate", ""},
	{mcp.MethodListPrompts, "prompts", "name", "prompts"},
}

// declared asks the server for its capabilities. It returns the answer, and the position of the
// capabilities in the answer.
func (t *talk) declared(ctx context.Context) (raw []byte, caps jsonrpc.Span) {
	method, members := mcp.MethodInitialize, greeting(t.rev.String())
	if t.rev.Modern() {
		method, members = mcp.MethodDiscover, ""
	}
	q := t.ask(method, members)
	if !t.await(ctx, q) || !q.worked() {
		return nil, jsonrpc.Span{}
	}
	return q.msg.Raw, q.msg.ResultMember("capabilities")
}

// lists reads all lists, compares the declared capabilities with the actual lists, and
// checks the tools.
func (e *exam) lists(ctx context.Context, t *talk) {
	raw, caps := t.hello, t.caps
	if t.rev.Modern() {
		if raw, caps = t.declared(ctx); raw == nil {
			t.unsure = true // the capabilities are unknown
		}
	}
	known := raw != nil
	for _, l := range serverLists {
		declares := l.capability == "" && !jsonrpc.Find(raw, caps, "resources").IsZero() || !jsonrpc.Find(raw, caps, l.capability).IsZero()
		q := e.list(ctx, t, l)
		if t.over {
			return
		}
		switch {
		case !known && q.worked():
		case q.silent():
			if declares {
				t.find(Unhandled, t.proof(q))
			}
		case declares && unsupported(q):
			if l.capability != "" { // templates are optional, so their absence is not a finding
				t.find(Unhandled, t.proof(q))
			}
		case !declares && q.worked() && l.capability != "":
			t.find(Undeclared, t.proof(q))
		case (declares || tacit(raw, caps, l)) && refusedForGood(q):
			if again := t.askUntilReady(ctx, l.method, ""); refusedForGood(again) {
				t.find(ListFails, t.proof(again))
			}
		}
	}
	e.handlers(ctx, t, raw, caps)
}

// tacit reports whether the server should have a list although the server declared no capabilities
// at all. This is true only for tools.
func tacit(raw []byte, caps jsonrpc.Span, l list) bool {
	return l.capability == "tools" && jsonrpc.KindOf(raw, caps) != '{'
}

// refusedForGood reports whether a request failed for a reason other than an unknown method or
// missing credentials.
func refusedForGood(q *question) bool {
	return q.done && q.err == nil && !q.worked() && !unsupported(q) &&
		q.status != http.StatusUnauthorized && q.status != http.StatusForbidden
}

// handlers tries the capabilities completions and logging, which have no list, if the server declared
// them. It sends one request for each. These requests change at most the log level of the session.
func (e *exam) handlers(ctx context.Context, t *talk, raw []byte, caps jsonrpc.Span) {
	tries := []struct{ capability, method, members string }{
		{"completions", mcp.MethodComplete, `"ref":{"type":"ref/prompt","name":"dragoman_no_such_prompt"},"argument":{"name":"a","value":""}`},
	}
	if t.rev.Legacy() {
		tries = append(tries, struct{ capability, method, members string }{"logging", mcp.MethodSetLevel, `"level":"warning"`})
	}
	for _, c := range tries {
		if jsonrpc.Find(raw, caps, c.capability).IsZero() {
			continue
		}
		q := t.askUntilReady(ctx, c.method, c.members)
		if t.over {
			return
		}
		if q.silent() || unsupported(q) {
			t.find(Unhandled, t.proof(q))
		}
	}
}

// list reads the pages of one list, and returns the request for the first page.
func (e *exam) list(ctx context.Context, t *talk, l list) *question {
	pages := maxPages
	if e.o.Deep {
		pages = deepPages
	}
	found, cursors := listReading{list: l, seen: map[string]bool{}}, map[string]bool{}
	var first *question
	members, read := "", 0
	defer func() {
		t.judgeStubs(first.sent, found.stubs, len(found.seen), false)
		if first.worked() {
			e.offers(l.member, len(found.seen), found.cost)
		}
	}()
	for page := 1; ; page++ {
		q := t.askUntilReady(ctx, l.method, members)
		if first == nil {
			first = q
		}
		if !q.worked() {
			if page > 1 && !t.over {
				t.find(PageFails, t.proof(q))
			}
			return first
		}
		raw := q.msg.Raw
		read += len(raw)
		all := q.msg.ResultMember(l.member)
		if jsonrpc.KindOf(raw, all) != '[' {
			t.find(NoList, t.proof(q))
			return first
		}
		items, fresh := found.page(t, q, all)
		at := q.msg.ResultMember("nextCursor")
		cursor, isText := jsonrpc.Text(raw, at)
		switch {
		case at.IsZero() || jsonrpc.KindOf(raw, at) == 'n':
			return first
		case !isText:
			t.find(CursorType, t.proof(q))
			return first
		case cursors[cursor]:
			t.find(CursorRepeats, evidence("> "+q.sent, "< "+e.redact(tail(raw)), "# this cursor was returned before"))
			return first
		case fresh == 0 && items > 0 && page > 2, page >= pages, len(found.seen) >= maxItems, read >= maxBytes:
			t.find(Endless, evidence("> "+q.sent, "< "+e.redact(tail(raw)), fmt.Sprintf("# page %d still has a nextCursor", page)))
			return first
		}
		cursors[cursor] = true
		members = `"cursor":` + string(at.Of(raw))
	}
}

// listReading is what a list has shown so far.
type listReading struct {
	list
	seen  map[string]bool // the keys of the items
	stubs []string        // tools that look like stubs
	cost  int             // tokens of the tools
}

// page judges the items of a page, which are at all. It returns their number, and how many of them the
// earlier pages did not have.
func (f *listReading) page(t *talk, q *question, all jsonrpc.Span) (items, fresh int) {
	raw := q.msg.Raw
	for item := range jsonrpc.Elements(raw, all) {
		items++
		key, _ := jsonrpc.Text(raw, jsonrpc.Find(raw, item, f.key))
		switch {
		case key == "":
			t.find(Nameless, evidence("> "+q.sent, "< "+t.e.redact(item.Of(raw))))
		case f.seen[key]:
			t.find(Duplicates, evidence("> "+q.sent, "< "+t.e.redact(item.Of(raw)), "# another item has the same "+f.key))
		default:
			f.seen[key] = true
			fresh++
		}
		if f.method == mcp.MethodListTools && key != "" {
			if t.judgeTool(raw, item) {
				f.stubs = append(f.stubs, t.e.redact(item.Of(raw)))
			}
			f.cost += tokens.Tool(raw, item)
		}
	}
	return items, fresh
}

// tail returns the end of a page, where the cursor usually is.
func tail(raw []byte) []byte { return raw[max(0, len(raw)-shown):] }

// read reads one resource and one prompt that the server offers. Reading them should not have side
// effects.
func (e *exam) read(ctx context.Context, t *talk) {
	if q := t.askUntilReady(ctx, mcp.MethodListResources, ""); q.worked() {
		for item := range jsonrpc.Elements(q.msg.Raw, q.msg.ResultMember("resources")) {
			r := t.askUntilReady(ctx, mcp.MethodReadResource, `"uri":`+textMember(q.msg.Raw, item, "uri"))
			if !r.worked() && !t.over {
				t.find(ReadFails, t.proof(r))
			}
			break
		}
	}
	if t.over {
		return
	}
	if q := t.askUntilReady(ctx, mcp.MethodListPrompts, ""); q.worked() {
		for item := range jsonrpc.Elements(q.msg.Raw, q.msg.ResultMember("prompts")) {
			var arguments []string
			for a := range jsonrpc.Elements(q.msg.Raw, jsonrpc.Find(q.msg.Raw, item, "arguments")) {
				if len(arguments) == maxArguments {
					break
				}
				if one := textMember(q.msg.Raw, a, "name") + `:"dragoman"`; !slices.Contains(arguments, one) {
					arguments = append(arguments, one)
				}
			}
			r := t.askUntilReady(ctx, mcp.MethodGetPrompt, `"name":`+textMember(q.msg.Raw, item, "name")+`,"arguments":{`+strings.Join(arguments, ",")+`}`)
			if r.silent() && !t.over {
				t.find(ReadFails, t.proof(r))
			}
			break
		}
	}
}

// textMember returns the text of a member as a quoted JSON string. If the member is not a string,
// textMember returns an empty JSON string.
func textMember(raw []byte, obj jsonrpc.Span, key string) string {
	s, _ := jsonrpc.Text(raw, jsonrpc.Find(raw, obj, key))
	return string(jsonrpc.AppendQuote(nil, s))
}
