package mcp

// Revision is one dated version of the specification. The zero Revision is Unknown and has no
// features.
type Revision uint8

// These are the zero Revision and the five revisions in use, oldest first.
const (
	Unknown Revision = iota
	R20241105
	R20250326
	R20250618
	R20251125
	R20260728
)

// Latest is the newest revision that Dragoman supports. LatestLegacy is the newest revision with
// the request initialize.
const (
	Latest       = R20260728
	LatestLegacy = R20251125
)

// Assumed is the revision that Dragoman assumes for an HTTP client that does not send the header
// MCP-Protocol-Version (2025-06-18 §Transports, "Protocol Version Header").
const Assumed = R20250326

// UnknownVersion is a protocol version that no revision has. It is later than all revisions,
// because SDKs compare dates, and take an early one for a legacy version.
const UnknownVersion = "2027-03-03"

var dates = [...]string{"", "2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28"}

// String returns the revision's date, or "unknown" for the zero Revision.
func (r Revision) String() string {
	if r == Unknown || int(r) >= len(dates) {
		return "unknown"
	}
	return dates[r]
}

// ParseRevision returns the revision with the given date. ok is false for any other text.
func ParseRevision(date string) (r Revision, ok bool) {
	for i := 1; i < len(dates); i++ {
		if dates[i] == date {
			return Revision(i), true
		}
	}
	return Unknown, false
}

// Dates returns the date of each revision in all.
func Dates(all []Revision) []string {
	out := make([]string, len(all))
	for i, r := range all {
		out[i] = r.String()
	}
	return out
}

// Revisions returns all revisions that have the given features, newest first.
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

// Newer reports whether r is newer than o. Use it only to choose among offered revisions. To find
// out what a peer supports, use Can.
func (r Revision) Newer(o Revision) bool { return r > o }

// Feature is a part of the protocol that only some revisions have.
type Feature uint8

// These are the features. The references in parentheses are to the specification.
const (
	// Handshake means that a connection starts with initialize and has a session (§Lifecycle of the
	// four legacy revisions). Revisions without a handshake have metadata in the _meta of each
	// request (2026-07-28 §Versioning).
	Handshake Feature = iota
	// PerRequestMeta means that each request contains the version, the identity and the
	// capabilities of its sender.
	PerRequestMeta
	// Batches means that a peer may send JSON-RPC batches (2025-03-26 §Base, "Batching").
	Batches
	// AskedMidCall means that a client accepts server requests while its call runs.
	AskedMidCall
	// InputRequired means that server requests are part of a result, and that a retry answers
	// them (2026-07-28 §Multi Round-Trip Requests).
	InputRequired
	// StreamableHTTP means that the HTTP transport is Streamable HTTP. Revisions without this
	// feature have HTTP+SSE.
	StreamableHTTP
	// VersionHeader means that HTTP requests have the header MCP-Protocol-Version (since
	// 2025-06-18).
	VersionHeader
	// MirroredHeaders means that the headers Mcp-Method, Mcp-Name and Mcp-Param-* are required
	// (2026-07-28 §Streamable HTTP, "Request Metadata").
	MirroredHeaders
	// HTTPSessions means that the HTTP transport has Mcp-Session-Id, GET streams and DELETE
	// (2025-03-26 to 2025-11-25).
	HTTPSessions
	// Resumption means that a client can continue a broken stream with Last-Event-ID (2025-03-26 to
	// 2025-11-25).
	Resumption
	// PrimingEvent means that a stream begins with an event that has an id and no data. The server
	// may close the stream, and the client then polls for the response (2025-11-25 §Transports,
	// SEP-1699).
	PrimingEvent
	// HangUpCancels means that closing the response stream cancels the request.
	HangUpCancels
	// NullIDErrors means that an error response to an unreadable request has the id null. Later
	// revisions omit the id.
	NullIDErrors
	// Listen means that subscriptions/listen replaces resources/subscribe and unrequested
	// notifications.
	Listen
	// ResultTypes means that results have resultType, and that results of lists and reads also have
	// ttlMs and cacheScope.
	ResultTypes
	// Elicitation means that elicitation/create exists (since 2025-06-18).
	Elicitation
	// URLElicitation means that an elicitation has a mode, form or url (since 2025-11-25).
	URLElicitation
	// RichForms means that the fields of a form may have options with titles, lists of options,
	// and default values of any type (since 2025-11-25, SEP-1034 and SEP-1330).
	RichForms
	// ElicitationIDs means that a URL elicitation has an elicitationId. The server may send a
	// notification with this id when the elicitation is complete (2025-11-25 §Elicitation; removed
	// in 2026-07-28).
	ElicitationIDs
	// Completions means that there is a server capability for completion/complete.
	Completions
	// ProgressMessages means that a progress notification may have a message (since 2025-03-26).
	ProgressMessages
	// AudioContent means that content may be audio (since 2025-03-26).
	AudioContent
	// ResourceLinks means that content may be a link to a resource (since 2025-06-18).
	ResourceLinks
	// ResourceNotFoundCode means that the error code for a missing resource is -32002 instead of
	// -32602.
	ResourceNotFoundCode
	// TitledImplementation means that an Implementation may have a title and further members
	// (since 2025-06-18).
	TitledImplementation
	// ExperimentalTasks means the tasks that 2025-11-25 defines.
	ExperimentalTasks
	// TasksExtension means the tasks of the extension io.modelcontextprotocol/tasks.
	TasksExtension
	// SamplingBlocks means that a sampling message may have several content blocks, including
	// blocks for tool use and tool results (since 2025-11-25).
	SamplingBlocks
	// ToolAnnotations means that a tool may have annotations, such as readOnlyHint (since 2025-03-26).
	ToolAnnotations
	// StructuredResults means that a tool may have an outputSchema and a result may have
	// structuredContent (since 2025-06-18).
	StructuredResults
	// Ping means that either side may send ping (§Ping of the four legacy revisions; 2026-07-28
	// §Changelog, "Remove ping").
	Ping
	// ResourceMetadata means that a client without a token finds out where to get one in the metadata of the
	// endpoint (since 2025-06-18 §Authorization, RFC 9728).
	ResourceMetadata
	// StructuredAny means that structuredContent may be any JSON value, and that an
	// outputSchema may have any type (2026-07-28). Earlier revisions allow only objects.
	StructuredAny

	featureCount
)

// features contains the first and the last revision that have each feature. A range is enough,
// because no feature was added again after its removal.
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
	RichForms:            {R20251125, Latest},
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
	ToolAnnotations:      {R20250326, Latest},
	StructuredResults:    {R20250618, Latest},
	StructuredAny:        {R20260728, Latest},
	Ping:                 {R20241105, R20251125},
	ResourceMetadata:     {R20250618, Latest},
}

// Can reports whether a peer of revision r has the feature.
func (r Revision) Can(f Feature) bool {
	if int(f) >= len(features) {
		return false
	}
	return r >= features[f].from && r <= features[f].to
}

// Modern reports whether r has per-request metadata. It returns false for Unknown.
func (r Revision) Modern() bool { return r.Can(PerRequestMeta) }

// Legacy reports whether r has the request initialize. It returns false for Unknown.
func (r Revision) Legacy() bool { return r.Can(Handshake) }

// Era returns "modern" or "legacy", or "unknown" for Unknown.
func (r Revision) Era() string {
	switch {
	case r.Modern():
		return "modern"
	case r.Legacy():
		return "legacy"
	}
	return "unknown"
}
