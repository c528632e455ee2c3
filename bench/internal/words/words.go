// Package words writes what an MCP client says in each of the two eras.
//
// Modern is revision 2026-07-28: no handshake, every request carries its version
// and the client's capabilities in _meta, and headers mirror the body. Legacy is
// 2025-11-25: an initialize handshake opens a session. Both the load generator
// and the tests of the echo upstream speak through it, so that a word is spelt in
// one place. It does no I/O and keeps no state.
package words

// Era is the family of protocol revisions that a peer speaks.
type Era uint8

const (
	Modern Era = iota // 2026-07-28
	Legacy            // 2025-11-25
)

// The revision spoken in each era.
const (
	ModernVersion = "2026-07-28"
	LegacyVersion = "2025-11-25"
)

// Letter is M or L, as cells are named: client's letter, then upstream's.
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

// ParseEra reads what String writes.
func ParseEra(s string) (Era, bool) {
	switch s {
	case "modern":
		return Modern, true
	case "legacy":
		return Legacy, true
	}
	return Modern, false
}

// meta is on every modern request.
// 2026-07-28 §Base protocol, "_meta": protocolVersion and clientCapabilities are
// required, clientInfo should be there.
const meta = `"_meta":{"io.modelcontextprotocol/protocolVersion":"` + ModernVersion +
	`","io.modelcontextprotocol/clientInfo":{"name":"dragoman-bench","version":"1"},"io.modelcontextprotocol/clientCapabilities":{}}`

// Discover is a server/discover request.
func Discover(id string) []byte {
	return []byte(`{"jsonrpc":"2.0","id":` + id + `,"method":"server/discover","params":{` + meta + `}}`)
}

// Initialize opens a legacy session.
func Initialize(id string) []byte {
	return []byte(`{"jsonrpc":"2.0","id":` + id + `,"method":"initialize","params":{"protocolVersion":"` + LegacyVersion +
		`","capabilities":{},"clientInfo":{"name":"dragoman-bench","version":"1"}}}`)
}

// Initialized ends the legacy handshake.
func Initialized() []byte {
	return []byte(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
}

// List asks for the tools.
func List(e Era, id string) []byte {
	if e == Modern {
		return []byte(`{"jsonrpc":"2.0","id":` + id + `,"method":"tools/list","params":{` + meta + `}}`)
	}
	return []byte(`{"jsonrpc":"2.0","id":` + id + `,"method":"tools/list","params":{}}`)
}

// Call asks the tool echo for text, which must be the inside of a JSON string.
// The offsets tell where id and text begin, so that they can be overwritten by
// others of the same length.
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
