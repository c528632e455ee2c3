package main

import (
	"errors"
	"fmt"
	"strings"
)

// grid is a table of docs/compatibility.md: the features that work between each pair of
// revisions.
type grid struct {
	servers []string
	rows    []gridRow
}

type gridRow struct {
	client string
	cells  []string // "all", "all but F U", "nothing"
}

// readGrid returns the table below a heading of the document.
func readGrid(document, heading string) (grid, error) {
	_, rest, ok := strings.Cut(document, "\n### "+heading+"\n")
	if !ok {
		return grid{}, fmt.Errorf("docs/compatibility.md has no heading %q", heading)
	}
	var g grid
	for line := range strings.Lines(strings.TrimSpace(rest)) {
		line = strings.TrimSpace(line)
		if !strings.HasPrefix(line, "|") {
			break
		}
		cells := strings.Split(strings.Trim(line, "|"), "|")
		for i := range cells {
			cells[i] = strings.TrimSpace(cells[i])
		}
		switch {
		case strings.HasPrefix(cells[0], "---"):
		case g.servers == nil:
			g.servers = cells[1:]
		default:
			g.rows = append(g.rows, gridRow{cells[0], cells[1:]})
		}
	}
	if len(g.rows) == 0 || len(g.rows) != len(g.servers) {
		return grid{}, errors.New("docs/compatibility.md: the table below " + heading + " is not square")
	}
	return g, nil
}

// Sizes of the matrix, in pixels.
const (
	boxWidth  = 84
	boxHeight = 40
	labels    = 136 // the width of the column with client revisions
	headings  = 86
)

// drawMatrix returns the picture of two grids, one above the other.
func drawMatrix(t theme, title string, parts []matrixPart) string {
	var b strings.Builder
	columns := len(parts[0].grid.servers)
	each := headings + columns*boxHeight
	width := float64(2*padding + labels + columns*boxWidth)
	begin(&b, t, title, width, padding+len(parts)*each+padding)
	for i, p := range parts {
		top := padding + i*each
		text := func(x float64, y int, anchor, color, more, s string) {
			fmt.Fprintf(&b, `<text x="%g" y="%d" text-anchor="%s" fill="%s"%s>%s</text>`+"\n", x, y, anchor, color, more, escape(s))
		}
		text(padding, top+20, "start", t.text, ` font-size="16" font-weight="600"`, p.title)
		text(padding, top+42, "start", t.dim, ` font-size="12"`, p.note)
		text(padding, top+headings-14, "start", t.dim, ` font-size="12"`, "client ↓ server →")
		for c, s := range p.grid.servers {
			text(float64(padding+labels+c*boxWidth+boxWidth/2), top+headings-14, "middle", t.dim, ` font-size="12"`, s)
		}
		for r, row := range p.grid.rows {
			y := top + headings + r*boxHeight
			text(padding, y+24, "start", t.text, ` font-size="12"`, row.client)
			for c, cell := range row.cells {
				color, mark, small := t.good, "all", strings.TrimPrefix(cell, "all but ")
				switch {
				case cell == "nothing":
					color, mark, small = t.none, "nothing", ""
				case small == cell:
					small = strings.TrimSpace(strings.TrimPrefix(cell, "all"))
				default:
					mark = "all but"
				}
				x := padding + labels + c*boxWidth
				fmt.Fprintf(&b, `<rect x="%d" y="%d" width="%d" height="%d" rx="4" fill="%s" fill-opacity="0.18" stroke="%s"/>`+"\n", x+2, y+2, boxWidth-4, boxHeight-4, color, color)
				middle := float64(x) + boxWidth/2
				if small == "" {
					text(middle, y+24, "middle", t.text, ` font-size="12"`, mark)
				} else {
					text(middle, y+17, "middle", t.text, ` font-size="12"`, mark)
					text(middle, y+31, "middle", t.dim, ` font-size="11"`, small)
				}
			}
		}
	}
	b.WriteString("</svg>\n")
	return b.String()
}

type matrixPart struct {
	title, note string
	grid        grid
}
