package cli

import (
	"strings"
	"testing"

	"github.com/dragoman-mcp/dragoman/internal/base/screen"
	"github.com/dragoman-mcp/dragoman/internal/setup/config"
)

func TestSourceOf(t *testing.T) {
	long := strings.Repeat("x", 100)
	for _, tt := range []struct {
		source string
		caret  int
		want   string
	}{
		{"", 0, ""},
		{"  listen: x", 10, "  7 |   listen: x\n    |           ^\n"},
		{"日本語: x", 5, "  7 | 日本語: x\n    |         ^\n"},
		{"ab", 9, "  7 | ab\n    |   ^\n"},
		{"k: " + long, 0, "  7 | k: " + long[:29] + "…\n    | ^\n"},
		{long + "!", 100, "  7 | …" + long[:31] + "!\n    | " + strings.Repeat(" ", 32) + "^\n"},
		{long + "!" + long, 100, "  7 | …" + long[:21] + "!" + long[:9] + "…\n    | " + strings.Repeat(" ", 22) + "^\n"},
		{strings.Repeat("日", 50) + "!", 50, "  7 | …" + strings.Repeat("日", 15) + "!\n    | " + strings.Repeat(" ", 31) + "^\n"},
	} {
		got := sourceOf(config.Problem{Line: 7, Source: tt.source, Caret: tt.caret}, 40)
		if got != tt.want {
			t.Errorf("%q at %d:\n%s\nwant\n%s", tt.source, tt.caret, got, tt.want)
		}
		for l := range strings.Lines(got) {
			if w := screen.Width(strings.TrimSuffix(l, "\n")); w > 40 {
				t.Errorf("%q at %d: a line of %d cells", tt.source, tt.caret, w)
			}
		}
	}
	if got := sourceOf(config.Problem{Line: 12345, Source: long}, 1); !strings.Contains(got, "xxx") {
		t.Errorf("on a narrow terminal: %q", got)
	}
}
