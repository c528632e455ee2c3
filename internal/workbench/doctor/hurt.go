package doctor

import (
	"slices"
	"strings"
)

// This file lists the clients that each condition affects. A client is listed because of the
// messages that it sends. If no client can work with a server that has the condition, EveryClient is
// listed. Only a few clients were tested with such servers. For example, the Go SDK closed the
// connection on Noise.

// EveryClient is the only entry of Condition.Hurts if no client can work with a server that has the
// condition.
const EveryClient = "every client"

// These are the clients, grouped by the messages that they send.
var (
	// probing clients open with server/discover. Claude Code waits three seconds for the
	// answer, and the AI SDK waits one second. The Go SDK waits without a limit.
	probing = []string{"Claude Code", "AI SDK", "Mastra", "Go SDK", "mcp-go"}
	// hasty clients wait only a short time for the answer to server/discover.
	hasty = []string{"Claude Code", "AI SDK"}
	// sdk1 clients use the TypeScript SDK 1. They number requests from 0, open a GET stream
	// after the handshake, and check each list against a schema.
	sdk1 = []string{"TypeScript SDK 1", "MCP Inspector", "mcporter", "OpenCode"}
	// offering2025 clients offer one of the two newest legacy revisions.
	offering2025 = slices.Concat([]string{"Claude Code", "Codex", "Gemini CLI"}, sdk1)
)

// hurts lists the affected clients of each code. For a code that is not here, no affected
// client is known.
var hurts = map[string][]string{
	Unreachable: {EveryClient}, NoRevision: {EveryClient}, Dies: {EveryClient}, HalfLine: {EveryClient},
	InitializeRefused: {EveryClient}, Manifest: {EveryClient}, PushesManifest: {EveryClient}, NotMCP: {EveryClient},
	NoVersion: {EveryClient}, IDLost: {EveryClient}, IDType: {EveryClient},
	Unhandled: {EveryClient}, ListFails: {EveryClient}, NoList: {EveryClient}, SchemaStub: {EveryClient},
	CallSilent: {EveryClient}, Endless: {EveryClient}, CursorRepeats: {EveryClient}, PageFails: {EveryClient},
	HostRefused: {EveryClient}, NoAnswer: {EveryClient}, BodyUnreadable: {EveryClient}, Broadcasts: {EveryClient},
	InitializedStatus: {EveryClient}, CredentialsRefused: {EveryClient}, SessionID: {EveryClient},

	CannotStart:         {"Codex"}, // Codex starts a server twice
	ProbeDies:           probing,
	ProbeOpens:          probing,
	ProbeSilent:         probing,
	OddDiscover:         probing,
	NoResultType:        probing,
	MetaVersionCode:     probing,
	SlowStart:           hasty,
	VersionRefused:      offering2025,
	IDString:            {"Claude Code"}, // Claude Code sends server/discover with a string as the id
	IDZero:              append([]string{"Codex"}, sdk1...),
	UnknownSilent:       append([]string{"Codex"}, probing...), // Codex requests the list of resources even if the server did not declare resources
	UnknownServed:       probing,
	UnknownCode:         probing,
	PingSilent:          {"Gemini CLI"}, // Gemini CLI pings after the handshake
	PingRefused:         {"Gemini CLI"},
	VersionHeaderNeeded: {"Gemini CLI"}, // Gemini CLI does not send MCP-Protocol-Version
	GetStatus:           sdk1,
	SchemaMissing:       sdk1,
	SchemaEmpty:         sdk1,
	NoContent:           sdk1,
	Nameless:            sdk1,
	CursorType:          sdk1,
	ErrorCode:           sdk1,
	NoVersionMember:     sdk1,
	Noise:               {"Go SDK"}, // the Go SDK closes the connection
}

// Hurts returns the names of the clients that are known to fail, or to lose a feature, because of
// the condition. The result is only EveryClient, or a list of names, or nil.
func (c Condition) Hurts() []string { return hurts[c.Code] }

// reach returns the number of affected clients, or 1000 for EveryClient. It is used for sorting.
func (c Condition) reach() int {
	if h := c.Hurts(); len(h) == 1 && h[0] == EveryClient {
		return 1000
	}
	return len(c.Hurts())
}

// HurtsText returns the names from Hurts as text, or "" if Hurts returns nil.
func (c Condition) HurtsText() string {
	if h := c.Hurts(); len(h) > 1 {
		return strings.Join(h[:len(h)-1], ", ") + " and " + h[len(h)-1]
	}
	return strings.Join(c.Hurts(), "")
}
