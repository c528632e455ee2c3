package intake

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"

	"github.com/dragoman-mcp/dragoman/internal/setup/clientfile"
	"github.com/dragoman-mcp/dragoman/internal/setup/config"
)

// Machine describes where the clients on this machine keep their files. env looks up an environment
// variable.
func Machine(env func(string) (string, bool)) clientfile.Machine {
	home, _ := env("HOME")
	if home == "" {
		home, _ = env("USERPROFILE")
	}
	if home == "" {
		home, _ = os.UserHomeDir()
	}
	folder, _ := os.Getwd()
	return clientfile.Machine{OS: runtime.GOOS, Home: home, Folder: folder, Env: env}
}

// Source is a client's file that Read has read.
type Source struct {
	Place clientfile.Place
	Root  *clientfile.Value
	File  clientfile.File
}

// NoServers is the error for a file that has no servers and does not belong to a known client.
type NoServers struct {
	Path   string
	Format string // what the file seems to be; "" if its format is unknown
	Hint   string // what to do
}

// Error returns the error on one line, with the path of the file.
func (e *NoServers) Error() string {
	if e.Format != "" {
		return e.Path + " has no MCP servers; it seems to be " + e.Format
	}
	return e.Path + " has no MCP servers"
}

// Read reads the file of a client. It returns nil and no error if the file does not exist. If
// p.Client is nil, Read identifies the client by the path and the content. If all is true, Read
// also reads the servers that Claude Code has for other projects. addresses are the addresses on
// which this Dragoman may listen. An entry with one of these addresses is an entry of Dragoman.
func Read(m clientfile.Machine, p clientfile.Place, all bool, addresses []string) (*Source, error) {
	b, err := clientfile.Load(p.Path)
	if err != nil || b == nil {
		return nil, err
	}
	root, err := config.ParseClientFile(p.Path, b)
	if err != nil {
		return nil, err
	}
	if p.Client == nil {
		if p.Client = clientfile.Identify(p.Path, root); p.Client == nil {
			e := &NoServers{Path: p.Path, Hint: "choose a file that has servers under mcpServers, servers, mcp or mcp_servers"}
			if what, hint := clientfile.Format(root); what != "" {
				e.Format, e.Hint = what, hint
			}
			return nil, e
		}
	}
	project := p.Project
	if project == "" {
		project = projectOf(root, m.Folder)
	}
	opt := clientfile.Options{OS: m.OS, Project: project, AllProjects: all, Folder: folderOf(p.Path), Exists: exists, Addresses: addresses}
	return &Source{Place: p, Root: root, File: clientfile.Read(p.Client, p.Path, root, p.Project != "", opt)}, nil
}

// folderOf returns the full path of a file's folder.
func folderOf(path string) string {
	full, err := filepath.Abs(path)
	if err != nil {
		return ""
	}
	return filepath.Dir(full)
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// projectOf returns the folder of the Claude Code project that contains folder. It is folder itself
// or the nearest parent that has settings. If there is no such folder, projectOf returns folder.
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

// ProjectOfFile returns the folder of the project that a client's file is for. The path of the file
// shows the folder. If it does not show a folder, ProjectOfFile returns "".
func ProjectOfFile(path string) string {
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

// Elsewhere returns the number of servers that the file has for other projects.
func (s *Source) Elsewhere() (n int) {
	for _, v := range s.File.Elsewhere {
		n += v
	}
	return n
}

// Of describes where a server comes from: the client, and the project or the path of the file.
func (s *Source) Of(server *clientfile.Server) string {
	title := s.Place.Client.Title
	if server.Project != "" && s.Place.Project == "" {
		return fmt.Sprintf("%s, project %s", title, server.Project)
	}
	return fmt.Sprintf("%s, %s", title, s.Place.Path)
}
