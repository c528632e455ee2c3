package dialect

import "github.com/dragoman-mcp/dragoman/internal/mcp"

// 2025-03-26: Streamable HTTP, batches, completions.
var r20250326 = legacy{rev: mcp.R20250326}
