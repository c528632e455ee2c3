// Package origins holds what the first users of each handshake wrote down, and checks that each
// statement that we meet names a test that exists.
package origins

import (
	"fmt"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// originTables has the tables of origins.md, with the number of statements of each.
var originTables = []struct {
	letter string
	rows   int
}{{"M", 33}, {"X", 35}, {"O", 37}, {"R", 40}, {"H", 28}}

// originMet has the values of the column "met". A row with one of the first two values needs a test.
var originMet = []string{"yes", "partly", "no", "does not apply"}

var (
	originRow  = regexp.MustCompile(`^\| ([MXORH]\d+) \| [^|]+ \| ([^|]+) \| ([^|]+) \| ([^|]+) \|$`)
	originTest = regexp.MustCompile(`^([a-z/]+): (Test\w+)(?:/([\w-]+))?$`)
	quotedWord = regexp.MustCompile("`([^`]+)`")
	testFunc   = regexp.MustCompile(`(?m)^func (Test\w+)\(t \*testing\.T\)`)
)

// TestOrigins checks origins.md: each statement has one row, each row that is met at least
// partly names a test, the tests, transcripts and examples exist, and the counts are right.
func TestOrigins(t *testing.T) {
	page, err := os.ReadFile("origins.md")
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	counts := map[string]map[string]int{"all": {}}
	for line := range strings.Lines(string(page)) {
		m := originRow.FindStringSubmatch(strings.TrimSpace(line))
		if m == nil {
			continue
		}
		id, met, shown, held := m[1], m[2], m[3], m[4]
		if seen[id] {
			t.Errorf("%s is twice on the page", id)
		}
		seen[id] = true
		if counts[id[:1]] == nil {
			counts[id[:1]] = map[string]int{}
		}
		counts[id[:1]][met]++
		counts["all"][met]++
		switch at := slices.Index(originMet, met); {
		case at < 0:
			t.Errorf("%s: %q is not one of %q", id, met, originMet)
		case at < 2:
			for _, name := range strings.Split(held, ", ") {
				if problem := missingTest(strings.Trim(name, "`")); problem != "" {
					t.Errorf("%s: %s", id, problem)
				}
			}
		case held != "-":
			t.Errorf("%s is not met, but names a test", id)
		}
		for _, script := range quotedWord.FindAllStringSubmatch(shown, -1) {
			if strings.HasPrefix(script[1], "examples/") && !exists(script[1]) {
				t.Errorf("%s: there is no %s", id, script[1])
			}
		}
	}
	count := func(name, key string, rows int) {
		c := counts[key]
		want := fmt.Sprintf("| %s | %d | %d | %d | %d | %d |\n", name, rows, c["yes"], c["partly"], c["no"], c["does not apply"])
		if !strings.Contains(string(page), want) {
			t.Errorf("the table of counts lacks %s", want)
		}
	}
	all := 0
	for _, table := range originTables {
		for i := range table.rows {
			if id := fmt.Sprint(table.letter, i+1); !seen[id] {
				t.Errorf("%s is missing", id)
			}
		}
		count(table.letter, table.letter, table.rows)
		all += table.rows
	}
	if len(seen) != all {
		t.Errorf("%d statements, want %d", len(seen), all)
	}
	count("all", "all", all)
	if met := counts["all"]["yes"]; met < 155 {
		t.Errorf("%d statements are met, want at least 155", met)
	}
}

// missingTest returns what is wrong with the name of a test in origins.md, or "" if the test
// exists. A name is a transcript, or a package and a test, such as "codex: TestOffers".
func missingTest(name string) string {
	if strings.HasPrefix(name, "testdata/transcripts/") {
		if !exists(name) {
			return "there is no " + name
		}
		return ""
	}
	m := originTest.FindStringSubmatch(name)
	if m == nil {
		return fmt.Sprintf("%q is not the name of a test or a transcript", name)
	}
	dir := m[1]
	if dir == "examples" {
		if !exists(path.Join(dir, m[3], "run.sh")) {
			return fmt.Sprintf("there is no example %q", m[3])
		}
	} else if !strings.HasPrefix(dir, "test/") {
		for _, pattern := range []string{"internal/" + dir, "internal/*/" + dir} {
			if found, _ := filepath.Glob(filepath.Join("..", "..", filepath.FromSlash(pattern))); len(found) > 0 {
				dir, _ = filepath.Rel(filepath.Join("..", ".."), found[0])
			}
		}
	}
	if m[2] == "TestScripts" && !exists(path.Join(dir, "testdata", "script", m[3]+".txtar")) {
		return fmt.Sprintf("there is no script %q; name it as TestScripts/NAME", m[3])
	}
	files, _ := filepath.Glob(filepath.Join("..", "..", filepath.FromSlash(dir), "*_test.go"))
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return err.Error()
		}
		for _, f := range testFunc.FindAllSubmatch(text, -1) {
			if string(f[1]) == m[2] {
				return ""
			}
		}
	}
	return fmt.Sprintf("%s has no test %s", dir, m[2])
}

// exists reports whether a file matches a path or a pattern. Paths are relative to the root of the
// repository.
func exists(name string) bool {
	found, err := filepath.Glob(filepath.Join("..", "..", filepath.FromSlash(name)))
	return err == nil && len(found) > 0
}
