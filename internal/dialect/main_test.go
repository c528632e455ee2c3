package dialect

import (
	"strings"
	"testing"

	"github.com/dragoman-mcp/dragoman/internal/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/leaktest"
	"github.com/dragoman-mcp/dragoman/internal/mcp"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

func scan(t testing.TB, raw string) *jsonrpc.Message {
	t.Helper()
	m, err := jsonrpc.Scan([]byte(raw), jsonrpc.Limits{Bytes: len(raw) + 1, Tolerant: true, Names: mcp.MethodName})
	if err != nil {
		t.Fatalf("%v: %s", err, raw)
	}
	return m
}

// perRequest is what a modern request carries, with keys of others around it.
const perRequest = `"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"c","version":"1"},"io.modelcontextprotocol/clientCapabilities":{"sampling":{}}`

// callOf makes the call of a client of revision from.
func callOf(t testing.TB, from mcp.Revision, raw string) *mcp.Call {
	t.Helper()
	return callIn(scan(t, raw), from)
}

func callIn(m *jsonrpc.Message, from mcp.Revision) *mcp.Call {
	return mcp.NewCall(m, m.Param(mcp.KeyMeta), &mcp.ClientFacts{
		Revision: from, Info: []byte(`{"name":"c","version":"1"}`), Capabilities: []byte(`{"sampling":{}}`),
	})
}

func stampOf(c *mcp.Call) *Stamp {
	s := &Stamp{ID: "41", Info: c.Client.Info, Capabilities: c.Client.Capabilities, Level: c.Level}
	if !c.Token.IsZero() {
		s.Token = []byte("41")
	}
	return s
}

// replyOf makes the answer of a server of revision from.
func replyOf(t testing.TB, from mcp.Revision, raw string) *mcp.Reply {
	t.Helper()
	return &mcp.Reply{Msg: scan(t, raw), From: from}
}

// odd is JSON that no decoder would give back as it is: spacing, an order of its
// own, numbers beyond any type, escapes that need not be, names with a meaning
// elsewhere.
var odd = "{ \"z\" : 1e400,\t\"a\":-0.0,\"n\":" + strings.Repeat("9", 400) + `,"\u0061b":"\u0041\/","__proto__":{"x":[ ]},"e":1E+2,"" : null,"id":1,"method":"m" }`
