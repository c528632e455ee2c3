package cli

import (
	"bytes"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/dragoman-mcp/dragoman/internal/base/screen"
)

// TestHelpFits checks that the help of each command fits a narrow terminal, except for what people copy: the
// usage and the examples.
func TestHelpFits(t *testing.T) {
	const width = 60
	var all [][]string
	var walk func(c *cobra.Command)
	walk = func(c *cobra.Command) {
		all = append(all, append(strings.Fields(c.CommandPath())[1:], "--help"))
		for _, sub := range c.Commands() {
			walk(sub)
		}
	}
	walk(Command())
	for _, args := range all {
		var out bytes.Buffer
		a := &app{world: world{stdout: &out, env: noEnv, screen: true, width: width, status: newStatus(&bytes.Buffer{}, false, noEnv)}}
		a.program = "dragoman"
		if code := a.main(args); code != 0 {
			t.Fatalf("%v: exit code %d", args, code)
		}
		text, rest, ok := strings.Cut(out.String(), "\nUsage:\n")
		if _, flags, has := strings.Cut(rest, "\nFlags:\n"); ok && has && args[0] != "--help" {
			text += flags
		}
		for line := range strings.Lines(text) {
			line = strings.TrimSpace(line)
			theirs := strings.HasPrefix(line, `Use "`) || strings.Contains(line, "%AppData%") // cobra and pflag break these elsewhere
			if screen.Width(line) > width && !theirs {
				t.Errorf("%v: %q", args, line)
			}
		}
	}
}
