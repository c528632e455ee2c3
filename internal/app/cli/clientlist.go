package cli

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/dragoman-mcp/dragoman/internal/base/screen"
	"github.com/dragoman-mcp/dragoman/internal/setup/clientfile"
	"github.com/dragoman-mcp/dragoman/internal/setup/intake"
)

// clientRow is one file of an MCP client, as connect and import list them. Scripts read its JSON form.
type clientRow struct {
	Client    string   `json:"client"`
	Title     string   `json:"title"`
	File      string   `json:"file"`
	Exists    bool     `json:"exists"`
	Servers   int      `json:"servers"`
	Connected []string `json:"connected"`       // the names of the entries that lead to Dragoman
	Twice     []string `json:"twice,omitempty"` // the names of the servers that Dragoman has too, so a connected client shows them twice
	project   bool     // the file is for one project
	Problem   string   `json:"problem,omitempty"`
}

// clientRows reads the files of all clients. A client without files has one row.
func clientRows(env environment) (rows []clientRow) {
	m, addresses := intake.Machine(env), env.addresses("")
	with, noConfig := env.comparison("")
	for _, c := range clientfile.Clients() {
		found := false
		for _, p := range m.Places(c) {
			s, err := readPlace(m, p, false, addresses)
			if s == nil && err == nil {
				continue
			}
			found = true
			r := clientRow{Client: c.ID, Title: c.Title, File: p.Path, Exists: true, Connected: []string{}, project: p.Project != ""}
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
				if noConfig == nil {
					r.Twice = overlapOf(s.Source, with, "").twice
				}
			}
			rows = append(rows, r)
		}
		if !found {
			if p, ok := m.Target(c, false); ok {
				rows = append(rows, clientRow{Client: c.ID, Title: c.Title, File: p.Path, Connected: []string{}})
			}
		}
	}
	return rows
}

// showClients prints which clients have servers, and in which files.
func showClients(w *world, asJSON bool) error {
	rows := clientRows(w.env)
	if asJSON {
		return w.printJSON(rows, "")
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
	if err := w.print(t); err != nil {
		return err
	}
	if w.quiet {
		return nil
	}
	if have != "" {
		w.status.Printf("import servers with `dragoman import --from %s`, or all with `--from all`", have)
	}
	w.status.Printf("put Dragoman into a client with `dragoman connect CLIENT`")
	for _, r := range rows {
		if n := len(r.Twice); n > 0 {
			flags := ""
			if r.project {
				flags = " --project"
			}
			verb := "would show"
			if len(r.Connected) > 0 {
				verb = "shows"
			}
			w.status.label(yellow, "hint", fmt.Sprintf("%s %s %s twice, because Dragoman has %s too; `dragoman connect %s%s --move` takes %[4]s out of its file", r.Title, verb, quantity(n, "server"), them(n), r.Client, flags))
		}
	}
	return nil
}
