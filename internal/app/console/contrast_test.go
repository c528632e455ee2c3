package console

import (
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// TestContrast checks the contrast of each colour role on each background on which it is used,
// in both themes (WCAG 2.2, success criteria 1.4.3 and 1.4.11).
func TestContrast(t *testing.T) {
	css, err := staticFiles.ReadFile("static/tokens.css")
	if err != nil {
		t.Fatal(err)
	}
	colours := map[string][2]string{}
	for _, m := range regexp.MustCompile(`--([a-z0-9-]+):\s*light-dark\((#[0-9a-f]{6}),\s*(#[0-9a-f]{6})\)`).FindAllStringSubmatch(string(css), -1) {
		colours[m[1]] = [2]string{m[2], m[3]}
	}
	for _, tt := range []struct {
		roles, on string
		least     float64
	}{
		{"ink ink-2 ink-3", "paper sheet well hover", 4.5},
		{"ink ink-2", "accent-tint warn-tint bad-tint ok-tint", 4.5},
		{"accent", "paper sheet well hover accent-tint", 4.5},
		{"ok", "paper sheet well hover ok-tint", 4.5},
		{"warn", "paper sheet well hover warn-tint", 4.5},
		{"bad", "paper sheet well hover bad-tint", 4.5},
		{"sheet", "ink", 4.5}, // the primary button and the toast
		{"edge", "paper sheet", 3},
		{"strand", "paper sheet", 3},
	} {
		for role := range strings.FieldsSeq(tt.roles) {
			for on := range strings.FieldsSeq(tt.on) {
				for i, theme := range []string{"light", "dark"} {
					a, b := colours[role][i], colours[on][i]
					if got := contrast(a, b); got < tt.least {
						t.Errorf("%s on %s, %s: %s on %s has %.2f, want %.1f", role, on, theme, a, b, got, tt.least)
					}
				}
			}
		}
	}
}

// contrast returns the contrast ratio of two colours.
func contrast(a, b string) float64 {
	x, y := luminance(a), luminance(b)
	return (max(x, y) + .05) / (min(x, y) + .05)
}

func luminance(colour string) float64 {
	var l float64
	for i, weight := range []float64{.2126, .7152, .0722} {
		n, err := strconv.ParseUint(colour[1+2*i:3+2*i], 16, 8)
		if err != nil {
			panic(fmt.Sprintf("%q is not a colour", colour))
		}
		c := float64(n) / 255
		if c <= .04045 {
			c /= 12.92
		} else {
			c = math.Pow((c+.055)/1.055, 2.4)
		}
		l += weight * c
	}
	return l
}
