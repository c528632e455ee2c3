package dialect

import "github.com/dragoman-mcp/dragoman/internal/mcp"

// 2024-11-05: the first revision: HTTP+SSE, no completions capability.
var r20241105 = legacy{rev: mcp.R20241105}
