package dialect

import (
	"github.com/dragoman-mcp/dragoman/internal/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/mcp"
)

// CompletesUndeclared reports whether a server may answer completion/complete
// although it declares nothing: 2024-11-05 §Completion has the method and no
// capability for it, and what is completed are arguments of prompts and of
// resource templates. A server without it refuses the method, as it may.
func CompletesUndeclared(rev mcp.Revision, capabilities []byte) bool {
	if !rev.Legacy() || rev.Can(mcp.Completions) {
		return false
	}
	whole := jsonrpc.Whole(capabilities)
	return !jsonrpc.Find(capabilities, whole, "prompts").IsZero() || !jsonrpc.Find(capabilities, whole, "resources").IsZero()
}

// withCompletions declares completions to a client that asks for none otherwise.
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
