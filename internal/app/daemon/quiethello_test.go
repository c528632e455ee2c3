//go:build unix

package daemon

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
	"github.com/dragoman-mcp/dragoman/internal/setup/config"
)

// TestHandshakesReachNoOpenServer checks that Dragoman answers the handshakes of clients without
// requests to servers that are already open.
func TestHandshakesReachNoOpenServer(t *testing.T) {
	t.Parallel()
	// Dragoman does not ping lazy servers in the background.
	lazy := func(c *config.Server) { c.Lazy = true }
	legacy, modern := newWeb(t, false), newWeb(t, true)
	r := serve(t, snapshot(legacy.as(t, "old", lazy), modern.as(t, "new", lazy)))
	r.joined()
	// Wait until Dragoman has sent its one subscriptions/listen to the modern server.
	r.initialize("/mcp", "2025-06-18", "{}")
	await(t, "Dragoman has tried to subscribe", time.Minute, func() bool { return len(modern.of(mcp.MethodListen)) > 0 })
	methods := func() (all []string) {
		for _, s := range []*webServer{legacy, modern} {
			s.mu.Lock()
			for _, x := range s.requests {
				all = append(all, x.m.Method)
			}
			s.mu.Unlock()
		}
		return all
	}
	before := methods()
	for range 20 {
		r.initialize("/mcp", "2025-06-18", "{}")
		r.initialize("/mcp", "2025-03-26", "{}")
		for _, path := range []string{"/mcp", "/s/old/mcp", "/s/new/mcp"} {
			if a := r.modern(path, "1", "server/discover", "", ""); a.code(t) != 0 || !strings.Contains(a.body, `"tools"`) {
				t.Errorf("server/discover at %s: %d %s", path, a.status, a.body)
			}
		}
	}
	if after := methods(); !slices.Equal(after, before) || !slices.Contains(after, mcp.MethodListTools) {
		t.Errorf("the servers got %d requests before and %d after the handshakes: %q", len(before), len(after), after)
	}
}
