package config

import (
	"slices"
	"strings"
	"unicode"

	"github.com/dragoman-mcp/dragoman/internal/base/pattern"
)

// ProjectText returns the canonical form of a project's text, YAML or JSON, as ParseProject reads it: block
// YAML, with the keys in the order of the text, and without comments, anchors and merges. References stay
// as they are. The canonical form of a canonical text is the same text. If the text isn't one mapping, there
// is no form but problems. Whether ParseProject accepts the members is another question.
func ProjectText(text []byte) ([]byte, Problems) {
	c := &compiler{stored: true}
	root := c.readTree(text)
	if root == nil && len(c.problems) == 0 {
		root = &node{kind: mappingKind}
	}
	if len(c.problems) == 0 && root.kind != mappingKind {
		c.problem(root, "", "must be a mapping, not "+root.kind.String(), "")
	}
	var p textPrinter
	if len(c.problems) == 0 {
		if p.members(0, root.members); len(p.b) > MaxFile {
			c.problem(root, "", "the text is larger than 1 MiB", "write less into one project")
		}
	}
	c.source.show(c.file, c.problems)
	if len(c.problems) > 0 {
		return nil, c.problems
	}
	return p.b, nil
}

// ListText returns how many items the list has that is a text in YAML or JSON. It's -1 if there is nothing in the text
// but comments, and 0 also for something else than a list. If the text can't be read, there are problems.
func ListText(text []byte) (items int, _ Problems) {
	c := &compiler{stored: true}
	root := c.readTree(text)
	c.source.show(c.file, c.problems)
	if root == nil || root.kind == nullKind {
		return -1, c.problems
	}
	return len(root.items), c.problems
}

// FileProjectText returns the canonical text of the project that the file with the content b has under
// dragoman.projects. It returns false if there is none, or if the file can't be read.
func FileProjectText(file string, b []byte, name string) ([]byte, bool) {
	c, at := openFile(file, b, ourKey, "projects", name)
	if at == nil || at.kind != mappingKind && at.kind != nullKind || c.fatal {
		return nil, false
	}
	var p textPrinter
	p.members(0, at.members)
	return p.b, len(p.b) <= MaxFile
}

// textPrinter prints nodes as YAML. It stops when the text is larger than a file may be: a few aliases can
// stand for a lot of text.
type textPrinter struct{ b []byte }

func (p *textPrinter) add(indent int, text string) {
	if len(p.b) <= MaxFile {
		p.b = append(append(p.b, strings.Repeat("  ", indent)...), text...)
	}
}

func (p *textPrinter) members(indent int, all []member) {
	if len(all) == 0 {
		p.add(indent, "{}\n")
	}
	p.inMapping(indent, all)
}

func (p *textPrinter) inMapping(indent int, all []member) {
	for _, m := range all {
		if len(p.b) > MaxFile {
			return
		}
		p.add(indent, scalarText(&node{text: m.key, quoted: true})+":")
		p.value(indent, m.value)
	}
}

// value prints a value after the colon of its key, which has the given indentation.
func (p *textPrinter) value(indent int, n *node) {
	switch {
	case n.kind == nullKind:
		p.add(0, " null\n")
	case n.kind == scalarKind && multiline(n.text):
		p.add(0, " |"+choose(strings.HasSuffix(n.text, "\n"), "", "-")+"\n")
		for line := range strings.SplitSeq(strings.TrimSuffix(n.text, "\n"), "\n") {
			if line != "" {
				p.add(indent+1, line)
			}
			p.add(0, "\n")
		}
	case n.kind == scalarKind:
		p.add(0, " "+scalarText(n)+"\n")
	case n.kind == mappingKind && len(n.members) == 0:
		p.add(0, " {}\n")
	case n.kind == mappingKind:
		p.add(0, "\n")
		p.inMapping(indent+1, n.members)
	case flat(n):
		words := make([]string, len(n.items))
		for i, it := range n.items {
			words[i] = scalarText(it)
		}
		p.add(0, " ["+strings.Join(words, ", ")+"]\n")
	default:
		p.add(0, "\n")
		for _, it := range n.items {
			if len(p.b) > MaxFile {
				return
			}
			p.add(indent+1, "-")
			p.item(indent+1, it)
		}
	}
}

// item prints an item of a list after its dash. Lists of anything but scalars are in no setting, so they
// needn't be beautiful, only right.
func (p *textPrinter) item(indent int, n *node) {
	if n.kind == mappingKind && len(n.members) > 0 {
		p.add(0, "\n")
		p.inMapping(indent+1, n.members)
		return
	}
	p.value(indent, n)
}

// flat reports whether all items of a list are scalars.
func flat(n *node) bool {
	return !slices.ContainsFunc(n.items, func(it *node) bool { return it.kind != scalarKind })
}

// plain matches the scalars that aren't texts in YAML, but need no quotes.
var plain = pattern.Later(`^(true|false|-?(0|[1-9][0-9]{0,15})(\.[0-9]+)?)$`)

func scalarText(n *node) string {
	if !n.quoted && plain().MatchString(n.text) {
		return n.text
	}
	return word(n.text)
}

// multiline reports whether a text is best, and safely, written on lines of its own.
func multiline(text string) bool {
	lines := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
	if len(lines) < 2 || lines[len(lines)-1] == "" || strings.TrimLeft(lines[0], " ") != lines[0] || lines[0] == "" {
		return false
	}
	return !slices.ContainsFunc(lines, func(l string) bool {
		return strings.TrimRight(l, " ") != l || strings.ContainsFunc(l, func(r rune) bool { return !unicode.IsPrint(r) })
	})
}
