package console

import (
	"cmp"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/dragoman-mcp/dragoman/internal/app/admin"
	"github.com/dragoman-mcp/dragoman/internal/base/identity"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
	"github.com/dragoman-mcp/dragoman/internal/workbench/matrix"
)

// Bounds of the compatibility page.
const (
	mostPairRows = 40 // the maximum number of rows in the table of connected pairs
	mostPairText = 3  // the maximum number of names in a cell of that table
)

// compatibility has the values of the compatibility page.
type compatibility struct {
	Revisions []string
	Rows      []matrixRow
	Letters   []letterView
	Pair      *pairView // the pair of revisions that the query selects; nil if it selects none
	Here      []hereRow
	More      int    // the number of rows that Here does not contain, because it has at most mostPairRows rows
	Nothing   string // why Here is empty
	Key       string
}

// matrixRow is a row of the matrix. It has a cell for one client revision with each server
// revision.
type matrixRow struct {
	Client string
	Cells  []matrixCell
}

// matrixCell is the cell of one pair of revisions.
type matrixCell struct {
	Client, Server string // the eras of the client revision and the server revision
	Path           string // the link that selects the pair
	Name           string // the text of the cell for screen readers
	Losses         []cellLoss
	Here           bool // a client and a server with these revisions are connected now
	Selected       bool
}

// cellLoss is a feature that is lost. A cell shows its letter.
type cellLoss struct {
	Letter, Title string
}

// letterView describes a feature that is lost, and why it is lost. Letter is the letter for the
// feature in the matrix.
type letterView struct {
	Letter, Feature, About string
	Why                    []whyView
}

// whyView is a reason for a loss, and the transports to which the reason applies. Where is "" if it
// applies to all transports.
type whyView struct{ Text, Where string }

// pairView describes one pair of revisions: what is lost, and what works.
type pairView struct {
	Client, Server string
	Eras           [2]string
	Direct         bool
	Losses         []letterView
	Works          []string // the features that work
	Absent         []string // the features that neither revision has
}

// hereRow is a group of connected clients and servers. All pairs in the group have the same
// revisions, transports and losses.
type hereRow struct {
	Clients, Servers []nameCount
	Client, Server   string // the revisions of the clients and the servers
	Over             string
	Eras             [2]string
	Losses           []letterView
	Untested         bool // the matrix has no result for these revisions over these transports
	group            pairGroup
}

// pairGroup identifies a hereRow.
type pairGroup struct{ client, over, server, to, only string }

// MoreClients and MoreServers return how many names the row does not show.
func (h hereRow) MoreClients() int { return max(0, len(h.Clients)-mostPairText) }
func (h hereRow) MoreServers() int { return max(0, len(h.Servers)-mostPairText) }

// FirstClients and FirstServers return the names that the row shows.
func (h hereRow) FirstClients() []nameCount { return h.Clients[:min(len(h.Clients), mostPairText)] }
func (h hereRow) FirstServers() []nameCount { return h.Servers[:min(len(h.Servers), mostPairText)] }

// compatibilityPage shows which features work between which revisions.
type compatibilityPage struct {
	source interface{ Matrix() admin.Matrix }
}

func (c *compatibilityPage) register(f *frame) {
	f.add(Page{Path: "/compatibility", Least: identity.Viewer, Template: "compatibility.html", Nav: "Compatibility", Group: systems, Key: "M", View: c.view})
}

func (c *compatibilityPage) view(r *http.Request) (*View, error) {
	m, q := c.source.Matrix(), r.URL.Query()
	v := &compatibility{Revisions: m.Revisions}
	pairs := map[[2]string]*admin.MatrixPair{}
	for i := range m.Pairs {
		pairs[[2]string{m.Pairs[i].Client, m.Pairs[i].Server}] = &m.Pairs[i]
	}
	v.here(r, &m, pairs)
	here := map[[2]string]bool{}
	for _, row := range v.Here {
		here[[2]string{row.Client, row.Server}] = true
	}
	for _, client := range m.Revisions {
		row := matrixRow{Client: client}
		for _, server := range m.Revisions {
			p := pairs[[2]string{client, server}]
			if p == nil {
				continue
			}
			cell := matrixCell{
				Client: eraOf(client), Server: eraOf(server), Here: here[[2]string{client, server}], Selected: q.Get("client") == client && q.Get("server") == server,
				Path: "?" + url.Values{"client": {client}, "server": {server}}.Encode() + "#pair", Name: "client " + client + ", server " + server,
			}
			for _, l := range p.Losses {
				cell.Losses = append(cell.Losses, cellLoss{l.Letter, l.Feature + ": " + l.Why})
			}
			row.Cells = append(row.Cells, cell)
		}
		v.Rows = append(v.Rows, row)
	}
	v.Letters = lettersOf(&m)
	if p := pairs[[2]string{q.Get("client"), q.Get("server")}]; p != nil {
		v.Pair = pairOf(&m, p)
	}
	v.Here, v.More = v.Here[:min(len(v.Here), mostPairRows)], max(0, len(v.Here)-mostPairRows)
	for _, row := range v.Here {
		v.Key += row.Client + row.Over + row.Server
		for _, n := range slices.Concat(row.Clients, row.Servers) {
			v.Key += n.Name + "\n"
		}
	}
	return &View{Title: "Compatibility", Data: v}, nil
}

// aboutOf returns the description of a feature, or "" if the matrix does not have the feature.
func aboutOf(m *admin.Matrix, feature string) string {
	for _, f := range m.Features {
		if f.Name == feature {
			return upper(f.About) + "."
		}
	}
	return ""
}

// lettersOf returns the features with a letter, each with all reasons why it is lost.
func lettersOf(m *admin.Matrix) (out []letterView) {
	for _, f := range m.Features {
		if f.Letter == "" {
			continue
		}
		x := letterView{Letter: f.Letter, Feature: f.Name, About: upper(f.About) + "."}
		seen := map[string]bool{}
		for i := range m.Pairs {
			for _, l := range m.Pairs[i].Losses {
				for _, t := range l.Transports {
					if l.Feature == f.Name && !seen[t.Why] {
						seen[t.Why] = true
						x.Why = append(x.Why, whyView{Text: t.Why})
					}
				}
			}
		}
		out = append(out, x)
	}
	return out
}

// pairOf describes a pair of revisions for the page.
func pairOf(m *admin.Matrix, p *admin.MatrixPair) *pairView {
	v := &pairView{Client: p.Client, Server: p.Server, Eras: [2]string{eraOf(p.Client), eraOf(p.Server)}, Direct: p.Direct, Absent: p.Absent}
	lost := map[string]bool{}
	for _, l := range p.Losses {
		lost[l.Feature] = true
		x := letterView{Letter: l.Letter, Feature: l.Feature, About: aboutOf(m, l.Feature)}
		at := map[string]int{}
		for _, t := range l.Transports {
			i, known := at[t.Why]
			if !known {
				i = len(x.Why)
				at[t.Why] = i
				x.Why = append(x.Why, whyView{Text: t.Why})
			}
			if !l.Always || len(l.Transports) > 1 {
				if x.Why[i].Where != "" {
					x.Why[i].Where += ", "
				}
				x.Why[i].Where += transportName(t.Client) + " → " + transportName(t.Server)
			}
		}
		if len(x.Why) == 1 && l.Always {
			x.Why[0].Where = ""
		}
		v.Losses = append(v.Losses, x)
	}
	for _, f := range m.Features {
		if !lost[f.Name] && !slices.Contains(p.Absent, f.Name) {
			v.Works = append(v.Works, f.Name)
		}
	}
	return v
}

// plainTransport converts the name of a connection's transport to the name that the matrix uses. A
// server within the process has the same losses as a server on stdio.
func plainTransport(name string) string {
	switch strings.ToLower(name) {
	case "http":
		return "http"
	case "sse", "http+sse":
		return "sse"
	}
	return "stdio"
}

// here sets v.Here to the rows of the clients and servers that are connected now.
func (v *compatibility) here(r *http.Request, m *admin.Matrix, pairs map[[2]string]*admin.MatrixPair) {
	clients, servers := present(sumsOf(r)), statusOf(r).Servers
	open := 0
	rows := map[pairGroup]*hereRow{}
	for i := range servers {
		s := &servers[i]
		if s.Revision == "" {
			continue
		}
		open++
		for _, x := range clients {
			p := pairs[[2]string{x.Revision(), s.Revision}]
			only, reaches := onlyServers(x)
			if p == nil || reaches != nil && !reaches[s.Name] {
				continue
			}
			over, to := plainTransport(x.Transport()), plainTransport(s.Transport)
			key := pairGroup{x.Revision(), over, s.Revision, to, only}
			row := rows[key]
			if row == nil {
				row = &hereRow{Client: x.Revision(), Server: s.Revision, Over: transportName(over) + " → " + transportName(to), Eras: [2]string{eraOf(x.Revision()), eraOf(s.Revision)}, group: key}
				row.Losses, row.Untested = lossesOver(m, p, over, to)
				rows[key] = row
			}
			row.Clients, row.Servers = addName(row.Clients, x.Title()), addName(row.Servers, s.Name)
		}
	}
	for _, row := range rows {
		v.Here = append(v.Here, *row)
	}
	slices.SortFunc(v.Here, func(a, b hereRow) int {
		return cmp.Or(cmp.Compare(len(b.Losses), len(a.Losses)), cmp.Compare(a.Client, b.Client), cmp.Compare(a.Server, b.Server), cmp.Compare(a.group.over+a.group.to+a.group.only, b.group.over+b.group.to+b.group.only))
	})
	switch {
	case len(v.Here) > 0:
	case len(clients) == 0:
		v.Nothing = "No client has connected within the last hour. Losses appear here after the first request of a client."
	case open == 0:
		v.Nothing = "No server has been opened yet. Losses appear here when the revision of a server is known."
	default:
		v.Nothing = "No client can reach a server whose revision is known."
	}
}

// onlyServers returns the servers that a client can reach. reaches is nil if this set is not
// limited. key identifies the set.
func onlyServers(x clientSum) (key string, reaches map[string]bool) {
	for _, s := range x.Sessions {
		if s.Server == "" {
			return "", nil
		}
		if reaches == nil {
			reaches = map[string]bool{}
		}
		if !reaches[s.Server] {
			reaches[s.Server] = true
			key += s.Server + "\x00"
		}
	}
	return key, reaches
}

// addName adds one to the count of a name in a list. It appends the name if the list does not have
// it.
func addName(all []nameCount, name string) []nameCount {
	for i := range all {
		if all[i].Name == name {
			all[i].Count++
			return all
		}
	}
	return append(all, nameCount{name, 1})
}

// lossesOver returns what a pair of revisions loses if the client and the server use these
// transports. untested is true if the matrix has no result for these transports, because one of the
// revisions does not define its transport. For example, later revisions do not define HTTP+SSE. For
// an untested pair, lossesOver returns only the losses that occur over all transports.
func lossesOver(m *admin.Matrix, p *admin.MatrixPair, client, server string) (out []letterView, untested bool) {
	untested = !defines(p.Client, client) || !defines(p.Server, server)
	for _, l := range p.Losses {
		why := ""
		if untested && l.Always {
			why = l.Why
		}
		for _, t := range l.Transports {
			if t.Client == client && t.Server == server {
				why = t.Why
			}
		}
		if why != "" {
			out = append(out, letterView{Letter: l.Letter, Feature: l.Feature, About: aboutOf(m, l.Feature), Why: []whyView{{Text: why}}})
		}
	}
	return out, untested
}

// defines reports whether a revision defines a transport.
func defines(revision, transport string) bool {
	r, ok := mcp.ParseRevision(revision)
	return ok && slices.Contains(matrix.Transports(r), matrix.Transport(transport))
}
