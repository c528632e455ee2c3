package bridge

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
)

// TestShownURLs checks that a server with many questions pushes out only its own, at the same client, and
// that all are forgotten in time.
func TestShownURLs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &Bridge{}
		anna, ben := &mcp.ClientInfo{Revision: mcp.R20251125, Conversation: 1}, &mcp.ClientInfo{Revision: mcp.R20251125, Conversation: 2}
		show := func(f *mcp.ClientInfo, server, id string) {
			raw := []byte(`{"elicitationId":"` + id + `"}`)
			b.ShowsURL(f, server, raw, jsonrpc.Whole(raw))
		}
		expect := func(f *mcp.ClientInfo, server, id string, here, anywhere bool) {
			t.Helper()
			if h, a := b.ShownURL(f, server, id); h != here || a != anywhere {
				t.Errorf("%d, %s %s: %t, %t", f.Conversation, server, id, h, a)
			}
		}
		show(anna, "victim", "1")
		show(ben, "evil", "0")
		for i := range 10 * maxShownToClient {
			show(anna, "evil", fmt.Sprint(i))
		}
		expect(anna, "victim", "1", true, true)
		expect(ben, "victim", "1", false, true)
		expect(anna, "evil", "0", false, true)
		expect(ben, "evil", "0", true, true)
		expect(anna, "evil", "1", false, false)
		if n := len(b.shown.order); n != maxShownToClient+2 {
			t.Errorf("%d are remembered", n)
		}
		show(&mcp.ClientInfo{Revision: mcp.R20260728}, "victim", "2")
		expect(anna, "victim", "2", false, false)
		time.Sleep(urlTTL + 1)
		expect(anna, "victim", "1", false, false)
		if len(b.shown.order)+len(b.shown.known) > 0 {
			t.Error("something is left")
		}
	})
}
