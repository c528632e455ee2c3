package dialect

import (
	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/base/trails"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
)

// This file converts content that the schema of a peer's revision does not allow. The schema of each
// revision defines a closed set of content types (§Schema, "ContentBlock", "PromptMessage",
// "SamplingMessage", of all revisions). Legacy revisions from 2025-06-18 on require that some values
// are objects (§Schema, "CallToolResult", "Tool").

// lacks reports whether a result may contain something that this revision cannot express. structured
// is the position of structuredContent in a result of a modern server. lacks runs for every answer, so
// it must be fast.
func (l legacy) lacks(c *mcp.Call, r *mcp.Reply, structured jsonrpc.Span) bool {
	switch c.Msg.Method {
	case mcp.MethodCallTool:
		if !l.rev.Can(mcp.ResourceLinks) {
			return true
		}
		if r.From.Can(mcp.StructuredAny) {
			k := jsonrpc.KindOf(r.Msg.Raw, structured)
			return k != 0 && k != '{'
		}
	case mcp.MethodGetPrompt:
		return !l.rev.Can(mcp.ResourceLinks)
	case mcp.MethodListTools:
		return !r.From.Legacy() // true for a list of a modern server, or a merged list
	}
	return false
}

// convertReply does the same as reply, and also converts content that this revision does not allow.
func (l legacy) convertReply(dst []byte, c *mcp.Call, r *mcp.Reply) []byte {
	e, m := &jsonrpc.Edits{}, r.Msg
	e.AddAll(r.Edits)
	e.Replace(mcp.WhyID, m.IDAt, []byte(c.Msg.ID))
	switch c.Msg.Method {
	case mcp.MethodCallTool:
		if !l.rev.Can(mcp.ResourceLinks) {
			f := converter{raw: m.Raw, edits: e, to: l.rev, losses: &r.Losses}
			i := 0
			for at := range jsonrpc.Elements(m.Raw, m.ResultMember("content")) {
				f.block(at, i)
				i++
			}
		}
		if r.From.Can(mcp.StructuredAny) {
			dropStructured(e, r)
		}
	case mcp.MethodGetPrompt:
		if !l.rev.Can(mcp.ResourceLinks) {
			f := converter{raw: m.Raw, edits: e, to: l.rev, losses: &r.Losses}
			i := 0
			for at := range jsonrpc.Elements(m.Raw, m.ResultMember("messages")) {
				f.block(jsonrpc.Find(m.Raw, at, "content"), i)
				i++
			}
		}
	case mcp.MethodListTools:
		dropOutputSchemas(e, r)
	}
	return c.Trail.Splice(dst, m.Raw, e)
}

// dropStructured removes a structuredContent that is not an object. Servers should also send the
// value as text in content (2026-07-28 §Tools, "Structured Content"). If content is empty,
// dropStructured adds the value to content as text.
func dropStructured(e *jsonrpc.Edits, r *mcp.Reply) {
	m := r.Msg
	var at [2]jsonrpc.Span
	jsonrpc.FindAll(m.Raw, m.Result, []string{"structuredContent", "content"}, at[:])
	if k := jsonrpc.KindOf(m.Raw, at[0]); k == 0 || k == '{' {
		return
	}
	r.Losses.Add("structuredContent", "the client's revision allows only objects in structuredContent; content has the same value as text")
	var set []jsonrpc.Field
	empty := true
	for range jsonrpc.Elements(m.Raw, at[1]) {
		empty = false
		break
	}
	if empty {
		text := jsonrpc.AppendQuote([]byte(`[{"type":"text","text":`), string(at[0].Of(m.Raw)))
		set = append(set, jsonrpc.Field{Key: "content", Value: append(text, `}]`...)})
	}
	e.Object(mcp.WhyStructured, m.Raw, m.Result, func(k []byte) bool { return string(k) == "structuredContent" }, set...)
}

// dropOutputSchemas removes output schemas whose type is not object. A client that checks the list
// against the schema of its revision would reject the whole list because of one such output schema.
func dropOutputSchemas(e *jsonrpc.Edits, r *mcp.Reply) {
	raw := r.Msg.Raw
	for tool := range jsonrpc.Elements(raw, r.Msg.ResultMember("tools")) {
		schema := jsonrpc.Find(raw, tool, "outputSchema")
		if schema.IsZero() {
			continue
		}
		if t, _ := jsonrpc.Text(raw, jsonrpc.Find(raw, schema, "type")); t == "object" {
			continue
		}
		r.Losses.Add("outputSchema", "the client's revision allows only schemas of type object in outputSchema")
		e.Object(mcp.WhyOutputSchema, raw, tool, func(k []byte) bool { return string(k) == "outputSchema" })
	}
}

// converter converts content blocks to types that exist in a revision.
type converter struct {
	raw    []byte
	edits  *jsonrpc.Edits
	to     mcp.Revision
	losses *mcp.Losses
}

// block converts one content block if that is necessary. i is the index of the block.
func (f *converter) block(at jsonrpc.Span, i int) {
	kind, _ := jsonrpc.Text(f.raw, jsonrpc.Find(f.raw, at, "type"))
	switch {
	case kind == "audio" && !f.to.Can(mcp.AudioContent):
		f.edits.Replace(mcp.WhyContent, at, audioAsResource(f.raw, at, i))
		f.losses.Add("content.audio", "the client's revision does not have audio, so the audio is sent as an embedded resource")
	case kind == "resource_link" && !f.to.Can(mcp.ResourceLinks):
		f.edits.Replace(mcp.WhyContent, at, linkAsText(f.raw, at))
		f.losses.Add("content.resource_link", "the client's revision does not have links to resources, so the link is sent as text")
	}
}

// audioAsResource returns an audio block as an embedded resource. A resource needs a URI, so
// audioAsResource makes a URI from i, the index of the block.
func audioAsResource(raw []byte, at jsonrpc.Span, i int) []byte {
	out := append([]byte(`{"type":"resource","resource":{"uri":`), quote("urn:mcp:content:"+string(jsonInt(int64(i))))...)
	for _, m := range [2][2]string{{"mimeType", "mimeType"}, {"data", "blob"}} {
		if v := jsonrpc.Find(raw, at, m[0]); !v.IsZero() {
			out = append(append(append(append(out, ','), quote(m[1])...), ':'), v.Of(raw)...)
		}
	}
	return appendAnnotations(append(out, '}'), raw, at)
}

// linkAsText returns a text that describes a resource link.
func linkAsText(raw []byte, at jsonrpc.Span) []byte {
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
	return appendAnnotations(append([]byte(`{"type":"text","text":`), quote(words+text("uri"))...), raw, at)
}

// appendAnnotations appends the annotations of the original block and a closing brace to the new
// block.
func appendAnnotations(out, raw []byte, at jsonrpc.Span) []byte {
	if v := jsonrpc.Find(raw, at, "annotations"); !v.IsZero() {
		out = append(append(out, `,"annotations":`...), v.Of(raw)...)
	}
	return append(out, '}')
}

// ConvertRequest converts a server request to the form for a client of the given revision. It adds
// the losses to l. It returns m if no change is needed.
func ConvertRequest(t *trails.Trail, to mcp.Revision, m *jsonrpc.Message, l *mcp.Losses) *jsonrpc.Message {
	if m.Method != mcp.MethodSample || to.Can(mcp.SamplingBlocks) || !to.Legacy() {
		return m
	}
	list := m.Param("messages")
	if jsonrpc.KindOf(m.Raw, list) != '[' {
		return m
	}
	f := converter{raw: m.Raw, to: to, losses: l}
	out, changed := []byte{'['}, false
	for at := range jsonrpc.Elements(m.Raw, list) {
		content := jsonrpc.Find(m.Raw, at, "content")
		if jsonrpc.KindOf(m.Raw, content) != '[' {
			b := f.convertSampled(content)
			changed = changed || b != nil
			out = f.message(out, at, content, b)
			continue
		}
		role := jsonrpc.Find(m.Raw, at, "role").Of(m.Raw)
		if len(role) > longestRole {
			out = f.message(out, at, content, nil)
			continue
		}
		// Older revisions allow only one block per message. So each block becomes a message with
		// the same role, in the same order. Only the first message gets the other members of the
		// original message. If every message got them, the result could be a thousand times as
		// large as the original.
		changed = true
		n := 0
		for block := range jsonrpc.Elements(m.Raw, content) {
			b := f.convertSampled(block)
			if b == nil {
				b = block.Of(m.Raw)
			}
			if n++; n == 1 {
				out = f.message(out, at, content, b)
			} else {
				out = appendContinuation(out, role, b)
			}
		}
		switch {
		case n == 0:
			out = f.message(out, at, content, []byte(`{"type":"text","text":""}`))
		case n > 1:
			l.Add("sampling.content", "the revision allows only one content block in a message, so the message is split")
		}
	}
	if !changed {
		return m
	}
	var e jsonrpc.Edits
	e.Replace(mcp.WhySampling, list, append(out, ']'))
	return mcp.RewriteOrKeep(t, m, &e)
}

// longestRole is the maximum length in bytes of a role, including the quotes. A message with a
// longer role is not split. MCP defines only the roles "user" and "assistant".
const longestRole = 32

// appendContinuation appends a message with this role and one content block to list.
func appendContinuation(list, role, content []byte) []byte {
	list = append(list, `,{`...)
	if role != nil {
		list = append(append(append(list, `"role":`...), role...), ',')
	}
	return append(append(append(list, `"content":`...), content...), '}')
}

// message appends a sampling message to a list. The parameter at is the position of the message. If
// the parameter with is not nil, it replaces the content of the message.
func (f *converter) message(list []byte, at, content jsonrpc.Span, with []byte) []byte {
	if len(list) > 1 {
		list = append(list, ',')
	}
	if with == nil || content.IsZero() {
		return append(list, at.Of(f.raw)...)
	}
	list = append(list, f.raw[at.Start:content.Start]...)
	list = append(list, with...)
	return append(list, f.raw[content.End:at.End]...)
}

// convertSampled returns a sampling block in a type that exists in the revision. It returns nil
// if the block needs no change. Sampling does not allow embedded resources, so an unsupported block
// becomes text.
func (f *converter) convertSampled(at jsonrpc.Span) []byte {
	kind, _ := jsonrpc.Text(f.raw, jsonrpc.Find(f.raw, at, "type"))
	var text string
	switch kind {
	case "audio":
		if f.to.Can(mcp.AudioContent) {
			return nil
		}
		mime, _ := jsonrpc.Text(f.raw, jsonrpc.Find(f.raw, at, "mimeType"))
		text = "[audio that cannot be shown here: " + mime + "]"
		f.losses.Add("sampling.audio", "the revision does not have audio, so the audio is replaced with a text")
	case "tool_use", "tool_result":
		text = string(at.Of(f.raw))
		f.losses.Add("sampling."+kind, "the revision does not have tools in sampling, so the tool content is sent as text")
	default:
		return nil
	}
	return append(jsonrpc.AppendQuote([]byte(`{"type":"text","text":`), text), '}')
}

// ConvertAnswer converts the answer to a server request to the form for a server of the given
// revision. It adds the losses to l. It returns m if no change is needed.
func ConvertAnswer(t *trails.Trail, to mcp.Revision, method string, m *jsonrpc.Message, l *mcp.Losses) *jsonrpc.Message {
	if method != mcp.MethodSample || to.Can(mcp.SamplingBlocks) || m.Kind != jsonrpc.Result {
		return m
	}
	content := m.ResultMember("content")
	f := converter{raw: m.Raw, to: to, losses: l}
	var with []byte
	switch jsonrpc.KindOf(m.Raw, content) {
	case '{':
		with = f.convertSampled(content)
	case '[':
		with = f.joinBlocks(content)
	}
	if with == nil {
		return m
	}
	var e jsonrpc.Edits
	e.Replace(mcp.WhySampling, content, with)
	return mcp.RewriteOrKeep(t, m, &e)
}

// joinBlocks returns one block in place of a list of blocks. If the list has text blocks, the
// returned block contains the text of all of them. Otherwise joinBlocks returns the first block.
func (f *converter) joinBlocks(list jsonrpc.Span) []byte {
	var text []byte
	var other []byte
	n := 0
	for at := range jsonrpc.Elements(f.raw, list) {
		b := f.convertSampled(at)
		whole := b
		if b == nil {
			whole = at.Of(f.raw)
		}
		n++
		s, isText := jsonrpc.Text(whole, jsonrpc.Find(whole, jsonrpc.Whole(whole), "text"))
		switch {
		case isText:
			if text != nil {
				text = append(text, '\n')
			}
			text = append(text, s...)
		case other == nil:
			other = whole
		}
	}
	if n > 1 {
		f.losses.Add("sampling.content", "the revision allows only one content block in a message, so the blocks are joined")
	}
	if text == nil && other != nil {
		return other
	}
	return append(jsonrpc.AppendQuote([]byte(`{"type":"text","text":`), string(text)), '}')
}
