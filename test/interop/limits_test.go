package interop

import (
	"errors"
	"flag"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/testkit/logtest"
)

// limit is a feature that an SDK does not support, so that a step fails both with and without
// Dragoman.
type limit struct {
	side      string // the side with the limit: "client" or "server"
	sdk       string
	revisions []string // revisions of the client, or eras of the server; nil means all
	transport string   // the transport; "" means all
	// partner is the SDK on the other side, if the limit applies only to this pair of SDKs.
	// partners are the eras or revisions of the partner. "" and nil mean all.
	partner  string
	partners []string
	steps    []string
	// silent means that the step would end only at its timeout. The table does not run such a
	// step.
	silent bool
	reason string
}

var asking = []string{"form", "model", "roots"}

// limits are the only steps that may fail. For each limit that applied, prove shows that the
// SDK causes it.
var limits = []limit{
	{
		side: "client", sdk: "mcp-go", revisions: []string{legacy, "2025-06-18", "2025-03-26"}, transport: stream,
		steps: []string{"cancel"}, silent: true,
		reason: "in a legacy revision it hangs up and sends no notifications/cancelled; hanging up cancels nothing there",
	},
	{
		side: "client", sdk: "mcp-go", transport: events, steps: []string{"cancel"}, silent: true,
		reason: "over HTTP+SSE it sends no notifications/cancelled and has nothing to hang up",
	},
	{
		side: "client", sdk: "mcp-go", transport: events, steps: asking, silent: true,
		reason: "over HTTP+SSE it declares that it can be asked and never answers",
	},
	{
		side: "client", sdk: "go-sdk", revisions: []string{modern, ""}, partner: "mcp-go", partners: []string{modern, onlyModern, both},
		steps:  []string{"roots"},
		reason: "it cannot read an input request without params, which roots/list may lack and with mcp-go does",
	},
	{
		side: "server", sdk: "mcp-go", transport: events, steps: asking,
		reason: "its HTTP+SSE sessions cannot ask",
	},
}

// errSilent is the error of a step that was not run.
var errSilent = errors.New("not tried: it would wait in vain")

func (l *limit) mark() string { return string(rune('a' + slices.IndexFunc(limits, l.is))) }

func (l *limit) is(o limit) bool { return o.reason == l.reason }

func (l *limit) covers(r row, c column, step string) bool {
	in := func(all []string, s string) bool { return all == nil || slices.Contains(all, s) }
	sdk, transport, rev, partner, other := r.sdk, r.transport, r.revision, c.sdk, c.era
	if l.side == "server" {
		sdk, transport, rev, partner, other = c.sdk, c.transport, c.era, r.sdk, r.revision
	}
	return sdk == l.sdk && (l.transport == "" || transport == l.transport) && in(l.revisions, rev) &&
		(l.partner == "" || partner == l.partner) && in(l.partners, other) && in(l.steps, step)
}

// limitOf returns the limit that allows a step to fail in a cell. It returns nil if there is no
// such limit.
func limitOf(r row, c column, step string) *limit {
	for i := range limits {
		if limits[i].covers(r, c, step) {
			return &limits[i]
		}
	}
	return nil
}

// prove shows that Dragoman does not cause the limits that applied: without Dragoman, the limited
// SDK fails with a partner that works with another SDK. prove returns the legend of the table.
func prove(t *testing.T, wit *witness, table map[row]map[column]outcome) string {
	used := make(map[*limit]int)
	for r, cols := range table {
		for c, out := range cols {
			for _, s := range out.failed() {
				if l := limitOf(r, c, s); l != nil {
					used[l]++
				}
			}
		}
	}
	legend := make([]string, len(limits)*len(steps))
	t.Run("limits", func(t *testing.T) {
		for i := range limits {
			l := &limits[i]
			if used[l] == 0 && !testing.Short() && flag.Lookup("test.run").Value.String() == "" {
				t.Errorf("limit %s is not needed any more: %s", l.mark(), l.reason)
			}
			for j, s := range l.steps {
				at := &legend[i*len(steps)+j]
				if used[l] == 0 {
					break
				}
				if j == 0 {
					*at = fmt.Sprintf("%s: %s as %s: %s (%d times, %s)\n", l.mark(), l.sdk, l.side, l.reason, used[l], strings.Join(l.steps, ", "))
				}
				t.Run(l.mark()+"/"+s, func(t *testing.T) {
					t.Parallel()
					*at += l.prove(t, wit, s)
				})
			}
		}
	})
	return strings.Join(legend, "")
}

func (l *limit) prove(t *testing.T, wit *witness, name string) string {
	s := &steps[slices.IndexFunc(steps, func(s step) bool { return s.name == name })]
	alone := func(r row, c column) error {
		return take(wit, r, c, true, &logtest.Buffer{}, name)[name]
	}
	for _, r := range rows() {
		for _, c := range columns() {
			if !s.applies(r, c) || !direct(r, c) || !l.covers(r, c, name) {
				continue
			}
			control, ok := l.control(r, c, name)
			if !ok {
				continue
			}
			if err := alone(control.row, control.column); err != nil {
				t.Errorf("limit %s: %v and %v fail too: %s: %v", l.mark(), control.row, control.column, name, err)
				return ""
			}
			err := alone(r, c)
			if err == nil {
				t.Errorf("limit %s: without Dragoman %v and %v pass: %s", l.mark(), r, c, name)
			}
			return fmt.Sprintf("   %s, without Dragoman: %v with %v fails: %v; %v with %v is ok\n", name, r, c, err, control.row, control.column)
		}
	}
	t.Errorf("limit %s: no client and server can show it: %s", l.mark(), name)
	return ""
}

type ends struct {
	row
	column
}

// control replaces the limited end of a pair with an end that has no limit for the step. It
// returns false if there is no such end.
func (l *limit) control(r row, c column, name string) (ends, bool) {
	for _, r2 := range rows() {
		for _, c2 := range columns() {
			if l.side == "client" && c2 != c || l.side == "server" && r2 != r {
				continue
			}
			if direct(r2, c2) && limitOf(r2, c2, name) == nil {
				return ends{r2, c2}, true
			}
		}
	}
	return ends{}, false
}

// direct reports whether a client and a server can be connected without Dragoman, in the client's
// revision.
func direct(r row, c column) bool {
	if r.transport != c.transport || r.revision == "" || c.pin {
		return false
	}
	if r.revision == modern || c.era == modern || c.era == onlyModern {
		return r.revision == modern && (c.era == modern || c.era == onlyModern)
	}
	return c.era != both && r.revision <= c.era
}

// silentLimit is the timeout of steps that are expected to get no answer.
const silentLimit = 2 * time.Second
