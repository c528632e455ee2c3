package dialect

import "github.com/dragoman-mcp/dragoman/internal/mcp"

// 2025-11-25: URL elicitation, icons, experimental tasks, polled streams.
var r20251125 = legacy{rev: mcp.R20251125}
