package clientfile

import (
	"bytes"
	"fmt"
	"strings"
)

// diffContext is the number of unchanged lines that a diff shows around a change.
const diffContext = 3

// Diff returns the difference between two versions of a file as a unified diff, or "" if there is
// none. The function show converts a line to a form that is safe to print.
func Diff(path string, before, after []byte, show func(string) string) string {
	if bytes.Equal(before, after) {
		return ""
	}
	a, b := splitLines(before), splitLines(after)
	var out strings.Builder
	old, now := path, path
	if before == nil {
		old = "/dev/null"
	}
	if after == nil {
		now = "/dev/null"
	}
	fmt.Fprintf(&out, "--- %s\n+++ %s\n", old, now)
	line := func(mark, l string) {
		out.WriteString(mark + show(strings.TrimRight(l, "\r\n")) + "\n")
		if !strings.HasSuffix(l, "\n") {
			out.WriteString("\\ No newline at end of file\n")
		}
	}
	changes := changedLines(a, b)
	for i := 0; i < len(changes); {
		end := i + 1 // changes that are close together share one hunk
		for end < len(changes) && changes[end].a-changes[end-1].aEnd <= 2*diffContext {
			end++
		}
		first, last := changes[i], changes[end-1]
		head := min(first.a, diffContext)
		tail := min(len(a)-last.aEnd, diffContext)
		from, to := first.a-head, first.b-head
		fmt.Fprintf(&out, "@@ -%s +%s @@\n", hunk(from, last.aEnd+tail-from), hunk(to, last.bEnd+tail-to))
		at := from
		for _, c := range changes[i:end] {
			for ; at < c.a; at++ {
				line(" ", a[at])
			}
			for ; at < c.aEnd; at++ {
				line("-", a[at])
			}
			for _, l := range b[c.b:c.bEnd] {
				line("+", l)
			}
		}
		for ; at < last.aEnd+tail; at++ {
			line(" ", a[at])
		}
		i = end
	}
	return out.String()
}

// Insertion is text that a change inserts into a file.
type Insertion struct {
	After int    // the number of the line before the text; 0 means that the text is at the beginning of the file
	Last  bool   // the line with the number After is the last line of the file
	Under string // the key of the block to which the text belongs; "" for the whole file
	Text  string // the inserted text, with its indentation
}

// Insertions returns the texts that a change of a YAML file inserts, in the order of the file. name
// is the name of the file. ok is false if the change also removes or replaces lines, or if the file
// is JSON.
func Insertions(name string, before, after []byte) (out []Insertion, ok bool) {
	if LooksLikeJSON(before) && isJSON(name, before) {
		return nil, false
	}
	a, b := splitLines(before), splitLines(after)
	if len(a) > 0 && !strings.HasSuffix(a[len(a)-1], "\n") {
		a[len(a)-1] += "\n" // an insertion after the last line also adds the missing newline
	}
	for _, c := range changedLines(a, b) {
		if c.a != c.aEnd {
			return nil, false
		}
		x := Insertion{After: c.a, Last: c.a == len(a), Text: strings.Trim(strings.Join(b[c.b:c.bEnd], ""), "\r\n") + "\n"}
		for i, most := c.a-1, indentOf(x.Text); i >= 0 && most > 0; i-- {
			l := strings.TrimSpace(a[i])
			if l == "" || l[0] == '#' || indentOf(a[i]) >= most {
				continue
			}
			x.Under = strings.Trim(strings.TrimSuffix(strings.TrimSpace(strings.SplitN(l, " #", 2)[0]), ":"), `"'`)
			break
		}
		out = append(out, x)
	}
	return out, true
}

// indentOf returns the number of spaces at the start of a line.
func indentOf(line string) int { return len(line) - len(strings.TrimLeft(line, " ")) }

// lineChange means that the lines a to aEnd-1 of the old file became the lines b to bEnd-1 of the
// new file. Lines are counted from 0.
type lineChange struct{ a, aEnd, b, bEnd int }

// mostCells bounds the work of changedLines. If the comparison of two files needs a table with more
// than mostCells cells, changedLines returns their difference as one change.
const mostCells = 4 << 20

// changedLines returns the changes between the lines of two files, in order. The changes replace as
// few lines as possible, unless the comparison needs more than mostCells cells.
func changedLines(a, b []string) (out []lineChange) {
	head := 0
	for head < len(a) && head < len(b) && a[head] == b[head] {
		head++
	}
	tail := 0
	for tail < len(a)-head && tail < len(b)-head && a[len(a)-1-tail] == b[len(b)-1-tail] {
		tail++
	}
	n, m := len(a)-head-tail, len(b)-head-tail
	if n*m > mostCells || n == 0 || m == 0 {
		return []lineChange{{head, head + n, head, head + m}}
	}
	// same[i*(m+1)+j] is the length of the longest common subsequence of the lines of a from head+i
	// and the lines of b from head+j.
	same := make([]int32, (n+1)*(m+1))
	for i := n - 1; i >= 0; i-- {
		for j := m - 1; j >= 0; j-- {
			if at := i*(m+1) + j; a[head+i] == b[head+j] {
				same[at] = same[at+m+2] + 1
			} else {
				same[at] = max(same[at+m+1], same[at+1])
			}
		}
	}
	for i, j := 0, 0; i < n || j < m; {
		if i < n && j < m && a[head+i] == b[head+j] {
			i, j = i+1, j+1
			continue
		}
		c := lineChange{a: head + i, b: head + j}
		for i < n || j < m {
			switch {
			case i < n && j < m && a[head+i] == b[head+j]:
			case j == m || i < n && same[(i+1)*(m+1)+j] >= same[i*(m+1)+j+1]:
				i++
				continue
			default:
				j++
				continue
			}
			break
		}
		c.aEnd, c.bEnd = head+i, head+j
		out = append(out, c)
	}
	return out
}

// hunk formats a range of n lines for a unified diff. from is the index of the first line, counted
// from 0.
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
