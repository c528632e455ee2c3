package fake

import "github.com/dragoman-mcp/dragoman/internal/protocol/mcp"

// feature is something that a revision has or requires.
type feature uint

// The features. The parentheses name the revisions that have the feature, or the page of the
// specification that defines or removes it.
const (
	always           feature = iota // a feature of every revision
	handshake                       // initialize, initialized, ping, setLevel, subscribe (removed in 2026-07-28 §Versioning)
	perRequest                      // version, identity and capabilities in each request's _meta (2026-07-28 §Base, "_meta")
	batches                         // batches (2025-03-26 §Base, "Batching"; removed in 2025-06-18)
	eventTransport                  // HTTP+SSE is the transport of the revision (2024-11-05 §Transports)
	streamable                      // Streamable HTTP (2025-03-26 on)
	httpSessions                    // Mcp-Session-Id, GET, DELETE, Last-Event-ID (2025-03-26 to 2025-11-25)
	versionHeader                   // MCP-Protocol-Version is required (2025-06-18 on)
	primed                          // a stream begins with an event that has an id and no data (2025-11-25 §Transports, "Sending Messages")
	mirrored                        // Mcp-Method, Mcp-Name and Mcp-Param-* are required (2026-07-28 §Streamable HTTP)
	nullIDs                         // the error response to a message with an unreadable id has the id null (until 2025-06-18); later, it has no id
	notFoundCode                    // the error code for an unknown resource is -32002; in 2026-07-28, it is -32602 (§Resources)
	completions                     // the capability "completions" (2025-03-26 on)
	completeContext                 // completion/complete has the parameter context (2025-06-18 on)
	audio                           // audio content (2025-03-26 on)
	toolHints                       // tool annotations (2025-03-26 on)
	progressWords                   // progress notifications have a message (2025-03-26 on)
	titles                          // objects with a name have a title (2025-06-18 on)
	links                           // resource_link content (2025-06-18 on)
	structured                      // outputSchema and structuredContent (2025-06-18 on)
	forms                           // elicitation/create (2025-06-18 on)
	formModes                       // elicitation has the modes form and url (2025-11-25 on)
	richForms                       // forms have options with titles, multiple choices, and default values of any type (2025-11-25 on)
	elicitationIDs                  // URL elicitation has an elicitationId (2025-11-25 only)
	inputErrors                     // the server reports invalid arguments as a tool error (2025-11-25 §Tools, "Error Handling")
	experimentalTask                // tasks/* (2025-11-25 only)
	directedTask                    // the extension io.modelcontextprotocol/tasks (SEP-2663, with 2026-07-28)
	resultTypes                     // resultType in every result, ttlMs and cacheScope in some (2026-07-28)
	inputRounds                     // the server puts its requests into input_required results (2026-07-28 §Multi Round-Trip Requests)
)

// edition is the feature set of one revision. Code that depends on the revision checks for a feature
// with the method has, and does not compare revisions.
type edition struct {
	date string
	rev  mcp.Revision
	set  uint64
}

func (e *edition) has(f feature) bool { return e.set&(1<<f) != 0 }

func with(base uint64, fs ...feature) uint64 {
	for _, f := range fs {
		base |= 1 << f
	}
	return base
}

func without(base uint64, fs ...feature) uint64 {
	for _, f := range fs {
		base &^= 1 << f
	}
	return base
}

// editions returns the editions of all revisions, oldest first. Each feature set is built from the
// previous one. The sources are schema/DATE/schema.ts and the pages named beside the features.
func editions() []*edition {
	a := with(0, always, handshake, eventTransport, nullIDs, notFoundCode)
	b := with(without(a, eventTransport), batches, streamable, httpSessions, completions, audio, toolHints, progressWords)
	c := with(without(b, batches), versionHeader, titles, links, structured, forms, completeContext)
	d := with(without(c, nullIDs), primed, formModes, richForms, elicitationIDs, inputErrors, experimentalTask)
	e := with(without(d, handshake, httpSessions, primed, elicitationIDs, experimentalTask, notFoundCode),
		perRequest, mirrored, resultTypes, inputRounds, directedTask)
	return []*edition{
		{"2024-11-05", mcp.R20241105, a},
		{"2025-03-26", mcp.R20250326, b},
		{"2025-06-18", mcp.R20250618, c},
		{"2025-11-25", mcp.R20251125, d},
		{"2026-07-28", mcp.R20260728, e},
	}
}

// editionOf returns the edition with the given date, or nil if there is none.
func editionOf(date string) *edition {
	for _, e := range editions() {
		if e.date == date {
			return e
		}
	}
	return nil
}
