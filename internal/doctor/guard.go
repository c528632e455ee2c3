package doctor

import "github.com/dragoman-mcp/dragoman/internal/mcp"

// guards are the probes of what HTTP adds.
func (e *exam) guards(mcp.Revision) []probe { return nil }
