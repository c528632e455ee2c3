package report

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"
)

// JSON writes the report as one JSON object.
func (r *Report) JSON(w io.Writer) error {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	return e.Encode(r)
}

// table is a table with a title. The first row contains the names of the columns.
type table struct {
	title string
	rows  [][]string
}

// Text writes the report as Markdown whose columns are aligned, so that a terminal shows it too.
func (r *Report) Text(w io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%s, %s\n", r.Date, r.Command)
	fmt.Fprintf(&b, "%s, %d cores, %s, %s, GOMAXPROCS %s; %d clients, %d rounds of %s.\n", r.CPU, r.Cores, r.Kernel, r.Go, r.GOMAXPROCS, r.Clients, r.Rounds, r.Slice)
	if len(r.Load) > 0 {
		fmt.Fprintf(&b, "Other processes used %.1f %% of the machine during load.", 100*r.Foreign)
		if r.Foreign > 0.05 {
			b.WriteString(" That is too much to quote absolute figures; ratios suffer less.")
		}
		b.WriteString("\n")
	}
	for _, t := range r.tables() {
		if len(t.rows) > 1 {
			fmt.Fprintf(&b, "\n### %s\n\n%s", t.title, t.text())
		}
	}
	if len(r.Failures) > 0 {
		b.WriteString("\n### Failures\n\n")
		for _, f := range r.Failures {
			fmt.Fprintf(&b, "- %s\n", f)
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func (r *Report) tables() []table {
	var all []table
	for i := 0; i < len(r.Load); {
		n := i
		t := table{title: fmt.Sprintf("Load, %s, %d clients", size(r.Load[i].Size), r.Load[i].Clients), rows: [][]string{{"contestant", "calls/s", "p50 µs", "p99 µs", "CPU µs/call", "min..max", "child µs/call", "CPU ratio", "min..max", "calls/s ratio", "p99 ratio"}}}
		for ; n < len(r.Load) && r.Load[n].Size == r.Load[i].Size && r.Load[n].Clients == r.Load[i].Clients; n++ {
			t.rows = append(t.rows, r.Load[n].row())
		}
		all = append(all, t)
		i = n
	}
	v := table{title: "Against another contestant, paired slices", rows: [][]string{{"contestant", "to", "size", "pairs", "CPU ratio", "95 %", "calls/s ratio", "95 %"}}}
	for _, x := range r.Versus {
		v.rows = append(v.rows, append([]string{x.String(), x.To.String(), size(x.Size), fmt.Sprint(x.Pairs)}, append(ratio(x.CPU), ratio(x.Rate)...)...))
	}
	s := table{title: "Start to the first answered tools/list, and idle memory, on stdio", rows: [][]string{{"contestant", "ms", "min..max", "server alone", "ratio", "idle MB", "without files"}}}
	for _, v := range r.Starts {
		s.rows = append(s.rows, []string{v.String(), fmt.Sprintf("%.1f", v.Time.Median), fmt.Sprintf("%.1f..%.1f", v.Time.Min, v.Time.Max), fmt.Sprintf("%.1f", v.Alone.Median), ratio(v.Ratio)[0], fmt.Sprintf("%.1f", float64(v.Memory)/1e6), fmt.Sprintf("%.1f", float64(v.Own)/1e6)})
	}
	m := table{title: "Resident memory of an idle legacy session", rows: [][]string{{"server", "keeps open", "sessions", "KiB each", "note"}}}
	for _, v := range r.Idles {
		m.rows = append(m.rows, []string{v.Server, v.Kind, fmt.Sprint(v.Sessions), fmt.Sprintf("%.2f", v.Bytes/1024), v.Note})
	}
	h := table{title: "Start of serve until it listens", rows: [][]string{{"contestant", "ms", "min..max"}}}
	if r.House != nil {
		for _, x := range []struct {
			name string
			Spread
		}{{"with a store", r.House.With}, {"without", r.House.Without}, {"the difference", r.House.More}} {
			h.rows = append(h.rows, []string{x.name, fmt.Sprintf("%.1f", x.Median), fmt.Sprintf("%.1f..%.1f", x.Min, x.Max)})
		}
	}
	return append(all, v, s, h, m, r.targets())
}

// targets has a row for each promise, which is held if it is held in every cell.
func (r *Report) targets() table {
	t := table{title: "Targets", rows: [][]string{{"what", "target", "measured", "held"}}}
	rows := map[string][]string{}
	for _, v := range r.Targets {
		row := rows[v.Promise]
		if row == nil {
			sign := "<="
			if v.AtLeast {
				sign = ">="
			}
			row = []string{v.Promise, fmt.Sprintf("%s %.2f%s", sign, v.Limit, v.Unit), "", "yes"}
			rows[v.Promise] = row
			t.rows = append(t.rows, row)
		}
		measured := strings.TrimSpace(fmt.Sprintf("%s %.2f%s", v.Cell, v.Value, v.Unit))
		if v.Spread != "" {
			measured += " (" + v.Spread + ")"
		}
		if row[2] != "" {
			row[2] += ", "
		}
		row[2] += measured
		if !v.Kept() {
			row[3] = "no"
		}
	}
	return t
}

func ratio(s *Spread) []string {
	if s == nil {
		return []string{"-", "-"}
	}
	return []string{fmt.Sprintf("%.3f", s.Median), fmt.Sprintf("%.3f..%.3f", s.Low, s.High)}
}

func (l Load) row() []string {
	row := []string{l.String(), fmt.Sprintf("%.0f", l.Rate.Median), fmt.Sprintf("%.0f", l.P50.Median), fmt.Sprintf("%.0f", l.P99.Median)}
	if l.CPU == nil {
		row = append(row, "-", "-")
	} else {
		row = append(row, fmt.Sprintf("%.1f", l.CPU.Median), fmt.Sprintf("%.1f..%.1f", l.CPU.Min, l.CPU.Max))
	}
	if l.ChildCPU == nil {
		row = append(row, "-")
	} else {
		row = append(row, fmt.Sprintf("%.1f", l.ChildCPU.Median))
	}
	if l.CPURatio == nil {
		row = append(row, "-", "-")
	} else {
		row = append(row, fmt.Sprintf("%.2f", l.CPURatio.Median), fmt.Sprintf("%.2f..%.2f", l.CPURatio.Min, l.CPURatio.Max))
	}
	for _, s := range []*Spread{l.Rates, l.P99Ratio} {
		if s == nil {
			row = append(row, "-")
		} else {
			row = append(row, fmt.Sprintf("%.2f", s.Median))
		}
	}
	return row
}

// text formats the table. It aligns columns of numbers to the right, and other columns to the left.
func (t table) text() string {
	width := make([]int, len(t.rows[0]))
	for _, row := range t.rows {
		for i, cell := range row {
			width[i] = max(width[i], utf8.RuneCountInString(cell))
		}
	}
	var b strings.Builder
	for n, row := range t.rows {
		rule := "|"
		for i, cell := range row {
			pad := strings.Repeat(" ", width[i]-utf8.RuneCountInString(cell))
			if t.figures(i) {
				b.WriteString("| " + pad + cell + " ")
				rule += strings.Repeat("-", width[i]+1) + ":|"
			} else {
				b.WriteString("| " + cell + pad + " ")
				rule += strings.Repeat("-", width[i]+2) + "|"
			}
		}
		b.WriteString("|\n")
		if n == 0 {
			b.WriteString(rule + "\n")
		}
	}
	return b.String()
}

// figures reports whether every cell of a column, except its name, begins like a number.
func (t table) figures(column int) bool {
	for _, row := range t.rows[1:] {
		if c := row[column]; c == "" || !strings.ContainsRune("0123456789-<>", rune(c[0])) {
			return false
		}
	}
	return true
}
