package cli

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// maxSentence is the longest sentence in a help text or a message, in words.
const maxSentence = 25

// unplain lists phrases that help texts and messages do not use, with the usual wording.
var unplain = []struct{ pattern, instead string }{
	{`standard (input|output|error|streams?)`, "stdin, stdout, stderr or stdio"},
	{`contradicts? each other`, "cannot be used together"},
	{`is not possible`, "say what is allowed"},
	{`stands? (in|at|on|after|before|beside|for)`, "is, follows or precedes"},
	{`(is|are) (given back|told|heard|looked at|amounts? to)`, "the active verb"},
	{`so long`, "this long"},
	{`all the same`, "anyway"},
	{`anew`, "again"},
	{`nobody|whoever|whatever`, "name the subject"},
	{`(is|are) no [a-z]+`, "is not a …"},
	{`what (stands|follows|differs|cannot|is not|is no)`, "name the thing"},
	{`the whole of it`, "everything"},
	{`write down`, "record"},
	{`until you interrupt`, "until you press Ctrl-C"},
	{`in good order`, "gracefully"},
	{`demonstration`, "demo"},
	{`whose`, "with, or of"},
}

// inverted matches a sentence that begins with a relative clause instead of its subject.
var inverted = regexp.MustCompile(`^(What|Whatever|Whoever|Whose|Of which|Without more than)\b[^?]*$`)

// codeSpan matches code or a formatted value, which counts as one word of a sentence.
var codeSpan = regexp.MustCompile("`[^`]*`|\\$\\{\\w+\\}|%[+#]?[a-z]")

// sentences splits a text into sentences. The end of a paragraph or of a list item also ends a
// sentence.
func sentences(text string) (out []string) {
	text = codeSpan.ReplaceAllString(text, "X")
	text = regexp.MustCompile(`\n\s*\n|\n\s*- `).ReplaceAllString(text, "\x00")
	for _, block := range strings.Split(text, "\x00") {
		block = strings.Join(strings.Fields(block), " ")
		for block != "" {
			end := regexp.MustCompile(`[.!?]"? `).FindStringIndex(block)
			if end == nil {
				end = []int{len(block), len(block)}
			}
			out = append(out, strings.TrimSpace(block[:end[1]]))
			block = block[end[1]:]
		}
	}
	return out
}

// notPlain returns the problems with the wording of a text. It returns nil if there are none.
func notPlain(text string) (faults []string) {
	for _, s := range sentences(text) {
		if n := len(strings.Fields(s)); n > maxSentence {
			faults = append(faults, strconv.Itoa(n)+" words, want at most "+strconv.Itoa(maxSentence)+": "+s)
		}
		if inverted.MatchString(s) {
			faults = append(faults, "begins with a relative clause: "+s)
		}
	}
	plain := strings.Join(strings.Fields(text), " ")
	for _, u := range unplain {
		if found := regexp.MustCompile(`(?i)\b(` + u.pattern + `)\b`).FindString(plain); found != "" {
			faults = append(faults, strconv.Quote(found)+", write "+u.instead+": "+plain)
		}
	}
	return faults
}

// TestPlainHelp checks the wording of every help text, including those of hidden flags and
// commands.
func TestPlainHelp(t *testing.T) {
	var walk func(c *cobra.Command)
	walk = func(c *cobra.Command) {
		if c.Name() == "help" || c.HasParent() && c.Parent().Name() == "completion" {
			return // skip cobra's own texts
		}
		texts := map[string]string{"Short": c.Short, "Long": c.Long}
		for l := range strings.Lines(c.Example) {
			if l = strings.TrimSpace(l); strings.HasPrefix(l, "#") {
				texts["Example: "+l] = strings.TrimPrefix(l, "# ")
			}
		}
		c.LocalFlags().VisitAll(func(f *pflag.Flag) { texts["--"+f.Name] = f.Usage })
		for where, text := range texts {
			for _, fault := range notPlain(text) {
				t.Errorf("%s, %s: %s", c.CommandPath(), where, fault)
			}
		}
		for _, sub := range c.Commands() {
			walk(sub)
		}
	}
	walk(Command())
}

// TestPlainMessages checks the wording of errors, hints, progress lines and log messages: every
// string literal of the package with three words or more. It leaves out strings with a blank line,
// because they are help texts, which TestPlainHelp checks.
func TestPlainMessages(t *testing.T) {
	names, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	seen := 0
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(file, func(n ast.Node) bool {
			e, ok := n.(ast.Expr)
			if !ok {
				return true
			}
			text, ok := stringOf(e)
			if !ok {
				return true
			}
			if len(strings.Fields(text)) < 3 || strings.Contains(text, "\n\n") || strings.Contains(text, `json:"`) {
				return false
			}
			seen++
			for _, fault := range notPlain(text) {
				t.Errorf("%s: %s", name, fault)
			}
			return false
		})
		ast.Inspect(file, func(n ast.Node) bool {
			c, ok := n.(*ast.CallExpr)
			if !ok {
				return true
			}
			for _, text := range errorTexts(c) {
				if first := text[:1]; strings.ToLower(first) != first && !strings.HasPrefix(text, "Dragoman") || strings.HasSuffix(text, ".") {
					t.Errorf("%s: an error begins in lower case and has no full stop: %s", name, text)
				}
			}
			return true
		})
	}
	if seen < 100 {
		t.Errorf("%d messages were checked, want 100 or more", seen)
	}
}

// stringOf returns the text of a string literal, or of a concatenation with literals. Each part
// that is not a literal is replaced by X.
func stringOf(e ast.Expr) (string, bool) {
	switch e := e.(type) {
	case *ast.BasicLit:
		if e.Kind == token.STRING {
			text, err := strconv.Unquote(e.Value)
			return text, err == nil
		}
	case *ast.BinaryExpr:
		x, okX := stringOf(e.X)
		y, okY := stringOf(e.Y)
		if e.Op == token.ADD && (okX || okY) {
			if !okX {
				x = "X"
			}
			if !okY {
				y = "X"
			}
			return x + y, true
		}
	}
	return "", false
}

// errorTexts returns the texts of an error or a hint that a call creates. It finds only string
// literals.
func errorTexts(c *ast.CallExpr) (out []string) {
	var at []int
	switch f := c.Fun.(type) {
	case *ast.Ident:
		at = map[string][]int{"usagef": {0, 1}, "withHint": {1}}[f.Name]
	case *ast.SelectorExpr:
		at = map[string][]int{"Errorf": {0}, "New": {0}}[f.Sel.Name]
	}
	for _, i := range at {
		if i < len(c.Args) {
			if text, ok := stringOf(c.Args[i]); ok && text != "" {
				out = append(out, text)
			}
		}
	}
	return out
}

// TestNotPlain checks that notPlain finds each kind of problem.
func TestNotPlain(t *testing.T) {
	long := strings.TrimSpace(strings.Repeat("word ", maxSentence+1))
	for text, want := range map[string]int{
		"":                                0,
		long:                              1,
		"A short sentence. " + long + ".": 1,
		"Doctor checks:\n\n- " + long[:40] + "\n- " + long[:60] + "\n- " + long[:60]: 0,
		"Run `" + long + "` now.":                        0,
		"What the server does not know it refuses.":      1,
		"What does the server do?":                       0,
		"prints on standard\noutput":                     1,
		"%q is no era":                                   1,
		"it is told on standard error":                   2,
		"--json and --markdown contradict each other":    1,
		"--json and --markdown cannot be used together":  0,
		"playing the server at X until you press Ctrl-C": 0,
	} {
		if got := notPlain(text); len(got) != want {
			t.Errorf("%q: found %q, want %d", text, got, want)
		}
	}
}
