package clientfile

import (
	"bytes"
	"errors"
	"slices"
	"strings"

	"github.com/dragoman-mcp/dragoman/internal/base/pattern"

	"github.com/pelletier/go-toml/v2"
	"github.com/pelletier/go-toml/v2/unstable"
)

// IsTOML reports whether a file name ends with .toml, in upper or lower case.
func IsTOML(name string) bool { return strings.HasSuffix(strings.ToLower(name), ".toml") }

// checkTOML returns the first syntax error of a TOML file.
func checkTOML(name string, b []byte) error {
	depth := 0
	for i, c := range b {
		switch c {
		case '[', '{':
			if depth++; depth > maxDepth {
				line, col := position(b, i)
				return &SyntaxError{name, line, col, "the file is nested too deeply"}
			}
		case ']', '}':
			depth = max(0, depth-1)
		case '\n':
			if i+1 < len(b) && b[i+1] == '[' {
				depth = 0 // the next line is probably a header; brackets in earlier strings may have made depth wrong
			}
		}
	}
	var whole map[string]any
	err := toml.Unmarshal(b, &whole)
	if err == nil {
		return nil
	}
	text := codePoint().ReplaceAllString(strings.TrimPrefix(err.Error(), "toml: "), "")
	if strings.HasSuffix(text, "at start of value") {
		text += "; a text needs quotes"
	}
	e := &SyntaxError{File: name, Text: "this is not TOML: " + text}
	var at *toml.DecodeError
	if errors.As(err, &at) {
		e.Line, e.Col = at.Position()
	}
	return e
}

// codePoint matches the number that the parser writes before a character.
var codePoint = pattern.Later(`U\+[0-9A-F]{4,} `)

// expression is a header, or a key with its value, in a TOML file.
type expression struct {
	path   []string // the keys from the root
	table  []string // the path of the header above
	header bool
	list   bool   // a header of an array of tables
	value  *Value // the value of a key; nil for a header
	at     int    // the offset of the key
	from   int    // the offset of the value
	to     int    // the offset after the value, or after the last key of a header
}

func parseTOML(name string, b []byte) (*Value, error) {
	b = bytes.TrimPrefix(b, bom)
	if err := checkTOML(name, b); err != nil {
		return nil, err
	}
	root := &Value{Kind: Map, Line: 1, Col: 1}
	lines := lineIndex(b)
	for _, e := range expressions(b) {
		line, col := lines.position(e.at)
		into := root
		for _, key := range e.path[:len(e.path)-1] {
			into = enter(into, key, line, col)
		}
		key := e.path[len(e.path)-1]
		switch {
		case !e.header:
			into.Members = append(into.Members, Member{Key: key, Value: e.value, Line: line, Col: col})
		case e.list:
			list := into.Get(key)
			if list == nil || list.Kind != List {
				list = &Value{Kind: List, Line: line, Col: col}
				into.set(key, list)
			}
			list.Items = append(list.Items, &Value{Kind: Map, Line: line, Col: col})
		default:
			enter(into, key, line, col)
		}
	}
	return root, nil
}

// enter returns the table of v at key. If the value at key is an array of tables, enter returns the
// last table of the array. If there is no table, enter creates one.
func enter(v *Value, key string, line, col int) *Value {
	next := v.Get(key)
	switch {
	case next != nil && next.Kind == Map:
		return next
	case next != nil && next.Kind == List && len(next.Items) > 0 && next.Items[len(next.Items)-1].Kind == Map:
		return next.Items[len(next.Items)-1]
	}
	next = &Value{Kind: Map, Line: line, Col: col}
	v.set(key, next)
	return next
}

// expressions returns the expressions of a valid TOML file, in the order of the file.
func expressions(b []byte) []expression {
	var out []expression
	var table []string
	lines := lineIndex(b)
	p := unstable.Parser{}
	p.Reset(b)
	for p.NextExpression() {
		n := p.Expression()
		if n.Kind != unstable.KeyValue && n.Kind != unstable.Table && n.Kind != unstable.ArrayTable {
			continue
		}
		e := expression{at: -1, header: n.Kind != unstable.KeyValue, list: n.Kind == unstable.ArrayTable}
		var keys []string
		for it := n.Key(); it.Next(); {
			k := it.Node()
			if e.at < 0 {
				e.at = int(k.Raw.Offset)
			}
			keys = append(keys, string(k.Data))
			e.to = int(k.Raw.Offset + k.Raw.Length)
		}
		if e.header {
			table = keys
			e.path = keys
		} else {
			e.path = append(slices.Clone(table), keys...)
			e.value = tomlValue(n.Value(), lines, e.at)
			e.from = e.to + bytes.IndexByte(b[e.to:], '=') + 1
			e.from += len(b[e.from:]) - len(bytes.TrimLeft(b[e.from:], " \t"))
			e.to = int(n.Raw.Offset + n.Raw.Length)
		}
		e.table = table
		out = append(out, e)
	}
	return out
}

func tomlValue(n *unstable.Node, lines index, at int) *Value {
	v := &Value{Text: string(n.Data)}
	if n.Raw.Length > 0 {
		at = int(n.Raw.Offset)
	}
	v.Line, v.Col = lines.position(at)
	switch n.Kind {
	case unstable.Bool:
		v.Kind = Bool
	case unstable.Integer, unstable.Float:
		v.Kind = Number
		v.Text = strings.ReplaceAll(v.Text, "_", "")
	case unstable.Array:
		v.Kind, v.Text = List, ""
		for it := n.Children(); it.Next(); {
			v.Items = append(v.Items, tomlValue(it.Node(), lines, at))
		}
	case unstable.InlineTable:
		v.Kind, v.Text = Map, ""
		for it := n.Children(); it.Next(); {
			kv := it.Node()
			into, at := v, at
			var keys []string
			for k := kv.Key(); k.Next(); {
				keys, at = append(keys, string(k.Node().Data)), int(k.Node().Raw.Offset)
			}
			for _, key := range keys[:len(keys)-1] {
				into = enter(into, key, v.Line, v.Col)
			}
			key := keys[len(keys)-1]
			line, col := lines.position(at)
			into.Members = append(into.Members, Member{Key: key, Value: tomlValue(kv.Value(), lines, at), Line: line, Col: col})
		}
	default:
		v.Kind = String
	}
	return v
}

// lineEnd returns the line end of a file.
func lineEnd(src []byte) string {
	if bytes.Contains(src, []byte("\r\n")) {
		return "\r\n"
	}
	return "\n"
}

// setTOML returns b with the table at path set to value, a Map. It replaces an
// existing table in place. A new table comes after the last table of the same parent. If the parent
// has no tables yet, the new table comes at the end of the file.
func setTOML(name string, b []byte, path []string, value *Value) ([]byte, error) {
	mark := b[:len(b)-len(bytes.TrimPrefix(b, bom))]
	src := b[len(mark):]
	root, err := parseTOML(name, src)
	if err != nil {
		return nil, err
	}
	line := lineEnd(src)
	table := value.verbatim
	if table == "" {
		table = tomlTable(path, value, line)
	}
	spans := spansOf(src, path)
	var out []byte
	switch parents := spansOf(src, path[:len(path)-1]); {
	case root.Get(path...) != nil && len(spans) == 0:
		return nil, &SyntaxError{File: name, Text: strings.Join(path, ".") + " cannot be changed safely by a program; change the file by hand"}
	case len(spans) > 0:
		out = bytes.Clone(src[:spans[0].from])
		out = append(out, table...)
		at := spans[0].to
		for _, s := range spans[1:] {
			out = append(out, src[at:s.from]...)
			at = s.to
		}
		out = append(out, src[at:]...)
	default:
		at := len(src)
		if len(parents) > 0 {
			at = parents[len(parents)-1].to
		}
		out = bytes.Clone(src[:at])
		if at > 0 && src[at-1] != '\n' {
			out = append(out, line...)
		}
		if at > 0 {
			out = append(out, line...)
		}
		out = append(out, table...)
		out = append(out, src[at:]...)
	}
	// Check the result, because a table cannot be added to every file. For example, the parent may
	// be an inline table.
	after, err := parseTOML(name, out)
	if err != nil || !same(without(after, path), without(root, path)) || !same(after.Get(path...), value) {
		return nil, &SyntaxError{File: name, Text: "the table " + strings.Join(path, ".") + " cannot be added to this file; its parent may be an inline table, so change the file by hand"}
	}
	return append(bytes.Clone(mark), out...), nil
}

// removeTOML returns b without the table at path. If there is no such table, it returns b itself.
func removeTOML(name string, b []byte, path []string) ([]byte, error) {
	mark := b[:len(b)-len(bytes.TrimPrefix(b, bom))]
	src := b[len(mark):]
	root, err := parseTOML(name, src)
	if err != nil {
		return nil, err
	}
	if root.Get(path...) == nil {
		return b, nil
	}
	spans := spansOf(src, path)
	var out []byte
	at := 0
	for _, s := range spans {
		before := src[at:s.from]
		// setTOML added the blank line before the table, so removeTOML removes the blank line too.
		for _, blank := range []string{"\r\n\r\n", "\n\n"} {
			if n := len(blank) / 2; bytes.HasSuffix(before, []byte(blank)) {
				before = before[:len(before)-n]
				break
			}
		}
		out = append(out, before...)
		at = s.to
	}
	out = append(out, src[at:]...)
	after, err := parseTOML(name, out)
	if err != nil || len(spans) == 0 || !same(without(after, path), without(root, path)) || after.Get(path...) != nil {
		return nil, &SyntaxError{File: name, Text: "the table " + strings.Join(path, ".") + " cannot be removed safely; remove it by hand"}
	}
	return append(bytes.Clone(mark), out...), nil
}

// without returns v without the member at path, and without each parent that becomes empty.
func without(v *Value, path []string) *Value {
	last := len(path) - 1
	return withoutAll(v, path[:last], map[string]bool{path[last]: true})
}

// withoutAll does the same as without for several members of the map at path.
func withoutAll(v *Value, path []string, names map[string]bool) *Value {
	if v == nil || v.Kind != Map {
		return v
	}
	out := &Value{Kind: Map}
	for _, m := range v.Members {
		switch {
		case len(path) == 0:
			if names[m.Key] {
				continue
			}
		case m.Key == path[0]:
			if m.Value = withoutAll(m.Value, path[1:], names); m.Value.Kind == Map && len(m.Value.Members) == 0 {
				continue
			}
		}
		out.Members = append(out.Members, m)
	}
	return out
}

// span is the part of a file from the offset from (inclusive) to the offset to (exclusive).
type span struct{ from, to int }

// spansOf returns the lines of the expressions at or below path. It includes blank lines and
// comments between two such expressions, but not before the first or after the last of them.
func spansOf(b []byte, path []string) []span {
	var out []span
	all := expressions(b)
	below := func(e expression) bool {
		return len(e.path) >= len(path) && slices.Equal(e.path[:len(path)], path)
	}
	for i, e := range all {
		if !below(e) {
			continue
		}
		s := span{from: lineStart(b, e.at), to: len(b)}
		if i+1 < len(all) {
			s.to = lineStart(b, all[i+1].at)
		}
		if i+1 == len(all) || !below(all[i+1]) {
			s.to = trimLines(b, s.from, s.to)
		}
		if n := len(out); n > 0 && out[n-1].to == s.from {
			out[n-1].to = s.to
			continue
		}
		out = append(out, s)
	}
	return out
}

func lineStart(b []byte, offset int) int {
	return bytes.LastIndexByte(b[:offset], '\n') + 1
}

// trimLines excludes the blank lines and comments at the end of a range of b, and returns the new
// end of the range.
func trimLines(b []byte, from, to int) int {
	for to > from {
		start := lineStart(b, max(from, to-1))
		l := bytes.TrimSpace(b[start:to])
		if start <= from || len(l) > 0 && l[0] != '#' {
			break
		}
		to = start
	}
	return to
}

// tomlTable returns the TOML text of the table v at path.
func tomlTable(path []string, v *Value, line string) string {
	var b strings.Builder
	keys := make([]string, len(path))
	for i, k := range path {
		keys[i] = tomlKey(k)
	}
	b.WriteString("[" + strings.Join(keys, ".") + "]" + line)
	for _, m := range v.Members {
		b.WriteString(tomlKey(m.Key) + " = " + tomlText(m.Value) + line)
	}
	return b.String()
}

func tomlText(v *Value) string {
	switch v.Kind {
	case List:
		var items []string
		for _, i := range v.Items {
			items = append(items, tomlText(i))
		}
		return "[" + strings.Join(items, ", ") + "]"
	case Map:
		var pairs []string
		for _, m := range v.Members {
			pairs = append(pairs, tomlKey(m.Key)+" = "+tomlText(m.Value))
		}
		if len(pairs) == 0 {
			return "{}"
		}
		return "{ " + strings.Join(pairs, ", ") + " }"
	case String:
		return tomlQuote(v.Text)
	}
	return v.Text
}

func tomlKey(k string) string {
	bare := k != ""
	for _, c := range []byte(k) {
		bare = bare && (c == '_' || c == '-' || c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z')
	}
	if bare {
		return k
	}
	return tomlQuote(k)
}

// tomlQuote returns text as a basic string of TOML. The escapes of JSON have the same meaning
// in TOML.
func tomlQuote(s string) string {
	q := string(appendJSON(nil, Text(s), "", jsonStyle{}, true))
	return strings.ReplaceAll(q, "\x7f", `\u007f`)
}

// rewriteTOML returns b with the entry at path changed to now. It edits only the keys that differ, so
// the comments and the order of the others stay. If the entry is written in a way that it cannot edit,
// it writes a whole new table.
func rewriteTOML(name string, b []byte, path []string, now *Value) ([]byte, error) {
	mark := b[:len(b)-len(bytes.TrimPrefix(b, bom))]
	src := b[len(mark):]
	root, err := parseTOML(name, src)
	if err != nil {
		return nil, err
	}
	out, ok := editTOML(src, path, root.Get(path...), now)
	if after, err := parseTOML(name, out); ok && err == nil && same(after.Get(path...), now) && same(without(after, path), without(root, path)) {
		return append(bytes.Clone(mark), out...), nil
	}
	return setTOML(name, b, path, now)
}

// editTOML changes the value at path from old to now.
func editTOML(src []byte, path []string, old, now *Value) (out []byte, ok bool) {
	all := expressions(src)
	i := slices.IndexFunc(all, func(e expression) bool { return !e.header && slices.Equal(e.path, path) })
	switch {
	case i >= 0 && now != nil:
		return splice(src, all[i].from, all[i].to, tomlText(now)), true
	case now == nil:
		spans := spansOf(src, path)
		for _, s := range slices.Backward(spans) {
			src = splice(src, s.from, s.to, "")
		}
		return src, len(spans) > 0
	case old != nil && (old.Kind != Map || now.Kind != Map):
		return src, false
	case old == nil:
		// The new key comes after the last key of its table.
		for _, e := range slices.Backward(all) {
			if parent := path[:len(path)-1]; !e.list && slices.Equal(e.table, parent) && (!e.header || slices.Equal(e.path, parent)) {
				end := e.to + bytes.IndexByte(append(slices.Clone(src[e.to:]), '\n'), '\n')
				text := tomlKey(path[len(path)-1]) + " = " + tomlText(now)
				if end == len(src) {
					return splice(src, end, end, lineEnd(src)+text), true
				}
				return splice(src, end+1, end+1, text+lineEnd(src)), true
			}
		}
		return src, false
	}
	return editMembers(old, now, src, func(src []byte, key string, old, now *Value) ([]byte, bool) {
		return editTOML(src, append(slices.Clone(path), key), old, now)
	})
}

// splice returns b with the bytes between from and to replaced by text.
func splice(b []byte, from, to int, text string) []byte {
	return slices.Concat(b[:from], []byte(text), b[to:])
}

// verbatimTOML returns the tables of the entry at path as they are written in the file. ok is false if
// the entry has no header of its own.
func verbatimTOML(src []byte, path []string) (text string, ok bool) {
	for _, s := range spansOf(src, path) {
		if part := string(src[s.from:s.to]); strings.HasPrefix(strings.TrimSpace(part), "[") {
			text += strings.TrimRight(part, "\r\n") + lineEnd(src)
			continue
		}
		return "", false
	}
	return text, text != ""
}
