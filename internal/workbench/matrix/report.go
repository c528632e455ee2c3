package matrix

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
)

// Report is the result of a run, in the order of pairs and features.
type Report struct {
	Cells []Cell

	pairs []Pair // all selected pairs; nil means the pairs of the cells
}

// Failed returns the cells that fail through Dragoman. Reason also says what fails with the console.
func (r *Report) Failed() []Cell {
	var out []Cell
	for _, c := range r.Cells {
		if c.Outcome != Fails && c.Console == Fails {
			c.Reason = "with the console: " + c.ConsoleReason
		}
		if c.Outcome == Fails || c.Console == Fails {
			out = append(out, c)
		}
	}
	return out
}

// JSON writes the report as one JSON object. It writes the direct outcome None as a failure.
func (r *Report) JSON(w io.Writer) error {
	type cell struct {
		Client          string    `json:"client"`
		Server          string    `json:"server"`
		ClientTransport Transport `json:"clientTransport"`
		ServerTransport Transport `json:"serverTransport"`
		Feature         string    `json:"feature"`
		Outcome         Outcome   `json:"outcome"`
		Console         Outcome   `json:"console"`
		Direct          Outcome   `json:"direct"`
		Reason          string    `json:"reason"`
		DirectReason    string    `json:"directReason,omitempty"`
	}
	var b bytes.Buffer
	b.WriteString("{\"cells\":[")
	for i, c := range r.Cells {
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteString("\n")
		direct, why := c.Direct, c.DirectReason
		if direct == None {
			// The JSON report has no outcome "n/a".
			direct, why = Fails, cmp.Or(why, fmt.Sprintf("the client speaks over %s, the server over %s", c.ClientTransport, c.ServerTransport))
		}
		e := json.NewEncoder(&b)
		e.SetEscapeHTML(false)
		err := e.Encode(cell{
			c.Client.String(), c.Server.String(), c.ClientTransport, c.ServerTransport,
			c.Feature, c.Outcome, c.Console, direct, c.Reason, why,
		})
		if err != nil {
			return err
		}
		b.Truncate(b.Len() - 1)
	}
	b.WriteString("\n]}\n")
	_, err := w.Write(b.Bytes())
	return err
}

// square is a pair of a client revision and a server revision, over all transports.
type square struct{ client, server mcp.Revision }

// sums counts the outcomes of a square, or of one feature in a square.
type sums struct{ works, loss, absent, fails int }

func (s *sums) add(o Outcome) {
	switch o {
	case Works:
		s.works++
	case Loss:
		s.loss++
	case Absent:
		s.absent++
	case Fails:
		s.fails++
	}
}

// total returns the number of cells whose feature at least one end has.
func (s *sums) total() int { return s.works + s.loss + s.fails }

// axes returns the revisions and the features of a report.
func (r *Report) axes() (clients, servers []mcp.Revision, names []string) {
	for _, c := range r.Cells {
		if !slices.Contains(clients, c.Client) {
			clients = append(clients, c.Client)
		}
		if !slices.Contains(servers, c.Server) {
			servers = append(servers, c.Server)
		}
		if !slices.Contains(names, c.Feature) {
			names = append(names, c.Feature)
		}
	}
	slices.Sort(clients)
	slices.Sort(servers)
	return clients, servers, names
}

// grid writes a table with a row for each client revision and a column for each server revision.
// cell returns the text for a square.
func grid(b *strings.Builder, clients, servers []mcp.Revision, cell func(square) string) {
	b.WriteString("| client ↓ server → |")
	for _, s := range servers {
		fmt.Fprintf(b, " %s |", s)
	}
	b.WriteString("\n|---|" + strings.Repeat("---|", len(servers)) + "\n")
	for _, c := range clients {
		fmt.Fprintf(b, "| %s |", c)
		for _, s := range servers {
			fmt.Fprintf(b, " %s |", cell(square{c, s}))
		}
		b.WriteByte('\n')
	}
}

// These functions choose an outcome of a cell.
func throughIt(c *Cell) Outcome   { return c.Outcome }
func withConsole(c *Cell) Outcome { return c.Console }
func withoutIt(c *Cell) Outcome   { return c.Direct }

// inSquare returns the sums of each feature in a square, for the outcomes that of chooses.
func (r *Report) inSquare(q square, of func(*Cell) Outcome) map[string]*sums {
	out := map[string]*sums{}
	for i := range r.Cells {
		c := &r.Cells[i]
		if c.Client != q.client || c.Server != q.server {
			continue
		}
		if out[c.Feature] == nil {
			out[c.Feature] = &sums{}
		}
		out[c.Feature].add(of(c))
	}
	return out
}

// Markdown writes the report as a section of a document. The section says which features work
// between which revisions, what is lost, and why. It contains no times and no facts about the
// machine.
func (r *Report) Markdown(w io.Writer) error {
	clients, servers, names := r.axes()
	var b strings.Builder
	var all, console, direct sums
	for _, c := range r.Cells {
		all.add(c.Outcome)
		console.add(c.Console)
		direct.add(c.Direct)
	}
	fmt.Fprintf(&b, "Through Dragoman, %d of %d cells work, %d are documented losses and %d fail. In %d more, neither end has the feature. ", all.works, all.total(), all.loss, all.fails, all.absent)
	fmt.Fprintf(&b, "With the console, %d of %d work. ", console.works, console.total())
	fmt.Fprintf(&b, "If the client and the server of a cell use the same transport, the cell is also tested without Dragoman: %d of these %d cells work.\n", direct.works, direct.total())

	square := func(of func(*Cell) Outcome) func(square) string {
		return func(q square) string { return summary(r.inSquare(q, of), names) }
	}
	b.WriteString("\n### Through Dragoman\n\n")
	grid(&b, clients, servers, square(throughIt))
	b.WriteString("\n### With the console\n\n")
	grid(&b, clients, servers, square(withConsole))
	b.WriteString("\n### Without Dragoman\n\n")
	grid(&b, clients, servers, square(withoutIt))
	b.WriteByte('\n')
	legend(&b, names)

	b.WriteString("\n### Feature by feature\n\n")
	b.WriteString("| feature | test | works | lost | fails | neither has it | with the console | without Dragoman |\n|---|---|---|---|---|---|---|---|\n")
	for _, f := range features() {
		if !slices.Contains(names, f.name) {
			continue
		}
		var through, helped, bare sums
		for _, c := range r.Cells {
			if c.Feature == f.name {
				through.add(c.Outcome)
				helped.add(c.Console)
				bare.add(c.Direct)
			}
		}
		fmt.Fprintf(&b, "| %s | %s | %d | %d | %d | %d | %d of %d | %d of %d |\n", f.name, f.about, through.works, through.loss, through.fails, through.absent, helped.works, helped.total(), bare.works, bare.total())
	}
	r.losses(&b)
	r.failures(&b)
	_, err := io.WriteString(w, b.String())
	return err
}

// letters are the abbreviations of the features that can be lost (loss.go).
var letters = map[string]string{"elicitation-form": "F", "elicitation-rich": "L", "elicitation-url": "U", "tasks": "T"}

// summary returns the text for a square. The text names the features that fail and has a letter for
// each lost feature.
func summary(by map[string]*sums, names []string) string {
	works, total, lost, failed := 0, 0, "", ""
	for _, n := range names {
		s := by[n]
		if s == nil || s.total() == 0 {
			continue
		}
		total++
		switch {
		case s.fails > 0:
			failed += " **" + n + "**"
		case s.loss > 0:
			lost += " " + letters[n]
		default:
			works++
		}
	}
	switch {
	case total == 0:
		return "–"
	case works == total:
		return "all"
	case failed != "" && works == 0:
		return "nothing"
	case failed != "":
		return fmt.Sprintf("%d of %d, fails:%s", works, total, failed)
	}
	return fmt.Sprintf("all but%s", lost)
}

func legend(b *strings.Builder, names []string) {
	var parts []string
	for _, n := range names {
		if l := letters[n]; l != "" {
			parts = append(parts, l+" "+n)
		}
	}
	if len(parts) > 0 {
		fmt.Fprintf(b, "The letters mark losses: %s. What neither revision has is no loss, so two equal revisions lose nothing. The table under *What is lost, and why* explains each loss.\n", strings.Join(parts, ", "))
	}
}

// losses lists each reason for a loss once, with the pairs that it concerns.
func (r *Report) losses(b *strings.Builder) {
	type group struct{ feature, reason string }
	counts := map[group]int{}
	where := map[group][]string{}
	var order []group
	for _, c := range r.Cells {
		if c.Outcome != Loss {
			continue
		}
		g := group{c.Feature, c.Reason}
		if counts[g] == 0 {
			order = append(order, g)
		}
		counts[g]++
		pair := c.Client.String() + " > " + c.Server.String()
		if !slices.Contains(where[g], pair) {
			where[g] = append(where[g], pair)
		}
	}
	if len(order) == 0 {
		return
	}
	slices.SortStableFunc(order, func(a, c group) int {
		fs := Features()
		return slices.Index(fs, a.feature) - slices.Index(fs, c.feature)
	})
	b.WriteString("\n### What is lost, and why\n\n| feature | why | cells | client > server |\n|---|---|---|---|\n")
	for _, g := range order {
		pairs := strings.Join(where[g], ", ")
		if len(where[g]) > 4 {
			pairs = fmt.Sprintf("%d pairs of revisions", len(where[g]))
		}
		fmt.Fprintf(b, "| %s | %s | %d | %s |\n", g.feature, g.reason, counts[g], pairs)
	}
}

// failures lists the cells that fail through Dragoman.
func (r *Report) failures(b *strings.Builder) {
	failed := r.Failed()
	if len(failed) == 0 {
		return
	}
	b.WriteString("\n### What fails\n\n")
	for _, c := range failed {
		fmt.Fprintf(b, "- %s, %s: %s\n", c.Pair, c.Feature, c.Reason)
	}
}
