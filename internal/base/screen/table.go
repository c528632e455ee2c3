package screen

import (
	"strings"
)

// Style is the colour or weight of a cell on a terminal: the parameters of an SGR sequence
// (ECMA-48 §8.3.117).
type Style string

// Plain is the zero value: text without a style.
const (
	Plain  Style = ""
	Bold   Style = "1"
	Dim    Style = "2"
	Red    Style = "31"
	Green  Style = "32"
	Yellow Style = "33"
)

// Paint returns s in the style. It does not escape s.
func (y Style) Paint(s string) string {
	if y == Plain || s == "" {
		return s
	}
	return "\x1b[" + string(y) + "m" + s + "\x1b[0m"
}

// Cell is one cell of a table. Text may come from a peer, because Table escapes it.
type Cell struct {
	Text  string
	Style Style
}

// Cells returns cells without a style.
func Cells(texts ...string) []Cell {
	out := make([]Cell, len(texts))
	for i, t := range texts {
		out[i].Text = t
	}
	return out
}

// Column describes one column of a table. The zero Column has no title, is aligned to the
// left, and its cells may be cut.
type Column struct {
	Title string
	Right bool // align the cells to the right, for numbers
	// Whole means that cells are never cut. Use Whole for names, because people copy them.
	Whole bool
	// Wrap means that a cell that is too wide is broken into lines instead of cut.
	Wrap bool
	// Most is the maximum width of the column in terminal cells; 0 means no maximum. A wider cell
	// is wrapped or cut. But if Whole is set, a wider cell moves the rest of its row to the right.
	Most int
	// Least is the minimum width of the column in terminal cells. It keeps the columns aligned if
	// each row is printed as a separate Table.
	Least int
	// Spare says that the column may be left out where the terminal is too narrow for all of them. The
	// column with the highest number goes first; 0 means that it always stays.
	Spare int
}

// Table is a table for people. Its zero value is empty. Text returns the table as text.
type Table struct {
	// Columns describe the columns. If no column has a title, there is no title line. A row
	// may have fewer cells than there are columns.
	Columns []Column
	Rows    [][]Cell
	// Under has the text below each row, by the row's index: whole lines that are safe to print. It
	// may have fewer elements than there are rows.
	Under []string
	// Width is the width of the terminal in terminal cells. If Width is 0, nothing is wrapped, and
	// only cells wider than Column.Most are cut. Use 0 if the output is not a terminal.
	Width int
	// Colour applies the styles of the cells, and shows titles in bold.
	Colour bool
}

const (
	gap = 2 // the number of spaces between two columns
	// narrowest is the smallest width to which Text narrows a column to make the table fit.
	narrowest = 8
)

// Text returns the lines of the table, each with a newline and without trailing spaces.
func (t *Table) Text() string {
	var rows [][]Cell
	titled := false
	head := make([]Cell, len(t.Columns))
	for i, c := range t.Columns {
		titled = titled || c.Title != ""
		head[i] = Cell{Safe(c.Title), Bold}
	}
	if titled {
		rows = append(rows, head)
	}
	for _, r := range t.Rows {
		row := make([]Cell, len(t.Columns))
		for i := range min(len(r), len(row)) {
			row[i] = Cell{Safe(r[i].Text), r[i].Style}
		}
		rows = append(rows, row)
	}
	widths := t.widths(rows)
	var b strings.Builder
	for i, row := range rows {
		t.row(&b, row, widths)
		if i -= len(rows) - len(t.Rows); i >= 0 && i < len(t.Under) {
			b.WriteString(t.Under[i])
		}
	}
	return b.String()
}

// widths returns the width of each column. It empties the spare columns for which there is no room.
func (t *Table) widths(rows [][]Cell) []int {
	widths := t.natural(rows)
	if t.Width <= 0 {
		return widths
	}
	for across(widths) > t.Width {
		spare := -1
		for i, w := range widths {
			if c := t.Columns[i]; w > 0 && c.Spare > 0 && (spare < 0 || c.Spare > t.Columns[spare].Spare) {
				spare = i
			}
		}
		if spare < 0 {
			break
		}
		widths[spare] = 0
		for _, row := range rows {
			row[spare] = Cell{}
		}
	}
	for across(widths) > t.Width {
		// Shorten the widest column that may be cut.
		widest := -1
		for i, w := range widths {
			if !t.Columns[i].Whole && w > narrowest && (widest < 0 || w >= widths[widest]) {
				widest = i
			}
		}
		if widest < 0 {
			break
		}
		widths[widest]--
	}
	return widths
}

// natural returns the width of each column on a terminal that is wide enough.
func (t *Table) natural(rows [][]Cell) []int {
	widths := make([]int, len(t.Columns))
	for i, c := range t.Columns {
		widths[i] = c.Least
	}
	for _, row := range rows {
		for i, c := range row {
			n := Width(c.Text)
			if most := t.Columns[i].Most; most > 0 && n > most {
				if t.Columns[i].Whole {
					continue // the cell moves the rest of its row to the right and does not widen the column
				}
				n = most
			}
			widths[i] = max(widths[i], n)
		}
	}
	return widths
}

// across returns the width of a line with columns of the given widths.
func across(widths []int) int {
	total := -gap
	for _, w := range widths {
		if w > 0 {
			total += w + gap
		}
	}
	return total
}

// row writes one row, which has several lines if a cell is wrapped.
func (t *Table) row(b *strings.Builder, row []Cell, widths []int) {
	lines := make([][]string, len(row))
	height := 1
	for i, c := range row {
		lines[i] = []string{c.Text}
		switch column := t.Columns[i]; {
		case column.Whole || Width(c.Text) <= widths[i]:
		case column.Wrap && t.Width > 0:
			lines[i] = breakLines(c.Text, widths[i], true)
		case t.Width > 0 || column.Most > 0:
			lines[i] = []string{Fit(c.Text, widths[i])}
		}
		height = max(height, len(lines[i]))
	}
	for n := range height {
		var line strings.Builder
		at, start := 0, 0 // at is the current end of the line; start is the beginning of the column
		for i, c := range row {
			if widths[i] == 0 && Width(c.Text) == 0 {
				continue // a column without text takes no space
			}
			text := ""
			if n < len(lines[i]) {
				text = lines[i][n]
			}
			if text != "" {
				wide := Width(text)
				from := start
				if t.Columns[i].Right {
					from += max(0, widths[i]-wide)
				}
				if at > 0 {
					from = max(from, at+gap)
				}
				if i == len(row)-1 && t.Width > 0 && !t.Columns[i].Whole && !t.Columns[i].Wrap {
					// A long name may have moved this cell to the right. Cut the cell at the edge
					// of the terminal.
					if text = Fit(text, max(t.Width-from, 1)); from >= t.Width {
						from = at
					}
					wide = Width(text)
				}
				line.WriteString(strings.Repeat(" ", from-at))
				at = from + wide
				if t.Colour {
					text = c.Style.Paint(text)
				}
				line.WriteString(text)
			}
			start += widths[i] + gap
		}
		b.WriteString(line.String())
		b.WriteByte('\n')
	}
}
