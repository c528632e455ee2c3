// Package words writes the messages of an MCP client in each of the two eras.
//
// Modern is revision 2026-07-28. It has no handshake. Every request has its version and the
// client's capabilities in _meta, and headers mirror the body. Legacy is 2025-11-25. An
// initialize handshake opens a session. The load generator and the tests of the echo server
// both use this package, so each message is written in one place. It does no I/O and keeps no
// state.
package words

// Era is a group of protocol revisions: modern or legacy.
type Era uint8

const (
	Modern Era = iota // 2026-07-28
	Legacy            // 2025-11-25
)

// These are the revisions that the eras use.
const (
	ModernVersion = "2026-07-28"
	LegacyVersion = "2025-11-25"
)

// Letter returns M for modern and L for legacy. The name of a cell, such as ML, has the
// client's letter first.
func (e Era) Letter() string {
	if e == Legacy {
		return "L"
	}
	return "M"
}

func (e Era) String() string {
	if e == Legacy {
		return "legacy"
	}
	return "modern"
}

// ParseEra parses the result of String.
func ParseEra(s string) (Era, bool) {
	switch s {
	case "modern":
		return Modern, true
	case "legacy":
		return Legacy, true
	}
	return Modern, false
}

// meta is the _meta of every modern request. 2026-07-28 §Base protocol, "_meta":
// protocolVersion and clientCapabilities are required, and clientInfo is recommended.
const meta = `"_meta":{"io.modelcontextprotocol/protocolVersion":"` + ModernVersion +
	`","io.modelcontextprotocol/clientInfo":{"name":"dragoman-bench","version":"1"},"io.modelcontextprotocol/clientCapabilities":{}}`

// Discover returns a server/discover request.
func Discover(id string) []byte {
	return []byte(`{"jsonrpc":"2.0","id":` + id + `,"method":"server/discover","params":{` + meta + `}}`)
}

// Initialize returns an initialize request, which opens a legacy session.
func Initialize(id string) []byte {
	return []byte(`{"jsonrpc":"2.0","id":` + id + `,"method":"initialize","params":{"protocolVersion":"` + LegacyVersion +
		`","capabilities":{},"clientInfo":{"name":"dragoman-bench","version":"1"}}}`)
}

// Initialized returns the notification that ends the legacy handshake.
func Initialized() []byte {
	return []byte(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
}

// List returns a tools/list request.
func List(e Era, id string) []byte {
	if e == Modern {
		return []byte(`{"jsonrpc":"2.0","id":` + id + `,"method":"tools/list","params":{` + meta + `}}`)
	}
	return []byte(`{"jsonrpc":"2.0","id":` + id + `,"method":"tools/list","params":{}}`)
}

// Call returns a call of the tool echo. text must be the inside of a JSON string. idAt and
// textAt are the offsets of id and text, so that the caller can overwrite them with others of
// the same length.
func Call(e Era, id, text string) (body []byte, idAt, textAt int) {
	body = append(body, `{"jsonrpc":"2.0","id":`...)
	idAt = len(body)
	body = append(body, id...)
	body = append(body, `,"method":"tools/call","params":{"name":"echo","arguments":{"text":"`...)
	textAt = len(body)
	body = append(body, text...)
	body = append(body, `"}`...)
	if e == Modern {
		body = append(body, ',')
		body = append(body, meta...)
	}
	return append(body, `}}`...), idAt, textAt
}
