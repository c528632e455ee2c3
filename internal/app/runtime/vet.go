package runtime

import (
	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp/mirror"
	"github.com/dragoman-mcp/dragoman/internal/relay/catalog"
	"github.com/dragoman-mcp/dragoman/internal/setup/config"
)

// Vet returns the catalog.Vet for the given servers. It hides tools with an invalid x-mcp-header: a
// Streamable HTTP client must leave them out, while one on stdio may ignore x-mcp-header (2026-07-28
// §Streamable HTTP, "Schema Extension").
func Vet(all ...config.Server) catalog.Vet {
	overHTTP := make(map[string]bool)
	for _, c := range all {
		overHTTP[c.Name] = c.URL != ""
	}
	return func(kind catalog.Kind, server string, from mcp.Revision, raw []byte) (v catalog.Verdict, _ jsonrpc.EditList) {
		if kind != catalog.KindTool || !overHTTP[server] || !from.Can(mcp.MirroredHeaders) {
			return v, jsonrpc.EditList{}
		}
		if _, err := mirror.ParseParams(raw, jsonrpc.Find(raw, jsonrpc.Whole(raw), "inputSchema")); err != nil {
			v.Hide = "its x-mcp-header is invalid: " + err.Error()
		}
		return v, jsonrpc.EditList{}
	}
}

// passing divides the items of a list by the verdict of a vet. left has the reasons by name, and is nil
// if all items pass.
func passing(vet catalog.Vet, method, server string, from mcp.Revision, all [][]byte) (items [][]byte, left map[string]string) {
	for _, raw := range all {
		item, hide := vet.Judge(method, server, from, raw)
		if hide == "" {
			items = append(items, item)
			continue
		}
		if left == nil {
			left = make(map[string]string)
		}
		name, _ := jsonrpc.Text(raw, jsonrpc.Find(raw, jsonrpc.Whole(raw), "name"))
		left[name] = hide
	}
	return items, left
}
