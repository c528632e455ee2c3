package console

import (
	"fmt"
	"html/template"
	"math"
	"strings"
	"time"
)

// plot is a plot of values of the last hour.
type plot struct {
	Title   string
	Legend  []legend
	Say     string // the description for screen readers
	Body    template.HTML
	Columns []string
	Rows    [][]string // the rows of a table with the values of the plot
	Empty   string     // the text that replaces the plot if there are no values; "" if there are values
}

type legend struct {
	ID, Class, Text string
}

// The sizes of a plot, in the units of its viewBox.
const (
	plotWidth  = 560
	plotFoot   = 130
	plotHeight = 150
)

// callsPlot plots the calls per minute in the last hour.
func callsPlot(t *sums) *plot {
	most, total := 1, 0
	for _, m := range t.Hour {
		n := int(m.relayed + m.translated)
		most, total = max(most, n), total+n
	}
	last := t.Hour[len(t.Hour)-1]
	relayed, translated := t.Lanes[0][0].Through+t.Lanes[1][1].Through, t.Lanes[0][1].Through+t.Lanes[1][0].Through
	p := &plot{Title: "Calls per minute", Columns: []string{"minute", "relayed", "translated", "failed"}}
	p.Legend = []legend{{"p-rel", "", "relayed " + number(relayed)}, {"p-tra", "by", "translated " + number(translated)}}
	if total == 0 {
		p.Empty = "No calls in the last hour."
		return p
	}
	scale := niceScale(float64(most))
	y := func(n float64) float64 { return plotFoot - n/scale*(plotFoot-8) }
	var b strings.Builder
	left := axis(&b, []string{"0", number(int(scale / 2)), number(int(scale))}, y(0), y(scale/2), y(scale))
	step := (plotWidth - left) / float64(len(t.Hour))
	both, one := stairs(t, left, step, func(m minute) float64 { return y(float64(m.relayed + m.translated)) }), stairs(t, left, step, func(m minute) float64 { return y(float64(m.relayed)) })
	fmt.Fprintf(&b, `<path class="a2" d="%[1]sV130H%[2]sZ"/><path class="a1" d="%[3]sV130H%[2]sZ"/><path class="l2" d="%[1]s"/><path class="l1" d="%[3]s"/>`, both, px(left), one)
	times(&b, t, left, step)
	p.Body = template.HTML(b.String())
	p.Say = fmt.Sprintf("Calls per minute over the last hour: %s in all, at most %s in a minute, %s in this minute.", number(total), number(most), number(int(last.relayed+last.translated)))
	for _, m := range t.Hour {
		if m.relayed+m.translated+m.failed > 0 {
			p.Rows = append(p.Rows, []string{minuteText(m), number(int(m.relayed)), number(int(m.translated)), number(int(m.failed))})
		}
	}
	return p
}

// latencyPlot plots the p95 latency of each minute in the last hour, on a logarithmic scale.
func latencyPlot(t *sums) *plot {
	p := &plot{Title: "p95 latency", Columns: []string{"minute", "relayed", "translated"}}
	var ends [2]time.Duration
	least, most := time.Duration(math.MaxInt64), time.Duration(0)
	for _, m := range t.Hour {
		for mode := range ends {
			if d := m.p95(mode); d > 0 {
				ends[mode] = d
				least, most = min(least, d), max(most, d)
			}
		}
	}
	text := func(d time.Duration) string {
		if d == 0 {
			return "–"
		}
		return spanText(d)
	}
	p.Legend = []legend{{"p-lrel", "", "relayed " + text(ends[0])}, {"p-ltra", "by", "translated " + text(ends[1])}}
	if most == 0 {
		p.Empty = "No calls in the last hour."
		return p
	}
	low := math.Pow(10, math.Floor(math.Log10(least.Seconds())))
	high := max(math.Pow(10, math.Ceil(math.Log10(most.Seconds()))), low*100)
	y := func(d float64) float64 {
		return plotFoot - (math.Log10(d)-math.Log10(low))/(math.Log10(high)-math.Log10(low))*(plotFoot-8)
	}
	middle := math.Sqrt(low * high)
	scaleText := func(s float64) string { return spanText(time.Duration(s * float64(time.Second))) }
	var b strings.Builder
	left := axis(&b, []string{scaleText(low), scaleText(middle), scaleText(high)}, y(low), y(middle), y(high))
	step := (plotWidth - left) / float64(len(t.Hour))
	for mode, class := range []string{"l1", "l2"} {
		var d strings.Builder
		drawn := false // the minute before has a point of the line
		for i, m := range t.Hour {
			took, at := m.p95(mode), left+(float64(i)+.5)*step
			if took > 0 && !drawn {
				fmt.Fprintf(&d, "M%s %sh3", px(at-3), px(y(took.Seconds())))
			}
			if drawn = took > 0; drawn { // a minute without calls is a gap
				fmt.Fprintf(&d, "L%s %s", px(at), px(y(took.Seconds())))
			}
		}
		if d.Len() > 0 {
			fmt.Fprintf(&b, `<path class="%s" d="%s"/>`, class, d.String())
		}
	}
	times(&b, t, left, step)
	p.Body = template.HTML(b.String())
	p.Say = fmt.Sprintf("p95 latency over the last hour: relayed %s, translated %s, at most %s.", text(ends[0]), text(ends[1]), spanText(most))
	for _, m := range t.Hour {
		if a, b := m.p95(0), m.p95(1); a+b > 0 {
			p.Rows = append(p.Rows, []string{minuteText(m), text(a), text(b)})
		}
	}
	return p
}

// axis draws three horizontal lines and their labels. It returns the x coordinate at which the plot
// begins.
func axis(b *strings.Builder, labels []string, ys ...float64) (left float64) {
	longest := 0
	for _, l := range labels {
		longest = max(longest, len(l))
	}
	left = float64(14 + 7*longest)
	for i, y := range ys {
		fmt.Fprintf(b, `<path class="axis" d="M%s %sH%d"/><text x="%s" y="%s" text-anchor="end">%s</text>`, px(left), px(y), plotWidth, px(left-8), px(y+4), labels[i])
	}
	return left
}

func stairs(t *sums, left, step float64, y func(minute) float64) string {
	var d strings.Builder
	for i, m := range t.Hour {
		if i == 0 {
			fmt.Fprintf(&d, "M%s %s", px(left), px(y(m)))
		} else {
			fmt.Fprintf(&d, "V%s", px(y(m)))
		}
		fmt.Fprintf(&d, "H%s", px(left+float64(i+1)*step))
	}
	return d.String()
}

func times(b *strings.Builder, t *sums, left, step float64) {
	for _, i := range []int{0, 20, 40} {
		if i < len(t.Hour) {
			anchor := "middle"
			if i == 0 {
				anchor = "start"
			}
			fmt.Fprintf(b, `<text x="%s" y="146" text-anchor="%s">%s</text>`, px(left+(float64(i)+.5)*step), anchor, minuteText(t.Hour[i]))
		}
	}
	fmt.Fprintf(b, `<text x="%d" y="146" text-anchor="end">now</text>`, plotWidth)
}

func minuteText(m minute) string { return time.Unix(m.at*60, 0).Local().Format("15:04") }

// niceScale returns the first of the numbers 2, 5, 10, 20, 50, 100 and so on that is at least n.
func niceScale(n float64) float64 {
	for s := 2.0; ; s *= 10 {
		for _, f := range []float64{1, 2.5, 5} {
			if s*f >= n {
				return s * f
			}
		}
	}
}
