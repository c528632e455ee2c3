package downstream

import (
	"strings"
	"testing"

	"github.com/dragoman-mcp/dragoman/internal/relay/event"
	"github.com/dragoman-mcp/dragoman/internal/testkit/pipetest"
)

// long returns a string of n bytes.
func long(n int) string { return strings.Repeat("x", n) }

// TestClientInfoOfASessionIsBounded checks a legacy client that sends very long capabilities and
// info. The session keeps only a bounded part of them, and Dragoman records a loss for each.
func TestClientInfoOfASessionIsBounded(t *testing.T) {
	h := &fakeHandler{}
	var lost []string
	events := &event.Publisher{}
	events.Tap(event.Of(event.Loss), func(e event.Event) { lost = append(lost, e.Name+": "+e.Detail) })
	visit(t, &Endpoint{Handler: h, Events: events}, func(w *pipetest.Wire) {
		w.Say(`{"jsonrpc":"2.0","id":"i","method":"initialize","params":{"protocolVersion":"2025-11-25",` +
			`"capabilities":{"sampling":{},"experimental":{"x":"` + long(1<<20) + `"}},"clientInfo":{"name":"c","version":"1","icons":["` + long(1<<20) + `"]}}}`)
		w.Want(`{"jsonrpc":"2.0","id":"i","result":…`)
		w.Say(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
		f := h.standing.ClientInfo()
		if string(f.Info) != `{"name":"c","version":"1"}` || string(f.Capabilities) != `{"sampling":{}}` {
			t.Errorf("the session keeps %d and %d bytes", len(f.Info), len(f.Capabilities))
		}
		if len(lost) != 2 {
			t.Errorf("the handler got %q", lost)
		}
	})
}
