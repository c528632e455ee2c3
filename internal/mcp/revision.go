package mcp

// Revision is one dated version of the specification. The zero Revision is unknown and
// has no features.
type Revision uint8

// The five revisions in use, oldest first.
const (
	Unknown Revision = iota
	R20241105
	R20250326
	R20250618
	R20251125
	R20260728
)

// Latest is the newest revision that we support, LatestLegacy the newest with
// initialize.
const (
	Latest       = R20260728
	LatestLegacy = R20251125
)

// Assumed is the revision of an HTTP client that sends none (2025-06-18 §Transports,
// "Protocol Version Header").
const Assumed = R20250326

var dates = [...]string{"", "2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28"}

// String returns the revision's date, "unknown" for the zero Revision.
func (r Revision) String() string {
	if r == Unknown || int(r) >= len(dates) {
		return "unknown"
	}
	return dates[r]
}

// ParseRevision returns the revision with a date. ok is false for any other text.
func ParseRevision(date string) (r Revision, ok bool) {
	for i := 1; i < len(dates); i++ {
		if dates[i] == date {
			return Revision(i), true
		}
	}
	return Unknown, false
}

// Dates returns the dates by which revisions are named.
func Dates(all []Revision) []string {
	out := make([]string, len(all))
	for i, r := range all {
		out[i] = r.String()
	}
	return out
}

// Revisions returns all revisions, newest first, or only those with all of the given
// features.
func Revisions(can ...Feature) []Revision {
	var out []Revision
next:
	for r := Latest; r > Unknown; r-- {
		for _, f := range can {
			if !r.Can(f) {
				continue next
			}
		}
		out = append(out, r)
	}
	return out
}

// Newer reports whether r is newer than o. Use it only to choose among offered
// revisions. To learn what a peer supports, use Can.
func (r Revision) Newer(o Revision) bool { return r > o }

// Feature is something that the peers of some revisions have, or must not be sent.
type Feature uint8

// The features, each with the page that defines it.
const (
	// Handshake: starts with initialize and has a session (§Lifecycle of the four
	// legacy revisions). Revisions without it have per-request metadata in _meta
	// (2026-07-28 §Versioning).
	Handshake Feature = iota
	// PerRequestMeta: each request has version, identity and capabilities.
	PerRequestMeta
	// Batches: JSON-RPC batches may be received (2025-03-26 §Base, "Batching").
	Batches
	// AskedMidCall: a client accepts requests while its call runs.
	AskedMidCall
	// InputRequired: server requests are part of a result and are answered by a retry
	// (2026-07-28 §Multi Round-Trip Requests).
	InputRequired
	// StreamableHTTP: has that transport; revisions without it have HTTP+SSE.
	StreamableHTTP
	// VersionHeader: HTTP requests have MCP-Protocol-Version (2025-06-18 on).
	VersionHeader
	// MirroredHeaders: Mcp-Method, Mcp-Name and Mcp-Param-* are required (2026-07-28
	// §Streamable HTTP, "Request Metadata").
	MirroredHeaders
	// HTTPSessions: Mcp-Session-Id, GET stream, DELETE (2025-03-26 to 2025-11-25).
	HTTPSessions
	// Resumption: broken streams continue with Last-Event-ID (same revisions).
	Resumption
	// PrimingEvent: a stream begins with an event that has an id and no data, and may
	// be closed and polled (2025-11-25 §Transports, SEP-1699).
	PrimingEvent
	// HangUpCancels: closing the response stream cancels the request.
	HangUpCancels
	// NullIDErrors: an error about an unreadable request has id null. Later revisions
	// omit the member.
	NullIDErrors
	// Listen: subscriptions/listen replaces subscribe and standing notifications.
	Listen
	// ResultTypes: results have resultType; lists and reads have ttlMs, cacheScope.
	ResultTypes
	// Elicitation: elicitation/create exists (2025-06-18 on).
	Elicitation
	// URLElicitation: elicitation has modes (2025-11-25 on).
	URLElicitation
	// ElicitationIDs: a URL elicitation has an elicitationId, by which a notification
	// may report its end (2025-11-25 §Elicitation; removed in 2026-07-28).
	ElicitationIDs
	// Completions: there is a capability for completion.
	Completions
	// ProgressMessages: progress has a message (2025-03-26 on).
	ProgressMessages
	// AudioContent: content may be audio (2025-03-26 on).
	AudioContent
	// ResourceLinks: content may be a link to a resource (2025-06-18 on).
	ResourceLinks
	// ResourceNotFoundCode: a missing resource is -32002, not -32602.
	ResourceNotFoundCode
	// TitledImplementation: an Implementation may have a title (2025-06-18 on) and more.
	TitledImplementation
	// ExperimentalTasks: tasks as 2025-11-25 defines them.
	ExperimentalTasks
	// TasksExtension: tasks as io.modelcontextprotocol/tasks defines them.
	TasksExtension
	// SamplingBlocks: a sampling message may have several content blocks, and blocks
	// for tool use and tool results (2025-11-25 on).
	SamplingBlocks
	// StructuredResults: a tool may have an outputSchema, and a result
	// structuredContent (2025-06-18 on).
	StructuredResults
	// StructuredAny: structuredContent may be any JSON, and an outputSchema of any type
	// (2026-07-28). Earlier revisions allow only objects.
	StructuredAny

	featureCount
)

// from..to, both inclusive, per feature. A table of ranges is enough, because no
// feature was removed and added again.
var features = [featureCount]struct{ from, to Revision }{
	Handshake:            {R20241105, R20251125},
	PerRequestMeta:       {R20260728, Latest},
	Batches:              {R20250326, R20250326},
	AskedMidCall:         {R20241105, R20251125},
	InputRequired:        {R20260728, Latest},
	StreamableHTTP:       {R20250326, Latest},
	VersionHeader:        {R20250618, Latest},
	MirroredHeaders:      {R20260728, Latest},
	HTTPSessions:         {R20250326, R20251125},
	Resumption:           {R20250326, R20251125},
	PrimingEvent:         {R20251125, R20251125},
	HangUpCancels:        {R20260728, Latest},
	NullIDErrors:         {R20241105, R20250618},
	Listen:               {R20260728, Latest},
	ResultTypes:          {R20260728, Latest},
	Elicitation:          {R20250618, Latest},
	URLElicitation:       {R20251125, Latest},
	ElicitationIDs:       {R20251125, R20251125},
	Completions:          {R20250326, Latest},
	ProgressMessages:     {R20250326, Latest},
	ResourceNotFoundCode: {R20241105, R20251125},
	TitledImplementation: {R20250618, Latest},
	ExperimentalTasks:    {R20251125, R20251125},
	TasksExtension:       {R20260728, Latest},
	AudioContent:         {R20250326, Latest},
	ResourceLinks:        {R20250618, Latest},
	SamplingBlocks:       {R20251125, Latest},
	StructuredResults:    {R20250618, Latest},
	StructuredAny:        {R20260728, Latest},
}

// Can reports whether a peer of revision r has the feature.
func (r Revision) Can(f Feature) bool {
	if int(f) >= len(features) {
		return false
	}
	return r >= features[f].from && r <= features[f].to
}

// Modern reports whether r has per-request metadata, Legacy whether it has initialize.
// Both are false for the unknown revision.
func (r Revision) Modern() bool { return r.Can(PerRequestMeta) }

// Legacy: see Modern.
func (r Revision) Legacy() bool { return r.Can(Handshake) }

// Era returns "modern", "legacy" or, for a revision that is not known, "unknown".
func (r Revision) Era() string {
	switch {
	case r.Modern():
		return "modern"
	case r.Legacy():
		return "legacy"
	}
	return "unknown"
}
