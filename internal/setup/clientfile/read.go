package clientfile

import (
	"slices"
	"strconv"
	"strings"
)

// File is the result of reading one file of a client.
type File struct {
	Servers []Server
	// Unread is the number of servers that were not read, because the file has more than
	// Options.Most servers.
	Unread int
	// Elsewhere maps the folder of each Claude Code project that was not read to its number of
	// servers.
	Elsewhere map[string]int
	// Notes are about the file as a whole.
	Notes []Note
}

// Server is one server of a file, converted to the format of Dragoman.
type Server struct {
	Name     string   // a valid name of a server, unique in the file
	Original string   // the name in the file
	Path     []string // the keys that lead to the server in the file; nil for a file with a list of servers
	Project  string   // the folder of the server's project; "" if the server is for all projects
	Entry    *Value   // the value of mcpServers.NAME, a Map
	Settings *Value   // the value of dragoman.servers.NAME; nil if there are no settings
	// Dragoman means that the entry starts Dragoman or connects to it. In this case, Entry is nil.
	Dragoman bool
	// Broken means that the server cannot be imported. In this case, Notes has the reason, and
	// Entry is nil.
	Broken    bool
	Notes     []Note
	Variables []Variable // environment variables that the server needs
	Line, Col int        // the position of the server's name in the file
}

// Note describes a setting that is not converted, or that has another meaning in Dragoman.
type Note struct {
	Key  string // the key in the client's file; "" if the note is not about a single key
	Text string // the note, in lower case and without a full stop
	// Harmless means that the server works the same without the setting.
	Harmless  bool
	Line, Col int
}

// String returns the key and the text of the note.
func (n Note) String() string {
	if n.Key == "" {
		return n.Text
	}
	return n.Key + ": " + n.Text
}

// Options change how Read reads a file.
type Options struct {
	OS string // a value of runtime.GOOS
	// Project is the folder of a project, or "". The file belongs to this project, or it is a file
	// of the user from which Read also takes the servers of this project.
	Project string
	// AllProjects makes Read return the servers of all projects in a file of Claude Code.
	AllProjects bool
	// Most is the maximum number of servers that Read returns; 0 means no limit.
	Most int
	// Folder is the full path of the file's folder, to which relative paths in the file are taken as
	// relative. It is "" for a text without a file.
	Folder string
	// Exists reports whether there is a file or a folder at a path. Nil means that there is none.
	Exists func(path string) bool
	// Addresses are the addresses of Dragoman's endpoint, as host:port.
	Addresses []string
}

// Read returns the servers in a file of the client c. owned means that the whole file belongs to
// the project opt.Project.
func Read(c *Client, path string, root *Value, owned bool, opt Options) File {
	var f File
	project := ""
	if owned {
		project = opt.Project
	}
	inputs := map[string]*Value{}
	if list := root.Get("inputs"); list != nil {
		for _, in := range list.Items {
			inputs[in.Get("id").text()] = in
		}
	}
	add := func(servers *Value, path []string, project string) {
		if servers == nil || servers.Kind == Null {
			return
		}
		if servers.Kind == List && c == orchestrator {
			servers, path = &Value{Kind: Map, Members: namedEntries(servers)}, nil
		}
		if servers.Kind != Map {
			f.Notes = append(f.Notes, Note{Text: "the servers are " + servers.Kind.String() + ", not a mapping", Line: servers.Line, Col: servers.Col})
			return
		}
		for i := range servers.Members {
			m := &servers.Members[i]
			if c.ID == "opencode" && m.Value.Kind == Map && len(m.Value.Members) == 1 && m.Value.Get("enabled") != nil {
				continue // the entry only enables or disables a server that another file defines
			}
			if opt.Most > 0 && len(f.Servers) == opt.Most {
				f.Unread++
				continue
			}
			s := readServer(c, m, project, inputs, opt)
			if path != nil {
				s.Path = append(slices.Clone(path), m.Key)
			}
			f.Servers = append(f.Servers, s)
		}
	}
	at, servers := c.find(root)
	add(servers, at, project)
	switch c.ID {
	case "claude-code":
		f.projects(root, add, opt)
	case "codex":
		f.callBack(root)
	case "gemini":
		f.switched(root.Get("mcp", "excluded"), root.Get("mcp", "allowed"))
	}
	if mode := modeOf(root); mode != nil {
		f.inherit(mode)
	}
	f.unique()
	return f
}

// projects adds the servers of individual projects from a file of Claude Code. It adds only the
// servers of opt.Project, unless opt.AllProjects is set.
func (f *File) projects(root *Value, add func(*Value, []string, string), opt Options) {
	all := root.Get("projects")
	if !isMap(all) {
		return
	}
	for _, m := range all.Members {
		servers := m.Value.Get("mcpServers")
		switch {
		case m.Key == opt.Project || opt.AllProjects:
			add(servers, []string{"projects", m.Key, "mcpServers"}, m.Key)
			f.off(m.Value.Get("disabledMcpServers"), m.Key)
		case isMap(servers) && len(servers.Members) > 0:
			if f.Elsewhere == nil {
				f.Elsewhere = map[string]int{}
			}
			f.Elsewhere[m.Key] = len(servers.Members)
		}
	}
}

// callBack gives the redirect URI at the top of a file of Codex to the servers with a registered client that
// have none of their own.
func (f *File) callBack(root *Value) {
	uri := root.Get("mcp_oauth_callback_url")
	if port := root.Get("mcp_oauth_callback_port"); uri.text() == "" && port.text() != "" {
		uri = Text("http://127.0.0.1:" + port.text() + "/callback")
	}
	for i := range f.Servers {
		if in := f.Servers[i].Settings.Get("signIn"); uri.text() != "" && in.Get("clientID") != nil && in.Get("callback") == nil {
			in.set("callback", uri)
		}
	}
}

// off disables the servers that list names, if they belong to the given project.
func (f *File) off(list *Value, project string) {
	if list == nil {
		return
	}
	names := map[string]bool{}
	for _, item := range list.Items {
		names[item.text()] = true
	}
	for i := range f.Servers {
		if s := &f.Servers[i]; names[s.Original] && s.Project == project && s.Entry != nil {
			s.Entry.set("disabled", boolean(true))
		}
	}
}

// switched disables each server whose name is in Gemini's list excluded. If the list allowed is not
// empty, switched also disables each server whose name is not in that list.
func (f *File) switched(excluded, allowed *Value) {
	names := func(v *Value) map[string]bool {
		out := map[string]bool{}
		if v != nil {
			for _, i := range v.Items {
				out[i.text()] = true
			}
		}
		return out
	}
	no, yes := names(excluded), names(allowed)
	for i := range f.Servers {
		s := &f.Servers[i]
		if s.Entry != nil && (no[s.Original] || len(yes) > 0 && !yes[s.Original]) {
			s.Entry.set("disabled", boolean(true))
		}
	}
}

// unique renames servers so that no two of them have the same name.
func (f *File) unique() {
	var taken Names
	for i := range f.Servers {
		s := &f.Servers[i]
		name := s.Name
		if taken.Has(name) && s.Project != "" {
			name = Name(s.Name + "-" + s.Project[strings.LastIndexAny(s.Project, `/\`)+1:])
		}
		if taken.Has(name) {
			name = s.Name
		}
		s.Name = taken.Take(name, Name)
	}
}

// Names assigns a different name to each of many servers. To find a free number for a name, it
// starts after the last number that it tried for this name, so that many equal names do not take
// long. The zero value has no names. Only one goroutine may use a Names at a time.
type Names struct {
	taken map[string]bool
	last  map[string]int
}

// Has reports whether name is taken.
func (n *Names) Has(name string) bool { return n.taken[name] }

// Take returns name if it is free. Otherwise it returns name with the first free number, for
// example name-2. The function clean makes a name with a number valid; nil means that such a name
// is always valid.
func (n *Names) Take(name string, clean func(string) string) string {
	if n.taken == nil {
		n.taken, n.last = map[string]bool{}, map[string]int{}
	}
	try := name
	for n.taken[try] {
		n.last[name] = max(n.last[name], 1) + 1
		try = name + "-" + strconv.Itoa(n.last[name])
		if clean != nil {
			try = clean(try)
		}
	}
	n.taken[try] = true
	return try
}

// Name converts any text to a valid name of a server: at most 64 letters, digits, _, - and .
func Name(s string) string {
	s = strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9', strings.ContainsRune("_.-", r):
			return r
		}
		return '-'
	}, s)
	if len(s) > 64 {
		s = s[len(s)-64:]
	}
	if s = strings.Trim(s, "-"); strings.Trim(s, ".") == "" {
		return "server"
	}
	return s
}
