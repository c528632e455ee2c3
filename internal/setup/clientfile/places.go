package clientfile

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Machine describes a machine on which Dragoman looks for the files of clients.
type Machine struct {
	OS     string // a value of runtime.GOOS
	Home   string // the user's home directory
	Folder string // the working directory, which may contain the files of a project
	Env    func(string) (string, bool)
	Glob   func(pattern string) []string // nil means filepath.Glob
}

// Place is a path at which a client looks for its configuration.
type Place struct {
	Client  *Client
	Path    string
	Project string // the folder of the project that the file belongs to; "" for a file of the user
}

// Exists reports whether the path is a regular file.
func (p Place) Exists() bool {
	st, err := os.Stat(p.Path)
	return err == nil && st.Mode().IsRegular()
}

func (m Machine) env(name string) string {
	v, _ := m.Env(name)
	return v
}

func (m Machine) join(parts ...string) string {
	if m.OS == "windows" {
		return strings.Join(parts, `\`)
	}
	return filepath.Join(parts...)
}

// config returns the directory in which desktop programs keep their settings.
func (m Machine) config() string {
	switch m.OS {
	case "darwin":
		return m.join(m.Home, "Library", "Application Support")
	case "windows":
		if v := m.env("APPDATA"); v != "" {
			return v
		}
		return m.join(m.Home, "AppData", "Roaming")
	}
	return m.xdg()
}

func (m Machine) xdg() string {
	if v := m.env("XDG_CONFIG_HOME"); filepath.IsAbs(v) {
		return v
	}
	return m.join(m.Home, ".config")
}

// Places returns the paths at which a client looks for its files. The user's files come first, in
// order of preference. The files of the project in m.Folder follow.
func (m Machine) Places(c *Client) []Place {
	user, project := m.paths(c)
	var out []Place
	for _, p := range user {
		out = append(out, Place{Client: c, Path: p})
	}
	for _, p := range project {
		if !slices.Contains(user, p) { // if the working directory is the home directory, the user and the project have the same paths
			out = append(out, Place{Client: c, Path: p, Project: m.Folder})
		}
	}
	return out
}

// paths returns the paths of the user's files, and of the files of the project in m.Folder.
func (m Machine) paths(c *Client) (user, project []string) {
	switch c.ID {
	case "claude":
		user = []string{m.join(m.config(), "Claude", "claude_desktop_config.json")}
		if m.OS == "windows" {
			user = append(user, m.packaged()...)
		}
	case "claude-code":
		user = []string{m.join(m.Home, ".claude.json")}
		if v := m.env("CLAUDE_CONFIG_DIR"); v != "" {
			user = []string{m.join(v, ".claude.json")}
		}
		project = []string{m.join(m.Folder, ".mcp.json")}
	case "cursor":
		user = []string{m.join(m.Home, ".cursor", "mcp.json")}
		project = []string{m.join(m.Folder, ".cursor", "mcp.json")}
	case "vscode":
		var folders []string
		if v := m.env("VSCODE_PORTABLE"); v != "" {
			folders = append(folders, m.join(v, "user-data", "User"))
		}
		for _, edition := range []string{"Code", "Code - Insiders", "VSCodium"} {
			folders = append(folders, m.join(m.config(), edition, "User"))
		}
		for _, f := range folders {
			user = append(user, m.join(f, "mcp.json"))
		}
		project = []string{m.join(m.Folder, ".vscode", "mcp.json")}
	case "codex":
		user = []string{m.join(m.Home, ".codex", "config.toml")}
		if v := m.env("CODEX_HOME"); v != "" {
			user = []string{m.join(v, "config.toml")}
		}
		project = []string{m.join(m.Folder, ".codex", "config.toml")}
	case "gemini":
		home := m.Home
		if v := m.env("GEMINI_CLI_HOME"); v != "" {
			home = v
		}
		user = []string{m.join(home, ".gemini", "settings.json")}
		project = []string{m.join(m.Folder, ".gemini", "settings.json")}
	case "opencode":
		if v := m.env("OPENCODE_CONFIG"); v != "" {
			user = append(user, v)
		}
		for _, name := range []string{"opencode.jsonc", "opencode.json", "config.json"} {
			user = append(user, m.join(m.xdg(), "opencode", name))
		}
		for _, name := range []string{"opencode.json", "opencode.jsonc"} {
			project = append(project, m.join(m.Folder, name))
		}
		for _, name := range []string{"opencode.json", "opencode.jsonc"} {
			project = append(project, m.join(m.Folder, ".opencode", name))
		}
	}
	return user, project
}

// named are the ends of the paths that [Machine.Places] returns, in lower case. A name that other programs
// use too has the folder in front of it.
var named = []string{
	"claude_desktop_config.json", ".claude.json", ".mcp.json", ".cursor/mcp.json", "user/mcp.json", ".vscode/mcp.json",
	".codex/config.toml", ".gemini/settings.json", "opencode.json", "opencode.jsonc", "opencode/config.json",
}

// Named reports whether a path is one at which some client keeps its configuration, in whatever folder of
// a user or a project.
func Named(path string) bool {
	if full, err := filepath.Abs(path); err == nil {
		path = full
	}
	path = "/" + strings.ToLower(strings.ReplaceAll(filepath.ToSlash(path), `\`, "/"))
	return slices.ContainsFunc(named, func(end string) bool { return strings.HasSuffix(path, "/"+end) })
}

// packaged returns the configuration file of Claude Desktop if Claude Desktop was installed as a
// package from the Microsoft Store. Such a package has its own settings folder.
func (m Machine) packaged() []string {
	local := m.env("LOCALAPPDATA")
	if local == "" {
		local = m.join(m.Home, "AppData", "Local")
	}
	glob := m.Glob
	if glob == nil {
		glob = func(p string) []string { found, _ := filepath.Glob(p); return found }
	}
	return glob(m.join(local, "Packages", "Claude_*", "LocalCache", "Roaming", "Claude", "claude_desktop_config.json"))
}

// Target returns the place of the file that the command connect changes. It is the first place with
// a file, or the first place if no file exists. If project is true, Target considers only the files
// of the project, otherwise only the files of the user. It returns false if the client has no such
// files.
func (m Machine) Target(c *Client, project bool) (Place, bool) {
	var first *Place
	for _, p := range m.Places(c) {
		if (p.Project != "") != project {
			continue
		}
		if p.Exists() {
			return p, true
		}
		if first == nil {
			first = &p
		}
	}
	if first == nil {
		return Place{}, false
	}
	return *first, true
}
