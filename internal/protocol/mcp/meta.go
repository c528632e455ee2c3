package mcp

import (
	"github.com/dragoman-mcp/dragoman/internal/base/identity"
	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
)

// These are the name of the member _meta and the reserved keys in it (2026-07-28 §Base, "_meta").
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

// KeyDialect is Dragoman's own key of _meta. It contains, in their original form, the fields of a
// non-standard peer that Dragoman converted to MCP. Its value is an object; docs/dialects.md lists
// its members.
const KeyDialect = "io.github.dragoman-mcp/dialect"

// KeyMissing is Dragoman's own key of _meta in the result of a merged list. Its value is an
// object with the names of the servers whose items are missing. "starting" lists the servers that
// may still answer, and "failed" lists the servers that could not be read. The key is absent if no
// server is missing.
const KeyMissing = "io.github.dragoman-mcp/missing"

// KeySignIn is Dragoman's own key of _meta in the result of a call for which somebody has to sign in to the
// server first. Its value is an object with the members server, link and expires.
const KeySignIn = "io.github.dragoman-mcp/sign-in"

// KeyVoucher is Dragoman's own key of _meta in a request to one of its built-in servers. Its value is an
// [identity.Voucher]. Other servers never get it, and what a client sends under it doesn't reach a built-in
// server.
const KeyVoucher = "io.github.dragoman-mcp/voucher"

// VoucherValue returns the value of KeyVoucher.
func VoucherValue(v identity.Voucher) []byte {
	out := jsonrpc.AppendQuote([]byte(`{"subject":`), v.Subject)
	out = jsonrpc.AppendQuote(append(out, `,"name":`...), v.Name)
	return append(jsonrpc.AppendQuote(append(out, `,"proof":`...), v.Proof), '}')
}

// IsPerRequestKey reports whether key is one of the _meta members in which a modern request
// describes its sender. Dragoman does not forward these members.
func IsPerRequestKey(key []byte) bool {
	switch string(key) {
	case KeyVersion, KeyClientInfo, KeyClientCaps, KeyLogLevel:
		return true
	}
	return false
}

// These are names of HTTP headers. Names are compared case-insensitively, and values
// case-sensitively.
const (
	HeaderVersion   = "Mcp-Protocol-Version"
	HeaderSession   = "Mcp-Session-Id"
	HeaderMethod    = "Mcp-Method"
	HeaderName      = "Mcp-Name"
	HeaderParam     = "Mcp-Param-" // the prefix of the headers that mirror parameters
	HeaderLastEvent = "Last-Event-Id"
)

// logLevels contains the levels in the order of RFC 5424, most verbose first (§Logging, all
// revisions).
var logLevels = [...]string{"debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"}

// LogLevel is a severity. A larger value is more severe. The zero LogLevel means that no level was
// set; see WantsLog.
type LogLevel uint8

// ParseLogLevel returns the level with the given name. ok is false for any other text.
func ParseLogLevel(s string) (l LogLevel, ok bool) {
	for i, n := range logLevels {
		if n == s {
			return LogLevel(i + 1), true
		}
	}
	return 0, false
}

// String returns the level's name, or "" for the zero LogLevel.
func (l LogLevel) String() string {
	if l == 0 || int(l) > len(logLevels) {
		return ""
	}
	return logLevels[l-1]
}

// WantsLog reports whether a client with the given revision and level gets the log message m.
func WantsLog(rev Revision, level LogLevel, m *jsonrpc.Message) bool {
	if level == 0 {
		// If a legacy client did not set a level, the server chooses the level. A modern client
		// that did not set a level gets no log messages.
		return rev.Legacy()
	}
	s, _ := jsonrpc.Text(m.Raw, m.Param("level"))
	got, ok := ParseLogLevel(s)
	return !ok || got >= level
}
