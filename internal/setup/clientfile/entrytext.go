package clientfile

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/tailscale/hujson"
)

// EntryText returns the value at path in Dragoman's configuration file as it is written there, with its
// comments, but not as far indented. It returns "" if there is none. It fails if the value has an anchor
// or is inside of braces.
func EntryText(name string, b []byte, path []string) (string, error) {
	if LooksLikeJSON(b) && isJSON(name, b) {
		at, found, err := findJSON(name, b, path)
		if err != nil || !found {
			return "", err
		}
		indent := indentAt(bytes.TrimPrefix(b, bom), at.StartOffset)
		at.BeforeExtra, at.AfterExtra = nil, nil
		return strings.ReplaceAll(string(at.Pack()), "\n"+indent, "\n"), nil
	}
	p, found, err := placeOf(b, path)
	if err != nil || !found {
		return "", err
	}
	value, _ := p.text()
	first, rest, _ := strings.Cut(string(value), "\n")
	if first = strings.TrimSpace(first); first == "" || first[0] == '#' {
		return dedent(rest), nil
	}
	if first[0] != '{' && first[0] != '[' {
		return "", fmt.Errorf("%s %w", quoted(path), errNotBlock)
	}
	return strings.TrimRight(first+"\n"+dedent(rest), "\r\n") + "\n", nil
}

// SetEntryText returns Dragoman's configuration file with another text for the value at path, as EntryText
// returns it. An empty text removes the value. All other bytes stay the same.
func SetEntryText(name string, b []byte, path []string, text string) (out []byte, err error) {
	text = strings.TrimRight(strings.ReplaceAll(text, "\r\n", "\n"), " \t\n")
	if strings.TrimSpace(text) == "" {
		out, _, err = removeOwn(name, b, path)
		return out, err
	}
	if LooksLikeJSON(b) && isJSON(name, b) {
		return setJSONText(name, b, path, strings.TrimSpace(text))
	}
	p, found, err := placeOf(b, path)
	if err == nil && !found {
		if b, err = addOwn(name, b, path, Text("new")); err == nil {
			p, _, err = placeOf(b, path)
		}
	}
	if err != nil {
		return nil, err
	}
	value, to := p.text()
	first, rest, _ := strings.Cut(string(value), "\n")
	deep := p.column + 2
	if first = strings.TrimSpace(first); first == "" || first[0] == '#' {
		deep = max(p.column+1, leastIndent(rest))
		if isList(text) && isList(rest) { // it may stand as far left as its key
			deep = max(p.column, leastIndent(rest))
		}
	} else {
		first = ""
	}
	line := "\n"
	if bytes.Contains(b, []byte("\r\n")) {
		line = "\r\n"
	}
	lines := strings.Split(dedent(text), "\n")
	var into strings.Builder
	switch {
	case lines[0][0] == '{', lines[0][0] == '[':
		into.WriteString(" " + lines[0] + line)
		lines = lines[1:]
	case first != "":
		into.WriteString(" " + first + line)
	default:
		into.WriteString(line)
	}
	for _, l := range lines {
		if l != "" {
			l = strings.Repeat(" ", deep) + l
		}
		into.WriteString(l + line)
	}
	out = p.replace(into.String(), to)
	old, ok := plainYAML(b)
	now, okNow := plainYAML(out)
	switch {
	case ok && !okNow:
		if err := bounded(out); errors.Is(err, errDeep) || errors.Is(err, errAliases) {
			return nil, err
		}
		return nil, errors.New("the text is not YAML")
	case !ok || !same(without(now, path), without(old, path)):
		return nil, fmt.Errorf("%s %w", quoted(path), errNotBlock)
	}
	return out, nil
}

// isList reports whether a text in YAML begins with an item of a list, after comments.
func isList(text string) bool {
	for l := range strings.Lines(text) {
		if l = strings.TrimSpace(l); l != "" && l[0] != '#' {
			return l[0] == '-'
		}
	}
	return false
}

// dedent removes the spaces that all lines begin with.
func dedent(text string) string {
	n := leastIndent(text)
	lines := strings.Split(text, "\n")
	for i, l := range lines {
		l = strings.TrimRight(l, "\r")
		if lines[i] = l; strings.TrimSpace(l) == "" {
			lines[i] = ""
		} else {
			lines[i] = l[n:]
		}
	}
	return strings.TrimLeft(strings.Join(lines, "\n"), "\n")
}

// leastIndent returns how many spaces all lines of a text begin with, without blank lines.
func leastIndent(text string) int {
	least := -1
	for l := range strings.Lines(text) {
		if n := indentOf(l); strings.TrimSpace(l) != "" && (least < 0 || n < least) {
			least = n
		}
	}
	return max(least, 0)
}

// findJSON returns the value at path of a file in JSON.
func findJSON(name string, b []byte, path []string) (at hujson.Value, found bool, err error) {
	root, err := parseJSON(name, b)
	if err != nil {
		return root, false, err
	}
	if at := jsonAt(&root, path); at != nil {
		return *at, true, nil
	}
	return root, false, nil
}

// setJSONText sets the value at path of a file in JSON to the text of an object or an array.
func setJSONText(name string, b []byte, path []string, text string) ([]byte, error) {
	if _, err := parseJSON("the text", []byte(text)); err != nil {
		return nil, err
	}
	if !slices.Contains([]string{"{}", "[]"}, text[:1]+text[len(text)-1:]) {
		return nil, errors.New("the text must be an object in braces, or an array")
	}
	out, err := setJSON(name, b, path, &Value{Kind: Number, Text: text})
	if err != nil {
		return nil, err
	}
	at, _, err := findJSON(name, out, path)
	if err != nil {
		return nil, err
	}
	indent, line := indentAt(bytes.TrimPrefix(out, bom), at.StartOffset), "\n"
	if bytes.Contains(b, []byte("\r\n")) {
		line = "\r\n"
	}
	from := at.StartOffset + len(out) - len(bytes.TrimPrefix(out, bom))
	return slices.Concat(out[:from], []byte(strings.ReplaceAll(text, "\n", line+indent)), out[from+len(text):]), nil
}
