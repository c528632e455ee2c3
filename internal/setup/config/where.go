package config

import (
	"os"
	"strconv"
	"strings"

	"github.com/dragoman-mcp/dragoman/internal/setup/clientfile"
)

// Line is one line of a configuration that is shown to people.
type Line struct {
	Depth int    // the depth of nesting
	Key   string // the key of the setting; "" for an item of a list
	Value string // the value with secrets masked; "" for a mapping
	Path  string // for example "dragoman.limits.call"
	// At is the number of the line in the file that has the setting. At is 0 if the value is a
	// default, or if the lines of the file are unknown.
	At int
}

// Lines returns the whole configuration including defaults, with one Line for each setting. The
// parameter where is the result of the method Where, or nil if the lines of the file are unknown.
func (s *Snapshot) Lines(where map[string]int) (out []Line) {
	var path []string
	for _, text := range strings.Split(strings.TrimSuffix(string(s.AppendYAML(nil)), "\n"), "\n") {
		line := strings.TrimLeft(text, " ")
		depth := (len(text) - len(line)) / 2
		l := Line{Depth: depth, Value: line}
		if key, value, ok := cutKey(line); ok {
			l.Key, l.Value = key, value
			path = append(path[:min(depth, len(path))], key)
		}
		l.Path = strings.Join(path[:min(depth+1, len(path))], ".")
		l.At = where[l.Path]
		out = append(out, l)
	}
	return out
}

// inherited maps a setting of a server to the global setting that applies if the server does not have
// its own setting.
var inherited = map[string]string{
	"callTimeout": "dragoman.limits.call", "callMax": "dragoman.limits.callMax", "startTimeout": "dragoman.limits.start",
	"inheritEnv": "dragoman.inheritEnv", "message": "dragoman.limits.message",
}

// LineOf returns the line of the file that sets the given key, for example "env", for a server of a project,
// or of default if project is "". If the server does not set the key, LineOf returns the line of the setting
// that applies to all servers of the project, or else to all projects. If the file does not have this setting
// either, LineOf returns 0. The parameter where is the result of the method Where.
func LineOf(where map[string]int, project, server, key string) int {
	entry, own := PathsOf(project, server)
	paths := []string{own + "." + key, entry + "." + key}
	if all := inherited[key]; all != "" {
		if project != "" {
			paths = append(paths, ourKey+".projects."+project+strings.TrimPrefix(all, ourKey))
		}
		paths = append(paths, all)
	}
	for _, path := range paths {
		if at := where[path]; at > 0 {
			return at
		}
	}
	return 0
}

// PathsOf returns the paths in the file of a server's entry and of its settings. project is the server's
// project, or "" for default.
func PathsOf(project, server string) (entry, settings string) {
	if project == "" {
		return "mcpServers." + server, ourKey + ".servers." + server
	}
	home := ourKey + ".projects." + project
	return home + ".mcpServers." + server, home + ".servers." + server
}

// cutKey splits a line of AppendYAML into the key and the value.
func cutKey(line string) (key, value string, ok bool) {
	if strings.HasPrefix(line, "- ") || strings.HasPrefix(line, "#") {
		return "", "", false
	}
	if rest, quoted := strings.CutPrefix(line, `"`); quoted {
		end := strings.Index(rest, `":`)
		if end < 0 {
			return "", "", false
		}
		return rest[:end], strings.TrimSpace(rest[end+2:]), true
	}
	key, value, ok = strings.Cut(line, ":")
	return key, strings.TrimSpace(value), ok
}

// Where returns the line of each key, and of each item of a list, in the configuration file, by path. It returns nil if the file
// cannot be read, or if the settings in the file have changed since the file was loaded.
func (s *Snapshot) Where() map[string]int {
	b, _, err := read(s.File, clientfile.MaxFile+1)
	if err != nil {
		return nil
	}
	now, _ := parse(s.File, b, lookups{env: os.LookupEnv, secrets: s.secrets}, ReadEnv)
	if now == nil || !now.Equal(s) {
		return nil
	}
	none := func(string) (string, bool) { return "", false }
	c := &compiler{file: s.File, home: ourKey, process: none, env: none}
	root := c.readFile(b)
	if root == nil {
		return nil
	}
	out := map[string]int{}
	var walk func(n *node, path string)
	walk = func(n *node, path string) {
		for _, m := range n.members {
			p := strings.TrimPrefix(path+"."+m.key, ".")
			out[p] = m.line
			walk(m.value, p)
		}
		for i, item := range n.items {
			p := path + "[" + strconv.Itoa(i) + "]"
			out[p] = item.line
			walk(item, p)
		}
	}
	walk(root, "")
	return out
}
