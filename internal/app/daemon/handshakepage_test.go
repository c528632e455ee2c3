//go:build unix

package daemon

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
	"github.com/dragoman-mcp/dragoman/internal/setup/config"
)

// TestHandshakePage checks that docs/handshake.md has the log records of a real handshake. The steps
// up to the open connection stand before "server ready", although several goroutines write to the
// log. The list is read by whoever waited for the server, so its records may be on either side.
func TestHandshakePage(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../../docs/handshake.md")
	if err != nil {
		t.Fatal(err)
	}
	record := regexp.MustCompile(`^(?:time=\S+ )?(level=\S+ msg="(?:handshake step|server ready)" server=files .*?)(?: code=\S+)?\n?$`)
	took := regexp.MustCompile(`took=\S+`)
	records := func(text string) (all []string) {
		for line := range strings.Lines(text) {
			if m := record.FindStringSubmatch(line); m != nil {
				all = append(all, took.ReplaceAllString(m[1], "took=T"))
			}
		}
		return all
	}
	want := records(string(page))
	// Set the revision, so that Dragoman does not probe the server. On a busy machine, the process
	// may start after the timeout of the probe.
	files := child(t, "files", "fake gate-initialized", func(s *config.Server) { s.Revision = mcp.R20250618 })
	r := serve(t, snapshot(files))
	await(t, "the log has the last record of the handshake", 30*time.Second, func() bool { return len(records(r.log.String())) >= len(want) })
	got := records(r.log.String())
	ready := func(line string) bool { return strings.Contains(line, "server ready") }
	if at := slices.IndexFunc(got, ready); at < 4 {
		t.Errorf("%d records stand before the server is ready", at)
	}
	steps := func(all []string) []string { return slices.DeleteFunc(slices.Clone(all), ready) }
	if !slices.Equal(steps(got), steps(want)) || len(got) != len(want) || len(want) != 7 {
		t.Errorf("docs/handshake.md has\n%s\nbut the log is\n%s", strings.Join(want, "\n"), strings.Join(got, "\n"))
	}
	if !strings.Contains(string(page), `msg="server is not ready"`) || !strings.Contains(r.log.String(), `msg="server is not ready" server=files step="tools/list -> error -32000`) {
		t.Errorf("the page or the log lacks the retries:\n%s", r.log)
	}
}
