package clientfile

import (
	"bytes"
	"fmt"
	"slices"
	"strings"

	"github.com/goccy/go-yaml/ast"
)

// place is where a member of a YAML file is. All mappings around it are written in indented lines.
type place struct {
	lines        [][]byte
	line, column int // of the key
	value        int // the index after the colon, in the key's line
	node         *ast.MappingValueNode
}

// placeOf returns where the member at path is. found is false if there is none.
func placeOf(b []byte, path []string) (p place, found bool, err error) {
	if !bytes.HasPrefix(b, bom) {
		p.lines = bytes.SplitAfter(b, []byte("\n"))
	}
	file, err := parseYAML(b)
	if err != nil {
		return p, false, err
	}
	values, ok := blockOf(bodyOf(file))
	for i, key := range path {
		if !ok {
			return p, false, fmt.Errorf("%s %w", quoted(path[:i]), errNotBlock)
		}
		j := slices.IndexFunc(values, func(v *ast.MappingValueNode) bool { return v.Key.GetToken().Value == key })
		if j < 0 {
			return p, false, nil
		}
		p.node = values[j]
		values, ok = blockOf(p.node.Value)
	}
	at := p.node.Key.GetToken().Position
	p.line, p.column = at.Line-1, at.Column-1
	if p.line >= len(p.lines) || p.column >= len(p.lines[p.line]) {
		return p, false, fmt.Errorf("%s %w", quoted(path), errNotBlock)
	}
	text := p.lines[p.line]
	end := scalarEnd(text, p.column)
	for end < len(text) && text[end] == ' ' {
		end++
	}
	if end >= len(text) || text[end] != ':' {
		return p, false, fmt.Errorf("%s %w", quoted(path), errNotBlock)
	}
	p.value = end + 1
	return p, true, nil
}

// text returns the member's value, from after the colon to the end of its last line, and the index of
// the line after it.
func (p *place) text() (value []byte, to int) {
	to = p.line + 1
	for i, end := to, memberEnd(p.lines, to, len(p.lines), p.column); i < end; i++ {
		l := bytes.TrimLeft(p.lines[i], " ")
		if len(bytes.TrimSpace(l)) > 0 && (l[0] != '#' || len(p.lines[i])-len(l) > p.column) {
			to = i + 1
		}
	}
	return slices.Concat(p.lines[p.line][p.value:], bytes.Join(p.lines[p.line+1:to], nil)), to
}

// replace returns the file with another value, which begins after the colon and ends with a line end.
func (p *place) replace(value string, to int) []byte {
	return slices.Concat(bytes.Join(p.lines[:p.line], nil), p.lines[p.line][:p.value], []byte(value), bytes.Join(p.lines[to:], nil))
}

// unbrace returns a YAML file with the mapping at path, and those around it, written in indented lines
// if they are in braces. It doesn't touch what is in the members of the mapping.
func unbrace(b []byte, path []string) ([]byte, error) {
	out := b
	for depth := 1; depth <= len(path); depth++ {
		p, found, err := placeOf(out, path[:depth])
		if err != nil {
			return nil, err
		}
		if !found {
			break
		}
		if m, ok := p.node.Value.(*ast.MappingNode); !ok || !m.IsFlowStyle || len(m.Values) == 0 {
			continue
		}
		value, to := p.text()
		lead := len(value) - len(bytes.TrimLeft(value, " "))
		members, end, ok := flowParts(value[lead:])
		rest := strings.TrimSpace(string(value[min(lead+end, len(value)):]))
		if !ok || rest != "" && rest[0] != '#' {
			return nil, fmt.Errorf("%s %w", quoted(path[:depth]), errNotBlock)
		}
		line, unit := "\n", "  "
		if bytes.Contains(b, []byte("\r\n")) {
			line = "\r\n"
		}
		if depth > 1 && p.column > 0 && p.column%(depth-1) == 0 {
			unit = strings.Repeat(" ", p.column/(depth-1))
		}
		var text strings.Builder
		if rest != "" {
			text.WriteString(" " + rest)
		}
		text.WriteString(line)
		for _, m := range members {
			text.WriteString(strings.Repeat(" ", p.column) + unit + m + line)
		}
		out = p.replace(text.String(), to)
	}
	old, ok := plainYAML(b)
	now, okNow := plainYAML(out)
	if !bytes.Equal(b, out) && (!ok || !okNow || !same(old, now)) {
		return nil, fmt.Errorf("%s %w", quoted(path), errNotBlock)
	}
	return out, nil
}

// flowParts returns the members of a mapping in braces, or the items of a list in brackets, as they are
// written. end is the index after the closing bracket. ok is false if the text has none, or a comment
// before it.
func flowParts(b []byte) (parts []string, end int, ok bool) {
	depth, from := 0, 1
	part := func(to int) {
		text := strings.Join(strings.Fields(string(b[from:to])), " ") // a line break is a space
		if !bytes.ContainsRune(b[from:to], '\n') {
			text = strings.TrimSpace(string(b[from:to]))
		}
		if n := scalarEnd([]byte(text), 0); n < len(text) && b[0] == '{' && text[n] == ':' && !strings.HasPrefix(text[n:], ": ") {
			text = text[:n] + ": " + text[n+1:] // {"a":1} may do without the space
		}
		if text != "" {
			parts = append(parts, text)
		}
		from = to + 1
	}
	for i := 0; i < len(b); i++ {
		switch c := b[i]; {
		case c == '{' || c == '[':
			depth++
		case c == '}' || c == ']':
			if depth--; depth == 0 {
				part(i)
				return parts, i + 1, true
			}
		case c == ',' && depth == 1:
			part(i)
		case c == '#' && (b[i-1] == ' ' || b[i-1] == '\n'):
			return nil, 0, false
		case (c == '"' || c == '\'') && bytes.IndexByte([]byte(" \n,:{["), b[i-1]) >= 0:
			i = scalarEnd(b, i) - 1
		}
	}
	return nil, 0, false
}

// scalarEnd returns the index after the key or the quoted text that begins at an index.
func scalarEnd(b []byte, at int) int {
	if at < len(b) && (b[at] == '"' || b[at] == '\'') {
		quote := b[at]
		for i := at + 1; i < len(b); i++ {
			switch {
			case b[i] == '\\' && quote == '"':
				i++
			case b[i] == quote && quote == '\'' && i+1 < len(b) && b[i+1] == quote:
				i++
			case b[i] == quote:
				return i + 1
			}
		}
		return len(b)
	}
	for i := at; i < len(b); i++ {
		if b[i] == ':' && (i+1 == len(b) || bytes.IndexByte([]byte(" \r\n"), b[i+1]) >= 0) {
			return i
		}
	}
	return len(b)
}

// editList returns a YAML file with other texts in the list at path, which has the texts old. Those that
// stay keep their lines.
func editList(b []byte, path []string, old *Value, list []string) ([]byte, error) {
	p, found, err := placeOf(b, path)
	ok := err == nil && found && old.Kind == List
	if !ok {
		return nil, fmt.Errorf("%s %w", quoted(path), errNotBlock)
	}
	stays := make([]bool, len(old.Items))
	for i, v := range old.Items {
		stays[i] = slices.Contains(list, v.text())
	}
	added := slices.DeleteFunc(slices.Clone(list), func(s string) bool {
		return slices.ContainsFunc(old.Items, func(v *Value) bool { return v.text() == s })
	})
	value, to := p.text()
	out := []byte(nil)
	if lead := len(value) - len(bytes.TrimLeft(value, " ")); lead < len(value) && value[lead] == '[' {
		items, end, closed := flowParts(value[lead:])
		if ok = closed && len(items) == len(stays); ok {
			var all []string
			for i, text := range items {
				if stays[i] {
					all = append(all, text)
				}
			}
			for _, text := range added {
				all = append(all, yamlText(text))
			}
			out = p.replace(" ["+strings.Join(all, ", ")+"]"+string(value[lead+end:]), to)
		}
	} else {
		out, ok = p.editLines(stays, added)
	}
	if !ok {
		return nil, fmt.Errorf("%s %w", quoted(path), errNotBlock)
	}
	return out, nil
}

// editLines returns the file with other items in a list that has a line for each item. ok is false if the
// list is another one.
func (p *place) editLines(stays []bool, added []string) (out []byte, ok bool) {
	end := "\n"
	if bytes.HasSuffix(p.lines[p.line], []byte("\r\n")) {
		end = "\r\n"
	}
	at, indent, last, n := p.line+1, -1, 0, 0
	var kept [][]byte // the lines of the list that stay
	for ; at < len(p.lines); at++ {
		l := bytes.TrimLeft(p.lines[at], " ")
		column := len(p.lines[at]) - len(l)
		if text := bytes.TrimSpace(l); len(text) == 0 || text[0] == '#' {
			kept = append(kept, p.lines[at])
			continue
		}
		if indent < 0 {
			indent = column // perhaps only as far as the key
		}
		if column < indent || l[0] != '-' {
			break
		}
		if column > indent || n == len(stays) {
			return nil, false // an item of several lines
		}
		if n++; stays[n-1] {
			kept = append(kept, p.lines[at])
		}
		last = len(kept)
	}
	if n != len(stays) {
		return nil, false
	}
	for _, text := range added {
		if last > 0 && !bytes.HasSuffix(kept[last-1], []byte("\n")) {
			kept[last-1] = append(bytes.Clone(kept[last-1]), end...)
		}
		kept = slices.Insert(kept, last, []byte(strings.Repeat(" ", indent)+"- "+yamlText(text)+end))
		last++
	}
	return slices.Concat(bytes.Join(p.lines[:p.line+1], nil), bytes.Join(kept, nil), bytes.Join(p.lines[at:], nil)), true
}
