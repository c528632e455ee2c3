package upstream

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
)

// TestListsAreReadAgainAfterABreak ends a listen, as balancers do with idle streams. What has changed until the next one is
// acknowledged isn't announced, so all lists count as changed then, and not only when the listen ends.
func TestListsAreReadAgainAfterABreak(t *testing.T) {
	var mu sync.Mutex
	var events []string
	note := func(text string) {
		mu.Lock()
		defer mu.Unlock()
		events = append(events, text)
	}
	h := &program{modern: true}
	h.on = func(l *process, m *jsonrpc.Message) []byte {
		if m.Method != mcp.MethodListen {
			return nil
		}
		note("listen")
		ack := fmt.Sprintf(`{"_meta":{"io.modelcontextprotocol/subscriptionId":%s},"notifications":%s}`, m.ID, m.Param("notifications").Of(m.Raw))
		_ = l.pipe.Write(jsonrpc.AppendNotification(nil, mcp.NoteAcknowledged, []byte(ack)))
		if h.count(mcp.MethodListen) > 1 {
			return silent
		}
		return ok(m, `{"resultType":"complete"}`) // it ends
	}
	bubble(t, h, Spec{}, func(t *testing.T, u *Upstream) {
		u.opts.Changed = func(kind string) { note("changed " + kind) }
		if _, err := u.Hello(t.Context(), modernClient); err != nil {
			t.Fatal(err)
		}
		a := u.Subscribe(modernClient, func(*jsonrpc.Message) {}, nil)
		if _, err := a.Watch(t.Context(), mcp.SubscriptionFilter{Tools: true}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		mu.Lock()
		defer mu.Unlock()
		if n := len(events); n < 3 || !slices.Contains(events[1:n-1], "changed tools") || events[n-2] != "listen" || events[n-1] != "changed " {
			t.Errorf("%q", events)
		}
		a.Close()
	})
}
