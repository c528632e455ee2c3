package dialect

import "github.com/dragoman-mcp/dragoman/internal/mcp"

// 2025-06-18: elicitation, titles, structured results; no batches.
var r20250618 = legacy{rev: mcp.R20250618}
