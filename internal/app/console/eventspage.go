package console

import (
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/base/identity"
	"github.com/dragoman-mcp/dragoman/internal/relay/event"
)

// eventList has the values of the page Events.
type eventList struct {
	Q       url.Values
	Search  string
	Kinds   []choice
	Servers []choice
	Rows    []eventRow
	Pager   pager
	Total   uint64
	Most    int
}

type eventRow struct {
	Count       int       // how often the same thing happened
	First       time.Time // when it happened first
	Time        time.Time
	Class, Word string
	Server      string
	What        string // the client, server, item or method of the event
	Item        string // the tool, prompt or resource of the call in which something was lost
	From, To    string
	Detail      string
}

// eventsPage lists the newest events.
type eventsPage struct{ traffic *traffic }

func (p *eventsPage) register(f *frame) {
	f.add(Page{Path: "/events", Least: identity.Viewer, Template: "events.html", Nav: "Events", Group: systems, Key: "E", View: p.view})
}

// eventWords maps the kinds of events to the words that the page shows.
var eventWords = map[event.Kind]string{
	event.ServerRequest: "server request", event.Loss: "loss", event.Handshake: "handshake", event.Lifecycle: "server", event.Refusal: "refusal", event.Rename: "rename", event.Changed: "tools changed", event.Pinned: "definitions changed", event.Question: "question", event.Reload: "reload",
}

func (p *eventsPage) view(r *http.Request) (*View, error) {
	q := r.URL.Query()
	l := &eventList{Q: q, Search: q.Get("q"), Total: sumsOf(r).Events, Most: mostEvents}
	l.Kinds = choices(q.Get("kind"), "any kind", "handshake", "handshakes", "lifecycle", "servers", "loss", "losses", "refusal", "refusals", "server_request", "server requests", "rename", "renames", "changed", "changed tools", "question", "questions", "reload", "reloads")
	var names []string
	for _, s := range statusOf(r).Servers {
		names = append(names, s.Name, s.Name)
	}
	l.Servers = choices(q.Get("server"), "any server", names...)
	match := func(e *keptEvent) bool {
		return (q.Get("kind") == "" || q.Get("kind") == e.Kind.String()) && (q.Get("server") == "" || q.Get("server") == e.Server) &&
			matches(l.Search, e.Server, e.Client, e.Name, e.Item, e.Method, e.Detail)
	}
	rows := groupedEvents(p.traffic.newest(match))
	l.Rows, l.Pager = paged(rows, q)
	return &View{Title: "Events", Data: l}, nil
}

// groupedEvents returns a row for each event, newest first. What repeats is one row, at the place of its
// newest event.
func groupedEvents(all []keptEvent) (rows []eventRow) {
	at := map[keptEvent]int{}
	for i := range all {
		same := all[i]
		same.Seq, same.Time, same.Took, same.Call, same.Now = 0, time.Time{}, 0, 0, false
		if n, known := at[same]; known {
			rows[n].Count++
			rows[n].First = all[i].Time
			continue
		}
		at[same] = len(rows)
		rows = append(rows, rowOf(&all[i]))
	}
	return rows
}

// rowOf returns the row that shows the event e.
func rowOf(e *keptEvent) eventRow {
	row := eventRow{Count: 1, First: e.Time, Time: e.Time, Word: eventWords[e.Kind], Class: "idle", Server: e.Server, What: e.Name, Detail: e.Detail}
	if e.From.Era() != "unknown" {
		row.From = e.From.String()
	}
	if e.To.Era() != "unknown" {
		row.To = e.To.String()
	}
	switch e.Kind {
	case event.Handshake:
		row.Class = "ok"
		if e.Failed {
			row.Class = "bad"
		}
		if e.Opened {
			told := "The client sent " + e.Method + ". Dragoman answered in " + spanText(e.Took) + "."
			if e.Failed {
				told = "Dragoman refused " + e.Method + "."
			}
			row.What, row.Detail = e.Client, strings.TrimSpace(told+" "+e.Detail)
		}
	case event.Lifecycle:
		switch {
		case e.Failed:
			row.Class = "bad"
		case e.Now:
			row.Class = "busy"
		}
	case event.Loss:
		row.Class, row.Item = "warn", e.Item
	case event.Changed, event.Pinned:
		row.Class = "warn"
	case event.Question:
		row.What = e.Method
		if e.Failed {
			row.Class = "warn"
		}
	case event.Refusal:
		row.Class, row.What = "warn", e.Method
	case event.ServerRequest:
		row.What, row.Detail = e.Method, "The client answered in "+spanText(e.Took)+"."
		if e.Failed {
			row.Class, row.Detail = "warn", "There was no usable answer of the client."
		}
	case event.Reload:
		row.Class, row.What = "ok", "configuration"
		if e.Failed {
			row.Class = "bad"
		}
	case event.Rename:
		row.What = e.Method + " " + e.Name
	}
	return row
}
