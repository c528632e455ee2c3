package console

import (
	"html"
	"regexp"
	"strings"
	"testing"
	"unicode"

	"github.com/dragoman-mcp/dragoman/internal/base/excerpt"
)

// TestTM21_PeerText checks that text from a peer is inert, and that invisible characters in the text become
// visible.
func TestTM21_PeerText(t *testing.T) {
	for _, tt := range []struct{ name, text, want string }{
		{"plain", "Claude Code 2.1", "Claude Code 2.1"},
		{"letters", "zusammenfassung_für_日本語 שלום", "zusammenfassung_für_日本語 שלום"},
		{"script", `<script>alert(1)</script>"'`, "&lt;script&gt;alert(1)&lt;/script&gt;&#34;&#39;"},
		{"closing", "</bdi><img src=x onerror=alert(1)>", "&lt;/bdi&gt;&lt;img src=x onerror=alert(1)&gt;"},
		{"ANSI", "\x1b[31mred", `<span class="inv" title="escape">ESC</span>[31mred`},
		{"override", "a\u202eb", `a<span class="inv" title="right-to-left override">U+202E</span>b`},
		{"zero width", "a\u200bb", `a<span class="inv" title="zero width space">U+200B</span>b`},
		{"tag", "a\U000e0041", `a<span class="inv" title="tag character for A">U+E0041</span>`},
		{"tag of a bracket", "\U000e003c", `<span class="inv" title="tag character for &lt;">U+E003C</span>`},
		{"line", "a\nb\tc", `a<span class="inv" title="line feed">LF</span>b<span class="inv" title="tab">TAB</span>c`},
		{"bytes", "a\xffb", `a<span class="inv" title="a byte that is not UTF-8">xFF</span>b`},
		{"filler", "\u3164", `<span class="inv" title="invisible character">U+3164</span>`},
		{"private", "\ue000", `<span class="inv" title="private use">U+E000</span>`},
		{"hard space", "a\u00a0b", `a<span class="inv" title="no-break space">NBSP</span>b`},
		{"emoji", "☀\ufe0f", "☀\ufe0f"},
		{"selector", "a\ufe0f", `a<span class="inv" title="invisible character">U+FE0F</span>`},
		{"accents", "e\u0301\u0302", "e\u0301\u0302"},
	} {
		if got, want := string(peer(tt.text)), "<bdi>"+tt.want+"</bdi>"; got != want {
			t.Errorf("%s: %s\nwant %s", tt.name, got, want)
		}
	}
	if got := string(peerBlock("a\n\tb\r")); got != "<bdi>a\n\tb<span class=\"inv\" title=\"carriage return\">CR</span></bdi>" {
		t.Errorf("lines: %s", got)
	}
}

// TestPeerTextIsBounded checks floods of marks, of invisible characters and of text.
func TestPeerTextIsBounded(t *testing.T) {
	if got := string(peer("z" + strings.Repeat("\u0336", 500) + "y")); got != "<bdi>z\u0336\u0336\u0336\u0336"+`<span class="faint" title="203 more bytes">…</span>`+"</bdi>" &&
		!strings.Contains(got, "+395") {
		t.Errorf("marks: %s", got)
	}
	if got := string(peer("z" + strings.Repeat("\u0336", 50) + "y")); got != "<bdi>z\u0336\u0336\u0336\u0336"+`<span class="inv" title="combining marks">+46</span>y</bdi>` {
		t.Errorf("marks: %s", got)
	}
	if got := string(peer(strings.Repeat("\u200b", 40) + "y")); strings.Count(got, "U+200B") != mostBoxes || !strings.Contains(got, ">+28<") {
		t.Errorf("boxes: %s", got)
	}
	if got := string(peer(strings.Repeat("x", 10_000))); len(got) > 600 || !strings.Contains(got, "9600 more bytes") {
		t.Errorf("%d bytes: %s", len(got), got)
	}
}

// FuzzPeerText checks that a browser sees only text and the console's own elements, and no
// invisible characters.
func FuzzPeerText(f *testing.F) {
	for _, s := range []string{"", "a", "<b>", "\x1b[0m", "\u202e", "&lt;", "\xff", "\U000e0041"} {
		f.Add(s)
	}
	ours := regexp.MustCompile(`</?bdi>|<span class="(inv|faint)" title="[^"<>]*">|</span>`)
	f.Fuzz(func(t *testing.T, s string) {
		for _, got := range []string{string(peer(s)), string(peerBlock(s))} {
			rest := ours.ReplaceAllString(got, "")
			if strings.ContainsAny(rest, "<>\"'") {
				t.Errorf("%q: %s", s, got)
			}
			var before rune
			for _, r := range html.UnescapeString(rest) {
				if r != '\n' && r != '\t' && !unicode.In(r, unicode.Mn, unicode.Me) && excerpt.Invisible(r, before) {
					t.Errorf("%q: %U is invisible in %s", s, r, got)
				}
				before = r
			}
		}
	})
}
