package cli

import (
	"strconv"

	"github.com/dragoman-mcp/dragoman/internal/base/screen"
)

// clean makes text from a peer safe to print on one line; see screen.Safe.
func clean(s string) string { return screen.Safe(s) }

// cleanLines does the same as clean, but keeps newlines and tabs.
func cleanLines(s string) string { return screen.SafeLines(s) }

// fit cuts text to at most width cells; see screen.Fit.
func fit(s string, width int) string { return screen.Fit(s, width) }

// quantity returns a number with its noun: 1 server, 2 servers.
func quantity(n int, noun string) string {
	if n != 1 {
		noun += "s"
	}
	return strconv.Itoa(n) + " " + noun
}

// bytesOf formats a number of bytes for people.
func bytesOf(n int) string {
	switch {
	case n < 1000:
		return strconv.Itoa(n) + " bytes"
	case n < 1_000_000:
		return strconv.Itoa((n+500)/1000) + " kB"
	}
	return strconv.FormatFloat(float64(n)/1e6, 'f', 1, 64) + " MB"
}
