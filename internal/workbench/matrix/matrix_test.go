package matrix

import (
	"context"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
	"github.com/dragoman-mcp/dragoman/internal/testkit/leaktest"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

// program builds dragoman and returns its command line.
func program(t *testing.T) []string {
	t.Helper()
	to := filepath.Join(t.TempDir(), "dragoman")
	// Without CGO_ENABLED=0, the packages are those that the tests use, so nothing is compiled twice.
	cmd := exec.CommandContext(t.Context(), "go", "build", "-o", to, "github.com/dragoman-mcp/dragoman/cmd/dragoman")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	return []string{to}
}

// TestCorners measures every transport with the oldest and the newest revision, also without
// Dragoman. TestEventsOfTheMatrix in package cli also has the newest legacy revision, through
// Dragoman, and `make matrix-check` has all revisions.
func TestCorners(t *testing.T) {
	if testing.Short() {
		t.Skip("builds the program and starts it dozens of times")
	}
	corners := []mcp.Revision{mcp.R20241105, mcp.R20260728}
	r, err := Run(context.WithoutCancel(t.Context()), Options{
		Program: program(t), Filter: Filter{Clients: corners, Servers: corners},
	})
	if err != nil {
		t.Fatal(err)
	}
	if want := 16 * len(features()); len(r.Cells) != want {
		t.Errorf("%d cells, want %d", len(r.Cells), want)
	}
	for _, c := range r.Cells {
		if c.Outcome != Works && c.Outcome != Loss && c.Outcome != Absent {
			t.Errorf("%s, %s: %s: %s", c.Pair, c.Feature, c.Outcome, c.Reason)
		}
		if (c.Outcome != Works) != (c.Reason != "") || (c.Outcome != Works) != (lossOf(c.Feature, c.Pair) != "") || c.Outcome == Absent != absentIn(c.Feature, c.Pair) {
			t.Errorf("%s, %s: %s: %q", c.Pair, c.Feature, c.Outcome, c.Reason)
		}
		if c.Client == c.Server && c.Direct == Fails {
			t.Errorf("%s, %s, directly: %s", c.Pair, c.Feature, c.DirectReason)
		}
		if c.Console != c.Outcome && (c.Console != Works || !consoleHelps(c.Feature, c.Pair)) || consoleHelps(c.Feature, c.Pair) && c.Console != Works {
			t.Errorf("%s, %s: with the console: %s: %s", c.Pair, c.Feature, c.Console, c.ConsoleReason)
		}
		if directly := c.ClientTransport == c.ServerTransport && (!slices.Contains([]string{"sign-in", "confirm", "search"}, c.Feature) || c.Outcome == Absent); directly == (c.Direct == None) {
			t.Errorf("%s, %s: directly %s", c.Pair, c.Feature, c.Direct)
		}
	}
}

// TestLosses checks that a feature is a loss only if one end cannot express it.
func TestLosses(t *testing.T) {
	for _, tt := range []struct {
		feature string
		pair    Pair
		want    string
	}{
		{"tools", Pair{mcp.R20241105, mcp.R20260728, Stdio, Stdio}, ""},
		{"elicitation-form", Pair{mcp.R20241105, mcp.R20260728, Stdio, Stdio}, "2024-11-05 has no elicitation"},
		{"elicitation-form", Pair{mcp.R20260728, mcp.R20250326, Stdio, Stdio}, "2025-03-26 has no elicitation"},
		{"elicitation-form", Pair{mcp.R20241105, mcp.R20250326, Stdio, Stdio}, "2024-11-05 has no elicitation"},
		{"elicitation-form", Pair{mcp.R20250326, mcp.R20241105, Stdio, Stdio}, "2024-11-05 has no elicitation"},
		{"elicitation-form", Pair{mcp.R20250618, mcp.R20260728, HTTP, Stdio}, ""},
		{"elicitation-url", Pair{mcp.R20250618, mcp.R20260728, HTTP, Stdio}, "2025-06-18 has no URL elicitation"},
		{"elicitation-url", Pair{mcp.R20251125, mcp.R20260728, HTTP, Stdio}, ""},
		{"tasks", Pair{mcp.R20251125, mcp.R20260728, HTTP, Stdio}, ""},
		{"tasks", Pair{mcp.R20250618, mcp.R20250618, HTTP, Stdio}, "2025-06-18 has no tasks"},
		{"resume", Pair{mcp.R20250618, mcp.R20260728, HTTP, Stdio}, ""},
		{"resume", Pair{mcp.R20250618, mcp.R20250618, Stdio, Stdio}, "stdio has no streams"},
		{"resume", Pair{mcp.R20260728, mcp.R20241105, HTTP, SSE}, "HTTP+SSE does not define resumption"},
	} {
		got := lossOf(tt.feature, tt.pair)
		if tt.want == "" && got != "" || !strings.Contains(got, tt.want) {
			t.Errorf("%s of %s: %q, want %q", tt.feature, tt.pair, got, tt.want)
		}
	}
}

// TestEqualRevisionsLoseNothing checks that a pair loses only what one of its ends has.
func TestEqualRevisionsLoseNothing(t *testing.T) {
	for _, client := range mcp.Revisions() {
		for _, server := range mcp.Revisions() {
			got := ""
			for _, x := range Expected(client, server) {
				if got += letters[x.Feature]; letters[x.Feature] == "" || !x.Always {
					t.Errorf("%s with %s: %+v has no letter, or depends on the transport", client, server, x)
				}
			}
			want := map[mcp.Revision]string{mcp.R20241105: "", mcp.R20250326: "", mcp.R20250618: "F", mcp.R20251125: "FLUT", mcp.R20260728: "FLUT"}
			older, newer := want[min(client, server)], want[max(client, server)]
			if want := strings.TrimPrefix(newer, older); got != want {
				t.Errorf("%s with %s lose %q, want %q", client, server, got, want)
			}
		}
	}
}

func TestPairs(t *testing.T) {
	if n := len((&Filter{}).pairs()); n != 100 {
		t.Errorf("%d pairs, want 10 clients with 10 servers", n)
	}
	f := Filter{Clients: []mcp.Revision{mcp.R20241105}, ServerTransports: []Transport{HTTP}}
	for _, p := range f.pairs() {
		if p.Client != mcp.R20241105 || p.ServerTransport != HTTP {
			t.Errorf("%s", p)
		}
	}
	if n := len(f.pairs()); n != 8 {
		t.Errorf("%d pairs, want 2 clients with 4 servers", n)
	}
}

func TestReport(t *testing.T) {
	cell := func(client, server mcp.Revision, feature string, o Outcome, reason string) Cell {
		return Cell{Pair: Pair{client, server, Stdio, Stdio}, Feature: feature, Outcome: o, Console: o, Direct: Works, Reason: reason}
	}
	r := &Report{Cells: []Cell{
		cell(mcp.R20241105, mcp.R20241105, "tools", Works, ""),
		cell(mcp.R20241105, mcp.R20241105, "elicitation-form", Loss, "It has none."),
		cell(mcp.R20241105, mcp.R20260728, "tools", Fails, `the "server" is gone`),
		cell(mcp.R20241105, mcp.R20260728, "elicitation-form", Works, ""),
	}}
	for name, tt := range map[string]struct {
		write func(*strings.Builder) error
		want  []string
	}{
		"json": {func(b *strings.Builder) error { return r.JSON(b) }, []string{
			`{"client":"2024-11-05","server":"2026-07-28","clientTransport":"stdio","serverTransport":"stdio","feature":"tools","outcome":"fails","console":"fails","direct":"works","reason":"the \"server\" is gone"}`,
		}},
		"markdown": {func(b *strings.Builder) error { return r.Markdown(b) }, []string{
			"2 of 4 cells work, 1 are documented losses and 1 fail", "| 2024-11-05 | all but F | 1 of 2, fails: **tools** |", "| elicitation-form | It has none. | 1 |", `the "server" is gone`,
		}},
		"text": {func(b *strings.Builder) error { return r.Text(b) }, []string{"  F ", "✗1", "4 cells: 2 work, 1 are losses, 1 fail"}},
	} {
		var b strings.Builder
		if err := tt.write(&b); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		for _, want := range tt.want {
			if !strings.Contains(b.String(), want) {
				t.Errorf("%s: no %q in\n%s", name, want, b.String())
			}
		}
	}
}
