package console

import (
	"net/http"
	"net/url"
	"slices"
	"strconv"

	"github.com/dragoman-mcp/dragoman/internal/app/admin"
	"github.com/dragoman-mcp/dragoman/internal/base/identity"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
)

// callList has the values of the page that lists calls.
type callList struct {
	Q                                   url.Values
	Search                              string
	Outcomes, Servers, Clients, Methods []choice
	Rows                                []callRow
	Older                               string // the link to older calls; "" for none
	Newest                              string // the link to the newest calls; "" if the page shows the newest calls
	Any                                 bool   // a filter is set
	Total                               uint64 // the number of this process's calls that match the filters; it grows when there are new calls
	Missing                             []admin.Missing
}

// callPages are the list of calls, and the page of each call with its messages.
type callPages struct {
	frame  *frame
	source interface {
		CallsOf(admin.CallQuery) admin.Calls
		CallsFrom(*http.Request, admin.CallQuery) admin.Calls
		StoryFrom(r *http.Request, id string) (admin.Story, *admin.Problem)
		TranscriptFrom(r *http.Request, id string) ([]byte, *admin.Problem)
	}
	program string // the command that a user types to start Dragoman
}

func (p *callPages) register(f *frame) {
	f.add(Page{
		Path: "/calls", Least: identity.Viewer, Template: "calls.html", Nav: "Calls", Group: traffics, Key: "C", View: p.calls,
		Count: func(s *screen) string {
			n := 0
			for _, x := range s.Traffic.Clients {
				n += x.rate.Calls
			}
			return number(n) + "/min"
		},
	})
	f.add(Page{Path: "/calls/{number}", Least: identity.Viewer, Template: "call.html", View: p.call})
	f.handle("GET /calls/{number}/wires.json", identity.Viewer, p.serveWires)
	f.handle("GET /calls/{number}/wires.txtar", identity.Viewer, p.serveTranscript)
}

// mostCounted limits how many calls the page counts for Total when a filter is set.
const mostCounted = 2000

func (p *callPages) calls(r *http.Request) (*View, error) {
	q := r.URL.Query()
	l := &callList{Q: q, Search: q.Get("q")}
	l.Outcomes = choices(q.Get("outcome"), "any status", "ok", "succeeded", "tool_error", "tool error", "failed", "failed", "refused", "refused", "cancelled", "cancelled", "loss", "with a loss", "parked", "waiting for input", admin.OutcomeRunning, "running")
	l.Methods = choices(q.Get("method"), "any method", mcp.MethodCallTool, mcp.MethodCallTool, mcp.MethodGetPrompt, mcp.MethodGetPrompt, mcp.MethodReadResource, mcp.MethodReadResource,
		mcp.MethodListTools, mcp.MethodListTools, mcp.MethodListPrompts, mcp.MethodListPrompts, mcp.MethodListResources, mcp.MethodListResources)
	var names []string
	for _, s := range statusOf(r).Servers {
		names = append(names, s.Name, s.Name)
	}
	l.Servers = choices(q.Get("server"), "any server", names...)
	names = nil
	for _, x := range sumsOf(r).Clients {
		if !slices.Contains(names, x.name) && x.name != "" {
			names = append(names, x.name, x.name)
		}
	}
	l.Clients = choices(q.Get("client"), "any client", names...)
	query := admin.CallQuery{Server: q.Get("server"), Client: q.Get("client"), Method: q.Get("method"), Outcome: q.Get("outcome"), Text: l.Search}
	l.Any = query != admin.CallQuery{}
	query.Named = may(r, identity.Operator)
	if l.Any {
		query.Limit = mostCounted
		l.Total = uint64(len(p.source.CallsOf(query).Calls))
	} else {
		l.Total = sumsOf(r).Calls
	}
	query.Limit = pageRows
	query.Before, _ = strconv.ParseUint(q.Get("before"), 10, 64)
	found := p.source.CallsFrom(waits(r), query)
	l.Rows, l.Missing = callRows(found.Calls), found.Missing
	if found.Before > 0 {
		l.Older = queryWith(q, "before", strconv.FormatUint(found.Before, 10))
	}
	if query.Before > 0 {
		l.Newest = queryWith(q, "before", "")
	}
	return &View{Title: "Calls", Data: l}, nil
}
