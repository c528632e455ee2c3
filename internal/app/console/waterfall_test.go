package console

import (
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"
)

// TestDraw checks that each of the two drawings of a timeline has all bars and texts, and that they
// are within the drawing.
func TestDraw(t *testing.T) {
	f := &waterfall{end: 8, wait: time.Second, client: "<client>", server: "files", sends: []float64{0, 8}, Spans: []span{{"<client>", 0, 8, 0}, {"files", 0.5, 8, 2}, {"user", 1, 7, 3}}}
	all := strings.SplitAfter(string(f.Draw()), "</svg>")
	if len(all) != 3 || !strings.Contains(all[0], `class="wide"`) || !strings.Contains(all[1], `class="small"`) {
		t.Fatal(all)
	}
	for _, svg := range all[:2] {
		box := regexp.MustCompile(`viewBox="0 0 (\d+) (\d+)"`).FindStringSubmatch(svg)
		number := func(text string) float64 {
			v, err := strconv.ParseFloat(text, 64)
			if err != nil {
				t.Fatal(err)
			}
			return v
		}
		bars := regexp.MustCompile(`<rect class="." x="([\d.]+)" y="(\d+)" width="([\d.]+)" height="(\d+)"`).FindAllStringSubmatch(svg, -1)
		for _, b := range bars {
			if number(b[1])+number(b[3]) > number(box[1]) || number(b[2])+number(b[4]) > number(box[2]) {
				t.Errorf("the bar %v is outside of %v", b, box)
			}
		}
		for _, text := range []string{"&lt;client&gt;</text>", "Dragoman</text>", "files</text>", "user</text>", "6.0 s waiting for input</text>"} {
			if !strings.Contains(svg, text) || len(bars) != 5 {
				t.Errorf("no %s in %s", text, svg)
			}
		}
	}
}

// TestAxis checks that the five labels of an axis differ, for any length of a call.
func TestAxis(t *testing.T) {
	for end := 1e-6; end < 1e4; end *= 1.37 {
		seen := map[string]bool{}
		for i := range 5 {
			seen[axisText(end*float64(i)/4, end/4)] = true
		}
		if len(seen) != 5 {
			t.Errorf("an axis of %g s has the labels %v", end, seen)
		}
	}
	for _, c := range []struct {
		at, step float64
		want     string
	}{{0.000_3, 0.000_075, "0.300 ms"}, {0.25, 0.125, "250 ms"}, {1.965, 1.965, "2.0 s"}, {900, 300, "900 s"}} {
		if got := axisText(c.at, c.step); got != c.want {
			t.Errorf("%g with steps of %g: %q, want %q", c.at, c.step, got, c.want)
		}
	}
}
