package matrix

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/dragoman-mcp/dragoman/internal/base/screen"
)

// made returns a report of all pairs, with the losses in loss.go. The function change may change a
// cell, or return false to leave the cell out.
func made(change func(*Cell) bool) *Report {
	f := Filter{}
	r := &Report{pairs: f.pairs()}
	for _, p := range r.pairs {
		for _, name := range Features() {
			c := Cell{Pair: p, Feature: name, Outcome: Works, Direct: None}
			if why := lossOf(name, p); why != "" {
				c.Outcome, c.Reason = Loss, why
				if absentIn(name, p) {
					c.Outcome = Absent
				}
			}
			if p.ClientTransport == p.ServerTransport {
				c.Direct = Fails
				if p.Client == p.Server {
					c.Direct = c.Outcome
				}
			}
			if change == nil || change(&c) {
				r.Cells = append(r.Cells, c)
			}
		}
	}
	return r
}

// TestText compares the report's text for a terminal with the expected text.
func TestText(t *testing.T) {
	last := revisions()[len(revisions())-1]
	r := made(func(c *Cell) bool {
		if c.Client == last && c.Server == revisions()[1] && c.ServerTransport == HTTP && c.ClientTransport == Stdio && c.Feature == "progress" {
			c.Outcome, c.Reason = Fails, "the token changed on its way, and the progress of "+strings.Repeat("many ", 12)+"steps was lost"
		}
		return c.Client != last || c.ClientTransport == Stdio
	})
	var b strings.Builder
	if err := r.Text(&b); err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(b.String()) {
		if n := screen.Width(strings.TrimSuffix(line, "\n")); n > textWidth {
			t.Errorf("%d columns: %s", n, line)
		}
	}
	got, _, _ := strings.Cut(b.String(), "\nF 2024")
	const want = `✗ 2026-07-28 stdio > 2025-03-26 http, progress: the token changed on its way,
  and the progress of many many many many many many many many many many many
  many steps was lost

through Dragoman
client ↓ server → 2024-11-05  2025-03-26  2025-06-18  2025-11-25  2026-07-28
                  stdio sse   stdio http  stdio http  stdio http  stdio http
2024-11-05 stdio  ✓     ✓     ✓     ✓     F     F     FLUT  FLUT  FLUT  FLUT
2024-11-05 sse    ✓     ✓     ✓     ✓     F     F     FLUT  FLUT  FLUT  FLUT
2025-03-26 stdio  ✓     ✓     ✓     ✓     F     F     FLUT  FLUT  FLUT  FLUT
2025-03-26 http   ✓     ✓     ✓     ✓     F     F     FLUT  FLUT  FLUT  FLUT
2025-06-18 stdio  F     F     F     F     ✓     ✓     LUT   LUT   LUT   LUT
2025-06-18 http   F     F     F     F     ✓     ✓     LUT   LUT   LUT   LUT
2025-11-25 stdio  FLUT  FLUT  FLUT  FLUT  LUT   LUT   ✓     ✓     ✓     ✓
2025-11-25 http   FLUT  FLUT  FLUT  FLUT  LUT   LUT   ✓     ✓     ✓     ✓
2026-07-28 stdio  FLUT  FLUT  FLUT  ✗1    LUT   LUT   ✓     ✓     ✓     ✓
2026-07-28 http   ·     ·     ·     ·     ·     ·     ·     ·     ·     ·

without Dragoman
client ↓ server → 2024-11-05  2025-03-26  2025-06-18  2025-11-25  2026-07-28
                  stdio sse   stdio http  stdio http  stdio http  stdio http
2024-11-05 stdio  ✓     –     ✗     –     ✗     –     ✗     –     ✗     –
2024-11-05 sse    –     ✓     –     –     –     –     –     –     –     –
2025-03-26 stdio  ✗     –     ✓     –     ✗     –     ✗     –     ✗     –
2025-03-26 http   –     –     –     ✓     –     ✗     –     ✗     –     ✗
2025-06-18 stdio  ✗     –     ✗     –     ✓     –     ✗     –     ✗     –
2025-06-18 http   –     –     –     ✗     –     ✓     –     ✗     –     ✗
2025-11-25 stdio  ✗     –     ✗     –     ✗     –     ✓     –     ✗     –
2025-11-25 http   –     –     –     ✗     –     ✗     –     ✓     –     ✗
2026-07-28 stdio  ✗     –     ✗     –     ✗     –     ✗     –     ✓     –
2026-07-28 http   ·     ·     ·     ·     ·     ·     ·     ·     ·     ·

✓  everything works that either side has
Letters: all but what one side has and the other one cannot express:
   F elicitation-form, L elicitation-rich, U elicitation-url, T tasks
✗  nothing works; ✗3: three features fail
–  no common transport
·  not measured
`
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
	if end := b.String()[strings.LastIndex(b.String(), "\n\n"):]; !strings.HasSuffix(end, "1 fail\n251 more: neither side has the feature\n10 of 100 pairs were not measured\n") {
		t.Errorf("the text ends with %q", end)
	}
}

// TestOneServer checks the head of a grid in which each revision has only one server transport.
func TestOneServer(t *testing.T) {
	r := made(func(c *Cell) bool { return c.ServerTransport == HTTP && c.ClientTransport == HTTP })
	r.pairs = nil
	var b strings.Builder
	if err := r.Text(&b); err != nil {
		t.Fatal(err)
	}
	if want := "through Dragoman\nclient ↓ server → 25-03 25-06 25-11 26-07\n                  http  http  http  http\n2025-03-26 http   "; !strings.HasPrefix(b.String(), want) {
		t.Errorf("%s", b.String())
	}
}

// TestAStopKeepsWhatWasMeasured checks that a stopped run returns a report of the pairs that were
// measured before the stop. If no pair was measured, the report is empty.
func TestAStopKeepsWhatWasMeasured(t *testing.T) {
	stopped := errors.New("stopped")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(stopped)
	r, err := Run(ctx, Options{Program: []string{"no-such-program"}})
	if !errors.Is(err, stopped) || r == nil || len(r.Cells) != 0 || r.missing() != 100 {
		t.Errorf("%v, %+v", err, r)
	}
}
