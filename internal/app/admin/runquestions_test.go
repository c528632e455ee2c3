package admin

import (
	"strings"
	"testing"

	"github.com/dragoman-mcp/dragoman/internal/base/excerpt"
	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
)

// TestLongTextsOfARunAreCutBeforeTheSearch checks that a long text is cut before it is searched for
// secrets. If the cut splits a secret, no part of the secret is shown.
func TestLongTextsOfARunAreCutBeforeTheSearch(t *testing.T) {
	t.Parallel()
	const head, token = "ghp_abcdefghijklmnopqrstuvwx ", "eyJhbGciOiJub25l"
	// The masks are much shorter than the secrets, so the page could show the end of the cut text.
	short := strings.Repeat(head, maxCleaned/len(head)-50)
	long := short + strings.Repeat("-", maxCleaned-len(short)-1000) + " " + token + strings.Repeat("A", 4000) + "." + strings.Repeat("B", 4000) + ".C" + strings.Repeat(" more", 1<<17)
	for method, params := range map[string]string{
		"notifications/message":  `{"level":"info","data":"` + long + `"}`,
		"notifications/progress": `{"progressToken":1,"progress":1,"message":"` + long + `"}`,
		"elicitation/create":     `{"mode":"url","url":"https://example.com/","message":"` + long + `"}`,
	} {
		head := `{"jsonrpc":"2.0",`
		if method == "elicitation/create" {
			head += `"id":1,`
		}
		m, err := jsonrpc.Scan([]byte(head+`"method":"`+method+`","params":`+params+`}`), jsonrpc.Limits{})
		if err != nil {
			t.Fatal(err)
		}
		x := &run{events: NewRing[runEvent](10, 1<<20)}
		longest := 0
		x.hear(m, func(s string) string {
			longest = max(longest, len(s))
			return excerpt.MaskSecrets(s)
		})
		if longest > maxCleaned {
			t.Errorf("%s: %d bytes were searched", method, longest)
		}
		var shown []string
		for _, l := range x.show.Logs {
			shown = append(shown, l.Text)
		}
		if x.show.Progress != nil {
			shown = append(shown, x.show.Progress.Message)
		}
		for _, q := range x.questions {
			shown = append(shown, q.Message)
		}
		if len(shown) != 1 {
			t.Errorf("%s: %d texts", method, len(shown))
		}
		for _, s := range shown {
			if !strings.HasPrefix(s, "*** ***") || strings.Contains(s, token) || !strings.HasSuffix(s, "…") {
				t.Errorf("%s shows %q", method, s)
			}
		}
	}
}

// TestCleanHead checks texts around the limit of the search for secrets.
func TestCleanHead(t *testing.T) {
	for size, want := range map[int]int{0: 0, maxCleaned: maxCleaned, maxCleaned + 1: maxCleaned - cutSecret + len("…"), 1 << 20: maxCleaned - cutSecret + len("…")} {
		if got := cleanHead(strings.Repeat(" ", size), excerpt.MaskSecrets); len(got) != want {
			t.Errorf("%d bytes became %d, want %d", size, len(got), want)
		}
	}
	if got := cleanHead(strings.Repeat("ghp_abcdefghijklmnopqrstuvwx", 10_000), func(string) string { return "***" }); got != "…" {
		t.Errorf("the end of a text is shown: %q", got)
	}
}
