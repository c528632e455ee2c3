package catalog

import (
	"fmt"
	"strings"
	"testing"

	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
)

// BenchmarkPage reads the first page of a merged list of 500 tools, as each client does, without a filter
// and with one.
func BenchmarkPage(b *testing.B) {
	c := &Catalog{}
	for s := range 10 {
		u := &source{name: fmt.Sprint("server", s), hello: mcp.ServerInfo{Capabilities: []byte(`{"tools":{"listChanged":true}}`)}}
		var all []string
		for i := range 50 {
			all = append(all, fmt.Sprintf(`{"name":"tool_%d","description":%q,"inputSchema":{"type":"object","properties":{"a":{"type":"string","description":"one"},"b":{"type":"number"}}}}`, i, strings.Repeat("What it does. ", 40)))
		}
		u.lists = map[string][]string{mcp.MethodListTools: all}
		c.Sources = append(c.Sources, u)
	}
	b.Cleanup(c.Close)
	m := mcp.LookupMethod(mcp.MethodListTools)
	for name, show := range map[string]Filter{"all": nil, "filtered": without("server3")} {
		b.Run(name, func(b *testing.B) {
			v := c.View(&mcp.ClientInfo{Revision: mcp.R20260728}, show)
			b.ReportAllocs()
			for b.Loop() {
				if _, err := v.Page(b.Context(), m, jsonrpc.Value{}, false); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
