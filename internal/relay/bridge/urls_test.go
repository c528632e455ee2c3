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

// TestFullShownURLs checks that a server that fills all places pushes out only its own URLs, and a client
// that asks it often only the client's own.
func TestFullShownURLs(t *testing.T) {
	for _, tt := range []struct {
		name  string
		flood func(i int) (server string, conversation uint64)
	}{
		{"many clients", func(i int) (string, uint64) { return "evil", uint64(10 + i) }},
		{"many URLs for each client", func(i int) (string, uint64) { return "evil", uint64(10 + i/maxShownToClient) }},
		{"clients of the same server", func(i int) (string, uint64) { return "victim", uint64(10 + i/maxShownToClient) }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := &Bridge{}
			show := func(server string, conversation uint64, id int) {
				raw := fmt.Appendf(nil, `{"elicitationId":"%d"}`, id)
				r.ShowsURL(&mcp.ClientInfo{Revision: mcp.R20251125, Conversation: conversation}, server, raw, jsonrpc.Whole(raw))
			}
			show("victim", 1, -1)
			for i := range maxShownURLs + 100 {
				server, conversation := tt.flood(i)
				show(server, conversation, i)
			}
			if here, _ := r.ShownURL(&mcp.ClientInfo{Conversation: 1}, "victim", "-1"); !here {
				t.Error("the other client's URL is forgotten")
			}
			if n := len(r.shown.order); n != maxShownURLs {
				t.Errorf("%d are remembered", n)
			}
		})
	}
}
