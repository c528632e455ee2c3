package admin

import (
	"net/http"
	"strings"

	"github.com/dragoman-mcp/dragoman/internal/base/identity"
	"github.com/dragoman-mcp/dragoman/internal/setup/config"
)

// ServerSettings are the settings that are in force for a server, with the lines of the
// configuration file that set them.
type ServerSettings struct {
	Server string       `json:"server" doc:"the server's name"`
	File   string       `json:"file,omitempty" doc:"the configuration file; left out if there is none"`
	Known  bool         `json:"known" doc:"whether the settings' line numbers are known; false if the file has changed since it was loaded"`
	Lines  []ConfigLine `json:"settings" doc:"the settings, in the order of the configuration"`
}

// ConfigLine is one setting of a server, with its line in the configuration file.
type ConfigLine struct {
	Path  string `json:"path" doc:"the setting's path, such as dragoman.servers.files.startTimeout"`
	Value string `json:"value,omitempty" doc:"the value as YAML, with secrets masked; left out for a mapping"`
	Line  int    `json:"line,omitempty" doc:"the line in the file that sets the value, for this server or for all; left out for a default"`
}

var settingsRoute = route{
	method: http.MethodGet, path: "/servers/{name}/settings", least: identity.Viewer, name: "serverSettings",
	summary: "The settings in effect for a server, each with its line in the configuration file",
	answer:  ServerSettings{}, problems: []int{404}, read: (*API).readSettings,
}

// readSettings answers /servers/{name}/settings.
func (a *serverAPI) readSettings(r *http.Request) (any, *Problem) {
	name := r.PathValue("name")
	if bad := a.project.noServer(name); bad != nil {
		return nil, bad
	}
	out := ServerSettings{Server: name, Lines: []ConfigLine{}}
	s, project := a.project.Current(), ""
	if s == nil {
		return out, nil
	}
	if house := a.project.House(); house != s { // the file has default and its projects
		if _, ok := house.Project(a.project.name()); ok {
			s, project = house, a.project.name()
		}
	}
	where := s.Where()
	if out.Known = where != nil; s.File != "" {
		out.File = a.config
	}
	base, own := config.PathsOf(project, name)
	for _, l := range s.Lines(where) {
		if l.Key == "" || l.Path != base && l.Path != own && !strings.HasPrefix(l.Path, base+".") && !strings.HasPrefix(l.Path, own+".") {
			continue // not a setting of this server
		}
		x := ConfigLine{Path: l.Path, Value: l.Value, Line: l.At}
		if x.Line == 0 && strings.HasPrefix(l.Path, own+".") {
			x.Line = config.LineOf(where, project, name, l.Key)
		}
		out.Lines = append(out.Lines, x)
	}
	return out, nil
}
