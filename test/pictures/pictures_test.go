package main

import (
	"strings"
	"testing"
)

// shown returns the text of a screen.
func shown(s *screen) string {
	s.trim()
	var b strings.Builder
	for _, l := range s.lines {
		for _, c := range l {
			b.WriteString(c.text)
		}
		b.WriteByte('\n')
	}
	return b.String()
}

func TestScreen(t *testing.T) {
	for out, want := range map[string]string{
		"a\r\nb":                           "a\nb\n",
		"\x1b[31mred\x1b[0m plain":         "red plain\n",
		"working 1\rworking 2":             "working 2\n",
		"working\r\x1b[Kdone":              "done\n",
		"a\tb":                             "a       b\n",
		"\r\n\r\nx  \r\n\r\n":              "x\n",
		"one\r\ntwo\x1b[1A\rONE":           "ONE\ntwo\n",
		strings.Repeat("x", columns) + "y": strings.Repeat("x", columns) + "\ny\n",
		"日本x":                              "日本x\n",
		"cut off in a sequence \x1b[3":     "cut off in a sequence\n",
	} {
		var s screen
		s.write(out)
		if got := shown(&s); got != want {
			t.Errorf("%q shows %q, want %q", out, got, want)
		}
	}
}

func TestPictureOfScreen(t *testing.T) {
	var s screen
	s.write("\x1b[1m$ run <x>\x1b[0m\r\n  {\"a\": 12 ms}")
	s.trim()
	for _, th := range themes {
		got := drawTerminal(th, "a & b", &s, 40)
		for _, want := range []string{"<title>a &amp; b</title>", `font-weight="600">$ run &lt;x&gt;</text>`, `x="32.8"`} {
			if !strings.Contains(got, want) {
				t.Errorf("no %s in\n%s", want, got)
			}
		}
		other := strings.ReplaceAll(got, "12 ms", "1.5 s")
		if textOf(got) != textOf(other) {
			t.Errorf("%q and %q differ", textOf(got), textOf(other))
		}
		if textOf(got) == textOf(strings.ReplaceAll(got, "run", "ran")) {
			t.Error("a change of a word is not detected")
		}
	}
}

func TestReadGrid(t *testing.T) {
	const page = "x\n### With\n\n| c | A | B |\n|---|---|---|\n| A | all | nothing |\n| B | all but F | all (R) |\n\ntext\n"
	g, err := readGrid(page, "With")
	if err != nil || len(g.rows) != 2 || g.rows[1].cells[0] != "all but F" || g.servers[1] != "B" {
		t.Errorf("got %+v, %v", g, err)
	}
	if _, err := readGrid(page, "Without"); err == nil {
		t.Error("a heading that does not exist is found")
	}
	if _, err := readGrid(strings.Replace(page, "| B | all but F | all (R) |\n", "", 1), "With"); err == nil {
		t.Error("half a table is accepted")
	}
}
