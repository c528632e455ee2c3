//go:build unix

package daemon

import (
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/dragoman-mcp/dragoman/internal/workbench/fake"
)

// TestCallLog checks that the log has one line for each call of clients of both eras to
// servers of both eras, over HTTP and over a pipe.
func TestCallLog(t *testing.T) {
	t.Parallel()
	wait := func(t *testing.T, log *journal, calls int) (lines []string) {
		t.Helper()
		await(t, "the lines of the calls", time.Minute, func() bool {
			lines = nil
			for l := range strings.Lines(log.String()) {
				if _, call, ok := strings.Cut(strings.TrimSuffix(l, "\n"), "msg=call "); ok && strings.Contains(call, "tool=") {
					lines = append(lines, regexp.MustCompile(`took=\S+`).ReplaceAllString(call, "took=T"))
				}
			}
			return len(lines) >= calls
		})
		return lines
	}
	t.Run("serve", func(t *testing.T) {
		t.Parallel()
		r := serve(t, snapshot(child(t, "old", "legacy"), child(t, "young", "modern")), func(o *ServeOptions) { o.LogCalls = true })
		session := []string{"Mcp-Session-Id", r.initialize("/mcp", "2025-06-18", "{}")}
		r.post("/mcp", toolCall("1", "old__echo", `{"v":1}`), session...).wantText(t, `{"v":1}`)
		r.post("/mcp", toolCall("2", "young__echo", `{"v":2}`), session...).wantText(t, `{"v":2}`)
		r.call("/mcp", "old__echo", `{"v":3}`).wantText(t, `{"v":3}`)
		r.call("/s/young/mcp", "echo", `{"v":4}`).wantText(t, `{"v":4}`)
		if d := cmp.Diff([]string{
			"server=old tool=echo took=T outcome=ok client=t from=2025-06-18 to=2025-11-25",
			"server=young tool=echo took=T outcome=ok client=t from=2025-06-18 to=2026-07-28",
			"server=old tool=echo took=T outcome=ok client=t from=2026-07-28 to=2025-11-25",
			"server=young tool=echo took=T outcome=ok client=t from=2026-07-28 to=2026-07-28",
		}, wait(t, r.log, 4)); d != "" {
			t.Error(d)
		}
		if log := r.log.String(); !strings.Contains(log, "level=INFO msg=call ") || strings.Contains(log, `{\"v\"`) {
			t.Errorf("the log: %s", log)
		}
	})
	t.Run("run", func(t *testing.T) {
		t.Parallel()
		p := dial(t, child(t, "files", "modern"), "strict-2025-11-25", fake.ClientOptions{})
		p.tool(t, fake.CallOptions{}, "echo", `{"v":1}`)
		lines := wait(t, p.log, 1)
		if ok, _ := regexp.MatchString(`^server=files tool=echo took=T outcome=ok client=\S+ from=2025-11-25 to=2026-07-28$`, lines[0]); !ok || len(lines) != 1 {
			t.Errorf("the lines: %q", lines)
		}
	})
}
