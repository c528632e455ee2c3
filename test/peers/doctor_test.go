//go:build unix

package peers

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/dragoman-mcp/dragoman/test/built"
)

// TestDoctor runs dragoman doctor for a legacy server and a server of both eras from npm. The
// reports must contain no warnings, and exactly the infos that docs/findings.md explains.
func TestDoctor(t *testing.T) {
	if os.Getenv("DRAGOMAN_PEERS") == "" {
		t.Skip("set DRAGOMAN_PEERS=1 (or make peers) to run servers from npm")
	}
	bin, program := install(t), built.Dragoman(t)
	for _, c := range []struct {
		command, name, directly string
		infos                   []string
	}{
		{
			"mcp-server-memory", "memory-server", "✓ 2024-11-05 ✓ 2025-03-26 ✓ 2025-06-18 ✓ 2025-11-25 ✗ 2026-07-28",
			[]string{"DRG-BATCH", "DRG-EARLY-SERVED", "DRG-ID-BIG"},
		},
		{
			"context7-mcp", "Context7", "✓ 2024-11-05 ✓ 2025-03-26 ✓ 2025-06-18 ✓ 2025-11-25 ✓ 2026-07-28",
			[]string{"DRG-BATCH", "DRG-EARLY-SERVED", "DRG-ID-BIG"},
		},
	} {
		t.Run(c.command, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), 4*time.Minute)
			defer cancel()
			cmd := exec.CommandContext(ctx, program, "doctor", "--all", "--env", "MEMORY_FILE_PATH="+filepath.Join(t.TempDir(), "memory.jsonl"), "--", filepath.Join(bin, c.command))
			out, err := cmd.Output()
			if err != nil {
				t.Errorf("doctor: %v", err)
			}
			text := string(out)
			if !strings.HasPrefix(text, "✓ "+c.name+" ") {
				t.Errorf("the report does not begin with a good verdict")
			}
			wants(t, "verdict", text, "\n  directly: "+c.directly+"\n", "\n  through Dragoman: all five\n", " of context\n")
			var infos []string
			for _, m := range regexp.MustCompile(`(?m)^(\w+) (DRG-[A-Z-]+): `).FindAllStringSubmatch(text, -1) {
				if m[1] != "info" {
					t.Errorf("%s has the level %s", m[2], m[1])
				}
				infos = append(infos, m[2])
			}
			if !slices.Equal(infos, c.infos) {
				t.Errorf("found %q, want %q", infos, c.infos)
			}
			if t.Failed() {
				t.Log(text)
			}
		})
	}
}
