// Package words creates the messages that an MCP client of each of the two eras sends.
//
// Modern is revision 2026-07-28, which has no handshake. Every modern request has the protocol
// version and the client's capabilities in _meta, and some HTTP headers repeat parts of the body.
// Legacy is revision 2025-11-25, in which an initialize handshake opens a session. Both the load
// generator and the tests of the echo server use this package. The package does no I/O and keeps
// no state.
package words

// Era is a group of protocol revisions: modern or legacy.
type Era uint8

const (
	Modern Era = iota // 2026-07-28
	Legacy            // 2025-11-25
)

// These are the protocol revisions of the two eras in this module.
const (
	ModernVersion = "2026-07-28"
	LegacyVersion = "2025-11-25"
)

// Letter returns "M" for modern and "L" for legacy. A cell, such as ML, is named after the client's
// era and then the upstream's era.
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

// ParseEra parses an era in the format of String. It returns false if s is not an era.
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

// Initialize returns an initialize request of a client with the given name. It opens a legacy session.
func Initialize(id, client string) []byte {
	return []byte(`{"jsonrpc":"2.0","id":` + id + `,"method":"initialize","params":{"protocolVersion":"` + LegacyVersion +
		`","capabilities":{},"clientInfo":{"name":"` + client + `","version":"1"}}}`)
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

// Listen returns a subscriptions/listen request for changes of the list of tools.
func Listen(id string) []byte {
	return []byte(`{"jsonrpc":"2.0","id":` + id + `,"method":"subscriptions/listen","params":{"notifications":{"toolsListChanged":true},` + meta + `}}`)
}

// Call returns a tools/call request for a tool that takes a text, a JSON string without its quotes.
// idAt and textAt are the offsets of id and text in body. The caller may overwrite both in place
// with values of the same length.
func Call(e Era, id, tool, text string) (body []byte, idAt, textAt int) {
	body = append(body, `{"jsonrpc":"2.0","id":`...)
	idAt = len(body)
	body = append(body, id...)
	body = append(body, `,"method":"tools/call","params":{"name":"`...)
	body = append(body, tool...)
	body = append(body, `","arguments":{"text":"`...)
	textAt = len(body)
	body = append(body, text...)
	body = append(body, `"}`...)
	if e == Modern {
		body = append(body, ',')
		body = append(body, meta...)
	}
	return append(body, `}}`...), idAt, textAt
}
