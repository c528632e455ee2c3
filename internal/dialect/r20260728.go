package dialect

import "github.com/dragoman-mcp/dragoman/internal/mcp"

// 2026-07-28: no handshake and no session; each request describes its sender,
// each result its type.
var r20260728 = modern{rev: mcp.R20260728}
