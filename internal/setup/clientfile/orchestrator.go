package clientfile

import (
	"slices"
	"strconv"
)

// orchestrator represents a program that starts MCP servers for other programs. Its configuration
// file has the servers under the top-level key servers, as a mapping or as a list of entries with a
// name. The key compatibility_mode of a server, or of the whole file, determines how long a server
// process runs.
var orchestrator = &Client{ID: "", Title: "an MCP orchestrator", refs: refsAny, container: []string{"servers"}, converted: true}

// CompatibilityKeys are the spellings of the key compatibility_mode.
var CompatibilityKeys = []string{"compatibility_mode", "compatibilityMode"}

// Isolation converts a value of compatibility_mode to the value of Dragoman's key isolation that
// has the same meaning. ok is false if mode is unknown.
func Isolation(mode string) (isolation string, ok bool) {
	switch mode {
	case "api_wrapper": // one process per call
		return "call", true
	case "resource_connection": // a process that keeps running between calls
		return "auto", true
	}
	return "", false
}

// modeOf returns the value of compatibility_mode in a mapping, or nil.
func modeOf(v *Value) *Value {
	for _, key := range CompatibilityKeys {
		if mode := v.Get(key); mode.scalar() {
			return mode
		}
	}
	return nil
}

// isOrchestrator reports whether a file is for an orchestrator. The file must not have the key
// mcpServers.
func isOrchestrator(path string, root *Value) bool {
	servers := root.Get("servers")
	switch {
	case servers == nil:
		return false
	case servers.Kind == List:
		return len(namedEntries(servers)) > 0
	case servers.Kind != Map:
		return false
	case isYAML(path) || modeOf(root) != nil:
		return true
	}
	return slices.ContainsFunc(servers.Members, func(m Member) bool { return modeOf(m.Value) != nil })
}

// namedEntries returns the entries in a list of servers as members of a mapping. It skips entries
// without a name, and entries that have neither a command nor a URL.
func namedEntries(list *Value) []Member {
	var out []Member
	for _, v := range list.Items {
		name := v.Get("name")
		if name.text() == "" || v.Get("command") == nil && v.Get("url") == nil {
			continue
		}
		out = append(out, Member{Key: name.text(), Value: without(v, []string{"name"}), Line: v.Line, Col: v.Col})
	}
	return out
}

// compatibility converts the key compatibility_mode of a server to Dragoman's key isolation.
func (r *reading) compatibility(m *Member) {
	if word, ok := Isolation(m.Value.text()); ok {
		r.settings.set("isolation", &Value{Kind: String, Text: word, Line: m.Line, Col: m.Col})
		r.note(m, m.Value.text()+" becomes isolation: "+word, true)
		return
	}
	r.note(m, strconv.Quote(m.Value.text())+" is not a known mode, so it is ignored", false)
}

// inherit applies the compatibility_mode of the file to each server that does not have its own.
func (f *File) inherit(mode *Value) {
	word, ok := Isolation(mode.text())
	if !ok {
		f.Notes = append(f.Notes, Note{Key: CompatibilityKeys[0], Text: strconv.Quote(mode.text()) + " is not a known mode, so it is ignored", Line: mode.Line, Col: mode.Col})
		return
	}
	for i := range f.Servers {
		s := &f.Servers[i]
		if s.Entry == nil || s.Settings.Get("isolation") != nil {
			continue
		}
		if s.Settings == nil {
			s.Settings = Mapping()
		}
		s.Settings.set("isolation", &Value{Kind: String, Text: word, Line: mode.Line, Col: mode.Col})
	}
}
