package clientfile

import (
	"bytes"
	"fmt"
	"slices"
	"strings"

	"github.com/goccy/go-yaml/ast"
)

// Own is a server in Dragoman's configuration file.
type Own struct {
	Project string // "" for default, whose servers are at the top of the file
	Server  string
}

// Entry returns the path of the server's entry in the file.
func (o Own) Entry() []string {
	if o.Project == "" {
		return []string{"mcpServers", o.Server}
	}
	return []string{"dragoman", "projects", o.Project, "mcpServers", o.Server}
}

// Settings returns the path of the settings that only Dragoman has for the server.
func (o Own) Settings() []string {
	if o.Project == "" {
		return []string{"dragoman", "servers", o.Server}
	}
	return []string{"dragoman", "projects", o.Project, "servers", o.Server}
}

// RemoveServer returns Dragoman's configuration file b without a server and its settings. All other
// bytes stay the same, except that the comment lines right above the server go with it, and that a
// mapping of servers in braces is written in indented lines. It fails if the server is not below
// mcpServers, and if the file has anchors there.
func RemoveServer(name string, b []byte, o Own) ([]byte, error) {
	out, found, err := removeOwn(name, b, o.Entry())
	if err != nil {
		return nil, err
	}
	if !found {
		return nil, fmt.Errorf("mcpServers has no %q", o.Server)
	}
	out, _, err = removeOwn(name, out, o.Settings())
	return out, err
}

// SetDisabled returns Dragoman's configuration file b with a server disabled or enabled. All other
// bytes stay the same, except that an entry in braces is written in indented lines. If nothing has to
// change, it returns b itself. It fails for the same files as RemoveServer.
func SetDisabled(name string, b []byte, o Own, disabled bool) (out []byte, err error) {
	path := o.Entry()
	out = b
	for _, key := range []string{"disabled", "enabled"} {
		if key == "enabled" && disabled {
			break // disabled counts more
		}
		if out, _, err = removeOwn(name, out, append(slices.Clone(path), key)); err != nil {
			return nil, err
		}
	}
	if !disabled {
		return out, nil
	}
	if was, ok := plainYAML(out); ok && was.Get(path...) == nil {
		return nil, fmt.Errorf("mcpServers has no %q", o.Server)
	}
	return addOwn(name, out, append(path, "disabled"), boolean(true))
}

// SetFilter returns Dragoman's configuration file b with the lists allow and deny of the filter expose.tools in the
// settings of a server. An empty list is removed, with the mappings around it that get
// empty. In a list that stays, the other items keep their lines. All other bytes of the file stay the
// same, except that a mapping in braces is written in indented lines if it has to change.
func SetFilter(name string, b []byte, o Own, allow, deny []string) ([]byte, error) {
	out := b
	path := append(o.Settings(), "expose", "tools")
	for _, l := range []struct {
		key  string
		list []string
	}{{"allow", allow}, {"deny", deny}} {
		var err error
		if out, err = setList(name, out, append(slices.Clone(path), l.key), l.list); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// setList sets the list of texts at path.
func setList(name string, b []byte, path []string, list []string) (out []byte, err error) {
	json := LooksLikeJSON(b) && isJSON(name, b)
	if len(list) == 0 {
		var found bool
		settings := len(path) - 3
		for out = b; len(path) > settings; path = path[:len(path)-1] {
			if out, found, err = removeOwn(name, out, path); err != nil || !found {
				return out, err
			}
			parent := path[:len(path)-1]
			if v := valueAt(name, out, parent); v == nil || len(v.Members) > 0 {
				return out, nil
			}
		}
		out, _, err = removeOwn(name, out, path)
		return out, err
	}
	old := valueAt(name, b, path)
	switch {
	case old != nil && same(old, Texts(list)):
		return b, nil
	case json:
		return setJSON(name, b, path, Texts(list))
	case old == nil:
		return addOwn(name, b, path, Texts(list))
	}
	if b, err = unbrace(b, path[:len(path)-1]); err == nil {
		out, err = editList(b, path, old, list)
	}
	if err != nil {
		return nil, err
	}
	return onlyAt(b, out, path, Texts(list))
}

// valueAt returns the value at path in Dragoman's configuration file, or nil.
func valueAt(name string, b []byte, path []string) *Value {
	if LooksLikeJSON(b) && isJSON(name, b) {
		root, err := Parse("x.json", b)
		if err != nil {
			return nil
		}
		return root.Get(path...)
	}
	v, ok := plainYAML(b)
	if !ok {
		return nil
	}
	return v.Get(path...)
}

// addOwn adds the member at path to Dragoman's configuration file, which must not have it yet.
func addOwn(name string, b []byte, path []string, value *Value) (out []byte, err error) {
	if LooksLikeJSON(b) && isJSON(name, b) {
		return setJSON(name, b, path, value)
	}
	parent := path[:len(path)-1]
	if out, err = unbrace(b, parent); err == nil {
		out, err = addYAML(out, parent, []Member{{Key: path[len(path)-1], Value: value}}, nil)
	}
	if err != nil {
		return nil, err
	}
	return onlyAt(b, out, path, value)
}

// onlyAt returns a later version of Dragoman's file if its only difference is the value at path, which
// now is value.
func onlyAt(before, after []byte, path []string, value *Value) ([]byte, error) {
	old, ok := plainYAML(before)
	now, okNow := plainYAML(after)
	full := value
	if value.Kind == Bool {
		full = Text(value.Text) // as in plainYAML
	}
	if ok && okNow && same(now.Get(path...), full) {
		now, old = without(now, path), without(old, path)
		for i := len(path) - 1; i > 0; i-- { // mappings that we made for it
			now, old = pruned(now, path[:i]), pruned(old, path[:i])
		}
		if same(now, old) {
			return after, nil
		}
	}
	return nil, fmt.Errorf("%s %w", quoted(path), errNotBlock)
}

// removeOwn returns Dragoman's configuration file without the member at path. found is false if there
// is none, and then the result is b itself.
func removeOwn(name string, b []byte, path []string) (out []byte, found bool, err error) {
	if LooksLikeJSON(b) && isJSON(name, b) {
		out, err = removeJSON(name, b, path)
		return out, err == nil && !bytes.Equal(out, b), err
	}
	old, ok := plainYAML(b)
	if !ok || old.Get(path...) == nil {
		return b, false, nil
	}
	parent := path[:len(path)-1]
	if out, err = unbrace(b, parent); err == nil {
		out, err = removeYAML(out, path)
	}
	if err != nil {
		return nil, false, err
	}
	if now, ok := plainYAML(out); !ok || now.Get(path...) != nil || !same(pruned(now, parent), without(old, path)) {
		return nil, false, fmt.Errorf("%s %w", quoted(path), errNotBlock)
	}
	return out, true, nil
}

// removeYAML removes the lines of the member at path.
func removeYAML(b []byte, path []string) ([]byte, error) {
	file, err := parseYAML(b)
	if err != nil {
		return nil, err
	}
	values, ok := blockOf(bodyOf(file))
	at := yamlBlock{lines: bytes.SplitAfter(b, []byte("\n"))}
	at.to = len(at.lines)
	parent := -1 // the line of the key above
	for i, key := range path {
		j := slices.IndexFunc(values, func(v *ast.MappingValueNode) bool { return v.Key.GetToken().Value == key })
		if !ok || j < 0 {
			return nil, fmt.Errorf("%s %w", quoted(path[:i+1]), errNotBlock)
		}
		line := values[j].Key.GetToken().Position.Line - 1
		if i == len(path)-1 {
			return at.remove(line, parent, len(values) == 1), nil
		}
		parent = line
		values, ok = at.enter(values[j], &yamlWriter{}, false)
	}
	return b, nil
}

// remove returns the file without the member whose key is on the line with this index, and without
// the comment right above it. parent is the line with the key of the block, or -1. If the member is
// the only one, the block becomes an empty mapping.
func (y *yamlBlock) remove(line, parent int, only bool) []byte {
	from, to := line, line+1
	comment := strings.Repeat(" ", y.column) + "#"
	for from > y.from && strings.HasPrefix(string(y.lines[from-1]), comment) {
		from--
	}
	for i, end := to, memberEnd(y.lines, to, y.to, y.column); i < end; i++ {
		l := bytes.TrimLeft(y.lines[i], " ")
		if len(bytes.TrimSpace(l)) > 0 && (l[0] != '#' || len(y.lines[i])-len(l) > y.column) {
			to = i + 1
		}
	}
	if only && parent >= 0 {
		y.lines[parent] = bytes.Replace(y.lines[parent], []byte(":"), []byte(": {}"), 1)
	}
	return slices.Concat(bytes.Join(y.lines[:from], nil), bytes.Join(y.lines[to:], nil))
}
