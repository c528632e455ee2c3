package clientfile

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/dragoman-mcp/dragoman/internal/base/pattern"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
)

// Added is one server that AddServers adds to Dragoman's own file.
type Added struct {
	Name     string
	Comment  string // one line of comment above the server, without #; "" for none
	Entry    *Value
	Settings *Value // nil for none
}

// errNotBlock means that Dragoman cannot add anything to a part of its own YAML file, because this
// part is written in braces or refers to an anchor.
var errNotBlock = errors.New("is not written in indented lines, so Dragoman cannot add to it; change the file by hand")

const head = "# Dragoman's configuration. Run `dragoman config check` after a change.\n"

// AddServers returns Dragoman's configuration file b with servers added to mcpServers, and their
// settings added to dragoman.servers. All other bytes stay the same, including comments, order and
// indentation. The file b must be valid YAML, or JSON with or without comments. If b is empty, the
// result is a new file. AddServers fails if one of these two mappings is written in braces in a
// YAML file.
func AddServers(name string, b []byte, add []Added) ([]byte, error) {
	return AddServersTo(name, b, "", add)
}

// AddServersTo does the same as AddServers for a project, which the file must have.
func AddServersTo(name string, b []byte, project string, add []Added) ([]byte, error) {
	if LooksLikeJSON(b) && isJSON(name, b) {
		return addJSON(name, b, project, add)
	}
	out := b
	if len(bytes.TrimSpace(b)) == 0 {
		out = append(bytes.Clone(b), head...)
	}
	var entries, settings []Member
	comments := map[string]string{}
	for _, a := range add {
		entries = append(entries, Member{Key: a.Name, Value: a.Entry})
		comments[a.Name] = a.Comment
		if a.Settings != nil {
			settings = append(settings, Member{Key: a.Name, Value: a.Settings})
		}
	}
	inEntries, inSettings := parents(project)
	out, err := addYAML(out, inEntries, entries, comments)
	if err == nil && len(settings) > 0 {
		out, err = addYAML(out, inSettings, settings, nil)
	}
	if err == nil && !addedOnly(b, out, project, add) {
		err = fmt.Errorf("the file %w", errNotBlock)
	}
	if err != nil {
		return nil, err
	}
	return out, nil
}

// parents returns the paths of the mappings that have the entries and the settings of a project's servers.
func parents(project string) (entries, settings []string) {
	o := Own{Project: project}
	entries, settings = o.Entry(), o.Settings()
	return entries[:len(entries)-1], settings[:len(settings)-1]
}

// AddSetting returns Dragoman's configuration file b with key set to a string in the mapping at
// path. All other bytes stay the same. If the key already exists, AddSetting replaces its value in
// JSON, and fails in YAML.
func AddSetting(name string, b []byte, path []string, key, value string) ([]byte, error) {
	full := append(slices.Clone(path), key)
	if LooksLikeJSON(b) && isJSON(name, b) {
		return setJSON(name, b, full, Text(value))
	}
	out, err := addYAML(b, path, []Member{{Key: key, Value: Text(value)}}, nil)
	if err != nil {
		return nil, err
	}
	old, ok := plainYAML(b)
	now, okNow := plainYAML(out)
	if !ok || !okNow || old.Get(full...) != nil || now.Get(full...) == nil || !same(pruned(old, path), pruned(without(now, full), path)) {
		return nil, fmt.Errorf("the file %w", errNotBlock)
	}
	return out, nil
}

// pruned returns v without the mapping at path if this mapping is empty. Otherwise it returns v
// itself.
func pruned(v *Value, path []string) *Value {
	if m := v.Get(path...); len(path) > 0 && m != nil && m.Kind == Map && len(m.Members) == 0 {
		return without(v, path)
	}
	return v
}

// addedOnly reports whether the added servers are the only difference between two versions of
// Dragoman's file.
func addedOnly(before, after []byte, project string, add []Added) bool {
	old, ok := plainYAML(before)
	now, okNow := plainYAML(after)
	if !ok || !okNow {
		return false
	}
	servers, settings := map[string]bool{}, map[string]bool{}
	for _, a := range add {
		servers[a.Name] = true
		if a.Settings != nil {
			settings[a.Name] = true
		}
	}
	inEntries, inSettings := parents(project)
	for _, x := range []struct {
		path  []string
		names map[string]bool
	}{{inEntries, servers}, {inSettings, settings}} {
		if len(x.names) == 0 {
			continue
		}
		if membersOf(now.Get(x.path...), x.names) != len(x.names) || membersOf(old.Get(x.path...), x.names) != 0 {
			return false
		}
		old, now = withoutAll(old, x.path, x.names), withoutAll(now, x.path, x.names)
	}
	return same(old, now)
}

// membersOf returns how many members of a map have one of these names. v may be nil.
func membersOf(v *Value, names map[string]bool) (n int) {
	if v == nil {
		return 0
	}
	for _, m := range v.Members {
		if names[m.Key] {
			n++
		}
	}
	return n
}

// plainYAML parses YAML that is [bounded]. The result has no positions, and no members whose value is null.
func plainYAML(b []byte) (v *Value, ok bool) {
	defer func() {
		if recover() != nil { // the library may panic on an incomplete file, for example while a user edits the file
			v, ok = nil, false
		}
	}()
	if bounded(b) != nil {
		return nil, false
	}
	var whole any
	if err := yaml.Unmarshal(b, &whole); err != nil {
		return nil, false
	}
	if whole == nil {
		return Mapping(), true
	}
	v = fromAny(whole)
	return v, v.Kind == Map
}

func fromAny(from any) *Value {
	switch from := from.(type) {
	case nil:
		return &Value{}
	case map[string]any:
		v := Mapping()
		for k, m := range from {
			if m != nil {
				v.Members = append(v.Members, Member{Key: k, Value: fromAny(m)})
			}
		}
		return v
	case []any:
		v := &Value{Kind: List}
		for _, i := range from {
			v.Items = append(v.Items, fromAny(i))
		}
		return v
	}
	return Text(fmt.Sprint(from))
}

func isJSON(name string, b []byte) bool {
	_, err := parseJSON(name, b)
	return err == nil
}

func addJSON(name string, b []byte, project string, add []Added) (out []byte, err error) {
	out = b
	for _, a := range add {
		if out, err = setJSON(name, out, Own{project, a.Name}.Entry(), a.Entry); err != nil {
			return nil, err
		}
		if a.Settings == nil {
			continue
		}
		if out, err = setJSON(name, out, Own{project, a.Name}.Settings(), a.Settings); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// addYAML adds members to the mapping at path, and creates the mapping if it does not exist.
func addYAML(b []byte, path []string, members []Member, comments map[string]string) ([]byte, error) {
	file, err := parseYAML(b)
	if err != nil {
		return nil, err
	}
	w := yamlWriter{line: "\n", unit: "  "}
	if bytes.Contains(b, []byte("\r\n")) {
		w.line = "\r\n"
	}
	values, ok := blockOf(bodyOf(file))
	if !ok {
		return nil, fmt.Errorf("the file %w", errNotBlock)
	}
	lines := bytes.SplitAfter(b, []byte("\n"))
	at := yamlBlock{lines: lines, to: len(lines)}
	for i, key := range path {
		var next *ast.MappingValueNode
		for _, v := range values {
			if v.Key.GetToken().Value == key {
				next = v
			}
		}
		if next == nil {
			var out strings.Builder
			indent := strings.Repeat(" ", at.column)
			for _, k := range path[i:] {
				out.WriteString(indent + k + ":" + w.line)
				indent += w.unit
			}
			w.members(&out, members, indent, comments)
			return at.insert(out.String(), w.line, at.column == 0), nil
		}
		if values, ok = at.enter(next, &w, i == 0); !ok {
			return nil, fmt.Errorf("%s %w", quoted(path[:i+1]), errNotBlock)
		}
	}
	var out strings.Builder
	w.members(&out, members, strings.Repeat(" ", at.column), comments)
	return at.insert(out.String(), w.line, false), nil
}

// bodyOf returns the first document of a file that has more than comments, or nil.
func bodyOf(file *ast.File) ast.Node {
	for _, d := range file.Docs {
		if d.Body != nil && d.Body.Type() != ast.CommentType {
			return d.Body
		}
	}
	return nil
}

// yamlBlock is a mapping that is written in indented lines: the lines of the file from the index from
// to before the index to. Its keys are at column.
type yamlBlock struct {
	lines            [][]byte
	from, to, column int
}

// enter makes the block the value of one of its keys, and returns the members of that value. It returns
// false if the value is not written in indented lines. For a key at the top of the file, it takes over
// how far the file indents.
func (y *yamlBlock) enter(at *ast.MappingValueNode, w *yamlWriter, top bool) ([]*ast.MappingValueNode, bool) {
	token := at.Key.GetToken()
	line, own := token.Position.Line-1, token.Position.Column-1
	if line < y.from || line >= y.to {
		return nil, false
	}
	y.from = line + 1
	y.to = blockEnd(y.lines, y.from, y.to, own)
	values, ok := blockOf(at.Value)
	switch {
	case !ok:
		return nil, false
	case len(values) > 0:
		y.column = values[0].Key.GetToken().Position.Column - 1
		if y.column <= own {
			return nil, false
		}
		if top {
			w.unit = strings.Repeat(" ", y.column-own)
		}
	default:
		y.column = own + len(w.unit)
		y.lines[line] = emptied(y.lines[line])
	}
	return values, true
}

// blockOf returns the members of a mapping that is written in indented lines. For an empty value it
// returns no members and true. For any other value it returns false.
func blockOf(n ast.Node) ([]*ast.MappingValueNode, bool) {
	switch n := n.(type) {
	case nil, *ast.NullNode:
		return nil, true
	case *ast.MappingNode:
		return n.Values, !n.IsFlowStyle || len(n.Values) == 0
	case *ast.MappingValueNode:
		return []*ast.MappingValueNode{n}, true
	}
	return nil, false
}

var emptyValue = pattern.Later(`:[ \t]*(?:\{[ \t]*\}|~|null)`)

// emptied removes an empty value, such as {} or null, after the key on a line.
func emptied(line []byte) []byte { return emptyValue().ReplaceAll(line, []byte(":")) }

// blockEnd returns the index of the first line that is indented by at most column spaces. It
// ignores blank lines and comments. If there is no such line, the result is the value of to.
func blockEnd(lines [][]byte, from, to, column int) int {
	for i := from; i < to; i++ {
		l := bytes.TrimLeft(lines[i], " ")
		if len(bytes.TrimSpace(l)) == 0 || l[0] == '#' {
			continue
		}
		if len(lines[i])-len(l) <= column {
			return i
		}
	}
	return to
}

// memberEnd does the same for the value of a member whose key is in this column. The items of a list may stand as far
// left as the key.
func memberEnd(lines [][]byte, from, to, column int) int {
	end := blockEnd(lines, from, to, column)
	for item := strings.Repeat(" ", column) + "-"; end < to; end = blockEnd(lines, end+1, to, column) {
		rest, ok := strings.CutPrefix(string(lines[end]), item)
		if !ok || strings.TrimSpace(rest) != "" && rest[0] != ' ' {
			break
		}
	}
	return end
}

// insert inserts text after the last line of the block. Comments at the end of the block that are not
// indented stay after the inserted text. If gap is true, a blank line precedes the text.
func (y *yamlBlock) insert(text, end string, gap bool) []byte {
	at := y.from
	for i := y.from; i < y.to; i++ {
		l := bytes.TrimLeft(y.lines[i], " ")
		blank := len(bytes.TrimSpace(l)) == 0
		if !blank && (l[0] != '#' || len(y.lines[i])-len(l) >= y.column && (y.column > 0 || at == y.from)) {
			at = i + 1
		}
	}
	before := bytes.Join(y.lines[:at], nil)
	if len(before) > 0 && before[len(before)-1] != '\n' {
		before = append(before, end...)
	}
	if gap && len(before) > 0 {
		before = append(before, end...)
	}
	return append(append(before, text...), bytes.Join(y.lines[at:], nil)...)
}

// yamlWriter writes values as YAML.
type yamlWriter struct{ line, unit string }

func (w yamlWriter) members(b *strings.Builder, members []Member, indent string, comments map[string]string) {
	for _, m := range members {
		if c := comments[m.Key]; c != "" {
			b.WriteString(indent + "# " + c + w.line)
		}
		w.member(b, m.Key, m.Value, indent)
	}
}

func (w yamlWriter) member(b *strings.Builder, key string, v *Value, indent string) {
	b.WriteString(indent + yamlText(key) + ":")
	if v.Kind == Map && len(v.Members) > 0 {
		b.WriteString(w.line)
		for _, m := range v.Members {
			w.member(b, m.Key, m.Value, indent+w.unit)
		}
		return
	}
	b.WriteString(" " + w.inline(v) + w.line)
}

func (w yamlWriter) inline(v *Value) string {
	switch v.Kind {
	case Map:
		return "{}"
	case List:
		var items []string
		for _, i := range v.Items {
			items = append(items, w.inline(i))
		}
		return "[" + strings.Join(items, ", ") + "]"
	case String:
		return yamlText(v.Text)
	case Null:
		return "null"
	}
	return v.Text
}

var (
	plainText = pattern.Later(`^[A-Za-z0-9_./@$][A-Za-z0-9_./@%+=~:${}-]*$`)
	// notText matches words that YAML 1.1 or YAML 1.2 does not parse as a string.
	notText = pattern.Later(`(?i)^(?:true|false|yes|no|on|off|y|n|null|~|[-+.]?[0-9][0-9a-fxo_.,:+-]*|\.inf|\.nan|0x.*)$`)
)

// yamlText returns s as a plain scalar if every YAML parser reads the scalar as a string. Otherwise
// it returns s in double quotes.
func yamlText(s string) string {
	if plainText().MatchString(s) && !notText().MatchString(s) && !strings.ContainsAny(s, "{}@") && !strings.HasSuffix(s, ":") ||
		len(s) > 1 && s[0] == '-' && plainText().MatchString(s[1:]) && !notText().MatchString(s) && !strings.ContainsAny(s, "{}:@") {
		return s
	}
	return string(appendJSON(nil, Text(s), "", jsonStyle{}, true))
}
