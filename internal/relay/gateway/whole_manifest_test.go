package gateway_test

import (
	"strings"
	"testing"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
)

// TestManifestClientMissesServers checks a client that takes its tools from the answer to initialize,
// while one server is still starting and another one has only prompts. The log names the server whose
// tools are missing. An innocent client beside it, which can ask again, causes no such record.
func TestManifestClientMissesServers(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		slow := listing(false, named("late"))
		slow.slow = 10 * time.Second
		other := listing(false, named("x"))
		other.caps = `{"prompts":{}}`
		w := build(t, other, slow)
		bare := func(id string) string {
			n := w.client()
			n.say(`{"jsonrpc":"2.0","id":` + id + `,"method":"initialize"}`)
			return string(n.answerTo(id).Raw)
		}
		w.legacy(`{}`)
		if got := w.log.warnings(); len(got) != 0 {
			t.Errorf("the other client caused %q", got)
		}
		if got := bare("1"); !strings.Contains(got, `"tools":[]`) {
			t.Errorf("the client got %s", got)
		}
		if got := strings.Join(w.log.warnings(), ""); !strings.Contains(got, "starting=[b]") || strings.Contains(got, "failed") {
			t.Errorf("the log has %s", got)
		}
		time.Sleep(5 * time.Minute)
		if got := bare("2"); !strings.Contains(got, `"name":"b__late"`) {
			t.Errorf("later the client got %s", got)
		}
		if got := w.log.warnings(); len(got) != 1 {
			t.Errorf("the log has %q", got)
		}
	})
}

// TestToolsOfAServerThatStarts checks that the capabilities for clients contain tools while the
// capabilities of a server are not known. Without them, a client would never ask for its tools.
func TestToolsOfAServerThatStarts(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		slow := listing(false, named("late"))
		slow.slow = 10 * time.Second
		other := listing(false, named("x"))
		other.caps = `{"prompts":{}}`
		w := build(t, other, slow)
		n := w.client()
		n.say(`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"n","version":"1"}}}`)
		n.wants(n.answerTo("1"), `"capabilities":{"prompts":{"listChanged":true},"tools":{"listChanged":true}}`)
		n.say(modernRequest("2", mcp.MethodDiscover, "", `{}`))
		n.wants(n.answerTo("2"), `"tools":{"listChanged":true}`)
	})
}
