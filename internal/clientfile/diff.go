package clientfile

import (
	"bytes"
	"fmt"
	"strings"
)

// Diff returns the difference between two versions of a file as one hunk of a unified diff, or
// "" if there is none. show removes secrets from a line before it is printed.
func Diff(path string, before, after []byte, show func(string) string) string {
	if bytes.Equal(before, after) {
		return ""
	}
	const context = 3
	a, b := splitLines(before), splitLines(after)
	head := 0
	for head < len(a) && head < len(b) && a[head] == b[head] {
		head++
	}
	tail := 0
	for tail < len(a)-head && tail < len(b)-head && a[len(a)-1-tail] == b[len(b)-1-tail] {
		tail++
	}
	from, until := max(0, head-context), max(0, tail-context)
	var out strings.Builder
	old, now := path, path
	if before == nil {
		old = "/dev/null"
	}
	if after == nil {
		now = "/dev/null"
	}
	fmt.Fprintf(&out, "--- %s\n+++ %s\n@@ -%s +%s @@\n", old, now, hunk(from, len(a)-until-from), hunk(from, len(b)-until-from))
	line := func(mark, l string) {
		out.WriteString(mark + show(strings.TrimRight(l, "\r\n")) + "\n")
		if !strings.HasSuffix(l, "\n") {
			out.WriteString("\\ No newline at end of file\n")
		}
	}
	for _, l := range a[from:head] {
		line(" ", l)
	}
	for _, l := range a[head : len(a)-tail] {
		line("-", l)
	}
	for _, l := range b[head : len(b)-tail] {
		line("+", l)
	}
	for _, l := range a[len(a)-tail : len(a)-until] {
		line(" ", l)
	}
	return out.String()
}

// hunk formats a range of lines. from is the index of the first line, counted from 0.
func hunk(from, n int) string {
	if n == 0 {
		return fmt.Sprintf("%d,0", from)
	}
	return fmt.Sprintf("%d,%d", from+1, n)
}

func splitLines(b []byte) []string {
	lines := strings.SplitAfter(string(b), "\n")
	if lines[len(lines)-1] == "" {
		lines = lines[:len(lines)-1]
	}
	return lines
}
