package clientfile

import (
	"bytes"
	"fmt"
	"slices"
	"strings"

	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
)

// RemoveServer returns Dragoman's configuration file b without a server and its settings. All other
// bytes stay the same, except that the comment lines right above the server go with it. It fails if
// the server is not below mcpServers, or is not written in indented lines.
func RemoveServer(name string, b []byte, server string) ([]byte, error) {
	out, found, err := removeOwn(name, b, []string{"mcpServers", server})
	if err != nil {
		return nil, err
	}
	if !found {
		return nil, fmt.Errorf("mcpServers has no %q", server)
	}
	out, _, err = removeOwn(name, out, []string{"dragoman", "servers", server})
	return out, err
}

// SetDisabled returns Dragoman's configuration file b with a server disabled or enabled. All other
// bytes stay the same. If nothing has to change, it returns b itself. It fails for the same files as
// RemoveServer.
func SetDisabled(name string, b []byte, server string, disabled bool) (out []byte, err error) {
	path := []string{"mcpServers", server}
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
	full := append(slices.Clone(path), "disabled")
	if LooksLikeJSON(b) && isJSON(name, b) {
		return setJSON(name, out, full, boolean(true))
	}
	was, _ := plainYAML(out)
	if was.Get(path...) == nil {
		return nil, fmt.Errorf("mcpServers has no %q", server)
	}
	if out, err = addYAML(out, path, []Member{{Key: "disabled", Value: boolean(true)}}, nil); err != nil {
		return nil, err
	}
	now, ok := plainYAML(out)
	if !ok || now.Get(full...).text() != "true" || !same(without(now, full), was) {
		return nil, fmt.Errorf("%s %w", quoted(path), errNotBlock)
	}
	return out, nil
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
	if out, err = removeYAML(b, path); err != nil {
		return nil, false, err
	}
	parent := path[:len(path)-1]
	if now, ok := plainYAML(out); !ok || now.Get(path...) != nil || !same(pruned(now, parent), without(old, path)) {
		return nil, false, fmt.Errorf("%s %w", quoted(path), errNotBlock)
	}
	return out, true, nil
}

// removeYAML removes the lines of the member at path.
func removeYAML(b []byte, path []string) ([]byte, error) {
	file, err := parser.ParseBytes(bytes.TrimPrefix(b, bom), 0)
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
	for i, end := to, blockEnd(y.lines, to, y.to, y.column); i < end; i++ {
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
