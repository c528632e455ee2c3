package main

import (
	"encoding/xml"
	"fmt"
	"strings"
)

// Sizes in pixels.
const (
	cellWidth  = 8.4
	lineHeight = 19
	fontSize   = 14
	padding    = 16
	bar        = 30 // the height of the title bar
)

// theme has the colours for light or dark pages.
type theme struct {
	name                    string
	back, frame, text, dim  string
	good, poor, none, quiet string // colours of the matrix
	colors                  map[int]string
}

var themes = []theme{
	{
		name: "light", back: "#ffffff", frame: "#d0d7de", text: "#1f2328", dim: "#6e7781",
		good: "#1a7f37", poor: "#bc4c00", none: "#cf222e", quiet: "#f6f8fa",
		colors: map[int]string{31: "#cf222e", 32: "#1a7f37", 33: "#9a6700", 34: "#0969da", 35: "#8250df", 36: "#1b7c83", 37: "#6e7781",
			90: "#6e7781", 91: "#cf222e", 92: "#1a7f37", 93: "#9a6700", 94: "#0969da", 95: "#8250df", 96: "#1b7c83", 97: "#1f2328"},
	},
	{
		name: "dark", back: "#0d1117", frame: "#30363d", text: "#e6edf3", dim: "#8b949e",
		good: "#3fb950", poor: "#db6d28", none: "#f85149", quiet: "#161b22",
		colors: map[int]string{31: "#ff7b72", 32: "#3fb950", 33: "#d29922", 34: "#58a6ff", 35: "#bc8cff", 36: "#39c5cf", 37: "#b1bac4",
			90: "#8b949e", 91: "#ffa198", 92: "#56d364", 93: "#e3b341", 94: "#79c0ff", 95: "#d2a8ff", 96: "#56d4dd", 97: "#ffffff"},
	},
}

// drawTerminal returns the picture of a screen.
func drawTerminal(t theme, title string, s *screen, columns int) string {
	var b strings.Builder
	width := 2*padding + float64(columns)*cellWidth
	height := bar + 2*padding + len(s.lines)*lineHeight
	begin(&b, t, title, width, height)
	for i, x := range []float64{18, 36, 54} {
		fmt.Fprintf(&b, `<circle cx="%g" cy="15" r="5.5" fill="%s"/>`+"\n", x, t.colors[31+i])
	}
	fmt.Fprintf(&b, `<text x="%g" y="20" text-anchor="middle" fill="%s" font-size="12">%s</text>`+"\n", width/2, t.dim, escape(title))
	for row, line := range s.lines {
		y := bar + padding + row*lineHeight + fontSize
		for from := 0; from < len(line); {
			to := from + 1
			for to < len(line) && line[to].style == line[from].style {
				to++
			}
			// Give each part its own position, because SVG collapses spaces.
			for at := from; at < to; {
				if line[at].text == " " {
					at++
					continue
				}
				end, text := at, ""
				for end < to && !(line[end].text == " " && (end+1 == to || line[end+1].text == " ")) {
					text += line[end].text
					end++
				}
				drawRun(&b, t, padding+float64(at)*cellWidth, y, float64(end-at)*cellWidth, line[from].style, text)
				at = end
			}
			from = to
		}
		b.WriteString("<!-- line -->\n")
	}
	b.WriteString("</svg>\n")
	return b.String()
}

// drawRun draws text of one style. The length of the text is fixed, so that columns line up in
// any font.
func drawRun(b *strings.Builder, t theme, x float64, y int, length float64, s style, text string) {
	color := t.text
	if s.dim {
		color = t.dim
	}
	if c, ok := t.colors[s.color]; ok {
		color = c
	}
	weight := ""
	if s.bold {
		weight = ` font-weight="600"`
	}
	fmt.Fprintf(b, `<text x="%.1f" y="%d" textLength="%.1f" lengthAdjust="spacingAndGlyphs" fill="%s"%s>%s</text>`+"\n", x, y, length, color, weight, escape(text))
}

func begin(b *strings.Builder, t theme, title string, width float64, height int) {
	fmt.Fprintf(b, `<svg xmlns="http://www.w3.org/2000/svg" width="%.0f" height="%d" viewBox="0 0 %.0f %d" role="img" font-family="ui-monospace,SFMono-Regular,Menlo,Consolas,'Liberation Mono',monospace" font-size="%d">`+"\n", width, height, width, height, fontSize)
	fmt.Fprintf(b, "<title>%s</title>\n", escape(title))
	fmt.Fprintf(b, `<rect x="0.5" y="0.5" width="%.0f" height="%d" rx="8" fill="%s" stroke="%s"/>`+"\n", width-1, height-1, t.back, t.frame)
}

func escape(s string) string {
	var b strings.Builder
	_ = xml.EscapeText(&b, []byte(s)) // writing to a strings.Builder does not fail
	return b.String()
}
