package matrix

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/dragoman-mcp/dragoman/internal/base/excerpt"
	"github.com/dragoman-mcp/dragoman/internal/base/screen"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
)

// The widths, in characters, of the columns of a grid and of the terminal. A grid with all ten
// servers fits into the terminal.
const (
	clientWidth = 17
	cellWidth   = 6
	textWidth   = 80
)

// end is one side of a pair.
type end struct {
	revision  mcp.Revision
	transport Transport
}

// Text writes the report for a terminal of 80 columns. It lists the cells that fail, with the
// reason for each failure. Then it draws a grid of all pairs through Dragoman and, if they were
// measured, a grid of the pairs without Dragoman. A legend and the lost features follow.
func (r *Report) Text(w io.Writer) error {
	var b strings.Builder
	r.failedCells(&b)
	b.WriteString("through Dragoman\n")
	r.glyphs(&b, throughIt)
	if slices.ContainsFunc(r.Cells, func(c Cell) bool { return c.Console != "" && c.Console != c.Outcome }) {
		b.WriteString("\nwith the console, where questions wait that clients can't show\n")
		r.glyphs(&b, withConsole)
	}
	if slices.ContainsFunc(r.Cells, func(c Cell) bool { return c.Direct != None }) {
		b.WriteString("\nwithout Dragoman\n")
		r.glyphs(&b, withoutIt)
	}
	r.glyphLegend(&b)
	r.lossLines(&b)
	r.totals(&b)
	_, err := io.WriteString(w, b.String())
	return err
}

// failedCells writes the cells that fail.
func (r *Report) failedCells(b *strings.Builder) {
	failed := r.Failed()
	for _, c := range failed {
		paragraph(b, fmt.Sprintf("✗ %s, %s: %s", c.Pair, c.Feature, excerpt.Line(c.Reason, 1000)))
	}
	if len(failed) > 0 {
		b.WriteByte('\n')
	}
}

// paragraph wraps a text into lines and writes them. All lines except the first are indented.
func paragraph(b *strings.Builder, text string) {
	for i, line := range screen.Wrap(text, textWidth-2) {
		if i > 0 {
			b.WriteString("  ")
		}
		b.WriteString(line + "\n")
	}
}

// ends returns the clients and the servers of a report, oldest first.
func (r *Report) ends() (clients, servers []end) {
	add := func(all []end, e end) []end {
		if slices.Contains(all, e) {
			return all
		}
		return append(all, e)
	}
	order := func(a, b end) int {
		if a.revision != b.revision {
			return slices.Index(revisions(), a.revision) - slices.Index(revisions(), b.revision)
		}
		of := Transports(a.revision)
		return slices.Index(of, a.transport) - slices.Index(of, b.transport)
	}
	pairs := r.pairs
	if pairs == nil {
		for _, c := range r.Cells {
			pairs = append(pairs, c.Pair)
		}
	}
	for _, p := range pairs {
		clients = add(clients, end{p.Client, p.ClientTransport})
		servers = add(servers, end{p.Server, p.ServerTransport})
	}
	slices.SortFunc(clients, order)
	slices.SortFunc(servers, order)
	return clients, servers
}

// glyphs draws a grid with a column for each server and a line for each client.
func (r *Report) glyphs(b *strings.Builder, outcome func(*Cell) Outcome) {
	clients, servers := r.ends()
	dates, ways := screen.Pad("client ↓ server →", clientWidth), strings.Repeat(" ", clientWidth)
	for i, s := range servers {
		ways += " " + screen.Pad(string(s.transport), cellWidth-1)
		switch {
		case i > 0 && servers[i-1].revision == s.revision:
		case i+1 < len(servers) && servers[i+1].revision == s.revision:
			dates += " " + screen.Pad(s.revision.String(), 2*cellWidth-1)
		default: // only one column has this revision, so the date must be short
			dates += " " + screen.Pad(s.revision.String()[2:7], cellWidth-1)
		}
	}
	line := func(s string) { b.WriteString(strings.TrimRight(s, " ") + "\n") }
	line(dates)
	line(ways)
	at := map[Pair][]*Cell{}
	for i := range r.Cells {
		at[r.Cells[i].Pair] = append(at[r.Cells[i].Pair], &r.Cells[i])
	}
	for _, c := range clients {
		row := screen.Pad(c.revision.String()+" "+string(c.transport), clientWidth)
		for _, s := range servers {
			cells := at[Pair{c.revision, s.revision, c.transport, s.transport}]
			row += " " + screen.Pad(glyph(cells, outcome), cellWidth-1)
		}
		line(row)
	}
}

// glyph returns the text for a pair in the grid. The text has at most five characters.
func glyph(cells []*Cell, outcome func(*Cell) Outcome) string {
	if len(cells) == 0 {
		return "·"
	}
	lost, failed, none := "", 0, true
	for _, c := range cells {
		switch o := outcome(c); o {
		case Loss:
			lost += letters[c.Feature]
			none = false
		case Fails:
			failed++
			none = false
		case Works, Absent:
			none = false
		}
	}
	switch {
	case none:
		return "–"
	case failed == len(cells):
		return "✗"
	case failed > 0:
		return fmt.Sprintf("✗%d", failed)
	case lost != "":
		return lost
	}
	return "✓"
}

// glyphLegend writes the meaning of each glyph.
func (r *Report) glyphLegend(b *strings.Builder) {
	_, _, names := r.axes()
	var lost []string
	for _, n := range names {
		if l := letters[n]; l != "" {
			lost = append(lost, l+" "+n)
		}
	}
	b.WriteByte('\n')
	b.WriteString("✓  everything works that either side has\n")
	if len(lost) > 0 {
		b.WriteString("Letters: all but what one side has and the other one cannot express:\n   " + strings.Join(lost, ", ") + "\n")
	}
	b.WriteString("✗  nothing works; ✗3: three features fail\n")
	b.WriteString("–  no common transport\n")
	if r.missing() > 0 {
		b.WriteString("·  not measured\n")
	}
}

// missing returns the number of pairs that were not measured.
func (r *Report) missing() int {
	seen := map[Pair]bool{}
	for _, c := range r.Cells {
		seen[c.Pair] = true
	}
	return max(0, len(r.pairs)-len(seen))
}

// lossLines writes each reason for a loss once.
func (r *Report) lossLines(b *strings.Builder) {
	seen := map[string]bool{}
	for _, c := range r.Cells {
		if c.Outcome != Loss || seen[c.Feature+c.Reason] {
			continue
		}
		if len(seen) == 0 {
			b.WriteByte('\n')
		}
		seen[c.Feature+c.Reason] = true
		paragraph(b, letters[c.Feature]+" "+c.Reason)
	}
}

// totals writes the number of cells with each outcome.
func (r *Report) totals(b *strings.Builder) {
	var sum sums
	for _, c := range r.Cells {
		sum.add(c.Outcome)
	}
	fmt.Fprintf(b, "\n%d cells: %d work, %d are losses, %d fail\n", sum.total(), sum.works, sum.loss, sum.fails)
	if sum.absent > 0 {
		fmt.Fprintf(b, "%d more: neither side has the feature\n", sum.absent)
	}
	if n := r.missing(); n > 0 {
		fmt.Fprintf(b, "%d of %d pairs were not measured\n", n, len(r.pairs))
	}
}
