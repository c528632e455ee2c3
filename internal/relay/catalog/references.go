package catalog

import (
	"bytes"
	"context"
	"fmt"

	"github.com/dragoman-mcp/dragoman/internal/base/excerpt"
	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
)

// showURI returns the URI under which clients see a URI of a server; see [URIs]. With one server,
// all URIs stay as they are.
func (c *Catalog) showURI(server, uri string, claim bool) string {
	shown := c.uris().show(server, uri, claim)
	if len(c.Sources) == 1 {
		return uri
	}
	return shown
}

func (c *Catalog) uris() *URIs {
	if c.URIs != nil {
		return c.URIs
	}
	return &c.ownURIs
}

// showAt adds an edit to e if clients see the URI at a position of raw changed. It then returns the
// reason, else "".
func (c *Catalog) showAt(server string, raw []byte, at jsonrpc.Span, claim bool, e *jsonrpc.Edits) (why string) {
	uri, ok := jsonrpc.Text(raw, at)
	if !ok || exclusive(uri) == "" {
		return ""
	}
	shown := c.showURI(server, uri, claim)
	if shown == uri {
		return ""
	}
	e.Replace(mcp.WhyURI, at, jsonrpc.AppendQuote(nil, shown))
	if holder := c.uris().holder(uri); holder != "" && holder != server {
		return fmt.Sprintf("server %q had the URI %s first, so clients see this one as %s", holder, excerpt.Cut(uri, maxRepeated), excerpt.Cut(shown, maxRepeated))
	}
	return fmt.Sprintf("the URI could be mistaken for one of another server, so clients see it as %s", excerpt.Cut(shown, maxRepeated))
}

// pageURIs calls visit with the positions at which a tool names the page that it shows (SEP-1865,
// "Resource Discovery"). The flat members are older: the first is deprecated, and the second is that
// of OpenAI's Apps SDK.
func pageURIs(tool []byte, visit func(at jsonrpc.Span)) {
	meta := jsonrpc.Find(tool, jsonrpc.Whole(tool), "_meta")
	visit(jsonrpc.Find(tool, jsonrpc.Find(tool, meta, "ui"), "resourceUri"))
	for _, key := range [...]string{"ui/resourceUri", "openai/outputTemplate"} {
		visit(jsonrpc.Find(tool, meta, key))
	}
}

// skillURIs calls visit with the positions of the URIs in the entry of a skill, which include those
// of its files (SEP-2640, "Skill Entries").
func skillURIs(raw []byte, skill jsonrpc.Span, visit func(at jsonrpc.Span)) {
	visit(jsonrpc.Find(raw, skill, "uri"))
	for file := range jsonrpc.Elements(raw, jsonrpc.Find(raw, skill, "resources")) {
		visit(jsonrpc.Find(raw, file, "uri"))
	}
}

// itemURIs calls visit with the positions of the URIs in an item of a list.
func itemURIs(method string, item []byte, visit func(at jsonrpc.Span)) {
	whole := jsonrpc.Whole(item)
	switch method {
	case mcp.MethodListTools:
		pageURIs(item, visit)
	case mcp.MethodListResources:
		visit(jsonrpc.Find(item, whole, "uri"))
	case mcp.MethodListTemplates:
		visit(jsonrpc.Find(item, whole, "uriTemplate"))
	case mcp.MethodListSkills:
		skillURIs(item, whole, visit)
	}
}

// contentURI calls visit with the position of the URI in a content block, if the block links or
// contains a resource (2025-06-18 §Tools, "Resource Links").
func contentURI(raw []byte, block jsonrpc.Span, visit func(at jsonrpc.Span)) {
	switch kind, _ := jsonrpc.Text(raw, jsonrpc.Find(raw, block, "type")); kind {
	case "resource_link":
		visit(jsonrpc.Find(raw, block, "uri"))
	case "resource":
		visit(jsonrpc.Find(raw, jsonrpc.Find(raw, block, "resource"), "uri"))
	}
}

// contentURIs does the same as contentURI for a list of blocks.
func contentURIs(raw []byte, list jsonrpc.Span, visit func(at jsonrpc.Span)) {
	for block := range jsonrpc.Elements(raw, list) {
		contentURI(raw, block, visit)
	}
}

// answerURIs calls visit with the positions of the URIs in an answer to a request.
func answerURIs(method string, m *jsonrpc.Message, visit func(at jsonrpc.Span)) {
	raw := m.Raw
	if m.Kind != jsonrpc.Result {
		// "Resource not found" (2025-11-25 §Resources, "Error Handling")
		visit(jsonrpc.Find(raw, jsonrpc.Find(raw, m.Error, "data"), "uri"))
		return
	}
	switch method {
	case mcp.MethodReadDirectory, mcp.MethodReadResource:
		key := "resources"
		if method == mcp.MethodReadResource {
			key = "contents"
		}
		for item := range jsonrpc.Elements(raw, m.ResultMember(key)) {
			visit(jsonrpc.Find(raw, item, "uri"))
		}
	case mcp.MethodGetSkill:
		skillURIs(raw, m.ResultMember("skill"), visit)
	case mcp.MethodCallTool, mcp.MethodTaskResult:
		contentURIs(raw, m.ResultMember("content"), visit)
	case mcp.MethodGetTask: // SEP-2663: a task that has ended contains the result of the call
		contentURIs(raw, jsonrpc.Find(raw, m.ResultMember("result"), "content"), visit)
	case mcp.MethodGetPrompt:
		for message := range jsonrpc.Elements(raw, m.ResultMember("messages")) {
			content := jsonrpc.Find(raw, message, "content")
			contentURI(raw, content, visit)
			contentURIs(raw, content, visit)
		}
	}
}

// mayNameURI reports whether answerURIs may find a URI. Most answers have none, and they may be long,
// so it must be fast.
func mayNameURI(method string, m *jsonrpc.Message) bool {
	word := []byte(`"resource`)
	switch method {
	case mcp.MethodReadDirectory, mcp.MethodReadResource, mcp.MethodGetSkill:
		word = []byte(`"uri"`)
	case mcp.MethodCallTool, mcp.MethodGetPrompt, mcp.MethodTaskResult, mcp.MethodGetTask:
	default:
		return false
	}
	return bytes.Contains(m.Raw, word) || bytes.Contains(m.Raw, escaped)
}

// escaped begins an escape with which any name can be written differently.
var escaped = []byte(`\u`)

// Present prepares a server's answer to a call for the client: it replaces the URIs that other
// servers have too, and remembers which resources the answer names, because resources need not be in
// a list (2025-06-18 §Tools, "Resource Links"; SEP-2640). If the answer says that a resource does not
// exist, Present forgets that the server had it.
func (v View) Present(ctx context.Context, u Source, c *mcp.Call, reply *mcp.Reply) *mcp.Reply {
	raw, method, server := reply.Msg.Raw, c.Msg.Method, u.Name()
	names := reply.Msg.Kind == jsonrpc.Result && method != mcp.MethodReadResource
	if code := reply.Code(); method == mcp.MethodReadResource && (code == mcp.CodeResourceNotFound || code == jsonrpc.CodeInvalidParams) {
		v.c.owners.forget(c.Name, u)
	}
	if !mayNameURI(method, reply.Msg) {
		return reply
	}
	left := maxLearned
	var e jsonrpc.Edits
	answerURIs(method, reply.Msg, func(at jsonrpc.Span) {
		uri, _ := jsonrpc.Text(raw, at)
		switch {
		case exclusive(uri) != "":
			v.c.showAt(server, raw, at, names, &e)
		case names && uri != "" && left > 0:
			if left == maxLearned {
				v.beforeNaming(ctx)
			}
			left--
			v.learn(uri, u)
		}
	})
	if e.Len() == 0 {
		return reply
	}
	// The codecs may turn a link into text, so they must find the new URIs in the message.
	e.AddAll(reply.Edits)
	m, err := mcp.Rewrite(c.Trail, reply.Msg, &e)
	if err != nil {
		return reply
	}
	out := *reply
	out.Msg, out.Edits = m, jsonrpc.EditList{}
	return &out
}

// PresentNote adds edits to a server's notification that replace the URIs that other servers have
// too.
func (c *Catalog) PresentNote(server string, m *jsonrpc.Message, e *jsonrpc.Edits) {
	show := func(at jsonrpc.Span) { c.showAt(server, m.Raw, at, false, e) }
	switch {
	case server == "":
	case m.Method == mcp.NoteResourceUpdated:
		show(m.Param("uri"))
	case m.Method == mcp.NoteTask:
		contentURIs(m.Raw, jsonrpc.Find(m.Raw, m.Param("result"), "content"), show)
	}
}
