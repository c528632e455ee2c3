package console

import (
	"cmp"
	"fmt"
	"html/template"
	"slices"
	"strconv"
	"strings"

	"github.com/dragoman-mcp/dragoman/internal/app/admin"
)

// The sizes of the diagram, in pixels. The style sheet must use the same heights for headings and
// rows, so that the lines meet the rows.
const (
	headHeight   = 40 // the height of the column heading, such as "Clients"
	groupHeight  = 36 // the height of a group heading, such as "Legacy: session"
	rowHeight    = 48
	diagramWidth = 440
	boxLeft      = 108
	boxRight     = 332
	boxTop       = headHeight + groupHeight
	boxFoot      = 44  // the space below Dragoman's box
	leastHeight  = 384 // the minimum height of the diagram; the labels of the knot need this space
	portInset    = 48  // the distance between the top or the bottom of the box and the nearest line
	thinnest     = 1.25
	thickest     = 20.0 // the maximum total width of the lines of one side
	perCall      = 0.8  // the line width for one call per minute
)

// diagram is the diagram of clients, Dragoman and servers. The knot is the point where the lines of
// translated calls cross.
type diagram struct {
	Left, Right       []peerGroup
	LeftMore          string
	RightMore         string
	Height            int
	BoxHeight         int
	Knot              int
	Lines             []diagramLine
	Ports             string // an SVG path for the short bars where the lines meet the box
	Translated        bool
	LabelTop          int
	LabelFoot         int
	FootText          int
	Legacy            rate
	Modern            rate
	Up, Down          int // the numbers of translated calls: Down from legacy clients to modern servers, Up from modern clients to legacy servers
	Parked            int
	Lanes             []lane
	peersKey          string // text that changes when the rows change
	HasLegacy, HasNew bool
}

// lane is a row of the table with the calls from one era of clients to one era of servers.
type lane struct {
	From, To string
	rate
	ID string
}

type peerGroup struct {
	Title string
	Peers []peerRow
}

// peerRow is the row of one client or server.
type peerRow struct {
	ID        string
	Title     string
	Path      string
	Revision  string
	Modern    bool
	Transport string
	Tools     string
	Rate      rate
	State     string // a word for the server's state, if the server needs attention or its state is changing
	Class     string
	Lost      uint64
	off       bool
	known     bool // the revision is known; the diagram has no line for other rows
	severe    int
}

func (p peerRow) Calls() string { return number(p.Rate.Calls) }

// FailClass and Failed return the CSS class and the text for the number of failed calls.
func (p peerRow) FailClass() string {
	if p.Rate.Failed > 0 {
		return "st bad"
	}
	return "vh"
}

func (p peerRow) Failed() string {
	if p.Rate.Failed > 0 {
		return number(p.Rate.Failed)
	}
	return ""
}

type diagramLine struct {
	ID, Class, D, Of string
	Width            float64
}

// newDiagram returns the diagram.
func newDiagram(clients []clientSum, status *admin.Report, t *sums) *diagram {
	k := &diagram{Parked: len(status.Parked)}
	left, moreLeft := firstPeers(clientPeers(clients))
	right, moreRight := firstPeers(serverPeers(status, t))
	k.Left, k.Right = groupsOf(left), groupsOf(right)
	if moreLeft > 0 {
		k.LeftMore = number(moreLeft) + " more, with fewer calls"
	} else if idle := len(t.Clients) - len(clients); idle > 0 {
		k.LeftMore = number(idle) + " more, idle for 1 h"
	}
	if len(clients) == 0 {
		k.LeftMore = "Clients appear here after their first request."
	}
	if moreRight > 0 {
		k.RightMore = number(moreRight) + " more, with fewer calls"
	}
	if len(status.Servers) == 0 {
		k.RightMore = "No server is configured."
	}
	k.Height = max(heightOf(k.Left, k.LeftMore), heightOf(k.Right, k.RightMore), leastHeight)
	k.BoxHeight = k.Height - boxFoot - boxTop
	k.Knot = boxTop + k.BoxHeight/2
	k.draw(t)
	k.lanesOf(t)
	for _, g := range slices.Concat(k.Left, k.Right) {
		k.peersKey += g.Title
		for _, p := range g.Peers {
			k.peersKey += fmt.Sprint(p.ID, p.Title, p.Revision, p.Transport, p.Tools, p.State, p.Lost, "\n")
		}
	}
	k.peersKey += k.LeftMore + k.RightMore
	return k
}

// clientPeers returns a row for each client.
func clientPeers(clients []clientSum) (rows []peerRow) {
	for _, c := range clients {
		rows = append(rows, peerRow{
			ID: "c" + c.ID(), Title: cmp.Or(c.name, "unnamed client"), Path: pathOf("clients", c.ID()), Revision: c.Revision(), Modern: c.Modern(), Transport: c.Transport(),
			Rate: c.rate, Lost: c.Lost, known: true, severe: min(c.Failed, 1),
		})
	}
	return rows
}

// serverPeers returns a row for each server.
func serverPeers(status *admin.Report, t *sums) (rows []peerRow) {
	for i := range status.Servers {
		s := &status.Servers[i]
		p := peerRow{
			ID: "s" + strconv.Itoa(i+1), Title: s.Name, Path: pathOf("servers", s.Name), Revision: s.Revision, Modern: s.Era == "modern", Transport: transportName(s.Transport),
			Rate: t.Servers[s.Name].rate, known: s.Revision != "",
		}
		if n, stale, ok := toolsOf(s); ok {
			p.Tools = plural(n, "tool")
			if stale {
				p.Tools += ", stale"
			}
		}
		switch class, word := markOf(s.State); {
		case class == "bad":
			p.Class, p.State, p.off, p.severe = "st bad", word, true, 2
		case class == "off":
			p.Class, p.State, p.off = "st off", word, true
		case s.Failure != nil:
			p.Class, p.State, p.severe = "st warn", "problem", 1
		case class == "busy":
			p.Class, p.State = "st busy", word
		}
		if p.Rate.Failed > 0 {
			p.severe = max(p.severe, 1)
		}
		rows = append(rows, p)
	}
	return rows
}

// Key returns text that changes when the rows of the diagram change.
func (k *diagram) Key() string { return k.peersKey }

// firstPeers returns the rows that the diagram shows, and how many rows it omits. It prefers rows
// that need attention, and then rows with many calls.
func firstPeers(all []peerRow) (shown []peerRow, more int) {
	slices.SortStableFunc(all, func(a, b peerRow) int {
		return cmp.Or(cmp.Compare(b.severe, a.severe), cmp.Compare(b.Rate.Calls, a.Rate.Calls))
	})
	n := min(len(all), mostPeers)
	shown = all[:n]
	// The diagram shows the rows with the most calls first.
	slices.SortStableFunc(shown, func(a, b peerRow) int { return cmp.Compare(b.Rate.Calls, a.Rate.Calls) })
	return shown, len(all) - n
}

func groupsOf(all []peerRow) (out []peerGroup) {
	groups := [3]peerGroup{{Title: "Legacy: session"}, {Title: "Modern: stateless"}, {Title: "Revision not known yet"}}
	for _, p := range all {
		i := 0
		switch {
		case !p.known:
			i = 2
		case p.Modern:
			i = 1
		}
		groups[i].Peers = append(groups[i].Peers, p)
	}
	for _, g := range groups {
		if len(g.Peers) > 0 {
			out = append(out, g)
		}
	}
	return out
}

func heightOf(groups []peerGroup, more string) int {
	h := headHeight
	for _, g := range groups {
		h += groupHeight + rowHeight*len(g.Peers)
	}
	if more != "" {
		h += rowHeight
	}
	return h
}

// draw computes the lines.
func (k *diagram) draw(t *sums) {
	d := &drawing{diagram: k, top: boxTop + portInset, foot: float64(boxTop + k.BoxHeight - portInset), scale: scaleOf(t)}
	d.outside(k.Left, 0)
	d.outside(k.Right, 1)
	d.inside(t)
	d.drawPorts()
	k.HasLegacy, k.HasNew = d.ports[0][0] > 0 || d.ports[1][0] > 0, d.ports[0][1] > 0 || d.ports[1][1] > 0
	k.LabelTop, k.LabelFoot, k.FootText = boxTop+34, int(d.foot)+25, boxTop+k.BoxHeight+24
	k.Legacy, k.Modern = t.Lanes[0][0], t.Lanes[1][1]
	k.Down, k.Up = t.Lanes[0][1].Through, t.Lanes[1][0].Through
}

// drawing computes the lines of a diagram. Each side of the box has two ports, one per era. A port is
// the place where the lines of its era meet the box. The legacy port extends down from the top, and the
// modern port up from the bottom.
type drawing struct {
	*diagram
	top, foot float64
	scale     float64       // the width of a line per call
	ports     [2][2]float64 // the widths of all lines that meet each port from outside; the first index is the side, and the second is the era
	lanes     [2][2]float64 // the widths of the lines inside the box, by the era of the client and of the server
}

// scaleOf returns the width of a line per call, so that all lines together are not too thick.
func scaleOf(t *sums) float64 {
	total := 0
	for from := range t.Lanes {
		for _, n := range t.Lanes[from] {
			total += n.Through
		}
	}
	if total == 0 {
		return perCall
	}
	return min(perCall, thickest/float64(total))
}

func (d *drawing) width(calls int) float64 { return max(thinnest, float64(calls)*d.scale) }

// outside draws the lines between the rows on one side and the box. side is 0 for the clients and 1 for
// the servers.
func (d *drawing) outside(groups []peerGroup, side int) {
	type end struct {
		row   peerRow
		at, w float64
	}
	var ends [2][]end
	y := float64(headHeight)
	for _, g := range groups {
		y += groupHeight
		for _, p := range g.Peers {
			if p.known {
				era := 0
				if p.Modern {
					era = 1
				}
				e := end{p, y + rowHeight/2, d.width(p.Rate.Through)}
				ends[era] = append(ends[era], e)
				d.ports[side][era] += e.w
			}
			y += rowHeight
		}
	}
	for era, list := range ends {
		at, class := d.top, ""
		if era == 1 {
			at, class = d.foot-d.ports[side][1], "new"
		}
		for _, e := range list {
			line := diagramLine{ID: "l-" + e.row.ID, Class: class, Of: e.row.ID, Width: e.w}
			if e.row.off {
				line.Class = "off"
			}
			row, port := px(e.at), px(at+e.w/2)
			at += e.w
			line.D = fmt.Sprintf("M0 %sC56.2 %s 56.2 %s %d %s", row, row, port, boxLeft, port)
			if side == 1 {
				line.D = fmt.Sprintf("M%d %sC383.8 %s 383.8 %s %d %s", boxRight, port, port, row, diagramWidth, row)
			}
			d.Lines = append(d.Lines, line)
		}
	}
}

// inside draws the lines in the box. The lines of calls without translation are at the top and the
// bottom, so they can be straight. The lines of translated calls cross between them.
func (d *drawing) inside(t *sums) {
	for from := range t.Lanes {
		for to := range t.Lanes[from] {
			n := t.Lanes[from][to].Through
			if n > 0 || d.ports[0][from] > 0 && d.ports[1][to] > 0 {
				d.lanes[from][to] = d.width(n)
			}
		}
	}
	legacy, modern := d.lanes[0][0], d.lanes[1][1]
	if legacy > 0 {
		d.straight("l-ll", "", d.top+legacy/2, legacy)
	}
	if modern > 0 {
		d.straight("l-mm", "new", d.foot-modern/2, modern)
	}
	d.cross("l-lm", 0, 1)
	d.cross("l-ml", 1, 0)
}

func (d *drawing) straight(id, class string, y, w float64) {
	d.Lines = append(d.Lines, diagramLine{ID: id, Class: class, D: fmt.Sprintf("M%d %sH%d", boxLeft, px(y), boxRight), Width: w})
}

// cross draws the line of the calls that are translated from one era to the other, in two halves.
func (d *drawing) cross(id string, from, to int) {
	w := d.lanes[from][to]
	if w == 0 {
		return
	}
	d.Translated = true
	classes, knot := [2]string{"", "new"}, float64(d.Knot)
	heights := [2]float64{d.top + d.lanes[0][0] + w/2, d.foot - d.lanes[1][1] - w/2}
	left, right := heights[from], heights[to]
	d.Lines = append(d.Lines,
		diagramLine{ID: id + "a", Class: classes[from], Width: w, D: fmt.Sprintf("M%d %sC166 %s 174 %s 220 %s", boxLeft, px(left), px(left), px((left+3*knot)/4), px(knot))},
		diagramLine{ID: id + "b", Class: classes[to], Width: w, D: fmt.Sprintf("M220 %sC266 %s 274 %s %d %s", px(knot), px((right+3*knot)/4), px(right), boxRight, px(right))})
}

// drawPorts draws the ports. A port is as high as the lines that meet it from inside or from outside.
func (d *drawing) drawPorts() {
	for side, x := range []int{boxLeft, boxRight} {
		for era, way := range []float64{1, -1} {
			at := []float64{d.top, d.foot}[era]
			crossing := []float64{d.lanes[0][1], d.lanes[1][0]}[side^era]
			if d.ports[side][era] > 0 || d.lanes[era][era] > 0 {
				h := max(d.ports[side][era], d.lanes[era][era]+crossing)
				d.Ports += fmt.Sprintf("M%d %sV%s", x, px(at-way*5), px(at+way*h+way*5))
			}
		}
	}
}

// lanesOf sets the rows of the table of calls by era.
func (k *diagram) lanesOf(t *sums) {
	names := [2]string{"legacy", "modern"}
	for from := range names {
		for to := range names {
			k.Lanes = append(k.Lanes, lane{names[from], names[to], t.Lanes[from][to], "t-" + names[from][:1] + names[to][:1]})
		}
	}
}

// LegacyText and the following methods return the text of labels in the diagram.
func (k *diagram) LegacyText() string { return number(k.Legacy.Through) + " relayed" }

func (k *diagram) LegacyFailed() string {
	if k.Legacy.Failed == 0 {
		return ""
	}
	return ", " + number(k.Legacy.Failed) + " failed"
}

func (k *diagram) ModernText() string {
	if k.Modern.Failed > 0 {
		return number(k.Modern.Through) + " relayed, " + number(k.Modern.Failed) + " failed"
	}
	return number(k.Modern.Through) + " relayed"
}

func (k *diagram) ParkedText() string {
	switch k.Parked {
	case 0:
		return ""
	case 1:
		return "1 call waits for user input"
	}
	return number(k.Parked) + " calls wait for user input"
}

// Y returns the vertical position of a label that is offset pixels below the knot.
func (k *diagram) Y(offset int) int { return k.Knot + offset }

// Diamond returns the SVG path of the diamond that marks the knot. r is half of its width.
func (k *diagram) Diamond(r int) string {
	return fmt.Sprintf("M220 %dl%d %d-%d %d-%d-%dz", k.Knot-r, r, r, r, r, r, r)
}

// Draw returns the lines as SVG elements.
func (k *diagram) Draw(l *Live) template.HTML {
	var b strings.Builder
	for _, x := range k.Lines {
		line := string(l.Line(x.ID, x.Class, x.D, x.Width))
		if x.Of != "" {
			line = strings.Replace(line, "<path ", `<path data-of="`+x.Of+`" `, 1)
		}
		b.WriteString(line)
	}
	return template.HTML(b.String())
}

// px formats a coordinate.
func px(f float64) string {
	return strings.TrimSuffix(strconv.FormatFloat(f, 'f', 1, 64), ".0")
}

func (k *diagram) TranslatedText() string { return number(k.Up + k.Down) }
func (k *diagram) UpText() string         { return number(k.Up) }
func (k *diagram) DownText() string       { return number(k.Down) }

// Calls and Fails return the numbers of calls and of failed calls, as text.
func (l lane) Calls() string { return number(l.rate.Through) }
func (l lane) Fails() string { return number(l.rate.Failed) }
