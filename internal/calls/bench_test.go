package calls

import (
	"strings"
	"testing"

	"github.com/dragoman-mcp/dragoman/internal/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/mcp"
)

type fakeHeader map[string][]string

func (h fakeHeader) Head() *jsonrpc.Head { return jsonrpc.NewHead("POST", "/mcp", 0, h) }

// BenchmarkStory records what a relayed call over HTTP on both sides records.
func BenchmarkStory(b *testing.B) {
	header := fakeHeader{}
	for _, name := range []string{"Accept", "Content-Type", "Content-Length", "User-Agent", "Mcp-Method", "Mcp-Name", "Mcp-Protocol-Version", "Accept-Encoding"} {
		header[name] = []string{"some value of it"}
	}
	r := New(Options{Record: true})
	c := request(1, strings.Repeat("x", 900))
	a := mcp.NewAttempt(c)
	a.Server = "s"
	answer := []byte(`{"jsonrpc":"2.0","id":1,"result":{"text":"` + strings.Repeat("y", 900) + `"}}`)
	b.ReportAllocs()
	for b.Loop() {
		c.Number++
		x := r.Begin(c, header)
		x.Routed(a)
		var e jsonrpc.Edits
		e.Replace(mcp.WhyID, c.Msg.IDAt, []byte("77"))
		out := c.Trail.Splice(nil, c.Msg.Raw, &e)
		p := c.Trail.Sent(jsonrpc.ServerWire, out)
		c.Trail.Exchanged(p, header.Head(), nil)
		c.Trail.Exchanged(c.Trail.Received(jsonrpc.ServerWire, answer, nil), nil, header.Head())
		var f jsonrpc.Edits
		f.Replace(mcp.WhyID, jsonrpc.Span{Start: 22, End: 23}, []byte("5"))
		p = c.Trail.Sent(jsonrpc.ClientWire, c.Trail.Splice(nil, answer, &f))
		c.Trail.Exchanged(p, nil, header.Head())
		x.Answered(a, mcp.Ending{Outcome: "ok"})
		x.End(1, false)
	}
}
