package cli

import (
	"os"
	"strconv"
	"strings"

	"github.com/dragoman-mcp/dragoman/internal/base/screen"
)

// clean makes text from a peer safe to print on one line; see screen.Safe.
func clean(s string) string { return screen.Safe(s) }

// cleanLines does the same as clean, but keeps newlines and tabs.
func cleanLines(s string) string { return screen.SafeLines(s) }

// fit cuts text to at most width cells; see screen.Fit.
func fit(s string, width int) string { return screen.Fit(s, width) }

// Stand-ins while a text is wrapped, which no safe text contains: for a space that must not end a line, and
// for a place between two folders at which a line may end.
const (
	held  = "\ue000"
	joint = "\ue001"
)

// wrapped breaks a safe text at spaces into lines of at most width cells. A command in backquotes stays on one
// line, so that people can copy it. A PATH is broken between its folders.
func wrapped(text string, width int) []string {
	parts := strings.Split(text, "`")
	for i := 1; i < len(parts)-1; i += 2 {
		parts[i] = strings.ReplaceAll(parts[i], " ", held)
	}
	words := strings.Fields(strings.Join(parts, "`"))
	for i, w := range words {
		if strings.HasPrefix(w, "PATH=") {
			words[i] = strings.ReplaceAll(w, string(os.PathListSeparator), string(os.PathListSeparator)+" "+joint)
		}
	}
	lines := screen.Wrap(strings.Join(words, " "), width)
	for i := range lines {
		lines[i] = strings.NewReplacer(" "+joint, "", joint, "", held, " ").Replace(lines[i])
	}
	return lines
}

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
