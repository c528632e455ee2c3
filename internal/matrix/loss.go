package matrix

import (
	"fmt"

	"github.com/dragoman-mcp/dragoman/internal/mcp"
)

// lossOf returns the sentence that says why a feature cannot exist between the two
// ends of a pair, "" when it can and therefore has to work. It looks at what the
// revisions and transports define and at nothing else.
func lossOf(feature string, p Pair) string {
	switch feature {
	case "elicitation-form":
		return lacking(p, mcp.Elicitation, "elicitation (introduced in 2025-06-18)")
	case "elicitation-url":
		return lacking(p, mcp.URLElicitation, "URL elicitation (introduced in 2025-11-25)")
	case "tasks":
		return lackingTasks(p)
	case "resume":
		client, server := unresumable(p.Client, p.ClientTransport), unresumable(p.Server, p.ServerTransport)
		switch {
		case client == "" || server == "":
			return ""
		case client == server:
			return "Streams cannot be resumed: " + client + "."
		}
		return "Streams cannot be resumed: on the client's side, " + client + "; on the server's side, " + server + "."
	}
	return ""
}

// lacking names the end of a pair that lacks a feature, the older one if both do.
func lacking(p Pair, f mcp.Feature, what string) string {
	return lackers(p, p.Client.Can(f), p.Server.Can(f), what)
}

func lackers(p Pair, client, server bool, what string) string {
	older := p.Client
	switch {
	case client && server:
		return ""
	case client || !server && p.Client.Newer(p.Server):
		older = p.Server
	}
	return fmt.Sprintf("%s has no %s.", older, what)
}

// lackingTasks: tasks are experimental in 2025-11-25 and an extension of
// 2026-07-28; no earlier revision has them.
func lackingTasks(p Pair) string {
	has := func(r mcp.Revision) bool { return r.Can(mcp.ExperimentalTasks) || r.Can(mcp.TasksExtension) }
	return lackers(p, has(p.Client), has(p.Server), "tasks (introduced in 2025-11-25)")
}

// unresumable says why no stream of a transport can be resumed, "" when it can.
func unresumable(r mcp.Revision, t Transport) string {
	switch {
	case t == Stdio:
		return "stdio has no streams"
	case t == SSE:
		return "HTTP+SSE does not define resumption"
	case !r.Can(mcp.Resumption):
		return r.String() + " removed resumption; a lost call is sent again"
	}
	return ""
}
