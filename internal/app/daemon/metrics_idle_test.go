//go:build unix

package daemon

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/app/admin"
	"github.com/dragoman-mcp/dragoman/internal/relay/upstream"
)

// TestMetricsOfIdleServers checks that a server that nobody uses has two series: whether it's up, and its
// handshakes. The others appear when there is something to count.
func TestMetricsOfIdleServers(t *testing.T) {
	t.Parallel()
	var servers []*upstreamUnderTest
	for i := range 12 {
		servers = append(servers, child(t, fmt.Sprint("s", i), "echo"))
	}
	r := serve(t, snapshot(servers...))
	await(t, "12 ready servers", 30*time.Second, func() bool {
		now, _ := r.status()
		return !slices.ContainsFunc(now.Servers, func(s admin.Server) bool { return s.State != string(upstream.Ready) })
	})
	series, zeros := 0, 0
	for line := range strings.Lines(r.do(t.Context(), "GET", "/metrics", nil).body) {
		if strings.HasPrefix(line, "dragoman_") {
			series++
		}
		if strings.HasPrefix(line, "dragoman_") && strings.HasSuffix(line, "} 0\n") {
			zeros++
		}
	}
	if series > 2*len(servers)+3 || zeros > 0 {
		t.Errorf("%d series of %d idle servers, %d of them zero", series, len(servers), zeros)
	}
}
