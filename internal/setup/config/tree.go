package config

import (
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/dragoman-mcp/dragoman/internal/base/pattern"
	"github.com/dragoman-mcp/dragoman/internal/setup/clientfile"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/lexer"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"
)

// Limits of a file.
const (
	MaxFile    = 1 << 20 // the most bytes of a file; a JSON file may have clientfile.MaxFile bytes
	maxMembers = 100_000 // the most members of all mappings together, after merging
)

type kind uint8

const (
	nullKind kind = iota
	scalarKind
	mappingKind
	sequenceKind
)

func (k kind) String() string {
	return [...]string{"nothing", "a single value", "a mapping", "a list"}[k]
}

// node is a value in the file, with its position. Several aliases may share a node. Nodes are not
// modified after readTree returns.
type node struct {
	kind      kind
	text      string // the text of a scalar, without quotes
	quoted    bool
	members   []member
	items     []*node
	line, col int
}

type member struct {
	key       string
	value     *node
	line, col int // the position of the key
}

// readTree parses the content b of a YAML file with one document. It returns nil if the file is empty,
// or if a problem prevents readTree from parsing the file. readTree reports such a problem.
func (c *compiler) readTree(b []byte) (root *node) {
	if len(b) > MaxFile {
		c.problem(nil, "", "the file is larger than 1 MiB", "make the file smaller; only JSON files may have up to 32 MiB, because some clients write large files")
		return nil
	}
	if !utf8.Valid(b) {
		c.source.lines = strings.Split(string(b), "\n")
		line, col := invalidUTF8(b)
		c.problem(&node{line: line, col: col}, "", "the file is not UTF-8", "save the file as UTF-8")
		return nil
	}
	src := strings.TrimPrefix(string(b), "\ufeff")
	defer func() {
		// Editors sometimes save incomplete files, and the YAML library may panic on such a file.
		// Dragoman then refuses the file instead of crashing.
		if v := recover(); v != nil {
			root = nil
			c.problem(nil, "", "the file is not valid YAML", "the YAML parser reported: "+masked(firstLine(fmt.Sprint(v))))
		}
	}()
	t := treeReader{c: c, lines: strings.Split(src, "\n"), anchors: map[string]*node{}}
	c.source.lines = t.lines
	tokens := lexer.Tokenize(src)
	c.source.comments = t.comments(tokens)
	if !t.shallow(tokens) {
		return nil
	}
	file, err := parser.Parse(tokens, 0, parser.AllowDuplicateMapKey())
	if err != nil {
		t.syntax(err, src)
		return nil
	}
	c.source.marks = marksOf(file.Docs, t.at)
	var docs []*ast.DocumentNode
	for _, d := range file.Docs {
		if d.Body != nil && d.Body.Type() != ast.CommentType {
			docs = append(docs, d)
		}
	}
	if len(docs) == 0 {
		return nil
	}
	if len(docs) > 1 {
		c.problem(t.at(docs[1].Body), "", "a second document begins here", "put everything into one document, and remove the line ---")
		return nil
	}
	return t.read(docs[0].Body)
}

type treeReader struct {
	c       *compiler
	lines   []string
	anchors map[string]*node
	members int
}

// comments returns the column in which the first comment of each line begins, by line.
func (t *treeReader) comments(tokens token.Tokens) map[int]int {
	columns := map[int]int{}
	for _, tk := range tokens {
		if p := t.place(tk); tk.Type == token.CommentType && columns[p.line] == 0 {
			columns[p.line] = p.col
		}
	}
	return columns
}

// shallow reports whether the file nests at most as deeply as [clientfile.Deep] allows. If not, it reports a
// problem, because parsing the file would take very long.
func (t *treeReader) shallow(tokens token.Tokens) bool {
	switch at, stray := clientfile.Deep(tokens); {
	case at == nil:
		return true
	case stray:
		t.c.problem(t.place(at), "", "syntax error: closing bracket without an opening bracket", "remove the closing bracket")
	default:
		t.c.problem(t.place(at), "", "the file is nested too deeply", "")
	}
	return false
}

// syntax reports the error of the YAML parser for the file src.
func (t *treeReader) syntax(err error, src string) {
	var at *node
	var text string
	// The method Error of a yaml.Error also formats the lines around the error. For a long line, the
	// time of this grows with the square of the length.
	if ye := yaml.Error(nil); errors.As(err, &ye) {
		text = firstLine(ye.GetMessage())
		if tk := ye.GetToken(); tk != nil {
			at = t.place(tk)
		}
	} else {
		text = firstLine(err.Error())
	}
	hint := "check indentation, quotes and brackets here and on the line before"
	switch {
	case strings.Contains(text, "'\t'") || strings.Contains(text, "tab"):
		text, hint = "YAML does not allow tabs for indentation", "use spaces"
	case looksCommented(src):
		hint = "YAML does not allow // comments; write # comments instead"
	case at != nil && t.bareReference(at.line):
		hint = `put ${NAME} in quotes between { } or [ ]: "${NAME}"`
	}
	t.c.problem(at, "", "syntax error: "+masked(plainSyntax(text)), hint)
}

// flowReference matches a reference without quotes within braces or brackets. In such a place, YAML
// treats the { of the reference as the beginning of a mapping.
var flowReference = pattern.Later(`[\[{,:]\s*[^\s"'\[{,]*\$\{[^}"']*\}`)

// bareReference reports whether a syntax error on a line probably comes from a reference
// without quotes, on that line or the line before.
func (t *treeReader) bareReference(line int) bool {
	for _, i := range []int{line - 1, line - 2} {
		if i >= 0 && i < len(t.lines) && flowReference().MatchString(t.lines[i]) {
			return true
		}
	}
	return false
}

func (t *treeReader) read(n ast.Node) *node {
	if n == nil {
		return &node{}
	}
	out := t.at(n)
	switch n := n.(type) {
	case *ast.NullNode:
	case *ast.StringNode:
		out.kind, out.text = scalarKind, n.Value
		out.quoted = n.Token.Type == token.SingleQuoteType || n.Token.Type == token.DoubleQuoteType
	case *ast.LiteralNode:
		out.kind, out.quoted, out.text = scalarKind, true, n.Value.Value
	case *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode, *ast.InfinityNode, *ast.NanNode:
		out.kind, out.text = scalarKind, n.GetToken().Value
	case *ast.MappingNode:
		out.kind = mappingKind
		t.readMapping(out, n.Values)
	case *ast.MappingValueNode:
		out.kind = mappingKind
		t.readMapping(out, []*ast.MappingValueNode{n})
	case *ast.SequenceNode:
		out.kind = sequenceKind
		for _, v := range n.Values {
			out.items = append(out.items, t.read(v))
		}
	case *ast.AnchorNode:
		// Register the anchor after reading its value, so that the value cannot contain
		// itself.
		v := t.read(n.Value)
		t.anchors[n.Name.GetToken().Value] = v
		return v
	case *ast.AliasNode:
		name := n.Value.GetToken().Value
		v, ok := t.anchors[name]
		if !ok {
			t.c.problem(out, "", "the alias *"+printable(name)+" has no anchor &"+printable(name)+" before it", "")
			return out
		}
		return v
	case *ast.TagNode:
		v := t.read(n.Value)
		if n.Start.Value == "!!str" && v.kind == scalarKind {
			str := *v
			str.quoted = true
			return &str
		}
		if !strings.HasPrefix(n.Start.Value, "!!") {
			t.c.problem(out, "", "the tag "+printable(n.Start.Value)+" is not supported", "remove the tag")
		}
		return v
	default:
		t.c.problem(out, "", "this kind of YAML value is not supported", "")
	}
	return out
}

func (t *treeReader) readMapping(out *node, values []*ast.MappingValueNode) {
	index := map[string]int{}
	var merged []*node
	for _, v := range values {
		if v.Key.IsMergeKey() {
			merged = append(merged, t.merges(t.read(v.Value))...)
			continue
		}
		key := t.read(keyNode(v.Key))
		if key.kind != scalarKind && (key.kind != nullKind || key.line == 0) {
			t.c.problem(key, "", "a key must be a scalar", "")
			continue
		}
		if key.kind == nullKind {
			key.text = v.Key.GetToken().Value
		}
		if first, dup := index[key.text]; dup {
			t.c.listedTwice(key, key.text, out.members[first].line)
			continue
		}
		index[key.text] = len(out.members)
		t.add(out, member{key: key.text, value: t.read(v.Value), line: key.line, col: key.col})
	}
	for _, m := range merged {
		for _, mm := range m.members {
			if _, own := index[mm.key]; !own {
				index[mm.key] = len(out.members)
				t.add(out, mm)
			}
		}
	}
}

func (t *treeReader) add(out *node, m member) {
	if t.members++; t.members <= maxMembers {
		out.members = append(out.members, m)
	} else if t.members == maxMembers+1 {
		t.c.problem(out, "", "the file has too many keys", "")
	}
}

// merges returns the mappings in v, which is the value of the key <<.
func (t *treeReader) merges(v *node) []*node {
	switch v.kind {
	case mappingKind:
		return []*node{v}
	case sequenceKind:
		var out []*node
		for _, i := range v.items {
			if i.kind == mappingKind {
				out = append(out, i)
				continue
			}
			t.c.problem(i, "", "this item of << is not a mapping", "")
		}
		return out
	}
	t.c.problem(v, "", "the value of << is neither a mapping nor a list of mappings", "")
	return nil
}

func keyNode(k ast.MapKeyNode) ast.Node {
	if mk, ok := k.(*ast.MappingKeyNode); ok {
		return mk.Value
	}
	return k
}

// at returns an empty node with the position of n.
func (t *treeReader) at(n ast.Node) *node {
	tk := n.GetToken()
	switch n := n.(type) {
	case *ast.MappingNode:
		if len(n.Values) > 0 && !n.IsFlowStyle {
			tk = n.Values[0].Key.GetToken()
		}
	case *ast.MappingValueNode:
		tk = n.Key.GetToken()
	}
	if tk == nil {
		return &node{}
	}
	return t.place(tk)
}

// place returns an empty node with the position of a token. Unlike editors, the lexer does not count
// tabs at the beginning of a line of JSON as columns, so place adds these columns.
func (t *treeReader) place(tk *token.Token) *node {
	if tk.Position == nil {
		return &node{line: 1, col: 1}
	}
	line, col := tk.Position.Line, max(tk.Position.Column, 1)
	if i := line - 1; i >= 0 && i < len(t.lines) {
		l := t.lines[i]
		col += len(l) - len(strings.TrimLeft(l, "\t"))
	}
	return &node{line: line, col: col}
}

func invalidUTF8(b []byte) (line, col int) {
	line, col = 1, 1
	for len(b) > 0 {
		r, size := utf8.DecodeRune(b)
		if r == utf8.RuneError && size == 1 {
			break
		}
		if col++; r == '\n' {
			line, col = line+1, 1
		}
		b = b[size:]
	}
	return line, col
}

func looksCommented(src string) bool {
	for l := range strings.Lines(src) {
		if strings.HasPrefix(strings.TrimSpace(l), "//") {
			return true
		}
	}
	return false
}

func firstLine(s string) string {
	s, _, _ = strings.Cut(s, "\n")
	return s
}
