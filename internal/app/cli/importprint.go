package cli

import (
	"fmt"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/dragoman-mcp/dragoman/internal/base/excerpt"
	"github.com/dragoman-mcp/dragoman/internal/base/screen"
	"github.com/dragoman-mcp/dragoman/internal/setup/clientfile"
	"github.com/dragoman-mcp/dragoman/internal/setup/intake"
)

// showImport prints a table of the servers, and below the table the settings that the command does
// not import.
func (a *app) showImport(all []candidate, sources []*source) error {
	if len(all) == 0 {
		if _, err := fmt.Fprintln(a.stdout, "no servers found"); err != nil {
			return err
		}
	}
	t := screen.Table{Columns: []screen.Column{{Title: "STATUS", Whole: true}, {Title: "SERVER", Whole: true, Most: widestName}, {Title: "CLIENT", Whole: true}, {Title: "WHAT"}}}
	for _, c := range all {
		t.Rows = append(t.Rows, screen.Cells(string(c.Status), c.Name, c.source.Place.Client.Title, c.What()))
	}
	if len(all) > 0 {
		if err := a.print(t); err != nil {
			return err
		}
	}
	var lines []string
	for _, c := range all {
		switch c.Status {
		case intake.Skipped:
			lines = append(lines, c.Name+": not imported: "+c.Why)
			continue
		case intake.Same:
			continue
		case intake.Different:
			lines = append(lines, c.Name+": the configuration has another server of this name; import it with --from "+c.source.word+" --only "+c.Server.Name+"=NEW")
			continue
		}
		for _, n := range c.Server.Notes {
			lines = append(lines, c.Name+": "+n.String())
		}
	}
	for _, s := range sources {
		for _, n := range s.File.Notes {
			lines = append(lines, s.Place.Path+": "+n.String())
		}
		if n := len(s.File.Elsewhere); n > 0 {
			lines = append(lines, fmt.Sprintf("%s: left out %s for other projects; --all-projects also imports these", s.Place.Path, quantity(s.Elsewhere(), "server")))
		}
	}
	for i, l := range lines {
		if i == 0 {
			l = "\n" + clean(excerpt.MaskSecrets(l))
		} else {
			l = clean(excerpt.MaskSecrets(l))
		}
		if _, err := fmt.Fprintln(a.stdout, l); err != nil {
			return err
		}
	}
	return nil
}

// tellImport prints to stderr what the command wrote and what the user has to do next.
func (a *app) tellImport(into string, created, written, dry bool, all []candidate, secrets []string) {
	n := 0
	for _, c := range all {
		if c.Status == intake.New {
			n++
		}
	}
	if len(secrets) > 0 && n > 0 {
		verb := "now holds"
		if !written {
			verb = "would hold"
		}
		a.status.label(yellow, "warning", clean(into+" "+verb+" literal values that look like credentials: "+strings.Join(secrets, ", ")+"; the file has mode 0600"))
		a.status.label(yellow, "hint", "replace each value with ${NAME}, and set the variables in the environment of dragoman")
	}
	if a.quiet {
		return
	}
	for _, l := range a.missingVariables(all) {
		a.status.label(yellow, "hint", clean(l))
	}
	switch {
	case n == 0:
		a.status.Printf("nothing to import into %s", into)
	case dry:
		a.status.Printf("would add %s to %s; nothing was written", quantity(n, "server"), into)
	case written && created:
		words := configWords(into)
		if usual, ok := a.configPath(""); ok && filepath.Clean(usual) == filepath.Clean(into) {
			words = ""
		}
		a.status.Printf("wrote %s to the new file %s; start with `dragoman serve%s`", quantity(n, "server"), into, words)
	case written:
		a.status.Printf("added %s to %s; a running serve reloads it", quantity(n, "server"), into)
	}
}

// missingVariables returns one line for each variable that new servers need and that is not set.
// The line contains the names of all servers that need the variable.
func (a *app) missingVariables(all []candidate) []string {
	var names []string
	users, about := map[string][]string{}, map[string]string{}
	for _, c := range all {
		if c.Status != intake.New {
			continue
		}
		for _, v := range c.Server.Variables {
			if _, ok := a.env(v.Name); ok || v.Optional {
				continue
			}
			if users[v.Name] == nil {
				names, about[v.Name] = append(names, v.Name), v.About
			}
			users[v.Name] = append(users[v.Name], c.Name)
		}
	}
	out := make([]string, len(names))
	for i, name := range names {
		servers := "the server "
		if len(users[name]) > 1 {
			servers = "the servers "
		}
		out[i] = "set " + name + " for " + servers + strings.Join(users[name], ", ")
		if about[name] != "" {
			out[i] += " (" + about[name] + ")"
		}
	}
	return out
}

// literalSecrets returns the settings of new servers in which a literal value looks like a secret.
func literalSecrets(all []candidate) []string {
	var out []string
	for _, c := range all {
		if c.Status == intake.New {
			for _, place := range intake.Literals(c.Server) {
				out = append(out, c.Name+"."+place)
			}
		}
	}
	return out
}

// printImport prints the result of an import as JSON.
func (a *app) printImport(into string, written bool, all []candidate, sources []*source) error {
	type note struct {
		Key      string `json:"key,omitempty"`
		Text     string `json:"text"`
		Harmless bool   `json:"harmless"`
		Line     int    `json:"line,omitempty"`
	}
	type variable struct {
		Name  string `json:"name"`
		About string `json:"about,omitempty"`
		Set   bool   `json:"set"`
	}
	type server struct {
		Status    string     `json:"status"`
		Name      string     `json:"name"`
		Original  string     `json:"original"`
		Client    string     `json:"client"`
		File      string     `json:"file"`
		Project   string     `json:"project,omitempty"`
		What      string     `json:"what,omitempty"`
		Why       string     `json:"why,omitempty"`
		Notes     []note     `json:"notes"`
		Variables []variable `json:"variables"`
	}
	out := struct {
		Into    string   `json:"into"`
		Written bool     `json:"written"`
		Servers []server `json:"servers"`
		Other   int      `json:"inOtherProjects"`
	}{Into: into, Written: written, Servers: []server{}}
	for _, c := range all {
		s := server{
			Status: string(c.Status), Name: c.Name, Original: c.Server.Original, Client: c.source.Place.Client.ID, File: c.source.Place.Path,
			Project: c.Server.Project, What: c.What(), Why: c.Why, Notes: []note{}, Variables: []variable{},
		}
		for _, n := range c.Server.Notes {
			s.Notes = append(s.Notes, note{n.Key, n.Text, n.Harmless, n.Line})
		}
		for _, v := range c.Server.Variables {
			_, set := a.env(v.Name)
			s.Variables = append(s.Variables, variable{v.Name, v.About, set || v.Optional})
		}
		out.Servers = append(out.Servers, s)
	}
	for _, s := range sources {
		out.Other += s.Elsewhere()
	}
	return a.printJSON(out, "")
}

// showClients prints which clients have servers, and in which files.
func (a *app) showClients(asJSON bool) error {
	type row struct {
		Client    string   `json:"client"`
		Title     string   `json:"title"`
		File      string   `json:"file"`
		Exists    bool     `json:"exists"`
		Servers   int      `json:"servers"`
		Connected []string `json:"connected"` // the names of the entries that lead to Dragoman
		Problem   string   `json:"problem,omitempty"`
	}
	m, addresses := intake.Machine(a.env), a.addresses("")
	var rows []row
	for _, c := range clientfile.Clients() {
		found := false
		for _, p := range m.Places(c) {
			s, err := a.readPlace(m, p, false, addresses)
			if s == nil && err == nil {
				continue
			}
			found = true
			r := row{Client: c.ID, Title: c.Title, File: p.Path, Exists: true, Connected: []string{}}
			if err != nil {
				r.Problem = strings.TrimPrefix(err.Error(), p.Path+": ")
			} else {
				for _, srv := range s.File.Servers {
					if !srv.Dragoman {
						r.Servers++
					}
				}
				r.Servers += s.Elsewhere()
				r.Connected = append(r.Connected, clientfile.Connected(c, s.Root, addresses)...)
			}
			rows = append(rows, r)
		}
		if !found {
			if p, ok := m.Target(c, false); ok {
				rows = append(rows, row{Client: c.ID, Title: c.Title, File: p.Path, Connected: []string{}})
			}
		}
	}
	if asJSON {
		return a.printJSON(rows, "")
	}
	t := screen.Table{Columns: []screen.Column{{Title: "CLIENT", Whole: true}, {Title: "SERVERS", Right: true}, {Title: "CONNECTED", Whole: true}, {Title: "FILE", Whole: true}}}
	have := ""
	for _, r := range rows {
		servers, connected, file := strconv.Itoa(r.Servers), "no", r.File
		switch {
		case !r.Exists:
			servers, connected, file = "-", "-", "no file "+r.File
		case r.Problem != "":
			servers, connected, file = "?", "?", r.File+": "+r.Problem
		case len(r.Connected) > 0:
			connected = "as " + strings.Join(r.Connected, ", ")
		}
		if r.Servers > 0 && have == "" {
			have = r.Client
		}
		t.Rows = append(t.Rows, screen.Cells(r.Client, servers, connected, file))
	}
	if err := a.print(t); err != nil {
		return err
	}
	if a.quiet {
		return nil
	}
	if have != "" {
		a.status.Printf("import servers with `dragoman import --from %s`, or all with `--from all`", have)
	}
	a.status.Printf("put Dragoman into a client with `dragoman connect CLIENT`")
	return nil
}
