package console

import (
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/app/admin"
	"github.com/dragoman-mcp/dragoman/internal/app/runtime"
	"github.com/dragoman-mcp/dragoman/internal/base/identity"
	"github.com/dragoman-mcp/dragoman/internal/relay/event"
)

// mostPeers is the maximum number of rows on each side of the diagram.
const mostPeers = 8

// idleAfter is how long the overview shows a client without a session after the client's last call.
const idleAfter = time.Hour

// overview has the values of the overview, which is the first page.
type overview struct {
	Empty    bool
	Sentence string
	Need     string // the second sentence, which is a link to the list of needs; "" if nothing needs attention
	Sub      string
	Diagram  *diagram
	Needs    []need
	Calls    *plot
	Latency  *plot
	Losses   []lossSum
	Lost     string
	Projects []projectSum // all projects, for an admin of default; none if it's the only one
	Entry    string       // the entry that a user adds to a client's configuration file
	Endpoint string
}

// overviewPage is the first page.
type overviewPage struct {
	project string
	needs   *needs
	source  interface {
		QuestionsFor(who *identity.Principal) admin.Questions
		ProjectSums() []admin.ProjectSum
	}
}

// projectSum is a row of the list of all projects.
type projectSum struct{ admin.ProjectSum }

// First returns the path of the first of the project's own pages.
func (x projectSum) First() string { return firstOf(x.Name) }

// Needs says what needs attention, or "".
func (x projectSum) Needs() string {
	var all []string
	for _, n := range []struct {
		n    int
		what string
	}{{x.Failed, "failed server"}, {x.Held, "changed definition"}, {x.Asked, "open question"}} {
		if n.n > 0 {
			all = append(all, plural(n.n, n.what))
		}
	}
	return strings.Join(all, ", ")
}

// projects returns how all projects do, if the viewer may know. It isn't live: the numbers are those of when the page was
// opened.
func (p *overviewPage) projects(r *http.Request) (rows []projectSum) {
	if p.project != event.DefaultProject || !may(r, identity.Admin) || stateOf(r).feed {
		return nil
	}
	all := p.source.ProjectSums()
	if len(all) < 2 {
		return nil
	}
	for _, x := range all {
		rows = append(rows, projectSum{x})
	}
	return rows
}

func (p *overviewPage) register(f *frame) {
	f.add(Page{Path: "/", Least: identity.Viewer, Template: "overview.html", Nav: "Overview", Group: top, Key: "O", View: p.view})
}

// asking returns that questions wait, for those who may answer all of them. Everybody else has the number in the frame: a
// feed of this page is shared by all who may see the same.
func (p *overviewPage) asking(r *http.Request) []need {
	if !may(r, identity.Operator) || statusOf(r).Questions == 0 {
		return nil
	}
	all := p.source.QuestionsFor(stateOf(r).viewer.who).Questions
	if len(all) == 0 {
		return nil
	}
	x := need{
		Class: "held", Word: "Waiting", Who: plural(len(all), "question"), Path: pathOf("questions"), What: "wait for a person", Since: all[0].Since,
		Sentence: "The calls wait, too", Buttons: []button{{Title: "Answer", Path: pathOf("questions")}},
	}
	if len(all) == 1 {
		x.What, x.Sentence = "waits for a person", "The call of "+all[0].Server+" waits, too"
	}
	x.polish()
	return []need{x}
}

func (p *overviewPage) view(r *http.Request) (*View, error) {
	status, t := statusOf(r), sumsOf(r)
	o := &overview{Endpoint: admin.Base(r) + ownPath(r, "/mcp")}
	o.Entry = `{ "mcpServers": { "dragoman": { "type": "http", "url": "` + o.Endpoint + `" } } }`
	v := &View{Title: "Overview", Data: o}
	clients := present(t)
	o.Projects = p.projects(r)
	if len(status.Servers) == 0 && len(clients) == 0 {
		o.Empty, v.Waiting = true, "waiting for a server"
		v.Title = "Welcome"
		return v, nil
	}
	if len(clients) == 0 {
		v.Waiting = "waiting for a client"
	}
	o.Needs = append(p.asking(r), p.needs.all(status)...)
	for i := range o.Needs {
		o.Needs[i].Buttons = pressable(r, o.Needs[i].Buttons)
	}
	o.Diagram = newDiagram(clients, status, t)
	o.Sentence, o.Need = sentences(clients, status, len(o.Needs))
	o.Sub = subtitle(status, t)
	o.Calls, o.Latency = callsPlot(t), latencyPlot(t)
	o.Losses = t.Losses[:min(len(t.Losses), 8)]
	o.Lost = plural(int(t.Lost), "loss")
	if t.Lost != 1 {
		o.Lost = number(t.Lost) + " losses"
	}
	o.Lost += " in " + number(t.Calls) + " calls since " + when(t.Began)
	return v, nil
}

// present returns the clients that have a session or made a call within the last hour.
func present(t *sums) (all []clientSum) {
	for _, c := range t.Clients {
		if t.At.Sub(c.Last) < idleAfter || c.open() {
			all = append(all, c)
		}
	}
	return all
}

// open reports whether a client has a session now.
func (c clientSum) open() bool {
	return slices.ContainsFunc(c.Sessions, func(x runtime.ClientReport) bool { return x.Session })
}

// here reports whether a client is connected, as far as we can know: a client without a session is, while
// it calls.
func (c clientSum) here() bool { return c.Calls > 0 || c.open() }

// sentences returns the two sentences of the overview's heading. needs is the number of problems
// that need attention.
func sentences(clients []clientSum, status *admin.Report, needs int) (all, need string) {
	ready, starting := 0, 0
	for i := range status.Servers {
		switch status.Servers[i].State {
		case "ready", "idle", "stopped":
			ready++
		case "starting":
			starting++
		}
	}
	servers := len(status.Servers)
	switch {
	case status.State == "stopping":
		all = "Dragoman is stopping."
	case len(clients) == 0 && servers == 1 && ready == 1:
		all = "The server is ready. No client has called yet."
	case len(clients) == 0 && servers == 2 && ready == 2:
		all = "Both servers are ready. No client has called yet."
	case len(clients) == 0 && ready == servers:
		all = fmt.Sprintf("All %s servers are ready. No client has called yet.", inWords(servers))
	case len(clients) == 0 && starting > 0 && ready+starting == servers:
		all = upper(inWords(ready)) + " of " + inWords(servers) + " servers" + be(ready) + "ready. " + upper(inWords(starting)) + be(starting) + "starting."
	case len(clients) == 0:
		all = upper(inWords(ready)) + " of " + inWords(servers) + " servers" + be(ready) + "ready. No client has called yet."
	default:
		all = clientSentence(clients)
	}
	switch {
	case needs == 1:
		need = "One thing needs attention."
	case needs > 1:
		need = upper(inWords(needs)) + " things need attention."
	}
	return all, need
}

// clientSentence says whether the connected clients work, how many are idle, and how many had failing calls
// in the last minute. The page of clients shows the same states.
func clientSentence(clients []clientSum) string {
	clients = slices.DeleteFunc(slices.Clone(clients), func(c clientSum) bool { return !c.here() })
	if len(clients) == 0 {
		return "No client has called in the last minute."
	}
	n := map[string]int{}
	for _, c := range clients {
		n[c.Class()]++
	}
	if len(clients) == 1 && n["bad"] == 1 {
		if c := clients[0]; c.Failed < c.Calls {
			return "Some calls of the client failed in the last minute."
		}
		return "All calls of the client failed in the last minute."
	}
	if len(n) == 1 {
		who := "all " + inWords(len(clients)) + " clients"
		switch len(clients) {
		case 1:
			who = "the client"
		case 2:
			who = "both clients"
		}
		if n["bad"] > 0 {
			return upper(who) + " had failing calls in the last minute."
		}
		return upper(who) + be(len(clients)) + clients[0].Word() + "."
	}
	var parts []string
	if k := n["idle"]; k > 0 {
		parts = append(parts, inWords(k)+be(k)+"idle")
	}
	if k := n["bad"]; k > 0 {
		parts = append(parts, inWords(k)+" had failing calls")
	}
	return upper(inWords(len(clients))) + " clients are connected; " + strings.Join(parts, " and ") + "."
}

func be(n int) string {
	if n == 1 {
		return " is "
	}
	return " are "
}

// subtitle returns the line below the heading of the overview.
func subtitle(status *admin.Report, t *sums) string {
	calls, translated, bad := 0, 0, 0
	for _, c := range t.Clients {
		bad += c.Failed
	}
	for from := range t.Lanes {
		for to, n := range t.Lanes[from] {
			calls += n.Through
			if from != to {
				translated += n.Through
			}
		}
	}
	var all, failed uint64
	failing := ""
	if bad > 0 {
		failing = " " + upper(plural(bad, "call")) + " failed in the last minute."
	}
	for _, m := range t.Hour {
		all += uint64(m.relayed) + uint64(m.translated) + uint64(m.other)
		failed += uint64(m.failed)
	}
	text := fmt.Sprintf("%s calls/min to %s, %s of them translated.", number(calls), plural(len(status.Servers), "server"), number(translated))
	text += failing
	if all > 0 {
		text += fmt.Sprintf(" Error rate in the last hour: %s (%s of %s calls).", percent(failed, all), number(failed), number(all))
	}
	return text
}

func percent(part, all uint64) string {
	p := 100 * float64(part) / float64(all)
	switch {
	case part == 0:
		return "0%"
	case p < 1:
		return strconv.FormatFloat(p, 'f', 2, 64) + "%"
	case p < 10:
		return strconv.FormatFloat(p, 'f', 1, 64) + "%"
	}
	return strconv.FormatFloat(p, 'f', 0, 64) + "%"
}

// Plots returns the plots of the last hour.
func (o *overview) Plots() []*plot { return []*plot{o.Calls, o.Latency} }

// LossKey returns text that changes when the table of losses changes.
func (o *overview) LossKey() (key string) {
	for _, l := range o.Losses {
		key += fmt.Sprint(l.Server, l.Item, l.What, l.Why, l.Count, "\n")
	}
	return key
}
