package conn

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
	"github.com/dragoman-mcp/dragoman/internal/relay/event"
	"github.com/dragoman-mcp/dragoman/internal/testkit/pipetest"
)

// TestVendorsNotes checks that a notification that no revision defines reaches the running call of a
// modern client, which has no other stream for it, and all legacy clients.
func TestVendorsNotes(t *testing.T) {
	const note = `{"jsonrpc":"2.0","method":"notifications/acme/changed"}`
	carla, dora := &mcp.ClientInfo{Revision: mcp.R20260728}, &mcp.ClientInfo{Revision: mcp.R20260728}
	for name, tt := range map[string]struct {
		running []*mcp.ClientInfo
		note    string
		want    string
	}{
		"nobody":                 {nil, note, "all"},
		"a legacy client":        {[]*mcp.ClientInfo{anna}, note, "all"},
		"two legacy clients":     {[]*mcp.ClientInfo{anna, ben}, note, "all"},
		"a modern client":        {[]*mcp.ClientInfo{carla}, note, "0, all"},
		"two modern clients":     {[]*mcp.ClientInfo{carla, dora}, note, "lost, all"},
		"a client of each era":   {[]*mcp.ClientInfo{carla, anna}, note, "lost, all"},
		"a list has changed":     {[]*mcp.ClientInfo{carla}, strings.Replace(note, "acme/changed", "tools/list_changed", 1), "all"},
		"a URL has been visited": {[]*mcp.ClientInfo{carla}, strings.Replace(note, "acme/changed", "elicitation/complete", 1), "all"},
	} {
		for _, rev := range []mcp.Revision{mcp.R20251125, mcp.R20260728} {
			var got []string
			o := Options{Notice: func(*jsonrpc.Message, uint64) { got = append(got, "all") }, Events: &event.Publisher{}}
			o.Events.Tap(event.Of(event.Loss), func(event.Event) { got = append(got, "lost") })
			calling(t, rev, o, func(c *Conn, w *pipetest.Wire) {
				var all []*running
				for _, f := range tt.running {
					all = append(all, start(c, f, toolCall))
				}
				w.Heard()
				w.Say(tt.note)
				w.Heard()
				for i, r := range all {
					for range r.heard() {
						got = append([]string{fmt.Sprint(i)}, got...)
					}
					r.cancel(mcp.ErrCancelled)
				}
				w.Heard()
			})
			if text := strings.Join(got, ", "); text != tt.want {
				t.Errorf("%s, %s: %s, want %s", name, rev, text, tt.want)
			}
		}
	}
}

// TestLogsOfCallsGivenUp checks that a log message about an abandoned call reaches neither the call
// of another client nor all clients together.
func TestLogsOfCallsGivenUp(t *testing.T) {
	const log = `{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":"x"}}`
	stranger := &mcp.ClientInfo{Revision: mcp.R20260728, LogLevel: 2}
	var got []string
	o := Options{
		Notice: func(_ *jsonrpc.Message, only uint64) { got = append(got, fmt.Sprintf("only %d", only)) },
		Events: &event.Publisher{},
	}
	o.Events.Tap(event.Of(event.Loss), func(event.Event) { got = append(got, "lost") })
	expect := func(t *testing.T, when, want string) {
		t.Helper()
		if text := strings.Join(got, ", "); text != want {
			t.Errorf("%s: %s, want %s", when, text, want)
		}
		got = nil
	}
	calling(t, mcp.R20251125, o, func(c *Conn, w *pipetest.Wire) {
		giveUp := func(f *mcp.ClientInfo) (id string) {
			r := start(c, f, toolCall)
			id = string(pipetest.Scan(t, w.Heard()[0]).ID)
			r.cancel(mcp.ErrCancelled)
			w.Heard()
			return id
		}
		id := giveUp(anna)
		w.Say(log)
		w.Heard()
		expect(t, "nothing else runs", "only 1")

		own, other := start(c, anna, toolCall), string(pipetest.Scan(t, w.Heard()[0]).ID)
		w.Say(log)
		if n := len(own.heard()); n != 1 {
			t.Errorf("a second call of the same client got %d messages", n)
		}
		w.Say(`{"jsonrpc":"2.0","id":` + other + `,"result":{}}`)
		bens := start(c, ben, toolCall)
		w.Heard()
		w.Say(log)
		if n := len(bens.heard()); n != 0 {
			t.Errorf("another client's call got %d messages", n)
		}
		expect(t, "another's call runs", "lost")

		// The late answer shows that the server has finished the call.
		w.Say(`{"jsonrpc":"2.0","id":`+id+`,"result":{}}`, log)
		if n := len(bens.heard()); n != 1 {
			t.Errorf("after the late answer the other call got %d messages", n)
		}
		bens.cancel(mcp.ErrCancelled)
		w.Heard()
		time.Sleep(abandonedFor + 1)
		w.Say(log)
		w.Heard()
		expect(t, "after a while", "only 0")

		giveUp(stranger)
		w.Say(log)
		w.Heard()
		expect(t, "given up by somebody unknown", "lost")

		for range maxAbandoned + 10 {
			giveUp(anna)
		}
		l := c.link.(*pipeConn)
		if n := len(l.state.abandoned); n != maxAbandoned {
			t.Errorf("there are %d abandoned calls", n)
		}
		time.Sleep(abandonedFor + 1)
		w.Say(log)
		w.Heard()
		if expect(t, "after a while again", "only 0"); len(l.state.abandoned) != 0 {
			t.Errorf("%d abandoned calls are left", len(l.state.abandoned))
		}
	})
}
