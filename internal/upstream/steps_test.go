package upstream

import (
	"fmt"
	"log/slog"
	"slices"
	"testing"
	"testing/synctest"

	"github.com/dragoman-mcp/dragoman/internal/event"
	"github.com/dragoman-mcp/dragoman/internal/mcp"
)

// TestSteps checks that the messages of a handshake, and of the first tools/list after it, are
// published when they are sent and when they are answered, in this order.
func TestSteps(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := &program{legacy: true}
		u := h.open(Spec{})
		p := &event.Publisher{}
		var got []string
		p.Tap(event.Of(event.Step), func(e event.Event) {
			if e.Server != "h" || e.Level != slog.LevelDebug || e.Step.Bytes != "" {
				t.Errorf("%+v", e)
			}
			got = append(got, fmt.Sprintf("%d %s -> %s", e.Step.N, e.Step.Sent, e.Step.Got))
		})
		u.opts.Events = p
		for range 2 { // only the first list is a step
			if _, _, err := u.List(t.Context(), nil, mcp.MethodListTools); err != nil {
				t.Fatal(err)
			}
		}
		want := []string{
			"1 server/discover -> ",
			"2 server/discover (2026-07-28) -> error -32601 \"Method not found\"",
			"3 initialize -> ",
		}
		if len(got) < 8 || !slices.Equal(got[:3], want) || got[len(got)-2] != fmt.Sprintf("%d tools/list -> ", len(got)-1) {
			t.Errorf("%q", got)
		}
		u.Close(t.Context())
	})
}
