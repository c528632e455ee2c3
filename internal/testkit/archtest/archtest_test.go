package archtest

import (
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/rogpeppe/go-internal/txtar"

	"github.com/dragoman-mcp/dragoman/internal/base/logcode"
)

// rules has all rules. The key of a rule is the name of its fixture.
var rules = map[string]func(*Tree) []string{
	"contracts":     Contracts,
	"dates":         Dates,
	"directions":    Directions,
	"fieldtests":    func(t *Tree) []string { return FieldTests(t, fieldTests) },
	"gostatements":  func(t *Tree) []string { return GoStatements(t, goStatements) },
	"guests":        func(t *Tree) []string { return Guests(t, guests) },
	"initfunctions": func(t *Tree) []string { return InitFunctions(t, initFunctions) },
	"logcodes":      func(t *Tree) []string { return LogCodes(t, logCodes(), logForwarders) },
	"logkeys":       LogKeys,
	"locks":         func(t *Tree) []string { return Locks(t, lockExceptions) },
	"names":         Names,
	"sizes":         Sizes,
	"waitgroups":    func(t *Tree) []string { return WaitGroupFields(t, waitGroupRooms, waitGroupFields) },
	"wirejson":      WireJSON,
}

// logCodes returns the table of package logcode as LogCode values.
func logCodes() (all []LogCode) {
	for _, e := range logcode.Table() {
		all = append(all, LogCode{e.Code, e.Message})
	}
	return all
}

// skipUnderRace skips a test that reads the whole tree in one goroutine. The race detector
// finds nothing in such a test, and makes it twenty times as slow. `make test` runs these
// tests without the detector.
func skipUnderRace(t *testing.T) {
	t.Helper()
	if raceEnabled {
		t.Skip("one goroutine reads the tree: run the test without the race detector")
	}
}

func TestTheTreeObeys(t *testing.T) {
	skipUnderRace(t)
	tree, err := Load(os.DirFS(filepath.Join("..", "..", "..")))
	if err != nil {
		t.Fatal(err)
	}
	if len(tree.Files) < 10 {
		t.Fatalf("only %d files were found", len(tree.Files))
	}
	for name, rule := range rules {
		t.Run(name, func(t *testing.T) {
			for _, breach := range rule(tree) {
				t.Error(breach)
			}
		})
	}
}

// TestEachRuleCanFail checks each rule against testdata/NAME.txtar, a small tree that breaks
// the rule. The file "want" in the tree has one line for each expected breach, in order. In a line,
// "..." matches any text.
func TestEachRuleCanFail(t *testing.T) {
	for name, rule := range rules {
		t.Run(name, func(t *testing.T) {
			tree, want := fixture(t, name)
			// The fixtures have their own lists of exceptions.
			switch name {
			case "gostatements":
				rule = func(t *Tree) []string { return GoStatements(t, fixtureExceptions) }
			case "fieldtests":
				rule = func(t *Tree) []string {
					return FieldTests(t, map[int]string{1: "one", 2: "two", 3: "three"})
				}
			case "waitgroups":
				rule = func(t *Tree) []string {
					return WaitGroupFields(t, []string{"internal/relay/conn"}, fixtureExceptions)
				}
			case "locks":
				rule = func(t *Tree) []string {
					return Locks(t, map[string]string{
						"internal/relay/conn/allowed.go: box.allowed: the callback end is called": "the fixture says so",
						"internal/relay/conn/unused.go: box.unused: a line is logged":             "nothing needs this",
					})
				}
			case "logcodes":
				rule = func(t *Tree) []string {
					return LogCodes(t, []LogCode{{"known", "a known message"}, {"gone", "a message that is gone"}, {"own", ""}, {"unused", ""}, {"notSnake", ""}}, fixtureExceptions)
				}
			case "initfunctions":
				rule = func(t *Tree) []string { return InitFunctions(t, fixtureExceptions) }
			}
			got := rule(tree)
			if len(want) == 0 {
				t.Fatal("the rule finds no breach in the fixture")
			}
			for i := range max(len(got), len(want)) {
				switch {
				case i >= len(got):
					t.Errorf("not found: %s", want[i])
				case i >= len(want):
					t.Errorf("unexpected: %s", got[i])
				case !matches(got[i], want[i]):
					t.Errorf("found  %s\nwanted %s", got[i], want[i])
				}
			}
		})
	}
}

var fixtureExceptions = map[string]string{
	"internal/relay/conn/allowed.go": "the fixture says so",
	"internal/relay/conn/unused.go":  "nothing in it needs this",
}

func fixture(t *testing.T, name string) (tree *Tree, want []string) {
	t.Helper()
	archive, err := txtar.ParseFile(filepath.Join("testdata", name+".txtar"))
	if err != nil {
		t.Fatal(err)
	}
	files := fstest.MapFS{}
	for _, f := range archive.Files {
		switch {
		case f.Name == "want":
			want = strings.Split(strings.TrimSpace(string(f.Data)), "\n")
		case name == "sizes": // this rule counts lines, so the test generates as many as the fixture says
			files[f.Name] = &fstest.MapFile{Data: long(string(f.Data))}
		default:
			files[f.Name] = &fstest.MapFile{Data: f.Data}
		}
	}
	tree, err = Load(fs.FS(files))
	if err != nil {
		t.Fatal(err)
	}
	return tree, want
}

func long(head string) []byte {
	lines := strings.Split(strings.TrimSuffix(head, "\n"), "\n")
	for len(lines) < fileAtMost+1 {
		lines = append(lines, "// more")
	}
	return []byte(strings.Join(lines, "\n") + "\n")
}

func matches(got, want string) bool {
	for part := range strings.SplitSeq(want, "...") {
		i := strings.Index(got, part)
		if i < 0 {
			return false
		}
		got = got[i+len(part):]
	}
	return true
}

func TestEveryFixtureHasItsRule(t *testing.T) {
	found, err := filepath.Glob(filepath.Join("testdata", "*.txtar"))
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range found {
		if name := strings.TrimSuffix(filepath.Base(f), ".txtar"); rules[name] == nil {
			t.Errorf("%s is a fixture without a rule", f)
		}
	}
	if len(found) != len(rules) {
		t.Errorf("%d fixtures for %d rules", len(found), len(rules))
	}
}

// TestLoadLeavesOut checks which files Load ignores.
func TestLoadLeavesOut(t *testing.T) {
	files := fstest.MapFS{
		"a/a.go":             {Data: []byte("package a\n")},
		"a/testdata/x.go":    {Data: []byte("not Go")},
		".cache/x.go":        {Data: []byte("not Go")},
		"_old/x.go":          {Data: []byte("not Go")},
		"nested/go.mod":      {Data: []byte("module nested\n")},
		"nested/x.go":        {Data: []byte("not Go")},
		"a/a_windows.go":     {Data: []byte("//go:build windows\n\npackage a\n")},
		"a/words.txt":        {Data: []byte("words")},
		"a/deeper/x_test.go": {Data: []byte("package deeper\n")},
	}
	tree, err := Load(files)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, f := range tree.Files {
		got = append(got, f.Path)
	}
	slices.Sort(got)
	want := []string{"a/a.go", "a/a_windows.go", "a/deeper/x_test.go"}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	if dirs := tree.packages(); !slices.Equal(dirs, []string{"a"}) {
		t.Errorf("packages: %q", dirs)
	}
}
