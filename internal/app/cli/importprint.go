package cli

import (
	"fmt"
	"path/filepath"
	"strings"

	"github.com/dragoman-mcp/dragoman/internal/base/excerpt"
	"github.com/dragoman-mcp/dragoman/internal/base/screen"
	"github.com/dragoman-mcp/dragoman/internal/setup/clientfile"
	"github.com/dragoman-mcp/dragoman/internal/setup/intake"
)

// showImport prints a table of the servers, and below the table the settings that the command does
// not import.
func (c *importCommand) showImport(r *importResult) error {
	if len(r.all) == 0 {
		if _, err := fmt.Fprintln(c.stdout, "no servers found"); err != nil {
			return err
		}
	}
	t := screen.Table{Columns: []screen.Column{{Title: "STATUS", Whole: true}, {Title: "SERVER", Whole: true, Most: widestName}, {Title: "CLIENT", Whole: true}, {Title: "WHAT"}}}
	for _, x := range r.all {
		t.Rows = append(t.Rows, screen.Cells(string(x.Status), x.Name, x.source.Place.Client.Title, x.What()))
	}
	if len(r.all) > 0 {
		if err := c.print(t); err != nil {
			return err
		}
	}
	for i, l := range r.notes() {
		if i == 0 {
			l = "\n" + clean(excerpt.MaskSecrets(l))
		} else {
			l = clean(excerpt.MaskSecrets(l))
		}
		if _, err := fmt.Fprintln(c.stdout, l); err != nil {
			return err
		}
	}
	return nil
}

// notes says which settings and servers stay behind, and why.
func (r *importResult) notes() (lines []string) {
	for _, x := range r.all {
		switch x.Status {
		case intake.Skipped:
			lines = append(lines, x.Name+": not imported: "+x.Why)
			continue
		case intake.Same:
			continue
		case intake.Different:
			lines = append(lines, x.Name+": the configuration has another server of this name; import it with --from "+x.source.word+" --only "+x.Server.Name+"=NEW")
			continue
		}
		for _, n := range x.Server.Notes {
			lines = append(lines, x.Name+": "+n.String())
		}
	}
	for _, s := range r.sources {
		for _, n := range s.File.Notes {
			lines = append(lines, s.Place.Path+": "+n.String())
		}
		if n := len(s.File.Elsewhere); n > 0 {
			lines = append(lines, fmt.Sprintf("%s: left out %s for other projects; --all-projects also imports these", s.Place.Path, quantity(s.Elsewhere(), "server")))
		}
	}
	return lines
}

// tellImport prints to stderr what the command wrote and what the user has to do next.
func (c *importCommand) tellImport(r *importResult) {
	n := len(r.new())
	if len(r.secrets) > 0 && n > 0 {
		verb := "now holds"
		if !r.written {
			verb = "would hold"
		}
		c.status.label(yellow, "warning", clean(r.into+" "+verb+" literal values that look like credentials: "+strings.Join(r.secrets, ", ")+"; the file has mode 0600"))
		c.status.label(yellow, "hint", "replace each value with ${NAME}, and set the variables in the environment of dragoman")
	}
	if c.quiet {
		return
	}
	for _, l := range c.missingVariables(r.all) {
		c.status.label(yellow, "hint", clean(l))
	}
	switch {
	case n == 0:
		c.status.Printf("nothing to import into %s", r.into)
	case c.dry:
		c.status.Printf("would add %s to %s; nothing was written", quantity(n, "server"), r.into)
	case r.written && r.created:
		words := configWords(r.into)
		if usual, ok := c.env.configPath(""); ok && filepath.Clean(usual) == filepath.Clean(r.into) {
			words = ""
		}
		c.status.Printf("wrote %s to the new file %s; start with `dragoman serve%s`", quantity(n, "server"), r.into, words)
	case r.written:
		c.status.Printf("added %s to %s", quantity(n, "server"), r.into)
	}
	if len(c.from) != 1 || !r.written {
		return
	}
	if client, known := clientfile.ByName(c.from[0]); known {
		c.status.Printf("to use %s through Dragoman in %s, run `dragoman connect %s --move`", them(n), client.Title, client.ID)
	}
}

// missingVariables returns one line for each variable that new servers need and that is not set.
// The line contains the names of all servers that need the variable.
func (w *world) missingVariables(all []candidate) []string {
	var names []string
	users, about := map[string][]string{}, map[string]string{}
	for _, x := range all {
		if x.Status != intake.New {
			continue
		}
		for _, v := range x.Server.Variables {
			if _, ok := w.env(v.Name); ok || v.Optional {
				continue
			}
			if users[v.Name] == nil {
				names, about[v.Name] = append(names, v.Name), v.About
			}
			users[v.Name] = append(users[v.Name], x.Name)
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
func (c *importCommand) printImport(r *importResult) error {
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
		Serve   []told   `json:"serve,omitempty"`
	}{Into: r.into, Written: r.written, Servers: []server{}, Serve: r.told}
	for _, x := range r.all {
		s := server{
			Status: string(x.Status), Name: x.Name, Original: x.Server.Original, Client: x.source.Place.Client.ID, File: x.source.Place.Path,
			Project: x.Server.Project, What: x.What(), Why: x.Why, Notes: []note{}, Variables: []variable{},
		}
		for _, n := range x.Server.Notes {
			s.Notes = append(s.Notes, note{n.Key, n.Text, n.Harmless, n.Line})
		}
		for _, v := range x.Server.Variables {
			_, set := c.env(v.Name)
			s.Variables = append(s.Variables, variable{v.Name, v.About, set || v.Optional})
		}
		out.Servers = append(out.Servers, s)
	}
	for _, s := range r.sources {
		out.Other += s.Elsewhere()
	}
	return c.printJSON(out, "")
}
