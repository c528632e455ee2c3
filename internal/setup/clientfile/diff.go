package clientfile

import (
	"bytes"
	"strings"

	"github.com/aymanbagabas/go-udiff"
)

// Diff returns the difference between two versions of a file as a unified diff, or "" if there is
// none. The function show converts a line to a form that is safe to print.
func Diff(path string, before, after []byte, show func(string) string) string {
	if bytes.Equal(before, after) {
		return ""
	}
	old, now := path, path
	if before == nil {
		old = "/dev/null"
	}
	if after == nil {
		now = "/dev/null"
	}
	edits := udiff.Lines(string(before), string(after))
	diff, err := udiff.ToUnifiedDiff(old, now, string(before), edits, udiff.DefaultContextLines)
	if err != nil {
		panic(err) // the edits come from the same text
	}
	for _, h := range diff.Hunks {
		for i, l := range h.Lines {
			text := strings.TrimRight(l.Content, "\r\n")
			h.Lines[i].Content = show(text)
			if strings.HasSuffix(l.Content, "\n") {
				h.Lines[i].Content += "\n"
			}
		}
	}
	return diff.String()
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
	text := string(before)
	if text != "" && !strings.HasSuffix(text, "\n") {
		text += "\n" // an insertion after the last line also adds the missing newline
	}
	lines := splitLines([]byte(text))
	for _, e := range udiff.Lines(text, string(after)) {
		if e.Start != e.End {
			return nil, false
		}
		above := strings.Count(text[:e.Start], "\n")
		x := Insertion{After: above, Last: above == len(lines), Text: strings.Trim(e.New, "\r\n") + "\n"}
		for i, most := above-1, indentOf(x.Text); i >= 0 && most > 0; i-- {
			l := strings.TrimSpace(lines[i])
			if l == "" || l[0] == '#' || indentOf(lines[i]) >= most {
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

func splitLines(b []byte) []string {
	lines := strings.SplitAfter(string(b), "\n")
	if lines[len(lines)-1] == "" {
		lines = lines[:len(lines)-1]
	}
	return lines
}
