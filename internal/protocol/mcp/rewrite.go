package mcp

import (
	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/base/trails"
)

// Rewrite returns m with the edits of e applied, or m itself if e has no edits. It fails if the
// result is not a valid message. t may be nil.
func Rewrite(t *trails.Trail, m *jsonrpc.Message, e *jsonrpc.Edits) (*jsonrpc.Message, error) {
	if e.Len() == 0 {
		return m, nil
	}
	raw := t.Splice(make([]byte, 0, len(m.Raw)+128), m.Raw, e)
	return jsonrpc.Scan(raw, rewriteLimits(raw))
}

// RewriteOrKeep does the same as Rewrite, but returns m if the result is not a valid message.
func RewriteOrKeep(t *trails.Trail, m *jsonrpc.Message, e *jsonrpc.Edits) *jsonrpc.Message {
	out, err := Rewrite(t, m, e)
	if err != nil {
		return m
	}
	return out
}

// rewriteLimits returns the limits for an edited message. They are higher than the limits for a
// received message, because edits may add bytes and nesting.
func rewriteLimits(raw []byte) jsonrpc.Limits {
	return jsonrpc.Limits{Bytes: len(raw) + 1, Depth: 256, Tokens: 4 << 20, Tolerant: true, Names: MethodName}
}
