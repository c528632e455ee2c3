package mcp

import "github.com/dragoman-mcp/dragoman/internal/jsonrpc"

// The reserved keys of _meta (2026-07-28 §Base, "_meta").
const (
	KeyMeta          = "_meta"
	KeyProgressToken = "progressToken"

	KeyVersion        = "io.modelcontextprotocol/protocolVersion"
	KeyClientInfo     = "io.modelcontextprotocol/clientInfo"
	KeyClientCaps     = "io.modelcontextprotocol/clientCapabilities"
	KeyLogLevel       = "io.modelcontextprotocol/logLevel"
	KeyServerInfo     = "io.modelcontextprotocol/serverInfo"
	KeySubscriptionID = "io.modelcontextprotocol/subscriptionId"
	KeyRelatedTask    = "io.modelcontextprotocol/related-task"
)

// KeyDialect is our own key of _meta. It holds the original words of a non-standard
// peer where they were translated to MCP. Its value is an object; docs/dialects.md
// lists its members.
const KeyDialect = "io.github.dragoman-mcp/dialect"

// KeyMissing is our own key of _meta in the result of a merged list: an object with the
// names of the servers whose items are missing. "starting" has those that may still
// come, "failed" those that could not be read. The key is absent if none is missing.
const KeyMissing = "io.github.dragoman-mcp/missing"

// IsPerRequestKey reports whether key is one of the _meta members by which a modern
// request describes its sender. They are not passed on to the other side.
func IsPerRequestKey(key []byte) bool {
	switch string(key) {
	case KeyVersion, KeyClientInfo, KeyClientCaps, KeyLogLevel:
		return true
	}
	return false
}

// The names of HTTP headers. Names are compared case-insensitively, values
// case-sensitively.
const (
	HeaderVersion   = "Mcp-Protocol-Version"
	HeaderSession   = "Mcp-Session-Id"
	HeaderMethod    = "Mcp-Method"
	HeaderName      = "Mcp-Name"
	HeaderParam     = "Mcp-Param-" // a prefix
	HeaderLastEvent = "Last-Event-Id"
)

// logLevels in the order of RFC 5424, most verbose first (§Logging, all
// revisions).
var logLevels = [...]string{"debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"}

// LogLevel is a severity; a larger one is more severe. The zero LogLevel means no log
// messages.
type LogLevel uint8

// ParseLogLevel returns the level with a name. ok is false for any other text.
func ParseLogLevel(s string) (l LogLevel, ok bool) {
	for i, n := range logLevels {
		if n == s {
			return LogLevel(i + 1), true
		}
	}
	return 0, false
}

// String returns the level's name, "" for the zero LogLevel.
func (l LogLevel) String() string {
	if l == 0 || int(l) > len(logLevels) {
		return ""
	}
	return logLevels[l-1]
}

// WantsLog reports whether a client with the given level gets the log message m.
func WantsLog(rev Revision, level LogLevel, m *jsonrpc.Message) bool {
	if level == 0 {
		// A legacy client that never set a level leaves the choice to the server.
		return rev.Legacy()
	}
	s, _ := jsonrpc.Text(m.Raw, m.Param("level"))
	got, ok := ParseLogLevel(s)
	return !ok || got >= level
}
