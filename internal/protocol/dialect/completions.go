package dialect

import (
	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
)

// CompletesUndeclared reports whether a server may support completion/complete without declaring
// it. 2024-11-05 §Completion has the method but no capability for it. The method completes arguments
// of prompts and resource templates, so the server must have prompts or resources. A server that
// does not support the method answers it with an error.
func CompletesUndeclared(rev mcp.Revision, capabilities []byte) bool {
	if !rev.Legacy() || rev.Can(mcp.Completions) {
		return false
	}
	whole := jsonrpc.Whole(capabilities)
	return !jsonrpc.Find(capabilities, whole, "prompts").IsZero() || !jsonrpc.Find(capabilities, whole, "resources").IsZero()
}

// withCompletions adds the completions capability if CompletesUndeclared is true for the server.
// Some clients use completion only if the server declares this capability.
func withCompletions(to mcp.Revision, h *mcp.ServerInfo) *mcp.ServerInfo {
	if !to.Can(mcp.Completions) || !CompletesUndeclared(h.Revision, h.Capabilities) {
		return h
	}
	add := jsonrpc.Field{Key: "completions", Value: emptyObject}
	out := *h
	out.Capabilities = spliceObject(h.Capabilities, nil, add)
	if h.Raw != nil {
		out.Raw = spliceObject(h.Raw, nil, jsonrpc.Field{Key: "capabilities", Value: out.Capabilities})
	}
	return &out
}
