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
		return lacking(p, mcp.Elicitation, "elicitation, which came with 2025-06-18")
	case "elicitation-url":
		return lacking(p, mcp.URLElicitation, "elicitation by URL, which came with 2025-11-25")
	case "tasks":
		return lackingTasks(p)
	case "resume":
		client, server := unresumable(p.Client, p.ClientTransport), unresumable(p.Server, p.ServerTransport)
		switch {
		case client == "" || server == "":
			return ""
		case client == server:
			return "No stream can be resumed: " + client + "."
		}
		return "No stream can be resumed: towards the client " + client + ", and towards the server " + server + "."
	}
	return ""
}

// lacking names which ends of a pair lack a feature.
func lacking(p Pair, f mcp.Feature, what string) string {
	return lackers(p, p.Client.Can(f), p.Server.Can(f), what)
}

func lackers(p Pair, client, server bool, what string) string {
	switch {
	case client && server:
		return ""
	case !client && !server && p.Client != p.Server:
		return fmt.Sprintf("Neither %s nor %s has %s.", p.Client, p.Server, what)
	case !client:
		return fmt.Sprintf("%s has no %s.", p.Client, what)
	}
	return fmt.Sprintf("%s has no %s.", p.Server, what)
}

// lackingTasks: tasks are experimental in 2025-11-25 and an extension of
// 2026-07-28; no earlier revision has them.
func lackingTasks(p Pair) string {
	has := func(r mcp.Revision) bool { return r.Can(mcp.ExperimentalTasks) || r.Can(mcp.TasksExtension) }
	return lackers(p, has(p.Client), has(p.Server), "tasks, which came with 2025-11-25")
}

// unresumable says why no stream of a transport can be resumed, "" when it can.
func unresumable(r mcp.Revision, t Transport) string {
	switch {
	case t == Stdio:
		return "a pipe has no streams to resume"
	case t == SSE:
		return "HTTP+SSE does not define it"
	case !r.Can(mcp.Resumption):
		return r.String() + " has removed it, a lost call is sent again"
	}
	return ""
}
