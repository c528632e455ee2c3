package config

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"github.com/dragoman-mcp/dragoman/internal/setup/clientfile"
)

// readFile parses the file, which must contain only one document. If the file is from another
// client, in JSON with or without comments or in TOML, readFile converts it to the format of
// dragoman.yaml. It returns nil if the file is empty, or if it has reported a problem that prevents
// further parsing.
func (c *compiler) readFile(b []byte) *node {
	var root *node
	switch {
	case len(b) > MaxFile && clientfile.LooksLikeJSON(b):
		// Some clients also keep their history in their file, so the file may be larger than the
		// YAML parser accepts. Problems in a large file do not show the text of their line, because
		// the whole file may be one line.
		v, err := clientfile.Parse(c.file, b)
		if err != nil {
			c.syntaxError(err)
			return nil
		}
		if client := clientfile.Identify(c.file, v); client != nil && !client.Plain() && v.Get("dragoman") == nil {
			return c.convert(client, v)
		}
		root = fromValue(v)
	case len(b) > MaxFile:
		return c.readTree(b) // readTree reports the problem
	case clientfile.IsTOML(c.file):
		c.source.lines = strings.Split(string(b), "\n")
		v, err := clientfile.Parse(c.file, b)
		if err != nil {
			c.syntaxError(err)
			return nil
		}
		root = fromValue(v)
		c.source.marks = marksOfTree(root)
	case clientfile.LooksLikeJSON(b):
		b = bytes.TrimPrefix(b, []byte("\ufeff"))
		plain, err := clientfile.Standardize(c.file, b)
		switch {
		case err == nil:
			root = c.readTree(plain)
		case looksCommented(string(b)): // invalid JSON with comments; YAML has no comments with //
			c.source.lines = strings.Split(string(b), "\n")
			c.syntaxError(err)
			return nil
		default:
			return c.readTree(b)
		}
	default:
		root = c.readTree(b)
		if root != nil && root.kind == mappingKind {
			if v, _ := toValue(root); clientfile.Identify(c.file, v) == nil {
				c.format, c.formatHint = clientfile.Format(v)
			}
		}
		return root
	}
	if root == nil || root.kind != mappingKind {
		return root
	}
	return c.adapt(root)
}

// ParseClientFile parses the file of another client. It accepts YAML in addition to the formats
// of clientfile.Parse. It refuses Dragoman's own YAML file, which needs no import.
func ParseClientFile(name string, b []byte) (*clientfile.Value, error) {
	v, err := ParseSnippet(name, b)
	if err == nil && isYAML(name, b) && v.Get("dragoman") != nil {
		return nil, &clientfile.SyntaxError{File: name, Text: "this is a configuration file of Dragoman, which does not need an import"}
	}
	return v, err
}

func isYAML(name string, b []byte) bool {
	lower := strings.ToLower(name)
	return (strings.HasSuffix(lower, ".yaml") || strings.HasSuffix(lower, ".yml")) && !clientfile.LooksLikeJSON(b)
}

// ParseSnippet does the same as ParseClientFile, but also accepts Dragoman's own file. The
// extension of name selects the format: JSON, TOML or YAML. A YAML file that begins with an opening
// brace is parsed as JSON.
func ParseSnippet(name string, b []byte) (*clientfile.Value, error) {
	c := &compiler{file: name}
	if !isYAML(name, b) {
		v, err := clientfile.Parse(name, b)
		if err != nil {
			return nil, err
		}
		if c.duplicate(v) { // the error does not show the text of the line, because a line of JSON often has secrets
			return nil, c.problems.Err()
		}
		return v, nil
	}
	root := c.readTree(b)
	c.source.show(c.file, c.problems)
	if err := c.problems.Err(); err != nil {
		return nil, err
	}
	if root == nil {
		root = &node{kind: mappingKind, line: 1, col: 1}
	}
	v, ok := toValue(root)
	if !ok {
		return nil, &clientfile.SyntaxError{File: name, Text: "the file has too many values"}
	}
	return v, nil
}

// duplicate reports the first key that occurs twice in its mapping, and returns true if there is
// such a key. Clients use the last value of the key, but a person may see only the first value.
func (c *compiler) duplicate(v *clientfile.Value) bool {
	first := make(map[string]int, len(v.Members))
	for _, m := range v.Members {
		if at, dup := first[m.Key]; dup {
			c.listedTwice(&node{line: m.Line, col: m.Col}, m.Key, at)
			return true
		}
		first[m.Key] = m.Line
		if c.duplicate(m.Value) {
			return true
		}
	}
	return slices.ContainsFunc(v.Items, c.duplicate)
}

// listedTwice reports a key that occurs twice in its mapping. first is the line of the first
// occurrence.
func (c *compiler) listedTwice(at *node, key string, first int) {
	c.problem(at, "", "the key "+printable(key)+" is listed twice", fmt.Sprintf("the first one is on line %d; remove or rename one of them", first))
}

func (c *compiler) syntaxError(err error) {
	at := &node{}
	text := err.Error()
	if e, ok := err.(*clientfile.SyntaxError); ok {
		at.line, at.col, text = e.Line, e.Col, e.Text
	}
	c.problem(at, "", text, "")
}

// adapt converts a file of another client. For each setting that it cannot convert, adapt reports a
// warning with the position of the setting. A file with the key "dragoman" is Dragoman's own file,
// so adapt does not convert it.
func (c *compiler) adapt(root *node) *node {
	for _, m := range root.members {
		if m.key == "dragoman" {
			return root
		}
	}
	value, _ := toValue(root)
	client := clientfile.Identify(c.file, value)
	switch {
	case client == nil:
		c.format, c.formatHint = clientfile.Format(value)
		return root
	case client.Plain():
		return c.plain(root, c.serversOf(client, value))
	}
	return c.convert(client, value)
}

func (c *compiler) serversOf(client *clientfile.Client, value *clientfile.Value) clientfile.File {
	opt := clientfile.Options{OS: runtime.GOOS, Addresses: []string{Default().Listen}}
	if full, err := filepath.Abs(c.file); err == nil {
		opt.Folder = filepath.Dir(full)
		opt.Exists = func(path string) bool {
			_, err := os.Stat(path)
			return err == nil
		}
	}
	return clientfile.Read(client, c.file, value, false, opt)
}

// convert returns the servers and settings of a client's file in the format of dragoman.yaml.
func (c *compiler) convert(client *clientfile.Client, value *clientfile.Value) *node {
	file := c.serversOf(client, value)
	if len(file.Servers) == 0 {
		c.format, c.formatHint = "a file of "+client.Title, "add a server to it, or name another file"
	}
	servers, settings := &node{kind: mappingKind}, &node{kind: mappingKind}
	for _, s := range file.Servers {
		at := &node{line: s.Line, col: s.Col}
		path := join("mcpServers", s.Name)
		for _, n := range s.Notes {
			if !n.Harmless || slices.Contains(clientfile.CompatibilityKeys, n.Key) {
				c.warning(&node{line: n.Line, col: n.Col}, path, n.String(), "")
			}
		}
		switch {
		case s.Dragoman:
			c.warning(at, path, "is Dragoman itself, so it is ignored", "")
		case s.Entry != nil:
			servers.members = append(servers.members, member{s.Name, fromValue(s.Entry), s.Line, s.Col})
			if s.Settings != nil {
				settings.members = append(settings.members, member{s.Name, fromValue(s.Settings), s.Line, s.Col})
			}
		}
	}
	for _, n := range file.Notes {
		c.problem(&node{line: n.Line, col: n.Col}, "", n.String(), "")
	}
	if len(file.Elsewhere) > 0 {
		c.warning(nil, "", "also contains servers of single projects, which are ignored", "run `dragoman import --from "+client.ID+"` in the folder of a project")
	}
	return &node{kind: mappingKind, line: 1, col: 1, members: []member{
		{"mcpServers", servers, 1, 1},
		{"dragoman", &node{kind: mappingKind, line: 1, col: 1, members: []member{{"servers", settings, 1, 1}}}, 1, 1},
	}}
}

// plain returns a file whose entries have the format of dragoman.yaml, with two changes. It has no entries
// that start Dragoman or connect to it, because Dragoman would be its own client. And a command that the
// client looks for in a Python environment, which the key venv names, has its path there.
func (c *compiler) plain(root *node, file clientfile.File) *node {
	ours, read := map[string]bool{}, map[string]*clientfile.Server{}
	for i := range file.Servers {
		s := &file.Servers[i]
		ours[s.Original], read[s.Original] = s.Dragoman, s
	}
	out := *root
	out.members = slices.Clone(root.members)
	for i := range out.members {
		m := &out.members[i]
		if m.key != "mcpServers" || m.value.kind != mappingKind {
			continue
		}
		servers := *m.value
		servers.members = slices.DeleteFunc(slices.Clone(servers.members), func(s member) bool {
			if ours[s.key] {
				c.warning(s.place(), join("mcpServers", s.key), "is Dragoman itself, so it is ignored", "")
			}
			return ours[s.key]
		})
		for i := range servers.members {
			s := &servers.members[i]
			s.value = c.withoutVenv(s.value, s.key, read[s.key])
		}
		m.value = &servers
	}
	return &out
}

// withoutVenv returns an entry without the key venv. s is what clientfile has read from the entry; its
// command is the program in the environment.
func (c *compiler) withoutVenv(entry *node, name string, s *clientfile.Server) *node {
	isVenv := func(m member) bool { return m.key == "venv" }
	if s == nil || s.Entry == nil || entry.kind != mappingKind || !slices.ContainsFunc(entry.members, isVenv) {
		return entry
	}
	out := *entry
	out.members = slices.DeleteFunc(slices.Clone(entry.members), isVenv)
	for i := range out.members {
		if m := &out.members[i]; m.key == "command" {
			m.value = fromValue(s.Entry.Get("command"))
		}
	}
	for _, n := range s.Notes {
		if n.Key == "venv" && !n.Harmless {
			c.warning(&node{line: n.Line, col: n.Col}, join("mcpServers", name), n.String(), "")
		}
	}
	return &out
}

// maxValues is the maximum number of values that toValue copies. A YAML alias repeats the value of
// its anchor, so a small file can have very many values.
const maxValues = 600_000

// toValue copies a tree of nodes. If the tree has more than maxValues values, ok is false, and the
// values beyond this limit are null.
func toValue(root *node) (v *clientfile.Value, ok bool) {
	left := maxValues
	v = copyValue(root, &left)
	return v, left > 0
}

func copyValue(n *node, left *int) *clientfile.Value {
	if *left--; *left <= 0 {
		return &clientfile.Value{}
	}
	v := &clientfile.Value{Text: n.text, Line: n.line, Col: n.col}
	switch n.kind {
	case scalarKind:
		v.Kind = clientfile.String
		if !n.quoted && (n.text == "true" || n.text == "false") {
			v.Kind = clientfile.Bool
		}
	case mappingKind:
		v.Kind = clientfile.Map
		for _, m := range n.members {
			v.Members = append(v.Members, clientfile.Member{Key: m.key, Value: copyValue(m.value, left), Line: m.line, Col: m.col})
		}
	case sequenceKind:
		v.Kind = clientfile.List
		for _, i := range n.items {
			v.Items = append(v.Items, copyValue(i, left))
		}
	}
	return v
}

func fromValue(v *clientfile.Value) *node {
	n := &node{text: v.Text, line: v.Line, col: v.Col}
	switch v.Kind {
	case clientfile.Null:
	case clientfile.Map:
		n.kind = mappingKind
		for _, m := range v.Members {
			n.members = append(n.members, member{m.Key, fromValue(m.Value), m.Line, m.Col})
		}
	case clientfile.List:
		n.kind = sequenceKind
		for _, i := range v.Items {
			n.items = append(n.items, fromValue(i))
		}
	default:
		n.kind, n.quoted = scalarKind, v.Kind == clientfile.String
	}
	return n
}
