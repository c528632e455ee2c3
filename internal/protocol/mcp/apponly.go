package mcp

import "github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"

// AppOnly reports whether only the page of an app may call the tool with a definition. Hosts must not
// show such a tool to the model (SEP-1865, "Tool Visibility"; without the member, both may call it).
func AppOnly(tool []byte) bool {
	list := jsonrpc.ValueOf(tool).Get("_meta", "ui", "visibility")
	if list.Kind() != '[' {
		return false
	}
	for v := range list.Elements() {
		if v.Is("model") {
			return false
		}
	}
	return true
}
