package fake

import (
	"slices"
	"strconv"
	"strings"

	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
)

// method is a method that a server supports. run returns the members of the result.
type method struct {
	name   string
	of     feature
	params shape
	cached bool // the result is a CacheableResult (2026-07-28 §Caching)
	waits  bool
	run    func(x *exchange) (string, error)
}

// extension holds the methods, tools and capabilities that one file adds to strict servers. A server
// has a method, a tool or the capabilities only if its revision has the feature in the field "of".
type extension struct {
	methods      []method
	tools        []tool
	of           feature
	capabilities string // members of ServerCapabilities
	declares     string // a member of the capability "extensions"
}

// extensions returns the extensions that other files define. Add further extensions here.
func extensions() []extension { return append(taskExtensions(), moreExtensions()...) }

// methodsOf returns the methods of an edition, by name.
func methodsOf(ed *edition) map[string]*method {
	all := coreMethods()
	for _, e := range extensions() {
		all = append(all, e.methods...)
	}
	have := map[string]*method{}
	for _, m := range all {
		if ed.has(m.of) {
			have[m.name] = &m
		}
	}
	return have
}

func coreMethods() []method {
	cursor := shape{may("cursor", aString)}
	uri := shape{need("uri", aString)}
	return []method{
		{name: mcp.MethodInitialize, of: handshake, run: initialize, params: shape{
			need("protocolVersion", aString), need("capabilities", anObject, capabilityShape...), need("clientInfo", anObject, identityShape...),
		}},
		{name: mcp.MethodPing, of: handshake, run: func(*exchange) (string, error) { return "", nil }},
		{name: mcp.MethodDiscover, of: perRequest, run: discover, cached: true},
		{name: mcp.MethodListen, of: perRequest, run: listenTo, waits: true, params: shape{need("notifications", anObject,
			may("toolsListChanged", aBool), may("promptsListChanged", aBool), may("resourcesListChanged", aBool),
			may("resourceSubscriptions", anArray).of(need("", aString)))}},
		{name: mcp.MethodListTools, of: always, run: listTools, params: cursor, cached: true},
		{name: mcp.MethodCallTool, of: always, run: callTool, params: shape{need("name", aString), may("arguments", anObject)}},
		{name: mcp.MethodListResources, of: always, run: listResources, params: cursor, cached: true},
		{name: mcp.MethodListTemplates, of: always, run: listTemplates, params: cursor, cached: true},
		{name: mcp.MethodReadResource, of: always, run: readResource, params: uri, cached: true},
		{name: mcp.MethodSubscribe, of: handshake, run: subscribe, params: uri},
		{name: mcp.MethodUnsubscribe, of: handshake, run: unsubscribe, params: uri},
		{name: mcp.MethodListPrompts, of: always, run: listPrompts, params: cursor, cached: true},
		{name: mcp.MethodGetPrompt, of: always, run: getPrompt, params: shape{need("name", aString), may("arguments", anObject).of(need("", aString))}},
		{name: mcp.MethodComplete, of: always, run: complete, params: shape{
			need("ref", anObject, need("type", aString), may("name", aString), may("uri", aString)),
			need("argument", anObject, need("name", aString), need("value", aString)),
		}},
		{name: mcp.MethodSetLevel, of: handshake, run: setLevel, params: shape{need("level", aLevel)}},
	}
}

// capabilities returns the server's ServerCapabilities object.
func capabilities(ed *edition) string {
	out := `{"tools":{"listChanged":true},"resources":{"subscribe":true},"prompts":{},"logging":{}`
	if ed.has(completions) {
		out += `,"completions":{}`
	}
	var declared []string
	for _, e := range extensions() {
		switch {
		case !ed.has(e.of):
		case e.capabilities != "":
			out += "," + e.capabilities
		case e.declares != "":
			declared = append(declared, e.declares)
		}
	}
	return out + `,"extensions":{` + strings.Join(declared, ",") + "}}"
}

// initialize answers with the server's only revision (2025-11-25 §Lifecycle, "Version
// Negotiation").
func initialize(x *exchange) (string, error) {
	c := x.c
	c.s.mu.Lock()
	c.phase = answered
	c.caps = x.m.Param("capabilities").Of(x.m.Raw)
	c.s.mu.Unlock()
	return `"protocolVersion":` + quote(c.ed.date) + `,"capabilities":` + capabilities(c.ed) +
		`,"serverInfo":` + c.s.identity() + `,"instructions":` + quote("fake of "+c.ed.date), nil
}

// discover answers server/discover, which replaces initialize (2026-07-28 §Discovery).
func discover(x *exchange) (string, error) {
	return `"supportedVersions":[` + quote(x.c.ed.date) + `],"capabilities":` + capabilities(x.c.ed) +
		`,"instructions":` + quote("fake of "+x.c.ed.date), nil
}

// page returns one page of a list as members of a result. A cursor consists of the name of the list
// and the position of the next entry. page refuses all other cursors (2025-11-25 §Pagination, "Error
// Handling").
func (x *exchange) page(list string, entries []string) (string, error) {
	from, size := 0, x.c.s.part.page
	if x.c.s.part.twist.endless != "" {
		return x.endless(list, entries)
	}
	if at := x.m.Param("cursor"); !at.IsZero() {
		cursor, _ := jsonrpc.Text(x.m.Raw, at)
		where, ok := strings.CutPrefix(cursor, list+"-from-")
		n, err := strconv.Atoi(where)
		if !ok || err != nil || n <= 0 || n%size != 0 || n > len(entries) || where != strconv.Itoa(n) {
			return "", x.c.s.refuse(x.m.Method, jsonrpc.CodeInvalidParams, "this server did not issue the cursor %q", clip(cursor))
		}
		from = n
	}
	to := min(from+size, len(entries))
	next := ""
	if to < len(entries) {
		next = `,"nextCursor":` + quote(list+"-from-"+strconv.Itoa(to))
	}
	return quote(list) + ":[" + strings.Join(entries[from:to], ",") + "]" + next, nil
}

// endless does the same as page for a list that never ends.
func (x *exchange) endless(list string, entries []string) (string, error) {
	next := list + "-again"
	if x.c.s.part.twist.endless == "new" {
		cursor, _ := jsonrpc.Text(x.m.Raw, x.m.Param("cursor"))
		n, _ := strconv.Atoi(strings.TrimPrefix(cursor, list+"-page-"))
		next = list + "-page-" + strconv.Itoa(n+1)
	}
	return quote(list) + ":[" + strings.Join(entries, ",") + `],"nextCursor":` + quote(next), nil
}

const (
	textURI  = "fake://text"
	blobURI  = "fake://blob"
	itemsURI = "fake://items/"

	// somePNG is an image of one pixel. someWAV is a sound without samples.
	somePNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
	someWAV = "UklGRiQAAABXQVZFZm10IBAAAAABAAEARKwAAIhYAQACABAAZGF0YQAAAAA="
)

// names are the completion values.
var names = []string{"ada", "alan", "barbara", "edsger", "grace"}

func (e *edition) title(s string) string {
	if e.has(titles) {
		return `,"title":` + quote(s)
	}
	return ""
}

func listResources(x *exchange) (string, error) {
	ed := x.c.ed
	entries := []string{
		`{"uri":"` + blobURI + `","name":"blob"` + ed.title("Bytes") + `,"mimeType":"application/octet-stream"}`,
	}
	for i := 1; i <= 6; i++ {
		n := strconv.Itoa(i)
		entries = append(entries, `{"uri":"`+itemsURI+n+`","name":"item `+n+`","mimeType":"text/plain"}`)
	}
	entries = append(entries, `{"uri":"`+textURI+`","name":"text"`+ed.title("A text")+`,"description":"A text.","mimeType":"text/plain"}`)
	return x.page("resources", entries)
}

func listTemplates(x *exchange) (string, error) {
	return x.page("resourceTemplates", []string{
		`{"uriTemplate":"` + itemsURI + `{id}","name":"item"` + x.c.ed.title("Items") + `,"mimeType":"text/plain"}`,
	})
}

// contents returns the contents of a resource as JSON, or "" if the resource does not exist.
func contents(uri string) string {
	switch id, item := strings.CutPrefix(uri, itemsURI); {
	case uri == textURI:
		return `{"uri":"` + textURI + `","mimeType":"text/plain","text":"a text of the fake, with ünïcode\n"}`
	case uri == blobURI:
		return `{"uri":"` + blobURI + `","mimeType":"application/octet-stream","blob":"AAECA/8="}`
	case item && id != "" && !strings.Contains(id, "/"):
		return `{"uri":` + quote(uri) + `,"mimeType":"text/plain","text":` + quote("item "+id) + `}`
	}
	return unlisted(uri)
}

// uri returns the URI of the requested resource. For an unknown resource, it returns the error that
// the revision defines (2025-11-25 §Resources, "Error Handling"; 2026-07-28, same section). A
// request for an unknown resource is not a violation.
func (x *exchange) uri() (string, error) {
	uri, _ := jsonrpc.Text(x.m.Raw, x.m.Param("uri"))
	if contents(uri) != "" {
		return uri, nil
	}
	bad := refusal(jsonrpc.CodeInvalidParams, "unknown resource %s", clip(uri))
	if x.c.ed.has(notFoundCode) {
		bad.Code = mcp.CodeResourceNotFound
	}
	bad.Data = []byte(`{"uri":` + quote(uri) + `}`)
	return "", bad
}

func readResource(x *exchange) (string, error) {
	uri, err := x.uri()
	return `"contents":[` + contents(uri) + `]`, err
}

func listPrompts(x *exchange) (string, error) {
	return x.page("prompts", []string{
		`{"name":"greet"` + x.c.ed.title("Greet") + `,"description":"Asks for a greeting.","arguments":[{"name":"name","description":"Name of the person","required":true}]}`,
		`{"name":"media","description":"Has every kind of content."}`,
	})
}

func getPrompt(x *exchange) (string, error) {
	raw := x.m.Raw
	switch name, _ := jsonrpc.Text(raw, x.m.Param("name")); name {
	case "greet":
		who, ok := jsonrpc.Text(raw, jsonrpc.Find(raw, x.m.Param("arguments"), "name"))
		if !ok {
			return "", x.c.s.refuse(x.m.Method, jsonrpc.CodeInvalidParams, "params.arguments.name is missing")
		}
		return `"description":"A greeting.","messages":[{"role":"user","content":` + textBlock("Say hello to "+who+".") + `}]`, nil
	case "media":
		var all []string
		for _, block := range x.c.ed.blocks() {
			all = append(all, `{"role":"user","content":`+block+`}`)
		}
		return `"messages":[` + strings.Join(all, ",") + `]`, nil
	default:
		return "", refusal(jsonrpc.CodeInvalidParams, "unknown prompt %s", clip(name))
	}
}

// blocks returns one content block of each kind in the revision.
func (e *edition) blocks() []string {
	out := []string{textBlock("some text"), `{"type":"image","data":"` + somePNG + `","mimeType":"image/png"}`}
	if e.has(audio) {
		out = append(out, `{"type":"audio","data":"`+someWAV+`","mimeType":"audio/wav"}`)
	}
	out = append(out, `{"type":"resource","resource":`+contents(textURI)+`}`)
	if e.has(links) {
		out = append(out, `{"type":"resource_link","uri":"`+blobURI+`","name":"blob"}`)
	}
	return out
}

// complete returns the names that begin with the given value (2025-11-25 §Completion).
func complete(x *exchange) (string, error) {
	raw := x.m.Raw
	ref, argument := x.m.Param("ref"), x.m.Param("argument")
	kind, _ := jsonrpc.Text(raw, jsonrpc.Find(raw, ref, "type"))
	name, _ := jsonrpc.Text(raw, jsonrpc.Find(raw, ref, "name"))
	uri, _ := jsonrpc.Text(raw, jsonrpc.Find(raw, ref, "uri"))
	of, _ := jsonrpc.Text(raw, jsonrpc.Find(raw, argument, "name"))
	switch {
	case kind == "ref/prompt" && name == "greet" && of == "name":
	case kind == "ref/resource" && uri == itemsURI+"{id}" && of == "id":
	case kind != "ref/prompt" && kind != "ref/resource":
		return "", x.c.s.refuse(x.m.Method, jsonrpc.CodeInvalidParams, "params.ref.type is neither ref/prompt nor ref/resource")
	default:
		return "", refusal(jsonrpc.CodeInvalidParams, "there is nothing to complete for %s of %s", clip(of), clip(name+uri))
	}
	prefix, _ := jsonrpc.Text(raw, jsonrpc.Find(raw, argument, "value"))
	var values []string
	for _, n := range names {
		if strings.HasPrefix(n, prefix) {
			values = append(values, quote(n))
		}
	}
	return `"completion":{"values":[` + strings.Join(values, ",") + `],"total":` + strconv.Itoa(len(values)) + `,"hasMore":false}`, nil
}

func setLevel(x *exchange) (string, error) {
	name, _ := jsonrpc.Text(x.m.Raw, x.m.Param("level"))
	x.c.s.mu.Lock()
	defer x.c.s.mu.Unlock()
	x.c.level, _ = mcp.ParseLogLevel(name)
	return "", nil
}

func textBlock(s string) string { return `{"type":"text","text":` + quote(s) + `}` }

// textResult returns the members of a tool result that contains the text s.
func textResult(s string) string { return `"content":[` + textBlock(s) + `]` }

// toolError is an error of a tool. The server sends it as a result with isError.
type toolError string

func (e toolError) Error() string { return string(e) }

// toolsOf returns the tools of an edition and the tools in the slice more, sorted by name.
func toolsOf(ed *edition, more []tool) []tool {
	all := slices.Concat(coreTools(), askTools(), more)
	for _, e := range extensions() {
		all = append(all, e.tools...)
	}
	all = slices.DeleteFunc(all, func(t tool) bool { return !ed.has(t.of) })
	slices.SortFunc(all, func(a, b tool) int { return strings.Compare(a.name, b.name) })
	return all
}
