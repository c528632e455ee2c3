package doctor

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "write the generated files")

// TestTheTableIsWhole checks that each code of a finding is in the table once and is used in the
// source. The texts of the table must be whole sentences.
func TestTheTableIsWhole(t *testing.T) {
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	literal := regexp.MustCompile(`([A-Za-z]+)\s+= "(DRG-[A-Z0-9-]+)"`)
	names := map[string]string{} // the name of the Go constant, by code
	var source strings.Builder
	for _, f := range files {
		b, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range literal.FindAllStringSubmatch(string(b), -1) {
			if names[m[2]] != "" {
				t.Errorf("%s has two names", m[2])
			}
			names[m[2]] = m[1]
		}
		if !strings.HasPrefix(f, "table") && f != "hurt.go" && !strings.HasSuffix(f, "_test.go") {
			source.Write(b)
		}
	}
	seen := map[string]bool{}
	for _, c := range Conditions() {
		if seen[c.Code] {
			t.Errorf("%s is in the table twice", c.Code)
		}
		seen[c.Code] = true
		if !regexp.MustCompile(`\b` + names[c.Code] + `\b`).MatchString(source.String()) {
			t.Errorf("no code reports %s (%s)", c.Code, names[c.Code])
		}
		for _, s := range []string{c.Meaning, c.Fix, c.Bridged} {
			if !strings.HasSuffix(s, ".") || s[:1] != strings.ToUpper(s[:1]) {
				t.Errorf("%s: %q is not a sentence", c.Code, s)
			}
		}
		if c.Title == "" || strings.HasSuffix(c.Title, ".") || c.Level != Error && c.Level != Warning && c.Level != Info {
			t.Errorf("%s: title %q, level %q", c.Code, c.Title, c.Level)
		}
	}
	for code := range names {
		if !seen[code] {
			t.Errorf("%s is in no table", code)
		}
	}
}

func TestLookup(t *testing.T) {
	for _, s := range []string{"DRG-STDOUT-NOISE", "drg-stdout-noise", " stdout-noise"} {
		if c, ok := Lookup(s); !ok || c.Code != Noise {
			t.Errorf("%q is %q", s, c.Code)
		}
	}
	if _, ok := Lookup("DRG-NOTHING"); ok {
		t.Error("a code that does not exist is found")
	}
}

// TestFindingsPage compares docs/findings.md with the tables, and writes it with
// -update.
func TestFindingsPage(t *testing.T) {
	var b bytes.Buffer
	b.WriteString("<!-- Code generated from internal/workbench/doctor/table*.go by `go test ./internal/workbench/doctor -update`; DO NOT EDIT. -->\n\n# Findings\n\n" +
		"This page lists the findings of `dragoman doctor`: problems and facts that this command can report about a server or a client. Each finding has a code. The meaning of a code never changes. `dragoman doctor --explain CODE` prints the text of one finding. The [glossary](glossary.md) explains terms such as *dialect*, *handshake* and *manifest*.\n\n" +
		"An *error* causes failures or lost data in clients that follow the specification. A *warning* causes failures in some clients. An *info* is a fact and not a problem. Doctor shows infos only with `--all`.\n\n" +
		"In each section, *Meanwhile* says what Dragoman does until the problem is fixed. *Affects* names clients that use the feature with the problem. Clients that are not named may be affected too.\n")
	for _, part := range []struct {
		title, subject string
		all            []Condition
	}{{"In servers", "server", conditionsOfServers}, {"In servers, over HTTP", "server", conditionsOfHTTP}, {"In the sign-in to servers", "server", conditionsOfSignIn}, {"In clients", "client", conditionsOfClients}} {
		if len(part.all) == 0 {
			continue
		}
		fmt.Fprintf(&b, "\n## %s\n\n| code | level | the %s |\n|---|---|---|\n", part.title, part.subject)
		for _, c := range part.all {
			fmt.Fprintf(&b, "| [%s](#%s) | %s | %s |\n", c.Code, strings.ToLower(c.Code), c.Level, c.Title)
		}
		for _, c := range part.all {
			fmt.Fprintf(&b, "\n### %s\n%s: the %s %s.\n\n- **Means:** %s\n- **Fix:** %s\n- **Meanwhile:** %s\n", c.Code, strings.ToUpper(string(c.Level[:1]))+string(c.Level[1:]), part.subject, c.Title, c.Meaning, c.Fix, c.Bridged)
			if h := c.HurtsText(); h != "" {
				fmt.Fprintf(&b, "- **Affects:** %s%s.\n", strings.ToUpper(h[:1]), h[1:])
			}
		}
	}
	servers, err := os.ReadFile(filepath.Join("testdata", "servers.md"))
	if err != nil {
		t.Fatal(err)
	}
	b.WriteString("\n")
	b.Write(servers)
	path := filepath.Join("..", "..", "..", "docs", "findings.md")
	if *update {
		if err := os.WriteFile(path, b.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	old, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(string(old), b.String()); d != "" {
		t.Errorf("docs/findings.md is stale; run `go test ./internal/workbench/doctor -update`:\n%s", d)
	}
}

// TestVeil checks that evidence is short and contains no secrets or control characters.
func TestVeil(t *testing.T) {
	for in, want := range map[string]string{
		"a \x1b[31mred\x1b[0m line\nand more":            "a red line and more",
		`{"token":"abc","x":"hush-hush"}`:                `{"token":"***","x":"***"}`,
		"Authorization: Bearer abcdef":                   "Authorization: Bearer ***",
		"key ghp_0123456789abcdefghij and sk-1234":       "key *** and sk-1234",
		strings.Repeat("x", 400):                         strings.Repeat("x", shown) + "…",
		strings.Repeat("y", shown-3) + " hush-hush tail": strings.Repeat("y", shown-3) + " **…",
		"bad \xff bytes\u202e":                           `bad \xff bytes\u202e`,
	} {
		if got := redact([]byte(in), knownOf([]string{"hush-hush", "no"})); got != want {
			t.Errorf("%q\ngot    %q\nwanted %q", in, got, want)
		}
	}
}
