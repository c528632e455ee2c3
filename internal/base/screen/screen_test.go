package screen

import (
	"slices"
	"strings"
	"testing"
	"unicode"
)

func TestSafe(t *testing.T) {
	for in, want := range map[string]string{
		"plain ä 日本":    "plain ä 日本",
		"a\tb\nc":       `a\tb\nc`,
		"\x1b]0;t\a":    `\x1b]0;t\a`,
		"a\u202eb":      `a\u202eb`,
		"a\u00a0b":      "a b",
		"a\xffb\ufffd":  `a\xffb` + "\ufffd",
		"tag\U000E0041": `tag\U000e0041`,
	} {
		if got := Safe(in); got != want {
			t.Errorf("Safe(%q) = %q, want %q", in, got, want)
		}
	}
	if got := SafeLines("a\tb\r\nc\x1b"); got != "a\tb\\r\nc\\x1b" {
		t.Errorf("%q", got)
	}
}

func TestWidth(t *testing.T) {
	for s, want := range map[string]int{"": 0, "abc": 3, "日本": 4, "ä": 1, "a\u0301": 1, "🎉": 2, "✓": 1, "…": 1, "─": 1, "α": 1} {
		if got := Width(s); got != want {
			t.Errorf("Width(%q) = %d, want %d", s, got, want)
		}
	}
}

func TestFit(t *testing.T) {
	for _, c := range []struct {
		in    string
		width int
		want  string
	}{{"abcdef", 4, "abc…"}, {"abcdef", 6, "abcdef"}, {"abcdef", 0, "abcdef"}, {"日本語", 4, "日…"}, {"日本語", 5, "日本…"}, {"日本語", 1, "…"}} {
		if got := Fit(c.in, c.width); got != c.want {
			t.Errorf("Fit(%q, %d) = %q, want %q", c.in, c.width, got, c.want)
		}
	}
	if got := Pad("日", 4); got != "日  " {
		t.Errorf("%q", got)
	}
}

func TestWrap(t *testing.T) {
	for _, c := range []struct {
		in    string
		width int
		want  []string
	}{
		{"", 10, nil},
		{"one two  three\nfour", 9, []string{"one two", "three", "four"}},
		{"日本 語日 本語", 9, []string{"日本 語日", "本語"}},
		{"see https://example.com/a/long/path now", 10, []string{"see", "https://example.com/a/long/path", "now"}},
	} {
		if got := Wrap(c.in, c.width); !slices.Equal(got, c.want) {
			t.Errorf("Wrap(%q, %d) = %q, want %q", c.in, c.width, got, c.want)
		}
	}
	if got := Break("a  b 日本語c", 5); !slices.Equal(got, []string{"a  b ", "日本", "語c"}) {
		t.Errorf("%q", got)
	}
	if got := Break("", 5); !slices.Equal(got, []string{""}) {
		t.Errorf("%q", got)
	}
	if got := breakLines("ab 日本語日本語 c", 5, true); !slices.Equal(got, []string{"ab", "日本", "語日", "本語", "c"}) {
		t.Errorf("%q", got)
	}
}

func TestTable(t *testing.T) {
	for _, c := range []struct {
		name  string
		table Table
		want  string
	}{
		{"empty", Table{}, ""},
		{"two columns, no title", Table{
			Columns: make([]Column, 2),
			Rows:    [][]Cell{Cells("a", "one"), Cells("longer", "two"), Cells("bare")},
		}, "" +
			"a       one\n" +
			"longer  two\n" +
			"bare\n"},
		{"titles, numbers, wide characters", Table{
			Columns: []Column{{Title: "NAME"}, {Title: "TOOLS", Right: true}, {Title: "ABOUT"}},
			Rows:    [][]Cell{Cells("日本", "7", "x"), Cells("a", "12", "🎉 y"), Cells("abcdef", "", "z")},
		}, "" +
			"NAME    TOOLS  ABOUT\n" +
			"日本        7  x\n" +
			"a          12  🎉 y\n" +
			"abcdef         z\n"},
		{"the last column is cut", Table{
			Columns: []Column{{Whole: true}, {}}, Width: 20,
			Rows: [][]Cell{Cells("name", strings.Repeat("word ", 9)), Cells("n", "日本語日本語日本語")},
		}, "" +
			"name  word word wor…\n" +
			"n     日本語日本語…\n"},
		{"a wrapped column", Table{
			Columns: []Column{{Title: "S", Whole: true}, {Title: "WHY", Wrap: true}}, Width: 16,
			Rows: [][]Cell{Cells("gh", "the server exited at once"), Cells("b", "ok")},
		}, "" +
			"S   WHY\n" +
			"gh  the server\n" +
			"    exited at\n" +
			"    once\n" +
			"b   ok\n"},
		{"a long name moves its row", Table{
			Columns: []Column{{Whole: true, Most: 6}, {}}, Width: 14,
			Rows: [][]Cell{Cells("a", "1"), Cells("abcdefghij", "second"), Cells("abcdefghijklmnopq", "third")},
		}, "" +
			"a  1\n" +
			"abcdefghij  s…\n" +
			"abcdefghijklmnopq…\n"},
		{"an empty column takes no space", Table{
			Columns: make([]Column, 3), Rows: [][]Cell{Cells("a", "", "c"), Cells("b", "", "d")},
		}, "a  c\nb  d\n"},
		{"colour", Table{
			Columns: []Column{{Title: "A"}, {Title: "B"}}, Colour: true,
			Rows: [][]Cell{{{"x", Red}, {"y", Plain}}, {{"long", Green}, {"z", Plain}}},
		}, "" +
			"\x1b[1mA\x1b[0m     \x1b[1mB\x1b[0m\n" +
			"\x1b[31mx\x1b[0m     y\n" +
			"\x1b[32mlong\x1b[0m  z\n"},
		{"no room for the spare columns, and text below a row", Table{
			Columns: []Column{{Title: "NAME", Whole: true}, {Title: "FOR", Right: true, Whole: true}, {Title: "WAY", Spare: 2}, {Title: "CALLS", Right: true, Spare: 1}}, Width: 24,
			Rows:  [][]Cell{Cells("e\u0301te\u0301", "9.5 s", "http", "1"), Cells("🇩🇪 家", "1m02s", "stdio", "12")},
			Under: []string{"", "    why\n"},
		}, "" +
			"NAME     FOR  CALLS\n" +
			"e\u0301te\u0301    9.5 s      1\n" +
			"🇩🇪 家  1m02s     12\n" +
			"    why\n"},
		{"text of a peer", Table{
			Columns: make([]Column, 2), Rows: [][]Cell{Cells("a\x1b[2J\nb", "c\u202e")},
		}, `a\x1b[2J\nb  c\u202e` + "\n"},
	} {
		if got := c.table.Text(); got != c.want {
			t.Errorf("%s: got\n%s\nwant\n%s", c.name, got, c.want)
		}
	}
}

// FuzzTable checks that a table has no character that controls a terminal, that it has at
// least one line for each row, and that no line is wider than the terminal.
func FuzzTable(f *testing.F) {
	f.Add("a", "b\x1b[2J", "日本 語", uint8(12))
	f.Add("", "\xff\u202e", "word word", uint8(0))
	f.Fuzz(func(t *testing.T, a, b, c string, width uint8) {
		table := Table{
			Columns: []Column{{}, {Most: 10}, {Wrap: true}}, Width: int(width),
			Rows: [][]Cell{Cells(a, b, c), Cells(c, a, b)},
		}
		text := table.Text()
		if strings.Count(text, "\n") < 2 {
			t.Errorf("%q", text)
		}
		for l := range strings.Lines(text) {
			l = strings.TrimSuffix(l, "\n")
			if strings.ContainsFunc(l, func(r rune) bool { return !unicode.IsPrint(r) }) {
				t.Errorf("%q", l)
			}
			if limit := max(int(width), 3*narrowest+2*gap); width > 0 && Width(l) > limit {
				t.Errorf("%q takes %d cells, more than %d", l, Width(l), limit)
			}
		}
	})
}
