package console

import (
	"html"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/dragoman-mcp/dragoman/internal/app/admin"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
	"github.com/dragoman-mcp/dragoman/internal/relay/event"
)

func init() {
	scenes["pairs-none"], scenes["pairs-hostile"] = scenes["empty"], scenes["hostile"]
	pagesOf["pairs-none"], pagesOf["pairs-hostile"] = []string{"/compatibility"}, []string{"/compatibility"}
	scenes["pairs"] = func() scene {
		s := scene{report: admin.Report{Servers: []admin.Server{server("files", mcp.R20250618, 14), broken("browser", "it failed"), server("search", mcp.R20260728, 6), server("tickets", mcp.R20250618, 2)}}}
		s.report.Servers[3].Transport = "sse"
		s.play = func(p *event.Publisher) {
			call(p, "Claude Code", "2.1.4", mcp.R20251125, "files", mcp.R20250618, event.OK, 1)
			call(p, "AI SDK", "2.0.99", mcp.R20260728, "files", mcp.R20250618, event.OK, 2)
		}
		return s
	}
	pagesOf["pairs"] = []string{"/compatibility", "/compatibility?client=2026-07-28&server=2025-06-18", "/compatibility?client=x&server=2025-06-18"}
}

// TestMatrixIsComplete checks that the page shows each letter of each pair, with the sentence
// of each transport.
func TestMatrixIsComplete(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := stage(t, "pairs")
		m := h.source.Matrix()
		_, all := h.ask("GET", "/console/compatibility")
		all = html.UnescapeString(all)
		for _, p := range m.Pairs {
			_, body := h.ask("GET", "/console/compatibility?client="+p.Client+"&server="+p.Server)
			_, pair, ok := strings.Cut(html.UnescapeString(body), `id="pair"`)
			pair, _, _ = strings.Cut(pair, "</section>")
			if !ok || strings.Count(pair, `<dt><span class="gap">`) != len(p.Losses) {
				t.Errorf("%s with %s: %s", p.Client, p.Server, pair)
			}
			for _, l := range p.Losses {
				for _, x := range l.Transports {
					if x.Why == "" || !strings.Contains(pair, x.Why) || !strings.Contains(all, x.Why) {
						t.Errorf("%s with %s: %q is missing", p.Client, p.Server, x.Why)
					}
				}
			}
		}
	})
}

// TestAbsentFeatures checks that the page of two old revisions neither says that a feature works that both
// lack, nor that it is lost.
func TestAbsentFeatures(t *testing.T) {
	t.Parallel()
	m := (*admin.API)(nil).Matrix()
	for i := range m.Pairs {
		p := &m.Pairs[i]
		v := pairOf(&m, p)
		if len(v.Works)+len(v.Losses)+len(v.Absent) != len(m.Features) {
			t.Errorf("%s with %s: %+v", p.Client, p.Server, v)
		}
		if p.Client == p.Server && len(v.Losses) > 0 || slices.Contains(v.Works, "tasks") != (min(p.Client, p.Server) >= "2025-11-25") {
			t.Errorf("%s with %s: works %v, lost %+v", p.Client, p.Server, v.Works, v.Losses)
		}
	}
}

// TestPairsHere checks that a pair loses only what its transports lose.
func TestPairsHere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := stage(t, "pairs")
		_, body := h.ask("GET", "/console/compatibility")
		_, here, _ := strings.Cut(body, `id="here"`)
		here, _, _ = strings.Cut(html.UnescapeString(here), "</section>")
		for text, want := range map[string]bool{
			"2025-06-18 has no URL elicitation": true,
			"2025-06-18 has no tasks":           true,
			"2024-11-05":                        false, // no peer speaks this revision
			"not tested":                        true,  // HTTP+SSE with a revision that does not define it
			"<bdi>browser</bdi>":                false, // the client's revision is not known
			"stdio has no streams":              false, // neither side could resume
			"Streams cannot be resumed: HTTP+SSE does not define resumption.": false,
		} {
			if strings.Contains(here, text) != want {
				t.Errorf("%q: %v\n%s", text, !want, here)
			}
		}
	})
}

// TestLossesOver checks the losses over pairs of transports, and which transports the matrix
// has for a pair.
func TestLossesOver(t *testing.T) {
	t.Parallel()
	m := (*admin.API)(nil).Matrix()
	for _, x := range []struct {
		client, over, server, to string
		untested                 bool
		lost                     bool
	}{
		{client: "2025-11-25", over: "http", server: "2025-11-25", to: "stdio"},
		{client: "2025-11-25", over: "http", server: "2025-11-25", to: "http"},
		{client: "2025-11-25", over: "stdio", server: "2025-11-25", to: "stdio"},
		{client: "2025-11-25", over: "http", server: "2026-07-28", to: "stdio"},
		{client: "2025-11-25", over: "sse", server: "2025-11-25", to: "stdio", untested: true},
		{client: "2024-11-05", over: "http", server: "2025-11-25", to: "stdio", untested: true, lost: true},
		{client: "2024-11-05", over: "sse", server: "2025-11-25", to: "stdio", lost: true},
		{client: "2025-06-18", over: "http", server: "2025-11-25", to: "http", lost: true},
	} {
		var pair *admin.MatrixPair
		for i := range m.Pairs {
			if m.Pairs[i].Client == x.client && m.Pairs[i].Server == x.server {
				pair = &m.Pairs[i]
			}
		}
		lost, untested := lossesOver(&m, pair, x.over, x.to)
		if untested != x.untested || len(lost) > 0 != x.lost {
			t.Errorf("%s over %s with %s over %s: untested %v, lost %+v", x.client, x.over, x.server, x.to, untested, lost)
		}
	}
}
