package matrix

import (
	"fmt"

	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
)

// lossOf returns the reason why a feature is impossible between the two ends of a pair. It
// returns "" if the feature is possible and therefore must work. It considers only the
// definitions of revisions and transports.
func lossOf(feature string, p Pair) string {
	switch feature {
	case "elicitation-form":
		return lacking(p, mcp.Elicitation, "elicitation (introduced in 2025-06-18)")
	case "elicitation-rich":
		switch {
		case !p.Client.Can(mcp.Elicitation) || !p.Server.Can(mcp.Elicitation):
			return lacking(p, mcp.Elicitation, "elicitation (introduced in 2025-06-18)")
		case !p.Server.Can(mcp.RichForms):
			return fmt.Sprintf("%s has no lists of options in forms (introduced in 2025-11-25).", p.Server)
		case !p.Client.Can(mcp.RichForms):
			return fmt.Sprintf("%s has default values only for booleans, and no limits for selections; Dragoman writes the other default values and the limits into the description.", p.Client)
		}
		return ""
	case "elicitation-url":
		return lacking(p, mcp.URLElicitation, "URL elicitation (introduced in 2025-11-25)")
	case "tasks":
		return lackingTasks(p)
	case "sign-in":
		if p.ServerTransport == Stdio {
			return "A server on stdio takes credentials from its environment, and signs nobody in."
		}
	case "confirm":
		if !p.Client.Can(mcp.Elicitation) {
			return fmt.Sprintf("%s has no elicitation (introduced in 2025-06-18), so nobody can be asked, and the call is refused.", p.Client)
		}
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

// absentIn reports whether neither end of a pair has a feature that lossOf finds impossible.
func absentIn(feature string, p Pair) bool {
	neither := func(has func(mcp.Revision) bool) bool { return !has(p.Client) && !has(p.Server) }
	can := func(f mcp.Feature) func(mcp.Revision) bool {
		return func(r mcp.Revision) bool { return r.Can(f) }
	}
	switch feature {
	case "elicitation-form":
		return neither(can(mcp.Elicitation))
	case "elicitation-rich":
		return neither(can(mcp.RichForms))
	case "elicitation-url":
		return neither(can(mcp.URLElicitation))
	case "tasks":
		return neither(hasTasks)
	case "sign-in", "confirm":
		return lossOf(feature, p) != ""
	case "resume":
		return lossOf(feature, p) != "" // one end that can resume is enough
	}
	return false
}

// lacking returns a sentence that says which revision of a pair lacks a feature. If both revisions
// lack the feature, the sentence names the older one. If both revisions have the feature, the
// result is "".
func lacking(p Pair, f mcp.Feature, what string) string {
	return sentence(p, p.Client.Can(f), p.Server.Can(f), what)
}

func sentence(p Pair, client, server bool, what string) string {
	older := p.Client
	switch {
	case client && server:
		return ""
	case client || !server && p.Client.Newer(p.Server):
		older = p.Server
	}
	return fmt.Sprintf("%s has no %s.", older, what)
}

// lackingTasks does the same as lacking, for tasks. Tasks are experimental in 2025-11-25 and an
// extension in 2026-07-28. Earlier revisions do not have tasks.
func lackingTasks(p Pair) string {
	return sentence(p, hasTasks(p.Client), hasTasks(p.Server), "tasks (introduced in 2025-11-25)")
}

func hasTasks(r mcp.Revision) bool { return r.Can(mcp.ExperimentalTasks) || r.Can(mcp.TasksExtension) }

// unresumable returns the reason why streams of a transport cannot be resumed, or "" if they can.
func unresumable(r mcp.Revision, t Transport) string {
	switch {
	case t == Stdio:
		return "stdio has no streams"
	case t == SSE:
		return "HTTP+SSE does not define resumption"
	case !r.Can(mcp.Resumption):
		return r.String() + " removed resumption, and a client sends a lost call again instead"
	}
	return ""
}
