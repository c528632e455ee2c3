package dialect

import (
	"slices"

	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/base/trails"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
)

// ConvertTools converts a server's list of tools to an array of MCP tools. It leaves out tools
// without a name. dropped is the number of tools without a name.
func (p *Profile) ConvertTools(raw []byte, list jsonrpc.Span) (array []byte, dropped int) {
	array = append(make([]byte, 0, list.End-list.Start+2), '[')
	for at := range jsonrpc.Elements(raw, list) {
		name, ok := jsonrpc.Text(raw, jsonrpc.Find(raw, at, "name"))
		if !ok || name == "" {
			dropped++
			continue
		}
		if len(array) > 1 {
			array = append(array, ',')
		}
		array = p.tool(array, raw, at)
	}
	return append(array, ']'), dropped
}

// ManifestOf returns the list of tools in an initialize result, as MCP tools.
func (p *Profile) ManifestOf(raw []byte, result jsonrpc.Span) (array []byte, dropped int) {
	return p.ConvertTools(raw, p.Tools.Manifest.find(raw, result))
}

// tool appends one tool in the form of MCP. Members that tool changes or removes are kept byte for
// byte in _meta under KeyDialect.
func (p *Profile) tool(dst, raw []byte, at jsonrpc.Span) []byte {
	var x change
	var original []byte
	var kept []string
	keep := func(name string) {
		if slices.Contains(kept, name) {
			return
		}
		kept = append(kept, name)
		if value := jsonrpc.Find(raw, at, name); !value.IsZero() {
			original = appendMember(original, name, value.Of(raw))
		}
	}
	leave := func(name string) { keep(name); x.drop = append(x.drop, name) }

	// Convert the schema.
	schemaAt, from := findFirst(raw, at, p.Tools.Schema)
	if len(p.Tools.Schema) == 0 {
		schemaAt, from = jsonrpc.Find(raw, at, "inputSchema"), "inputSchema"
	}
	schema, changed := schemaAt.Of(raw), false
	if p.Tools.Repair || schema == nil {
		schema, changed = InputSchema(schema)
	}
	switch {
	case from != "inputSchema" && from != "":
		leave(from.first())
	case changed:
		keep("inputSchema")
	}
	for _, other := range p.Tools.Schema {
		if other != "inputSchema" && other != from && !other.find(raw, at).IsZero() {
			leave(other.first())
		}
	}
	x.drop = slices.DeleteFunc(x.drop, func(s string) bool { return s == "inputSchema" })
	if changed || from != "inputSchema" {
		x.set = append(x.set, jsonrpc.Field{Key: "inputSchema", Value: schema})
	}
	if d := jsonrpc.Find(raw, at, "description"); !d.IsZero() && jsonrpc.KindOf(raw, d) != '"' {
		leave("description")
	}

	// Convert the flags.
	confirm, undo := p.flag(raw, at, p.Tools.Confirm), p.flag(raw, at, p.Tools.Undo)
	for _, path := range slices.Concat(p.Tools.Confirm, p.Tools.Undo) {
		if path.find(raw, at).IsZero() || x.drops([]byte(path.first())) {
			continue
		}
		if p.onlyFlags(raw, at, path) {
			leave(path.first())
		} else {
			keep(path.first()) // the member has other content too, so it is not removed
		}
	}
	if a := annotations(raw, at, confirm, undo); a != nil {
		x.set = append(x.set, jsonrpc.Field{Key: "annotations", Value: a})
	}
	if own := p.own(original, confirm, undo); own != nil {
		x.set = append(x.set, jsonrpc.Field{Key: mcp.KeyMeta, Value: withMember(raw, jsonrpc.Find(raw, at, mcp.KeyMeta), mcp.KeyDialect, own)})
	}
	if len(x.set)+len(x.drop) == 0 {
		return append(dst, at.Of(raw)...)
	}
	body := at.Of(raw)
	var e jsonrpc.Edits
	e.Object(mcp.WhyProfile, body, jsonrpc.Whole(body), x.drops, x.set...)
	return jsonrpc.Splice(dst, body, &e)
}

// flag is a boolean that may be absent.
type flag uint8

const (
	unset flag = iota
	no
	yes
)

func (p *Profile) flag(raw []byte, tool jsonrpc.Span, paths []Path) flag {
	for _, path := range paths {
		switch jsonrpc.KindOf(raw, path.find(raw, tool)) {
		case 't':
			return yes
		case 'f':
			return no
		}
	}
	return unset
}

// onlyFlags reports whether the first member of a path contains nothing but flags.
func (p *Profile) onlyFlags(raw []byte, tool jsonrpc.Span, path Path) bool {
	first := path.first()
	if Path(first) == path {
		return true
	}
	for m := range jsonrpc.Members(raw, jsonrpc.Find(raw, tool, first)) {
		name, _ := jsonrpc.Text(raw, m.Key)
		full := Path(first + "." + name)
		if !slices.Contains(p.Tools.Confirm, full) && !slices.Contains(p.Tools.Undo, full) {
			return false
		}
	}
	return true
}

// annotations returns the tool's annotations with additional hints from the flags confirm and undo.
// It returns nil if there is no hint to add. A tool that needs confirmation changes something, and
// may be destructive. A tool whose calls can be undone changes something too. An absent flag has no
// effect, because a tool without confirmation is not necessarily read-only. Hints that the server
// has sent are not replaced.
func annotations(raw []byte, tool jsonrpc.Span, confirm, undo flag) []byte {
	var hints []jsonrpc.Field
	if confirm == yes || undo == yes {
		hints = append(hints, jsonrpc.Field{Key: "readOnlyHint", Value: []byte("false")})
	}
	if confirm == yes {
		hints = append(hints, jsonrpc.Field{Key: "destructiveHint", Value: []byte("true")})
	}
	at := jsonrpc.Find(raw, tool, "annotations")
	if jsonrpc.KindOf(raw, at) != '{' {
		if hints == nil {
			return nil
		}
		return object(hints)
	}
	hints = slices.DeleteFunc(hints, func(f jsonrpc.Field) bool { return !jsonrpc.Find(raw, at, f.Key).IsZero() })
	if len(hints) == 0 {
		return nil
	}
	return spliceObject(at.Of(raw), nil, hints...)
}

// These are the members of the object under KeyDialect.
const (
	ownName     = "name"
	ownConfirm  = "confirmationRequired"
	ownUndo     = "undoSupported"
	ownOriginal = "original"
	ownError    = "error"
)

// own returns the object under KeyDialect for a tool. It returns nil if the object would be empty.
func (p *Profile) own(original []byte, confirm, undo flag) []byte {
	if original == nil && confirm == unset && undo == unset {
		return nil
	}
	out := jsonrpc.AppendQuote([]byte(`{"`+ownName+`":`), p.Name)
	for _, f := range []struct {
		key  string
		flag flag
	}{{ownConfirm, confirm}, {ownUndo, undo}} {
		switch f.flag {
		case yes:
			out = append(append(append(out, `,"`...), f.key...), `":true`...)
		case no:
			out = append(append(append(out, `,"`...), f.key...), `":false`...)
		}
	}
	if original != nil {
		out = append(append(out, `,"`+ownOriginal+`":`...), append(original, '}')...)
	}
	return append(out, '}')
}

// appendMember appends a member to a JSON object without its closing brace. If open is nil,
// appendMember begins a new object.
func appendMember(open []byte, name string, value []byte) []byte {
	if open == nil {
		open = append(open, '{')
	} else {
		open = append(open, ',')
	}
	return append(append(jsonrpc.AppendQuote(open, name), ':'), value...)
}

// withMember returns the object at a span with one more member. If the value is not an object,
// the result is a new object with only this member.
func withMember(raw []byte, at jsonrpc.Span, key string, value []byte) []byte {
	f := jsonrpc.Field{Key: key, Value: value}
	if jsonrpc.KindOf(raw, at) != '{' {
		return object([]jsonrpc.Field{f})
	}
	return spliceObject(at.Of(raw), nil, f)
}

// Answer converts a server's answer to MCP. It returns m if no change is needed. A nil Profile
// changes nothing.
func (p *Profile) Answer(t *trails.Trail, method string, m *jsonrpc.Message) *jsonrpc.Message {
	if p == nil {
		return m
	}
	var e jsonrpc.Edits
	switch {
	case method == mcp.MethodListTools && m.Kind == jsonrpc.Result:
		list := m.ResultMember("tools")
		if jsonrpc.KindOf(m.Raw, list) == '[' && p.Tools.translates() {
			array, _ := p.ConvertTools(m.Raw, list)
			e.Replace(mcp.WhyProfile, list, array)
		}
	case method == mcp.MethodCallTool && m.Kind == jsonrpc.Result:
		if p.Tools.Wrap {
			wrap(&e, m)
		}
	case method == mcp.MethodCallTool && m.Kind == jsonrpc.Failure:
		return p.toolError(m)
	}
	return mcp.RewriteOrKeep(t, m, &e)
}

// translates reports whether ConvertTools has to convert the server's list of tools.
func (t *Tools) translates() bool {
	return t.Repair || len(t.Schema)+len(t.Confirm)+len(t.Undo) > 0
}

// toolError converts an error to a result with isError if the profile lists the error's code. Errors
// of tools must be results, so that the model sees them (2025-06-18 §Tools, "Error Handling").
func (p *Profile) toolError(m *jsonrpc.Message) *jsonrpc.Message {
	var at [2]jsonrpc.Span
	jsonrpc.FindAll(m.Raw, m.Error, []string{"code", "message"}, at[:])
	code, ok := jsonrpc.Int(m.Raw, at[0])
	if !ok {
		return m
	}
	i := slices.IndexFunc(p.Errors.Tool, func(t ToolError) bool { return t.Code == code })
	if i < 0 {
		return m
	}
	said, _ := jsonrpc.Text(m.Raw, at[1])
	text := p.Errors.Tool[i].Means
	switch {
	case text == "":
		text = said
	case said != "":
		text += ": " + said
	}
	own := appendMember(jsonrpc.AppendQuote([]byte(`{"`+ownName+`":`), p.Name), ownError, m.Error.Of(m.Raw))
	result := jsonrpc.AppendQuote([]byte(`{"content":[{"type":"text","text":`), text)
	result = append(result, `}],"isError":true,"`+mcp.KeyMeta+`":{"`+mcp.KeyDialect+`":`...)
	result = append(append(result, own...), `}}}`...)
	id := m.ID
	if id == "" {
		id = "null"
	}
	return jsonrpc.NewResult(id, result)
}

// results has the names of members of a CallToolResult. An object without any of these members is
// not a valid CallToolResult.
var results = []string{"content", "structuredContent", "isError", "resultType", "task", "toolResult"}

// wrap converts the result of tools/call to a CallToolResult, unless it already is a CallToolResult.
func wrap(e *jsonrpc.Edits, m *jsonrpc.Message) {
	if jsonrpc.KindOf(m.Raw, m.Result) == '{' {
		at := make([]jsonrpc.Span, len(results))
		jsonrpc.FindAll(m.Raw, m.Result, results, at)
		switch jsonrpc.KindOf(m.Raw, at[0]) {
		case '[':
			return
		case '"', '{':
			if b := block(m.Raw, at[0]); b != nil {
				e.Replace(mcp.WhyProfile, at[0], append(append([]byte{'['}, b...), ']'))
				return
			}
		case 0:
			for _, s := range at {
				if !s.IsZero() {
					return
				}
			}
		}
	}
	e.Replace(mcp.WhyProfile, m.Result, wrapValue(m.Raw, m.Result))
}

// block returns a content block that contains a string, or a value that already is a content block.
// It returns nil for any other value.
func block(raw []byte, at jsonrpc.Span) []byte {
	if jsonrpc.KindOf(raw, at) == '"' {
		return append(append([]byte(`{"type":"text","text":`), at.Of(raw)...), '}')
	}
	if jsonrpc.KindOf(raw, jsonrpc.Find(raw, at, "type")) == '"' {
		return at.Of(raw)
	}
	return nil
}

// wrapValue returns a CallToolResult with one text block for any JSON value. For a string, the text
// is the string. For any other value, the text is the JSON of the value.
func wrapValue(raw []byte, at jsonrpc.Span) []byte {
	out := []byte(`{"content":[{"type":"text","text":`)
	if jsonrpc.KindOf(raw, at) == '"' {
		out = append(out, at.Of(raw)...)
	} else {
		out = jsonrpc.AppendQuote(out, string(at.Of(raw)))
	}
	return append(out, `}]}`...)
}

// ToolList returns an answer to tools/list for an array of tools.
func ToolList(array []byte) *jsonrpc.Message {
	return jsonrpc.NewResult("0", append(append([]byte(`{"tools":`), array...), '}'))
}

// Hello converts a result of initialize to MCP. It moves the server's identity to serverInfo. If the
// result has a manifest, Hello removes the manifest and adds the tools capability. All other members
// are unchanged.
func (p *Profile) Hello(m *jsonrpc.Message) (*jsonrpc.Message, error) {
	raw, result := m.Raw, m.Result
	var x change
	if p.HasManifest(raw, result) {
		if p.Tools.Manifest.first() == string(p.Tools.Manifest) {
			x.drop = append(x.drop, string(p.Tools.Manifest))
		}
		caps := jsonrpc.Find(raw, result, "capabilities")
		switch {
		case jsonrpc.KindOf(raw, caps) != '{':
			x.set = append(x.set, jsonrpc.Field{Key: "capabilities", Value: []byte(`{"tools":{}}`)})
		case jsonrpc.Find(raw, caps, "tools").IsZero():
			x.set = append(x.set, jsonrpc.Field{Key: "capabilities", Value: spliceObject(caps.Of(raw), nil, jsonrpc.Field{Key: "tools", Value: emptyObject})})
		}
	}
	if who, from := findFirst(raw, result, p.Open.Identity); from != "" && from != "serverInfo" {
		x.set = append(x.set, jsonrpc.Field{Key: "serverInfo", Value: who.Of(raw)})
		if from.first() == string(from) {
			x.drop = append(x.drop, string(from))
		}
	}
	if len(x.set)+len(x.drop) == 0 {
		return m, nil
	}
	var e jsonrpc.Edits
	e.Object(mcp.WhyProfile, raw, result, x.drops, x.set...)
	return mcp.Rewrite(nil, m, &e)
}
