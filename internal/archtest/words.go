package archtest

import (
	"fmt"
	"go/ast"
	"go/token"
	"maps"
	"regexp"
	"slices"
	"sort"
	"strconv"
	"strings"
)

// oldStyle lists words and phrases that must not be used, with the wording to use instead. The
// patterns match whole words. They ignore case and line breaks.
var oldStyle = []struct {
	pattern *regexp.Regexp
	instead string
}{
	{phrase(`mourn(s|ed|ing)?`), "clean up"},
	{phrase(`haunt(s|ed|ing)?`), "say what the abandoned call does"},
	{phrase(`ghosts?`), "abandoned call"},
	{phrase(`unborn`), "not initialized"},
	{phrase(`deaf`), "does not read, or does not answer"},
	{phrase(`afraid`), "say what fails"},
	{phrase(`bears?`), "handle, or support"},
	{phrase(`put to nobody`), "not delivered"},
	{phrase(`nobody's`), "say whose it is"},
	{phrase(`nothing was heard`), "no response"},
	{phrase(`met with silence`), "not answered"},
	{phrase(`in the midst`), "in the middle"},
	{phrase(`in (its|his|their) stead`), "instead of it"},
	{phrase(`slip of the pen`), "typo"},
	{phrase(`what (is|are) no (\pL+)`), "what is not a …"},
	{phrase(`is no (message|object|string|list|array|number|integer|boolean|JSON)`), "is not a …"},
}

func phrase(p string) *regexp.Regexp { return regexp.MustCompile(`(?i)\b` + p + `\b`) }

// Words reports each phrase of oldStyle in comments and strings of Go files, in README.md and in
// docs/*.md, except in the files in unrevised. It also reports each file in unrevised that contains
// no such phrase.
func Words(t *Tree, unrevised []string) (breaches []string) {
	found := map[string][]string{}
	for _, f := range t.Files {
		if f.Generated || within(f.Dir, "internal/archtest") {
			continue
		}
		for _, c := range f.AST.Comments {
			var p prose
			for _, line := range c.List {
				p.add(t.Fset.Position(line.Pos()).Line, strings.TrimPrefix(line.Text, "//"), true)
			}
			found[f.Path] = append(found[f.Path], p.oldWords(f.Path)...)
		}
		ast.Inspect(f.AST, func(n ast.Node) bool {
			if lit, ok := n.(*ast.BasicLit); ok && lit.Kind == token.STRING {
				if s, err := strconv.Unquote(lit.Value); err == nil {
					var p prose
					p.add(t.Fset.Position(lit.Pos()).Line, s, lit.Value[0] == '`')
					found[f.Path] = append(found[f.Path], p.oldWords(f.Path)...)
				}
			}
			return true
		})
	}
	for _, path := range slices.Sorted(maps.Keys(t.Texts)) {
		var p prose
		p.add(1, t.Texts[path], true)
		found[path] = p.oldWords(path)
	}
	for _, path := range slices.Sorted(maps.Keys(found)) {
		if !slices.Contains(unrevised, path) {
			breaches = append(breaches, found[path]...)
		}
	}
	for _, path := range unrevised {
		if len(found[path]) == 0 {
			breaches = append(breaches, path+": has no words of the old style any more: remove it from unrevised in archtest/rooms.go")
		}
	}
	return breaches
}

// prose is a text in which white space is collapsed, so that a phrase can be found across line
// breaks.
type prose struct {
	text   strings.Builder
	starts []int // the offset in text at which each word starts
	lines  []int // the line of each word
}

// add appends text. line is the line of the file on which text begins. counts says whether a
// newline in text is also a new line in the file.
func (p *prose) add(line int, text string, counts bool) {
	for part := range strings.SplitSeq(text, "\n") {
		for _, word := range strings.Fields(part) {
			p.starts = append(p.starts, p.text.Len())
			p.lines = append(p.lines, line)
			p.text.WriteString(word + " ")
		}
		if counts {
			line++
		}
	}
}

// oldWords reports each phrase of oldStyle in the text.
func (p *prose) oldWords(path string) (breaches []string) {
	text := p.text.String()
	for _, old := range oldStyle {
		for _, at := range old.pattern.FindAllStringIndex(text, -1) {
			if strings.HasSuffix(strings.ToLower(text[at[0]:at[1]]), " no longer") {
				continue
			}
			i := max(sort.SearchInts(p.starts, at[0]+1)-1, 0)
			breaches = append(breaches, fmt.Sprintf("%s:%d: %q is not plain English: write %q", path, p.lines[i], text[at[0]:at[1]], old.instead))
		}
	}
	return breaches
}
