package dialect

import (
	"github.com/dragoman-mcp/dragoman/internal/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/mcp"
)

// Superset returns the result of initialize for a client that opened without saying
// anything of itself: what Hello made, and all tools in it as the manifest's clients
// read them. A client of the standard reads over what it does not know.
//
// Those clients are strict in their own way: a tool without a name and a description
// fails the whole of it, and so does a member of which they know two spellings when
// both stand there.
func Superset(hello []byte, tools [][]byte) []byte {
	list := []byte{'['}
	for _, t := range tools {
		name, ok := jsonrpc.Text(t, jsonrpc.Find(t, jsonrpc.Whole(t), "name"))
		if !ok || name == "" {
			continue
		}
		if len(list) > 1 {
			list = append(list, ',')
		}
		list = manifestTool(list, t)
	}
	// server_info would be serverInfo a second time.
	return spliceObject(hello, func(k []byte) bool { return string(k) == "server_info" }, jsonrpc.Field{Key: "tools", Value: append(list, ']')})
}

// manifestTool appends one tool as such a client reads it.
func manifestTool(dst, raw []byte) []byte {
	whole := jsonrpc.Whole(raw)
	var at [4]jsonrpc.Span
	jsonrpc.FindAll(raw, whole, []string{"description", "inputSchema", "annotations", mcp.KeyMeta}, at[:])
	set := make([]jsonrpc.Field, 0, 4)
	if jsonrpc.KindOf(raw, at[0]) != '"' {
		set = append(set, jsonrpc.Field{Key: "description", Value: []byte(`""`)})
	}
	if jsonrpc.KindOf(raw, at[1]) != '{' {
		set = append(set, jsonrpc.Field{Key: "inputSchema", Value: []byte(`{"type":"object"}`)})
	}
	own := jsonrpc.Find(raw, at[3], mcp.KeyDialect)
	// A tool that does not say that it only reads may change something (2025-03-26
	// §Schema, "ToolAnnotations": readOnlyHint is false where nothing is said), and
	// then its user is asked.
	confirm := jsonrpc.KindOf(raw, jsonrpc.Find(raw, at[2], "readOnlyHint")) != 't'
	switch jsonrpc.KindOf(raw, jsonrpc.Find(raw, own, ownConfirm)) {
	case 't':
		confirm = true
	case 'f':
		confirm = false
	}
	undo := jsonrpc.KindOf(raw, jsonrpc.Find(raw, own, ownUndo)) == 't'
	set = append(set, jsonrpc.Field{Key: "confirmation_required", Value: boolean(confirm)}, jsonrpc.Field{Key: "undo_supported", Value: boolean(undo)})
	var e jsonrpc.Edits
	e.Object(mcp.WhySuperset, raw, whole, secondSpelling, set...)
	return jsonrpc.Splice(dst, raw, &e)
}

// secondSpelling reports the members that such a client takes for others.
func secondSpelling(k []byte) bool {
	switch string(k) {
	case "params_schema", "confirmationRequired", "undoSupported":
		return true
	}
	return false
}

func boolean(b bool) []byte {
	if b {
		return []byte("true")
	}
	return []byte("false")
}
