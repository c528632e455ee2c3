package dialect

import (
	"strings"
	"testing"

	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
)

// cell is one pair of eras, with a call in the form of the client's revision and an answer in the
// form of the server's revision. Each message has about 1 KiB.
type cell struct {
	name             string
	client, upstream mcp.Revision
	call, answer     string
}

var cells = func() []cell {
	text := strings.Repeat("The quick brown fox jumps over the lazy dog. ", 20)
	args := `"name":"create_issue","arguments":{"owner":"octo","labels":["bug"],"body":"` + text + `"}`
	old := `{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{` + args + `,"_meta":{"progressToken":"p"}}}`
	modern := `{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{` + args + `,"_meta":{` + described + `,"progressToken":"p"}}}`
	plain := `{"jsonrpc":"2.0","id":42,"result":{"content":[{"type":"text","text":"` + text + `"}]}}`
	typed := `{"jsonrpc":"2.0","id":42,"result":{"resultType":"complete","content":[{"type":"text","text":"` + text + `"}]}}`
	return []cell{
		{"MM", mcp.R20260728, mcp.R20260728, modern, typed},
		{"ML", mcp.R20260728, mcp.R20251125, modern, plain},
		{"LM", mcp.R20251125, mcp.R20260728, old, typed},
		{"LL", mcp.R20251125, mcp.R20251125, old, plain},
	}
}()

// BenchmarkTranslateCall measures Request: it converts a scanned call to the server's revision.
func BenchmarkTranslateCall(b *testing.B) {
	for _, c := range cells {
		b.Run(c.name, func(b *testing.B) {
			call := mcp.NewAttempt(mustCall(b, c.call, c.client))
			buf := make([]byte, 0, 4096)
			b.SetBytes(int64(len(c.call)))
			b.ReportAllocs()
			for b.Loop() {
				buf = Request(buf[:0], c.upstream, call, &ours)
			}
		})
	}
}

// BenchmarkTranslateReply measures Reply: it converts a scanned answer to the client's revision.
func BenchmarkTranslateReply(b *testing.B) {
	for _, c := range cells {
		b.Run(c.name, func(b *testing.B) {
			call, r := mustCall(b, c.call, c.client), replyOf([]byte(c.answer), c.upstream)
			buf := make([]byte, 0, 4096)
			b.SetBytes(int64(len(c.answer)))
			b.ReportAllocs()
			for b.Loop() {
				buf = Reply(buf[:0], call, r)
			}
		})
	}
}

// TestAllocs limits the allocations of a conversion into a large buffer, for each pair of eras.
// budgets has the most allocations of a call and of a reply. A message that only gets another id
// needs one allocation.
func TestAllocs(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector adds allocations")
	}
	budgets := map[string][2]float64{"MM": {1, 1}, "ML": {1, 5}, "LM": {4, 1}, "LL": {1, 1}}
	for _, c := range cells {
		call, r := mustCall(t, c.call, c.client), replyOf([]byte(c.answer), c.upstream)
		attempt := mcp.NewAttempt(call)
		buf := make([]byte, 0, 4096)
		most := budgets[c.name]
		if n := testing.AllocsPerRun(200, func() { buf = Request(buf[:0], c.upstream, attempt, &ours) }); n > most[0] {
			t.Errorf("%s: a call allocates %v times, want at most %v", c.name, n, most[0])
		}
		if n := testing.AllocsPerRun(200, func() { buf = Reply(buf[:0], call, r) }); n > most[1] {
			t.Errorf("%s: a reply allocates %v times, want at most %v", c.name, n, most[1])
		}
	}
}
