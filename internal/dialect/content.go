package dialect

import (
	"bytes"

	"github.com/dragoman-mcp/dragoman/internal/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/mcp"
)

// What is in this file keeps from a peer what its revision has no words for, where
// its schema does not merely allow further members but makes a closed choice: the
// kinds of content (§Schema, "ContentBlock", "PromptMessage", "SamplingMessage", of
// all revisions) and the objects of 2025-06-18 §Schema, "CallToolResult", "Tool".

// lacks reports whether a result may hold something that this revision has no words
// for. It is asked of every answer, so it looks no further than it must.
func (l legacy) lacks(c *mcp.Call, r *mcp.Reply) bool {
	switch c.Msg.Method {
	case mcp.MethodCallTool:
		if !l.rev.Can(mcp.ResourceLinks) {
			return true
		}
		if r.From.Can(mcp.StructuredAny) && mayBeStructured(r.Msg.Raw) {
			k := jsonrpc.KindOf(r.Msg.Raw, r.Msg.ResultMember("structuredContent"))
			return k != 0 && k != '{'
		}
	case mcp.MethodGetPrompt:
		return !l.rev.Can(mcp.ResourceLinks)
	case mcp.MethodListTools:
		return !r.From.Legacy() // a modern server's, or that of several servers
	}
	return false
}

// mayBeStructured reports whether a message may have a structuredContent. It costs a
// fraction of looking for the member: of its name's letters C is the rare one, and
// only an escape could hide it.
func mayBeStructured(raw []byte) bool {
	for rest := raw; ; {
		i := bytes.IndexByte(rest, 'C')
		if i < 0 {
			return bytes.IndexByte(raw, '\\') >= 0
		}
		if bytes.HasSuffix(rest[:i], structuredHead) && bytes.HasPrefix(rest[i:], structuredTail) {
			return true
		}
		rest = rest[i+1:]
	}
}

var structuredHead, structuredTail = []byte("structured"), []byte("Content")

// fitted is reply for what a client of this revision could not read otherwise.
func (l legacy) fitted(dst []byte, c *mcp.Call, r *mcp.Reply) []byte {
	edits := r.Edits
	e, m := &edits, r.Msg
	e.Replace(mcp.WhyID, m.IDAt, []byte(c.Msg.ID))
	switch c.Msg.Method {
	case mcp.MethodCallTool:
		if !l.rev.Can(mcp.ResourceLinks) {
			f := fitter{raw: m.Raw, edits: e, to: l.rev, losses: &r.Losses}
			i := 0
			for at := range jsonrpc.Elements(m.Raw, m.ResultMember("content")) {
				f.block(at, i)
				i++
			}
		}
		if r.From.Can(mcp.StructuredAny) {
			structured(e, r)
		}
	case mcp.MethodGetPrompt:
		if !l.rev.Can(mcp.ResourceLinks) {
			f := fitter{raw: m.Raw, edits: e, to: l.rev, losses: &r.Losses}
			i := 0
			for at := range jsonrpc.Elements(m.Raw, m.ResultMember("messages")) {
				f.block(jsonrpc.Find(m.Raw, at, "content"), i)
				i++
			}
		}
	case mcp.MethodListTools:
		outputSchemas(e, r)
	}
	return c.Trail.Splice(dst, m.Raw, e)
}

// structured takes out a structuredContent that is no object. Its text stands in
// content (2026-07-28 §Tools, "Structured Content": it should); where there is none
// it is put there.
func structured(e *jsonrpc.Edits, r *mcp.Reply) {
	m := r.Msg
	var at [2]jsonrpc.Span
	jsonrpc.FindAll(m.Raw, m.Result, []string{"structuredContent", "content"}, at[:])
	if k := jsonrpc.KindOf(m.Raw, at[0]); k == 0 || k == '{' {
		return
	}
	r.Losses.Add("structuredContent", "the client's revision has objects only there; content has the same as text")
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

// outputSchemas takes out those that do not say that they are of an object: a client
// that checks the list by its revision's schema would lose all tools over one.
func outputSchemas(e *jsonrpc.Edits, r *mcp.Reply) {
	raw := r.Msg.Raw
	for tool := range jsonrpc.Elements(raw, r.Msg.ResultMember("tools")) {
		schema := jsonrpc.Find(raw, tool, "outputSchema")
		if schema.IsZero() {
			continue
		}
		if t, _ := jsonrpc.Text(raw, jsonrpc.Find(raw, schema, "type")); t == "object" {
			continue
		}
		r.Losses.Add("outputSchema", "the client's revision has schemas of objects only there")
		e.Object(mcp.WhyOutputSchema, raw, tool, func(k []byte) bool { return string(k) == "outputSchema" })
	}
}

// fitter puts content blocks into those that a revision has.
type fitter struct {
	raw    []byte
	edits  *jsonrpc.Edits
	to     mcp.Revision
	losses *mcp.Losses
}

// block rewrites one piece of content if it has to; i is its place among others.
func (f *fitter) block(at jsonrpc.Span, i int) {
	kind, _ := jsonrpc.Text(f.raw, jsonrpc.Find(f.raw, at, "type"))
	switch {
	case kind == "audio" && !f.to.Can(mcp.AudioContent):
		f.edits.Replace(mcp.WhyContent, at, embedded(f.raw, at, i))
		f.losses.Add("content.audio", "the client's revision has no audio, so it is an embedded resource")
	case kind == "resource_link" && !f.to.Can(mcp.ResourceLinks):
		f.edits.Replace(mcp.WhyContent, at, linked(f.raw, at))
		f.losses.Add("content.resource_link", "the client's revision has no links to resources, so it is a text that names it")
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

// Question puts a server's question into the words of a client of revision to, and
// adds what that loses. It returns m where nothing has to be changed.
func Question(t *jsonrpc.Trail, to mcp.Revision, m *jsonrpc.Message, l *mcp.Losses) *jsonrpc.Message {
	if m.Method != mcp.MethodSample || to.Can(mcp.SamplingBlocks) || !to.Legacy() {
		return m
	}
	list := m.Param("messages")
	if jsonrpc.KindOf(m.Raw, list) != '[' {
		return m
	}
	f := fitter{raw: m.Raw, to: to, losses: l}
	out, changed := []byte{'['}, false
	for at := range jsonrpc.Elements(m.Raw, list) {
		content := jsonrpc.Find(m.Raw, at, "content")
		if jsonrpc.KindOf(m.Raw, content) != '[' {
			b := f.sampled(content)
			changed = changed || b != nil
			out = f.message(out, at, content, b)
			continue
		}
		role := jsonrpc.Find(m.Raw, at, "role").Of(m.Raw)
		if len(role) > longestRole {
			out = f.message(out, at, content, nil)
			continue
		}
		// One block a message: several become messages of the same role, in their order.
		// What else stands in the message stays with the first: repeated for each block it
		// could be a thousand times as large as what the server sent.
		changed = true
		n := 0
		for block := range jsonrpc.Elements(m.Raw, content) {
			b := f.sampled(block)
			if b == nil {
				b = block.Of(m.Raw)
			}
			if n++; n == 1 {
				out = f.message(out, at, content, b)
			} else {
				out = further(out, role, b)
			}
		}
		switch {
		case n == 0:
			out = f.message(out, at, content, []byte(`{"type":"text","text":""}`))
		case n > 1:
			l.Add("sampling.content", "the peer's revision has one block in a message, so there are more messages")
		}
	}
	if !changed {
		return m
	}
	var e jsonrpc.Edits
	e.Replace(mcp.WhySampling, list, append(out, ']'))
	return mcp.RewriteOrKeep(t, m, &e)
}

// longestRole is how long the role of a message may be that is taken apart: there are
// "user" and "assistant".
const longestRole = 32

// further appends a message that goes on with what another of the role has begun.
func further(list, role, content []byte) []byte {
	list = append(list, `,{`...)
	if role != nil {
		list = append(append(append(list, `"role":`...), role...), ',')
	}
	return append(append(append(list, `"content":`...), content...), '}')
}

// message appends a message of sampling with another content; nil leaves its own.
func (f *fitter) message(list []byte, at, content jsonrpc.Span, with []byte) []byte {
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

// sampled returns a block of sampling as one that the revision has, nil where it has
// it as it is. Sampling knows no resources, so what it lacks becomes a text.
func (f *fitter) sampled(at jsonrpc.Span) []byte {
	kind, _ := jsonrpc.Text(f.raw, jsonrpc.Find(f.raw, at, "type"))
	var text string
	switch kind {
	case "audio":
		if f.to.Can(mcp.AudioContent) {
			return nil
		}
		mime, _ := jsonrpc.Text(f.raw, jsonrpc.Find(f.raw, at, "mimeType"))
		text = "[audio that cannot be shown here: " + mime + "]"
		f.losses.Add("sampling.audio", "the peer's revision has no audio, so a text says that there was some")
	case "tool_use", "tool_result":
		text = string(at.Of(f.raw))
		f.losses.Add("sampling."+kind, "the peer's revision has no tools in sampling, so it is a text")
	default:
		return nil
	}
	return append(jsonrpc.AppendQuote([]byte(`{"type":"text","text":`), text), '}')
}

// Answered puts a client's answer to a question into the words of a server of
// revision to, and adds what that loses. It returns m where nothing has to be
// changed.
func Answered(t *jsonrpc.Trail, to mcp.Revision, method string, m *jsonrpc.Message, l *mcp.Losses) *jsonrpc.Message {
	if method != mcp.MethodSample || to.Can(mcp.SamplingBlocks) || m.Kind != jsonrpc.Result {
		return m
	}
	content := m.ResultMember("content")
	f := fitter{raw: m.Raw, to: to, losses: l}
	var with []byte
	switch jsonrpc.KindOf(m.Raw, content) {
	case '{':
		with = f.sampled(content)
	case '[':
		with = f.joined(content)
	}
	if with == nil {
		return m
	}
	var e jsonrpc.Edits
	e.Replace(mcp.WhySampling, content, with)
	return mcp.RewriteOrKeep(t, m, &e)
}

// joined makes one block of several: the texts as one, or the first block where there
// is no text.
func (f *fitter) joined(list jsonrpc.Span) []byte {
	var text []byte
	var other []byte
	n := 0
	for at := range jsonrpc.Elements(f.raw, list) {
		b := f.sampled(at)
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
		f.losses.Add("sampling.content", "the peer's revision has one block in a message, so they are joined")
	}
	if text == nil && other != nil {
		return other
	}
	return append(jsonrpc.AppendQuote([]byte(`{"type":"text","text":`), string(text)), '}')
}
