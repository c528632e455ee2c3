package dialect

import (
	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
)

// Superset returns the result of initialize for a manifest client. A manifest client is a client
// that sends initialize without params. The result is hello with a list of all tools, in the form
// that manifest clients read. A standard client ignores the additional members.
//
// Manifest clients are strict. They reject the whole result if a tool lacks a name or a
// description, or if a tool has the same member in two spellings.
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
	// Drop server_info, because it is another spelling of serverInfo.
	return spliceObject(hello, func(k []byte) bool { return string(k) == "server_info" }, jsonrpc.Field{Key: "tools", Value: append(list, ']')})
}

// manifestTool appends one tool in the form that manifest clients read.
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
	// A tool without readOnlyHint may change something (2025-03-26 §Schema, "ToolAnnotations":
	// the default is false). So the user must confirm its calls.
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
	e.Object(mcp.WhySuperset, raw, whole, isSecondSpelling, set...)
	return jsonrpc.Splice(dst, raw, &e)
}

// isSecondSpelling reports whether manifest clients treat a member as a second spelling of another
// member.
func isSecondSpelling(k []byte) bool {
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
