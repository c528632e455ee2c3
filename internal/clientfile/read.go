package clientfile

import (
	"strconv"
	"strings"
)

// File is the result of reading one file of a client.
type File struct {
	Client  *Client
	Path    string
	Servers []Server
	// Unread counts the servers beyond Options.Most.
	Unread int
	// Elsewhere maps the folders of other Claude Code projects in the same file to the number of
	// their servers.
	Elsewhere map[string]int
	// Notes are about the file as a whole.
	Notes []Note
}

// Server is one server of a file, converted to the format of Dragoman.
type Server struct {
	Name     string // a valid name of a server; unique within its file and project
	Original string // the name in the file
	Project  string // the folder of the server's project; "" for all projects
	Entry    *Value // the value of mcpServers.NAME, a Map
	Settings *Value // the value of dragoman.servers.NAME; nil if there are no settings
	// Dragoman means that the entry starts or reaches Dragoman. Entry is then nil.
	Dragoman bool
	// Broken means that the server cannot be imported; Notes say why. Entry is then nil.
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

// String returns the note with its key.
func (n Note) String() string {
	if n.Key == "" {
		return n.Text
	}
	return n.Key + ": " + n.Text
}

// Options change how a file is read.
type Options struct {
	OS string // a value of runtime.GOOS
	// Project is a folder. The file belongs to the project in this folder, or is the user's
	// file and is read for this project. "" means no project.
	Project string
	// AllProjects reads the servers of all projects from a file of Claude Code.
	AllProjects bool
	// Most is the number of servers that are read; 0 means all.
	Most int
	// Addresses are the addresses of Dragoman's endpoint, as host:port.
	Addresses []string
}

// Read returns the servers of a file of the client c. owned means that the file itself
// belongs to the project opt.Project.
func Read(c *Client, path string, root *Value, owned bool, opt Options) File {
	f := File{Client: c, Path: path}
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
	add := func(servers *Value, project string) {
		if servers == nil || servers.Kind == Null {
			return
		}
		if servers.Kind == List && c == orchestrator {
			servers = &Value{Kind: Map, Members: namedEntries(servers)}
		}
		if servers.Kind != Map {
			f.Notes = append(f.Notes, Note{Text: "the servers are " + servers.Kind.String() + ", not a mapping", Line: servers.Line, Col: servers.Col})
			return
		}
		for i := range servers.Members {
			m := &servers.Members[i]
			if c.ID == "opencode" && m.Value.Kind == Map && len(m.Value.Members) == 1 && m.Value.Get("enabled") != nil {
				continue // the entry only turns a server of another file on or off
			}
			if opt.Most > 0 && len(f.Servers) == opt.Most {
				f.Unread++
				continue
			}
			f.Servers = append(f.Servers, readServer(c, m, project, inputs, opt))
		}
	}
	_, servers := c.find(root)
	add(servers, project)
	switch c.ID {
	case "claude-code":
		f.projects(root, add, opt)
	case "gemini":
		f.switched(root.Get("mcp", "excluded"), root.Get("mcp", "allowed"))
	}
	if mode := modeOf(root); mode != nil {
		f.inherit(mode)
	}
	f.unique()
	return f
}

// projects adds the servers that Claude Code keeps for single projects.
func (f *File) projects(root *Value, add func(*Value, string), opt Options) {
	all := root.Get("projects")
	if !isMap(all) {
		return
	}
	for _, m := range all.Members {
		servers := m.Value.Get("mcpServers")
		switch {
		case m.Key == opt.Project || opt.AllProjects:
			add(servers, m.Key)
			f.off(m.Value.Get("disabledMcpServers"), m.Key)
		case isMap(servers) && len(servers.Members) > 0:
			if f.Elsewhere == nil {
				f.Elsewhere = map[string]int{}
			}
			f.Elsewhere[m.Key] = len(servers.Members)
		}
	}
}

// off disables those servers of a project that the value list names.
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

// switched disables the servers that Gemini's lists exclude.
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

// unique renames servers so that no two have the same name.
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

// Names gives each of many servers its own name. The search for a free number continues where the
// last search ended, so that many equal names do not take long. The zero value has no names. A
// Names is for one goroutine.
type Names struct {
	taken map[string]bool
	last  map[string]int
}

// Has reports whether a server has the name.
func (n *Names) Has(name string) bool { return n.taken[name] }

// Take returns name if it is free. Otherwise it appends the first free number, for example -2.
// clean converts a name with a number to a valid name; nil means that each name is valid.
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
