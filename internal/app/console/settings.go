package console

import (
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/base/identity"
	"github.com/dragoman-mcp/dragoman/internal/relay/event"
	"github.com/dragoman-mcp/dragoman/internal/setup/config"
)

// settings has the current settings of one server, or the global settings.
type settings struct {
	File  string // the absolute path of the configuration file; "" if there is no file
	Lines []settingLine
	// Known is true if the line numbers of the settings are correct. It is false if the file has
	// changed since Dragoman loaded it.
	Known bool
	Of    string // the project whose settings these are; "" for default
}

// settingLine shows a line of the configuration.
type settingLine struct {
	config.Line
	ID   string // the HTML id of the row; "" for none
	From string // where the value is set, for example "dragoman.yaml, line 14", or "default"
}

// Indent returns the CSS class for the depth of the line.
func (l settingLine) Indent() string { return "d" + strconv.Itoa(min(l.Depth, 6)) }

// where caches the line numbers of the settings in the configuration file, because it takes longer
// to read the file than to compute a page.
type where struct {
	project  string // whose settings are shown
	mu       sync.Mutex
	snapshot *config.Snapshot
	changed  time.Time
	lines    map[string]int
}

func (w *where) of(s *config.Snapshot) map[string]int {
	if s.File == "" || w.project != event.DefaultProject { // a file has the lines of another project elsewhere
		return nil
	}
	info, err := os.Stat(s.File)
	if err != nil {
		return nil
	}
	w.mu.Lock()
	same, lines := w.snapshot == s && w.changed.Equal(info.ModTime()), w.lines
	w.mu.Unlock()
	if same {
		return lines
	}
	lines = s.Where()
	w.mu.Lock()
	defer w.mu.Unlock()
	w.snapshot, w.changed, w.lines = s, info.ModTime(), lines
	return lines
}

// ofProject are the settings below dragoman that a project has of its own. The others are about the process, so not
// everybody who has a role in the project may read them.
var ofProject = []string{"server", "limits", "expose", "pins", "questions", "tools", "policy", "servers"}

// belongs reports whether the page about a project has a setting.
func (w *where) belongs(path string) bool {
	if w.project == event.DefaultProject {
		return !within(path, "dragoman.projects") // each of them has a page of its own, for those who may see it
	}
	return path == "dragoman" || within(path, "mcpServers") || slices.ContainsFunc(ofProject, func(key string) bool { return within(path, "dragoman."+key) })
}

// settings returns the settings of server, or the global settings if server is "".
func (w *where) settings(s *config.Snapshot, server string) *settings {
	lines := w.of(s)
	out := &settings{File: s.File, Known: lines != nil}
	if full, err := filepath.Abs(s.File); s.File != "" && err == nil {
		out.File = full
	}
	if w.project != event.DefaultProject {
		out.File, out.Of = "", w.project
	}
	seen := map[string]bool{}
	for _, l := range s.Lines(lines) {
		switch {
		case !w.belongs(l.Path):
			continue
		case server == "" && (within(l.Path, "mcpServers") || within(l.Path, "dragoman.servers")):
			continue // the page of each server shows the server's own settings
		case server != "" && !within(l.Path, "mcpServers."+server) && !within(l.Path, "dragoman.servers."+server):
			continue
		}
		x := settingLine{Line: l}
		name := l.Path
		for _, base := range []string{"mcpServers." + server, "dragoman.servers." + server} {
			if server != "" && within(l.Path, base) {
				name = strings.TrimPrefix(strings.TrimPrefix(l.Path, base), ".")
			}
		}
		if id := settingID(name); l.Key != "" && !seen[id] {
			seen[id], x.ID = true, id
		}
		if server != "" && (l.Path == "mcpServers."+server || l.Path == "dragoman.servers."+server) {
			x.Key, x.Depth = l.Path, 0
		} else if server != "" {
			x.Depth = max(1, strings.Count(strings.TrimPrefix(strings.TrimPrefix(l.Path, "dragoman."), "servers"), ".")-strings.Count(server, ".")-1)
		}
		switch {
		case l.Key == "" || l.Value == "":
		case l.At > 0:
			x.From = filepath.Base(out.File) + ", line " + strconv.Itoa(l.At)
		case server != "" && within(l.Path, "dragoman.servers."+server) && config.LineOf(lines, "", server, l.Key) > 0:
			x.From = filepath.Base(out.File) + ", line " + strconv.Itoa(config.LineOf(lines, "", server, l.Key))
		case out.Known:
			x.From = "default"
		}
		if l.At > 0 && l.Value == "" {
			x.From = "line " + strconv.Itoa(l.At)
		}
		out.Lines = append(out.Lines, x)
	}
	return out
}

func within(path, base string) bool { return path == base || strings.HasPrefix(path, base+".") }

// settingsView has the values of the page Settings.
type settingsView struct {
	*settings
	Started, Configured time.Time
	Version             string
	PID                 string
	Memory              string
	Key                 string
}

// settingsPage shows the global settings, and the process.
type settingsPage struct {
	config func() *config.Snapshot // may be nil
	where  *where
}

func (p *settingsPage) register(f *frame) {
	f.add(Page{Path: "/settings", Least: identity.Viewer, Template: "settings.html", Nav: "Settings", Group: systems, Key: "X", View: p.view})
}

func (p *settingsPage) view(r *http.Request) (*View, error) {
	status := statusOf(r)
	v := &settingsView{
		Started: status.Started, Configured: status.Configured, Version: status.Version, PID: strconv.Itoa(status.PID),
		Memory: bytesText(int(status.InFlight.Held)) + " of " + bytesText(int(status.InFlight.Limit)), Key: status.Configured.String(), settings: &settings{},
	}
	if p.config != nil {
		v.settings = p.where.settings(p.config(), "")
		for i := range v.Lines {
			if l := &v.Lines[i]; l.Path == "dragoman.listen" && strings.Trim(l.Value, `"`) != r.Host {
				l.From = strings.TrimPrefix(l.From+"; serve listens on "+r.Host, "; ")
			}
		}
	}
	return &View{Title: "Settings", Data: v}, nil
}
