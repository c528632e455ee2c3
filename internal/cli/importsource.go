package cli

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/dragoman-mcp/dragoman/internal/clientfile"
	"github.com/dragoman-mcp/dragoman/internal/config"
)

// machine describes where the clients on this machine keep their files.
func (a *app) machine() clientfile.Machine {
	home, _ := a.env("HOME")
	if home == "" {
		home, _ = a.env("USERPROFILE")
	}
	if home == "" {
		home, _ = os.UserHomeDir()
	}
	folder, _ := os.Getwd()
	return clientfile.Machine{OS: runtime.GOOS, Home: home, Folder: folder, Env: a.env}
}

// addresses returns the addresses on which this Dragoman may listen: the default, and the
// configured one. An entry in a client's file with such an address is an entry of Dragoman.
func (a *app) addresses(file string) []string {
	out := []string{config.Default().Listen}
	if listen, _ := a.listenAddress(file); listen != out[0] {
		out = append(out, listen)
	}
	return out
}

// source is a file of a client that has been read.
type source struct {
	word  string // the value of --from
	place clientfile.Place
	root  *clientfile.Value
	file  clientfile.File
}

// readPlace reads the file of a client. It returns nil if the file does not exist.
func (a *app) readPlace(m clientfile.Machine, p clientfile.Place, all bool, addresses []string) (*source, error) {
	b, err := clientfile.Load(p.Path)
	if err != nil || b == nil {
		return nil, err
	}
	root, err := clientfile.Parse(p.Path, b)
	if err != nil {
		return nil, err
	}
	if p.Client == nil {
		if p.Client = clientfile.Identify(p.Path, root); p.Client == nil {
			return nil, withHint(fmt.Errorf("%s has no MCP servers", p.Path), "servers are under mcpServers, servers, mcp or mcp_servers")
		}
	}
	project := p.Project
	if project == "" {
		project = projectOf(root, m.Folder)
	}
	opt := clientfile.Options{OS: m.OS, Project: project, AllProjects: all, Addresses: addresses}
	return &source{place: p, root: root, file: clientfile.Read(p.Client, p.Path, root, p.Project != "", opt)}, nil
}

// projectOf returns the folder of the Claude Code project that contains folder: folder itself
// or its nearest parent with settings. If there is none, it returns folder.
func projectOf(root *clientfile.Value, folder string) string {
	for at := folder; ; at = filepath.Dir(at) {
		if root.Get("projects", at) != nil {
			return at
		}
		if at == filepath.Dir(at) {
			return folder
		}
	}
}

// sources reads the files that --from selects.
func (a *app) sources(o importFlags, addresses []string) ([]*source, error) {
	m := a.machine()
	var out []*source
	for _, word := range o.from {
		var places []clientfile.Place
		c, known := clientfile.ByID(word)
		switch {
		case word == "all":
			for _, c := range clientfile.Clients() {
				places = append(places, m.Places(c)...)
			}
		case known:
			places = m.Places(c)
		default:
			p := clientfile.Place{Path: word}
			if st, err := os.Stat(word); err != nil || st.IsDir() {
				hint := "use one of " + strings.Join(clientfile.IDs(), ", ") + ", all, or the path of a file"
				if s := config.Suggest(word, clientfile.IDs()); s != "" {
					hint = "did you mean " + s + "?"
				}
				return nil, usagef(hint, "--from %q is neither a client nor a file", word)
			}
			p.Project = projectOfFile(word)
			places = []clientfile.Place{p}
		}
		found := false
		for _, p := range places {
			s, err := a.readPlace(m, p, o.allProjects, addresses)
			if err != nil {
				return nil, err
			}
			if s != nil {
				found = true
				if s.word = s.place.Client.ID; !known && word != "all" {
					s.word = word
				}
				out = append(out, s)
			}
		}
		if !found && known {
			var paths []string
			for _, p := range places {
				paths = append(paths, p.Path)
			}
			return nil, withHint(fmt.Errorf("%s has no configuration here", c.Title), "looked for %s; name another file with --from FILE", strings.Join(paths, ", "))
		}
	}
	return out, nil
}

// projectOfFile returns the folder of the project that a file belongs to, by its path, or "".
func projectOfFile(path string) string {
	abs, err := filepath.Abs(path)
	if err != nil {
		return ""
	}
	dir := filepath.Dir(abs)
	switch name := filepath.Base(abs); {
	case name == ".mcp.json":
		return dir
	case filepath.Base(dir) == ".vscode":
		return filepath.Dir(dir)
	}
	return ""
}
