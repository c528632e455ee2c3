package cli

import (
	"strconv"
	"strings"
	"testing"

	"github.com/dragoman-mcp/dragoman/internal/app/admin"
)

// TestLeftOutItems checks that the tables of list and status name the items that are left out, and
// escape what comes from a server.
func TestLeftOutItems(t *testing.T) {
	const why = "it is nested deeper than 125 levels"
	serving := &admin.Server{Name: "s", State: "ready", Lists: []admin.List{
		{Method: "tools/list", Odd: []admin.RejectedItem{{Name: "deep\x1b[2J", Why: why}, {Name: "other", Why: why}}},
		{Method: "prompts/list", Odd: []admin.RejectedItem{{Name: "p", Why: why}}},
	}}
	many := map[string]string{}
	for i := range mostLeftOut + 3 {
		many["t"+strconv.Itoa(i)] = why
	}
	for name, test := range map[string]struct {
		direct map[string]string
		report *serveReport
		want   []string
	}{
		"none":   {},
		"direct": {direct: map[string]string{"deep\x1b[2J": why}, want: []string{"tools: ", "deep", why}},
		"serve":  {direct: map[string]string{}, report: serving, want: []string{"deep", "other", why}},
		"many":   {direct: many, want: []string{"t0", "t4", "and 3 more"}},
	} {
		h := &health{State: stateReady}
		h.leftOut("tools", test.direct, test.report)
		got := h.notes(100)
		for _, want := range test.want {
			if !strings.Contains(got, want) {
				t.Errorf("%s: no %q in %q", name, want, got)
			}
		}
		if (got == "") != (test.want == nil) || strings.ContainsAny(got, "\x1b") || strings.Contains(got, "p is left out") || strings.Contains(got, "t5") {
			t.Errorf("%s: %q", name, got)
		}
	}
	if got := noteOf(serving, noon); !strings.Contains(got, why) || !strings.Contains(got, "2 more") || strings.Contains(got, "\x1b") {
		t.Errorf("the note in the table of status: %q", got)
	}
}
