package console

import (
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/app/admin"
)

// TestLabelsOfTheKnot checks that no drawn line for translated calls touches the labels beside the
// knot. A label has two lines of text, each up to 60 pixels wide.
func TestLabelsOfTheKnot(t *testing.T) {
	for _, n := range [][4]int{{0, 1, 1, 0}, {13, 8, 7, 9}, {2000, 1, 1, 2000}, {0, 3000, 0, 0}, {0, 0, 3000, 0}, {1, 1500, 1500, 1}, {3000, 10, 3000, 10}, {1000, 1000, 1000, 1000}} {
		s := &sums{Servers: map[string]serverSum{}, Clients: []clientSum{}}
		for i := range n {
			s.Lanes[i/2][i%2].Through = n[i]
		}
		report := &admin.Report{Started: time.Now(), Servers: []admin.Server{
			{Name: "old", State: "ready", Era: "legacy", Revision: "2025-06-18"}, {Name: "new", State: "ready", Era: "modern", Revision: "2026-07-28"},
		}}
		k := newDiagram(nil, report, s)
		checked := 0
		for _, l := range k.Lines {
			var x0, y0, x1, y1, x2, y2, x3, y3 float64
			if len(l.ID) != 5 { // "l-lma" and others are the halves of a translated line
				continue
			}
			if c, err := fmt.Sscanf(l.D, "M%f %fC%f %f %f %f %f %f", &x0, &y0, &x1, &y1, &x2, &y2, &x3, &y3); c != 8 {
				t.Fatalf("%s: %v", l.D, err)
			}
			checked++
			for i := range 101 {
				u := float64(i) / 100
				at := func(a, b, c, d float64) float64 {
					return a*math.Pow(1-u, 3) + 3*b*u*(1-u)*(1-u) + 3*c*u*u*(1-u) + d*u*u*u
				}
				x, y := at(x0, x1, x2, x3), at(y0, y1, y2, y3)-float64(k.Knot)
				if (x < 182 || x > 258) && y+l.Width/2 > -15 && y-l.Width/2 < 19 {
					t.Errorf("calls %v: %s passes %.0f,%.0f with a width of %.1f", n, l.ID, x, y, l.Width)
					break
				}
			}
		}
		if checked < 2 {
			t.Errorf("calls %v: %d translated lines", n, checked)
		}
	}
}
