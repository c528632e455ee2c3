package dialect

import (
	"strings"
	"testing"

	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
)

// TestSamplingBlocksBecomeMessages checks that each content block of a sampling message becomes a
// message with the same role. Only the first message gets the other members, so that the request
// does not become too large.
func TestSamplingBlocksBecomeMessages(t *testing.T) {
	ask := func(messages string) *jsonrpc.Message {
		raw := `{"jsonrpc":"2.0","id":1,"method":"sampling/createMessage","params":{"messages":[` + messages + `],"maxTokens":9}}`
		m, err := jsonrpc.Scan([]byte(raw), jsonrpc.Limits{Bytes: len(raw) + 1})
		if err != nil {
			t.Fatal(err)
		}
		return m
	}
	var lost mcp.Losses
	got := ConvertRequest(nil, mcp.R20250618, ask(`{"role":"user","x":[1],"content":[{"type":"text","text":"a"},{"type":"text","text":"b"}]}`), &lost)
	want := ask(`{"role":"user","x":[1],"content":{"type":"text","text":"a"}},{"role":"user","content":{"type":"text","text":"b"}}`)
	if string(got.Raw) != string(want.Raw) {
		t.Errorf("got  %s\nwant %s", got.Raw, want.Raw)
	}

	blocks := strings.TrimSuffix(strings.Repeat(`{"type":"text","text":""},`, 2000), ",")
	for name, pad := range map[string]string{
		"another member": `"role":"user","_meta":{"x":"` + strings.Repeat("x", 200_000) + `"}`,
		"the role":       `"role":"` + strings.Repeat("x", 200_000) + `"`,
	} {
		m := ask(`{` + pad + `,"content":[` + blocks + `]}`)
		if got := len(ConvertRequest(nil, mcp.R20250618, m, &lost).Raw); got > 2*len(m.Raw) {
			t.Errorf("%s becomes too large: %d bytes became %d", name, len(m.Raw), got)
		}
	}
}
