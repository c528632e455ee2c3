package tool

import (
	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
	"github.com/dragoman-mcp/dragoman/internal/protocol/schema"
)

// Tool is one tool of a server's list. Its zero value has no name and no arguments.
type Tool struct {
	raw []byte
}

// Of returns the Tool that raw describes. raw must be a valid JSON object. The Tool keeps raw and
// does not copy it.
func Of(raw []byte) Tool { return Tool{raw} }

// Raw returns the JSON object of the tool as the server sent it.
func (t Tool) Raw() []byte { return t.raw }

// Text returns the string in the tool's member with this key, such as "description". It returns ""
// if the tool has no such string.
func (t Tool) Text(key string) string {
	s, _ := jsonrpc.Text(t.raw, jsonrpc.Find(t.raw, jsonrpc.Whole(t.raw), key))
	return jsonrpc.Shown(s)
}

// Name returns the tool's name.
func (t Tool) Name() string { return t.Text("name") }

// Title returns the text that clients show instead of the name, or "". The title may also be in the
// annotations (2025-06-18 §Tools, "Tool").
func (t Tool) Title() string {
	if s := t.Text("title"); s != "" {
		return s
	}
	s, _ := jsonrpc.Text(t.raw, jsonrpc.Find(t.raw, t.member("annotations"), "title"))
	return jsonrpc.Shown(s)
}

func (t Tool) member(key string) jsonrpc.Span {
	return jsonrpc.Find(t.raw, jsonrpc.Whole(t.raw), key)
}

// Input returns the schema of the tool's arguments. It returns the zero View if the tool has no
// such schema.
func (t Tool) Input() schema.View { return t.schema("inputSchema") }

// Output returns the schema of the tool's structured result. It returns the zero View if the tool
// has no such schema.
func (t Tool) Output() schema.View { return t.schema("outputSchema") }

func (t Tool) schema(key string) schema.View {
	at := t.member(key)
	if at.IsZero() {
		return schema.View{}
	}
	return schema.Of(t.raw, at)
}

// AppOnly is [mcp.AppOnly].
func (t Tool) AppOnly() bool { return mcp.AppOnly(t.raw) }

// Hint is one statement of a server about a tool, from the tool's annotations. The statement may be
// wrong.
type Hint struct {
	Name string // the name of a member of the annotations, such as "readOnlyHint"
	Text string // the text for people
}

// Hints returns the hints that the tool's annotations set to true or false (2025-03-26 §Tools,
// "ToolAnnotations"). It omits hints that are missing or have another value.
func (t Tool) Hints() []Hint {
	var out []Hint
	notes := t.member("annotations")
	for _, h := range []struct{ name, yes, no string }{
		{"readOnlyHint", "changes nothing", "may change things"},
		{"destructiveHint", "may delete or overwrite", "only adds"},
		{"idempotentHint", "a repeated call has no further effect", "a repeated call has further effects"},
		{"openWorldHint", "reaches outside systems", "stays within its own data"},
	} {
		switch jsonrpc.KindOf(t.raw, jsonrpc.Find(t.raw, notes, h.name)) {
		case 't':
			out = append(out, Hint{h.name, h.yes})
		case 'f':
			out = append(out, Hint{h.name, h.no})
		}
	}
	return out
}
