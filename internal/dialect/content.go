package dialect

import (
	"github.com/dragoman-mcp/dragoman/internal/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/mcp"
)

// content turns pieces of content of a kind that a client's revision does not have
// into ones that it has and that say the same: its schema knows a closed set of
// kinds, and a client that checks it refuses the whole result for one of them.
// Audio becomes an embedded resource, a link to a resource a text.
func (l legacy) content(e *jsonrpc.Edits, c *mcp.Call, r *mcp.Reply) {
	if l.rev.Can(mcp.AudioContent) && l.rev.Can(mcp.ResourceLinks) || r.Msg.Kind != jsonrpc.Result {
		return
	}
	raw := r.Msg.Raw
	switch c.Msg.Method {
	case mcp.MethodCallTool:
		i := 0
		for at := range jsonrpc.Elements(raw, r.Msg.ResultMember("content")) {
			l.block(e, raw, at, i)
			i++
		}
	case mcp.MethodGetPrompt:
		i := 0
		for at := range jsonrpc.Elements(raw, r.Msg.ResultMember("messages")) {
			l.block(e, raw, jsonrpc.Find(raw, at, "content"), i)
			i++
		}
	}
}

// block rewrites one piece of content if it has to; i is its place among others.
func (l legacy) block(e *jsonrpc.Edits, raw []byte, at jsonrpc.Span, i int) {
	kind, _ := jsonrpc.Text(raw, jsonrpc.Find(raw, at, "type"))
	switch {
	case kind == "audio" && !l.rev.Can(mcp.AudioContent):
		e.Replace(at, embedded(raw, at, i))
	case kind == "resource_link" && !l.rev.Can(mcp.ResourceLinks):
		e.Replace(at, linked(raw, at))
	}
}

// embedded returns audio as an embedded resource. It has no address of its own, so
// it is given a name by its place in the result.
func embedded(raw []byte, at jsonrpc.Span, i int) []byte {
	out := append([]byte(`{"type":"resource","resource":{"uri":`), quote("urn:mcp:content:"+string(jsonInt(int64(i))))...)
	for _, m := range [2][2]string{{"mimeType", "mimeType"}, {"data", "blob"}} {
		if v := jsonrpc.Find(raw, at, m[0]); !v.IsZero() {
			out = append(append(append(append(out, ','), quote(m[1])...), ':'), v.Of(raw)...)
		}
	}
	return annotated(append(out, '}'), raw, at)
}

// linked returns a link to a resource as a text that names it.
func linked(raw []byte, at jsonrpc.Span) []byte {
	text := func(name string) string {
		s, _ := jsonrpc.Text(raw, jsonrpc.Find(raw, at, name))
		return s
	}
	words := text("title")
	if words == "" {
		words = text("name")
	}
	if d := text("description"); d != "" {
		words += " (" + d + ")"
	}
	if words != "" {
		words += ": "
	}
	return annotated(append([]byte(`{"type":"text","text":`), quote(words+text("uri"))...), raw, at)
}

// annotated ends a piece of content with the annotations of another.
func annotated(out, raw []byte, at jsonrpc.Span) []byte {
	if v := jsonrpc.Find(raw, at, "annotations"); !v.IsZero() {
		out = append(append(out, `,"annotations":`...), v.Of(raw)...)
	}
	return append(out, '}')
}
