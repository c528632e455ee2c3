package ranking

import (
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"
)

// FuzzSplit checks that words are in lower case, bounded, and found again when they are split.
func FuzzSplit(f *testing.F) {
	for _, s := range []string{"", "listIssues of HTMLParser", "don't", "图a図\xff", "İSTANBUL ǅ", strings.Repeat("aB", 99)} {
		f.Add(s, true)
	}
	f.Fuzz(func(t *testing.T, text string, parts bool) {
		n := 0
		s := splitter{parts: parts, yield: func(word []byte, _ bool) {
			n++
			if len(word) == 0 || len(word) > maxWord+utf8.UTFMax {
				t.Errorf("%q in %q", word, text)
			}
			if strings.ContainsFunc(string(word), unicode.IsSpace) {
				t.Errorf("%q in %q has a space", word, text)
			}
			if term := termOf(append([]byte{}, word...)); len(term) == 0 || len(term) > len(word) {
				t.Errorf("%q becomes %q", word, term)
			}
		}}
		s.split(text)
		if n > maxWords {
			t.Errorf("%d words", n)
		}
	})
}

// FuzzSearch checks that no definition and no query breaks the index, the search or a line.
func FuzzSearch(f *testing.F) {
	f.Add("create an issue", `{"description":"Creates an issue. [read]","inputSchema":{"properties":{"a":{"enum":["b"]}}}}`, "issue_create")
	f.Add("\xff\x00 日本", `{"description":"\ud800","inputSchema":{"properties":{"":[{}]}}}`, "() [read] \n")
	f.Add("issue_create", `{`, "issue_create")
	f.Fuzz(func(t *testing.T, query, definition, name string) {
		x := Tool{Name: name, Server: "s", Definition: []byte(definition)}
		in := []*Index{New([]Tool{x, tool("s", "other", "Creates an issue.")})}
		hits := Search(query, in, nil, 0)
		if len(hits) != 2 {
			t.Errorf("%d hits", len(hits))
		}
		if better(hits[0], hits[1]) > 0 {
			t.Errorf("%v is before %v", hits[0], hits[1])
		}
		if got := Nearest(query, in, nil, 5); len(got) != 2 {
			t.Errorf("%q", got)
		}
		line := x.Line(true)
		if strings.ContainsFunc(line, func(r rune) bool { return !unicode.IsPrint(r) && r != utf8.RuneError }) {
			t.Errorf("%q", line)
		}
		if inside := strings.LastIndex(line, "[read]"); inside != strings.LastIndex(line, ") [read]")+2 {
			t.Errorf("%q", line)
		}
		in[0].Words(3)
	})
}
