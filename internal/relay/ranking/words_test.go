package ranking

import (
	"slices"
	"strings"
	"testing"
)

func TestSplit(t *testing.T) {
	for _, c := range []struct {
		in    string
		parts bool
		want  string
	}{
		{"list_issues.by-label/v2", true, "list issues by label v2"},
		{"listIssues", true, "listissues list issues"},
		{"listIssues", false, "listissues"},
		{"HTMLParser", true, "htmlparser html parser"},
		{"getURLs", true, "geturls get urls"},
		{"OAuth2Token", true, "oauth2token auth token"},
		{"base64", true, "base64 base 64"},
		{"k8s s3", true, "k8s s3"},
		{"don't list the server's files", false, "dont list the servers files"},
		{"获取当前日期 now", false, "获取 取当 当前 前日 日期 now"},
		{"図a図", true, "図 a 図"},
		{"Datei löschen ÄÖÜ", false, "datei löschen äöü"},
		{"", true, ""},
		{"__", true, ""},
		{strings.Repeat("a", 100), true, strings.Repeat("a", maxWord)},
	} {
		var got []string
		s := splitter{parts: c.parts, yield: func(word []byte, _ bool) { got = append(got, string(word)) }}
		s.split(c.in)
		if want := strings.Fields(c.want); !slices.Equal(got, want) {
			t.Errorf("%q: %q, want %q", c.in, got, want)
		}
	}
}

func TestSentence(t *testing.T) {
	for in, want := range map[string]string{
		"Reads a file. Only text.":                        "Reads a file.",
		"Reads files (e.g. a.txt or v1.2) now. And then.": "Reads files (e.g. a.txt or v1.2) now.",
		"Wrapped\nin the middle. Rest":                    "Wrapped\nin the middle.",
		"No stop\n\nNext paragraph.":                      "No stop",
		"Options:\n- one\n- two":                          "Options:",
		"  # Title\n\ntext":                               "Title",
		"读取文件。然后。":                                        "读取文件。",
		"":                                                "",
	} {
		got, rest := sentence(in)
		if got != want {
			t.Errorf("%q: %q, want %q", in, got, want)
		}
		if !strings.HasSuffix(in, got+rest) {
			t.Errorf("%q is not the end of %q", got+rest, in)
		}
	}
}
