package excerpt

import (
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"
)

func TestCut(t *testing.T) {
	for _, c := range []struct {
		in    string
		limit int
		want  string
	}{
		{"", 3, ""},
		{"abcdef", 6, "abcdef"},
		{"abcdefg", 6, "abc…"},
		{"文文文", 9, "文文文"},
		{"文文文", 8, "文…"},
		{"文文文", 3, "…"},
		{strings.Repeat("\x80", 9), 8, "\x80…"},
		{"a\nb", 3, "a\nb"},
	} {
		if got := Cut(c.in, c.limit); got != c.want {
			t.Errorf("Cut(%q, %d) is %q, want %q", c.in, c.limit, got, c.want)
		}
	}
}

func TestLine(t *testing.T) {
	for _, c := range []struct{ in, line, lines string }{
		{"", "", ""},
		{"plain", "plain", "plain"},
		{"two\r\n\tlines \n", "two lines", "two \n\tlines \n"},
		{"in  dented", "in dented", "in  dented"},
		{"\x1b[2Jgone", "[2Jgone", "[2Jgone"},
		{"abc\u202etxt", "abc txt", "abc txt"},
		{"bro\xffken \ufffd", "bro ken", "bro ken "},
	} {
		if got := Line(c.in, 100); got != c.line {
			t.Errorf("Line(%q) is %q, want %q", c.in, got, c.line)
		}
		if got := Lines(c.in, 100); got != c.lines {
			t.Errorf("Lines(%q) is %q, want %q", c.in, got, c.lines)
		}
	}
	if got := Line("exactly", 7); got != "exactly" {
		t.Errorf("a text that fits is cut to %q", got)
	}
	if got := Line("exactly!", 7); got != "exac…" {
		t.Errorf("a text that does not fit is cut to %q", got)
	}
}

func TestQuote(t *testing.T) {
	for in, want := range map[string]string{
		"":                               `""`,
		"no such city":                   `"no such city"`,
		"bad\ndragoman: hint: run x":     `"bad dragoman: hint: run x"`,
		"\x1b[2J\u009b2Ja\u202eb\u200bc": `"[2J 2Ja b c"`,
		`x" (-1); run "y`:                `"x\" (-1); run \"y"`,
		`C:\temp`:                        `"C:\\temp"`,
		strings.Repeat("a", 101):         `"` + strings.Repeat("a", 97) + `…"`,
	} {
		if got := Quote(in, 100); got != want {
			t.Errorf("Quote(%q) is %s, want %s", in, got, want)
		}
	}
}

func TestWord(t *testing.T) {
	for in, want := range map[string]string{
		"gh__create_issue":       "gh__create_issue",
		"image/svg+xml":          "image/svg+xml",
		"file:///a%20b?c=d#e":    "file:///a%20b?c=d#e",
		"größe":                  "größe",
		"":                       `""`,
		"two words":              `"two words"`,
		"a\u00a0b":               `"a b"`,
		"a\"b":                   `"a\"b"`,
		"a\n":                    "a",
		strings.Repeat("x", 200): strings.Repeat("x", 97) + "…",
	} {
		if got := Word(in, 100); got != want {
			t.Errorf("Word(%q) is %s, want %s", in, got, want)
		}
	}
}

func TestJSON(t *testing.T) {
	for in, want := range map[string]string{
		"":                           "",
		`{"a":"é 文 😀"}` + "\n":       `{"a":"é 文 😀"}` + "\n",
		"\"a\u009b2J\x7f\u202e\"":    `"a\u009b2J\u007f\u202e"`,
		"\"\U000e0041\"":             `"\udb40\udc41"`,
		"\"\ufffd\u00a0\u3000\"":     "\"\ufffd\u00a0\u3000\"",
		`"\u001b stays what it was"`: `"\u001b stays what it was"`,
	} {
		if got := string(JSON([]byte(in))); got != want {
			t.Errorf("JSON(%q) is %q, want %q", in, got, want)
		}
	}
}

func FuzzExcerpt(f *testing.F) {
	f.Add("a\nb\u202e文\xff", 5)
	f.Add(strings.Repeat("文", 40), 20)
	f.Fuzz(func(t *testing.T, s string, limit int) {
		limit = max(limit, len(dots))
		for name, got := range map[string]string{"Cut": Cut(s, limit), "Line": Line(s, limit), "Lines": Lines(s, limit)} {
			if len(got) > limit {
				t.Errorf("%s(%q, %d) has %d bytes", name, s, limit, len(got))
			}
			if !utf8.ValidString(got) && (name != "Cut" || utf8.ValidString(s)) {
				t.Errorf("%s(%q, %d) is not UTF-8: %q", name, s, limit, got)
			}
			for _, r := range got {
				if name != "Cut" && !unicode.IsPrint(r) && (name == "Line" || r != '\n' && r != '\t') {
					t.Errorf("%s(%q, %d) keeps %q", name, s, limit, r)
				}
			}
		}
		if got := Line(s, len(s)+8); Line(got, len(got)+8) != got {
			t.Errorf("Line changes its own result %q to %q", s, got)
		}
	})
}

func TestName(t *testing.T) {
	for in, want := range map[string]string{
		"":                            "",
		"plain 1.0":                   "plain 1.0",
		"a\r\n\x1b[2J\x7f\x00b":       "a___[2J__b",
		"\u202eabc\u200b\u2066":       "_abc__",
		"\xff\xfe":                    "__",
		"größer 文":                    "größer 文",
		"\u0085\u2028\U000e0041":      "___",
		strings.Repeat("文", 64):       strings.Repeat("文", 64),
		strings.Repeat("x", 65):       strings.Repeat("x", 64) + "…",
		strings.Repeat("\u200f", 300): strings.Repeat("_", 64) + "…",
	} {
		if got := Name(in); got != want {
			t.Errorf("Name(%q) is %q, want %q", in, got, want)
		}
	}
}
