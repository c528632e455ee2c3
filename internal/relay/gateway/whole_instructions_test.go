package gateway_test

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
)

// TestInstructionsHaveABound checks long instructions of a server. Clients of both eras get the
// first 64 KiB of them, cut between two characters. The instructions of other servers at the same
// endpoint stay complete. Dragoman writes one log line and publishes one Loss event.
func TestInstructionsHaveABound(t *testing.T) {
	const most = 64 << 10
	for _, modern := range []bool{true, false} {
		for _, servers := range []int{1, 2} {
			t.Run(map[bool]string{true: "modern", false: "legacy"}[modern]+map[int]string{1: " alone", 2: " merged"}[servers], func(t *testing.T) {
				inBubble(t, func(t *testing.T) {
					all := []*testServer{{modern: modern, instructions: "x" + strings.Repeat("😀", most)}}
					if servers == 2 {
						all = append(all, &testServer{modern: modern, instructions: "the other's"})
					}
					w := build(t, all...)
					old := w.client()
					old.say(`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"n","version":"1"}}}`)
					young := w.client()
					young.say(modernRequest("2", "server/discover", "", `{}`))
					for _, m := range []*jsonrpc.Message{old.answerTo("1"), young.answerTo("2")} {
						text, _ := jsonrpc.Text(m.Raw, m.ResultMember("instructions"))
						if len(text) > most+200 || strings.Count(text, "😀") < most/4-100 || !utf8.ValidString(text) || !strings.Contains(text, "😀…") {
							t.Errorf("the instructions have %d bytes: %.40q … %.40q", len(text), text, text[max(len(text)-40, 0):])
						}
						if strings.Contains(text, "the other's") != (servers == 2) {
							t.Errorf("the other server's instructions are %.40q", text[max(len(text)-40, 0):])
						}
					}
					if got := w.log.warnings(); len(got) != 1 || !strings.Contains(got[0], "instructions") {
						t.Errorf("the log lines are %q", got)
					}
					if got := strings.Join(w.lostSoFar(), "\n"); strings.Count(got, "instructions") != 1 {
						t.Errorf("the losses are %q", got)
					}
				})
			})
		}
	}
}
