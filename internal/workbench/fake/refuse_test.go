package fake

import (
	"strings"
	"testing"
	"testing/synctest"
)

func refused(id, code, message string) string {
	return `{"jsonrpc":"2.0","id":` + id + `,"error":{"code":` + code + `,"message":"` + message + `"}}`
}

// TestLegacyRefuses checks that legacy servers refuse requests that no legacy revision allows.
func TestLegacyRefuses(t *testing.T) {
	for _, ed := range editions() {
		if !ed.has(handshake) {
			continue
		}
		date := ed.date
		t.Run(date, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := play(t, "strict-"+date)
				null := `"id":null,`
				if !ed.has(nullIDs) {
					null = ""
				}
				// A modern probe is not a violation, and the client may use its id again.
				l.want(ask("2026-07-28", "1", "server/discover", ""), refused("1", "-32601", date+" has no method server/discover before initialize"))
				l.want(ask(date, "1", "tools/list", ""), refused("1", "-32600", "tools/list was sent before initialize"))
				l.want(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
				l.want(ask(date, "2", "initialize", `"protocolVersion":1,"capabilities":{},"clientInfo":{"name":"t","version":"1"}`), refused("2", "-32602", "params.protocolVersion is not of type string"))
				l.say(ask(date, "3", "initialize", `"protocolVersion":"1999-01-01","capabilities":{},"clientInfo":{"name":"t","version":"1"}`))
				if got := l.receive(); len(got) != 1 || !strings.HasPrefix(got[0], `{"jsonrpc":"2.0","id":3,"result":{"protocolVersion":"`+date+`"`) {
					t.Errorf("%q", got)
				}
				l.want(ask(date, "4", "ping", ""), `{"jsonrpc":"2.0","id":4,"result":{}}`)
				l.want(ask(date, "5", "tools/list", ""), refused("5", "-32600", "tools/list was sent before notifications/initialized"))
				l.want(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
				l.want(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
				l.want(ask(date, "6", "initialize", ""), refused("6", "-32600", "this session is already initialized"))
				l.want(ask(date, "6", "ping", ""), refused("6", "-32600", "the id 6 was used before"))
				l.want(ask(date, "7", "subscriptions/listen", ""), refused("7", "-32601", date+" has no method subscriptions/listen"))
				l.want(ask("2026-07-28", "8", "ping", ""), refused("8", "-32602", date+` does not define params._meta[\"io.modelcontextprotocol/protocolVersion\"]`))
				l.want(ask(date, "9", "tools/list", `"cursor":"tools-from-3"`), refused("9", "-32602", `this server did not issue the cursor \"tools-from-3\"`))
				l.want(ask(date, "10", "logging/setLevel", `"level":"loud"`), refused("10", "-32602", "params.level is not of type level"))
				l.want(`{"jsonrpc":"2.0","method":"notifications/nothing"}`)
				l.want(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":77}}`)
				l.want(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":10}}`) // too late, but not a violation
				l.want(`{"jsonrpc":"2.0","method":"notifications/roots/list_changed"}`)
				l.want(`{"jsonrpc":"2.0","id":99,"result":{}}`)
				l.want(call(date, "11", "nothing", ""), refused("11", "-32602", "unknown tool nothing"))
				l.want(call(date, "12", "sample", `"prompt":"?"`), result(date, "12", words("the client has not declared sampling")+`,"isError":true`))
				l.want(`{"jsonrpc":"2.0","id":null,"method":"ping"}`, `{"jsonrpc":"2.0",`+null+`"error":{"code":-32600,"message":"invalid message: id is null"}}`)
				l.broken(
					"tools/list: tools/list was sent before initialize",
					"notifications/initialized: sent before initialize was answered",
					"initialize: params.protocolVersion is not of type string",
					"tools/list: tools/list was sent before notifications/initialized",
					"notifications/initialized: sent twice",
					"initialize: this session is already initialized",
					"ping: the id 6 was used before",
					"subscriptions/listen: "+date+" has no method subscriptions/listen",
					"ping: "+date+` does not define params._meta["io.modelcontextprotocol/protocolVersion"]`,
					`tools/list: this server did not issue the cursor "tools-from-3"`,
					"logging/setLevel: params.level is not of type level",
					"notifications/nothing: "+date+" has no such client notification",
					"notifications/cancelled: no request with the id 77 was sent",
					"notifications/roots/list_changed: the capability roots.listChanged was not declared",
					"response: no request with the id 99 waits for a response",
					"message: invalid message: id is null",
				)
				l.end()
			})
		})
	}
}

const modernDate = "2026-07-28"

// TestModernRefuses checks that a server of 2026-07-28 refuses requests that this revision does not
// allow.
func TestModernRefuses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := play(t, "strict-"+modernDate)
		hello := ask(legacyDate, "1", "initialize", `"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"t","version":"1"}`)
		no := refused("1", "-32601", modernDate+" has no initialize; this server supports 2026-07-28 and nothing else")
		meta := func(members string) string {
			return `{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"_meta":{` + members + `}}}`
		}
		l.want(hello, no) // no violation, because a legacy client may send this
		l.want(`{"jsonrpc":"2.0","id":1,"method":"tools/list"}`, refused("1", "-32602", "params._meta is missing or not an object"))
		l.want(meta(`"io.modelcontextprotocol/clientCapabilities":{}`), refused("1", "-32602", "params._meta.io.modelcontextprotocol/protocolVersion is missing"))
		l.want(meta(`"io.modelcontextprotocol/protocolVersion":"2026-07-28"`), refused("1", "-32602", "params._meta.io.modelcontextprotocol/clientCapabilities is missing"))
		l.want(meta(`"io.modelcontextprotocol/protocolVersion":"2025-06-18","io.modelcontextprotocol/clientCapabilities":{}`),
			`{"jsonrpc":"2.0","id":1,"error":{"code":-32022,"message":"unsupported protocol version","data":{"supported":["2026-07-28"],"requested":"2025-06-18"}}}`)
		l.want(hello, no) // a violation now, because the client has sent requests of 2026-07-28
		l.want(ask(modernDate, "1", "ping", ""), refused("1", "-32601", modernDate+" has no method ping"))
		l.want(ask(modernDate, "1", "resources/subscribe", `"uri":"fake://text"`), refused("1", "-32601", modernDate+" has no method resources/subscribe"))
		l.want(`[`+ask(modernDate, "1", "tools/list", "")+`]`, `{"jsonrpc":"2.0","error":{"code":-32600,"message":"invalid message: message is not an object"}}`)
		l.want(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
		l.want(`{"jsonrpc":"2.0","id":1,"result":{}}`)
		l.want(ask(modernDate, "1", "resources/read", `"uri":"fake://none"`), `{"jsonrpc":"2.0","id":1,"error":{"code":-32602,"message":"unknown resource fake://none","data":{"uri":"fake://none"}}}`)
		l.want(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"elicit","_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{"elicitation":{"url":{}}}}}}`,
			`{"jsonrpc":"2.0","id":1,"error":{"code":-32021,"message":"the client has not declared elicitation.form","data":{"requiredCapabilities":{"elicitation":{"form":{}}}}}}`)
		l.want(ask(modernDate, "1", "tools/call", `"name":"sample","arguments":{"prompt":"?"},"requestState":"W10.AAAA"`), refused("1", "-32602", "params.requestState was not issued for this call, or was modified"))
		l.want(ask(modernDate, "1", "tools/call", `"name":"sample","arguments":{"prompt":"?"},"inputResponses":{}`), refused("1", "-32602", "params has inputResponses but no requestState"))
		l.broken(
			"tools/list: params._meta is missing or not an object",
			"tools/list: params._meta.io.modelcontextprotocol/protocolVersion is missing",
			"tools/list: params._meta.io.modelcontextprotocol/clientCapabilities is missing",
			"initialize: 2026-07-28 has no initialize; this server supports 2026-07-28 and nothing else",
			"ping: 2026-07-28 has no method ping",
			"resources/subscribe: 2026-07-28 has no method resources/subscribe",
			"message: invalid message: message is not an object",
			"notifications/initialized: 2026-07-28 has no such client notification",
			"response: 2026-07-28 has no server requests, so a client must not send responses",
			"tools/call: params.requestState was not issued for this call, or was modified",
			"tools/call: params has inputResponses but no requestState",
		)
		l.end()
	})
}

// TestProgressTokens checks that the server accepts as a progress token only a string or an
// integer, and only a token that no running request has.
func TestProgressTokens(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := play(t, "strict-"+legacyDate)
		l.hello(legacyDate, allCaps)
		with := func(id, token string) string {
			return ask(legacyDate, id, "tools/call", `"name":"wait","arguments":{"steps":1,"ms":1000},"_meta":{"progressToken":`+token+`}`)
		}
		l.want(with("1", "1.5"), refused("1", "-32602", "params._meta.progressToken is not of type string or number"))
		l.want(with("2", "null"), refused("2", "-32602", "params._meta.progressToken is not of type string or number"))
		l.want(with("3", "7"))
		l.want(with("4", "7"), refused("4", "-32602", "the progress token 7 belongs to a request that is still running"))
		l.want(with("5", `"7"`))
		l.broken("tools/call: params._meta.progressToken is not of type string or number", "tools/call: params._meta.progressToken is not of type string or number",
			"tools/call: the progress token 7 belongs to a request that is still running")
		l.end()
	})
}

// TestBatches checks that a server of 2025-03-26 answers a batch with one array, and that a server
// of 2025-06-18 refuses batches.
func TestBatches(t *testing.T) {
	const date = "2025-03-26"
	synctest.Test(t, func(t *testing.T) {
		l := play(t, "strict-"+date)
		l.hello(date, allCaps)
		l.want("["+ask(date, "1", "ping", "")+`,{"jsonrpc":"2.0","method":"notifications/roots/list_changed"},`+call(date, "2", "count", "")+","+ask(date, "3", "initialize", "")+"]",
			"["+refused("3", "-32600", "initialize must not be part of a batch")+`,{"jsonrpc":"2.0","id":1,"result":{}},`+result(date, "2", words("1"))+"]")
		l.want(`[{"jsonrpc":"2.0","method":"notifications/roots/list_changed"}]`)
		l.want(`[]`, `{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"invalid message: batch is empty"}}`)
		// The server sends a server request outside of the array of answers.
		l.want("["+call(date, "4", "roots", "")+","+ask(date, "5", "ping", "")+"]", `{"jsonrpc":"2.0","id":1,"method":"roots/list"}`)
		l.want(`{"jsonrpc":"2.0","id":1,"result":{"roots":[{"uri":"file:///a"},{"uri":"file:///b"}]}}`,
			"["+result(date, "4", words("file:///a file:///b"))+`,{"jsonrpc":"2.0","id":5,"result":{}}]`)
		l.end()
		l.broken("initialize: initialize must not be part of a batch", "message: invalid message: batch is empty")
	})
	synctest.Test(t, func(t *testing.T) {
		l := play(t, "strict-2025-06-18")
		l.want("["+ask(date, "1", "ping", "")+"]", `{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"invalid message: message is not an object"}}`)
		l.end()
	})
}
