package console

import (
	"fmt"
	"html/template"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/app/admin"
	"github.com/dragoman-mcp/dragoman/internal/base/excerpt"
	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
)

// waterfall is the timeline of a call. It shows when the client, Dragoman, the server and the user were
// busy.
type waterfall struct {
	Sentence string
	Spans    []span
	end      float64 // the length of the timeline in seconds
	wait     time.Duration
	client   string
	server   string
	sends    []float64
}

// span is a period in which Who was busy. From and To are in seconds since the call began.
type span struct {
	Who      string
	From, To float64
	lane     int // the row in the timeline: 0 for the client, 2 for the server, 3 for the user
}

// Begin and End return when the span begins and ends, as text.
func (s span) Begin() string { return seconds(s.From) }

func (s span) End() string { return seconds(s.To) }

// Long returns the duration of the span as text.
func (s span) Long() string {
	return spanText(time.Duration((s.To - s.From) * float64(time.Second)))
}

func seconds(s float64) string {
	if s > 0 && s < 0.01 {
		return strconv.FormatFloat(s*1000, 'f', 2, 64) + " ms"
	}
	return strconv.FormatFloat(s, 'f', 3, 64) + " s"
}

// axisText returns a label for the time axis. at is the time of the label, and step is the time
// between two labels, both in seconds. The labels have enough digits to differ from each other.
func axisText(at, step float64) string {
	unit := " s"
	if step < 0.25 {
		at, step, unit = at*1000, step*1000, " ms"
	}
	digits := max(0, 1-int(math.Floor(math.Log10(step))))
	return strconv.FormatFloat(at, 'f', digits, 64) + unit
}

// newWaterfall returns the timeline of the call s. If s has no messages, the timeline contains only the
// client.
func newWaterfall(s *admin.Story, client, server string) *waterfall {
	f := &waterfall{end: s.Seconds, client: excerpt.Line(client, 24), server: excerpt.Line(server, 24)}
	busy, asked := -1.0, -1.0 // when Dragoman sent the open request to the server and the open question to the user, in seconds since the call began; -1 for none
	close := func(lane int, who string, from *float64, to float64) {
		if *from >= 0 {
			f.Spans = append(f.Spans, span{who, *from, max(to, *from), lane})
			*from = -1
		}
	}
	for i := range s.Messages {
		m := &s.Messages[i]
		f.end = max(f.end, m.At)
		if m.Direction == "sent" {
			f.sends = append(f.sends, m.At)
		}
		x := scanned(m)
		if x == nil || x.Kind == jsonrpc.Notification {
			continue
		}
		toServer := m.Wire == admin.WireServer
		switch {
		case toServer && m.Direction == "sent" && busy < 0:
			busy = m.At
		case toServer && m.Direction == "received":
			close(2, f.server, &busy, m.At)
		case !toServer && m.Direction == "sent" && (x.Kind == jsonrpc.Request || asksForInput(x)) && asked < 0:
			asked = m.At
		case !toServer && m.Direction == "received":
			if asked >= 0 {
				f.wait += time.Duration((m.At - asked) * float64(time.Second))
			}
			close(3, "user", &asked, m.At)
		}
	}
	close(2, f.server, &busy, f.end)
	close(3, "user", &asked, f.end)
	f.Spans = append([]span{{f.client, 0, f.end, 0}}, f.Spans...)
	f.Sentence = "Timing: " + f.client + " waited " + seconds(f.end) + "."
	for _, x := range f.Spans[1:] {
		if len(f.Sentence) > 600 {
			break
		}
		f.Sentence += fmt.Sprintf(" %s from %s to %s.", x.Who, seconds(x.From), seconds(x.To))
	}
	return f
}

// waterfallSize describes one of the sizes in which Draw can draw the timeline. Lengths are in the units
// of the viewBox.
type waterfallSize struct {
	class string
	left  float64 // where the axis begins; the lanes' names are left of the axis, or above the bars if left is 0
	width float64 // the length of the axis
	lane  int     // the distance between two lanes
	bar   int     // the distance between the top of a lane and the lane's bar
	ticks int     // the number of intervals between the ticks of the axis
}

// Draw returns the timeline as two SVG drawings, one wide and one for phones. The style sheet shows
// the drawing that fits the width of the page.
func (f *waterfall) Draw() template.HTML {
	wide := waterfallSize{class: "wide", left: 148, width: 1020, lane: 27, bar: 9, ticks: 4}
	small := waterfallSize{class: "small", width: 358, lane: 38, bar: 18, ticks: 2}
	return f.draw(wide) + f.draw(small)
}

// draw returns the timeline as an SVG drawing of one size.
func (f *waterfall) draw(size waterfallSize) template.HTML {
	end := max(f.end, 1e-6)
	x := func(s float64) float64 { return size.left + s/end*size.width }
	n := func(v float64) string { return strconv.FormatFloat(v, 'f', 1, 64) }
	top := func(lane int) int { return 18 + size.lane*lane + size.bar }
	var b strings.Builder
	lanes := 3
	if f.wait > 0 {
		lanes = 4
	}
	height := 18 + size.lane*lanes
	fmt.Fprintf(&b, `<svg class="%s" viewBox="0 0 %.0f %d" role="img" aria-label="%s">`, size.class, size.left+size.width+size.left/148*12, height, template.HTMLEscapeString(f.Sentence))
	for i := range size.ticks + 1 {
		at := end * float64(i) / float64(size.ticks)
		anchor := "middle"
		if i == 0 {
			anchor = "start"
		} else if i == size.ticks {
			anchor = "end"
		}
		fmt.Fprintf(&b, `<path class="axis" d="M%s 18V%d"/><text x="%s" y="11" text-anchor="%s">%s</text>`, n(x(at)), height-4, n(x(at)), anchor, axisText(at, end/float64(size.ticks)))
	}
	for i, name := range []string{f.client, "Dragoman", f.server, "user"}[:lanes] {
		y := top(i) + 10
		if size.left == 0 {
			y = top(i) - 4
		}
		fmt.Fprintf(&b, `<text x="0" y="%d">%s</text>`, y, template.HTMLEscapeString(name))
	}
	for _, s := range f.Spans {
		if s.lane >= lanes {
			continue
		}
		fmt.Fprintf(&b, `<rect class="%c" x="%s" y="%d" width="%s" height="14"/>`, "cdsw"[s.lane], n(x(s.From)), top(s.lane), n(max(1.5, x(s.To)-x(s.From))))
		if wide := x(s.To) - x(s.From); s.lane == 3 && wide > 160 {
			fmt.Fprintf(&b, `<text x="%s" y="%d" text-anchor="middle">%s waiting for input</text>`, n(x(s.From)+wide/2), top(3)+10, s.Long())
		}
	}
	for _, at := range f.sends {
		fmt.Fprintf(&b, `<rect class="d" x="%s" y="%d" width="3" height="14"/>`, n(min(x(at), size.left+size.width-3)), top(1))
	}
	b.WriteString(`</svg>`)
	return template.HTML(b.String())
}
