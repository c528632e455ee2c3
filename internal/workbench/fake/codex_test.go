package fake

import (
	"testing"
	"testing/synctest"
)

const codexHello = `{"id":1,"method":"initialize","params":{"clientInfo":{"name":"c","version":"1"}}}`

// TestCodexIsNoMCP checks that the fake worker behaves like a real Codex worker. Its messages have
// no member "jsonrpc", and it refuses requests with the code -32600. It does not answer batches or
// text that is not JSON.
func TestCodexIsNoMCP(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := play(t, "codex-app-server", "events=yes")
		l.want("", `{"event":"ready"}`)
		l.want(`{"id":7,"method":"thread/start","params":{}}`, `{"error":{"code":-32600,"message":"Not initialized"},"id":7}`)
		l.want(`[{"id":7,"method":"x"}]`)
		l.want(`nonsense`)
		l.want(`{"id":1,"method":"initialize","params":{"protocolVersion":"v2","clientInfo":{"name":"c","version":"1"}}}`,
			`{"id":1,"result":{"userAgent":"fake/0.0.1 (Debian 12.0.0; x86_64) xterm (fake; 1)","codexHome":"/nowhere","platformFamily":"unix","platformOs":"linux"}}`,
			`{"method":"remoteControl/status/changed","params":{"status":"disabled","serverName":"fake"}}`)
		l.want(codexHello, `{"error":{"code":-32600,"message":"Already initialized"},"id":1}`)
		l.want(`{"id":2,"method":"turn/start","params":{"threadId":"thread-9"}}`, `{"error":{"code":-32600,"message":"thread not found: thread-9"},"id":2}`)
		l.broken()
		l.want(`{"method":"initialized"}`, `{"error":{"code":-32601,"message":"unknown notification"}}`)
		l.broken("initialized: Codex does not need this notification")
		l.end()
	})
}

// TestCodexShimReturnsParams checks the result of initialize from a wrapper around Codex. The
// result contains the params of the request without changes, with their spaces and unknown members.
func TestCodexShimReturnsParams(t *testing.T) {
	const events = `{"event":"starting"}`
	params := `{"protocolVersion":"v2", "clientInfo":{"name":"c","version":"1"},"client_info":{"name":"c","version":"1"},"capabilities":{},  "x":[1.0]}`
	old := `{"clientInfo":{"name":"c","version":"1"}}`
	result := func(params string) string {
		return `{"jsonrpc":"2.0","id":1,"result":{"advertised_models":["fake-model"],"capabilities":{"tools":{}},"receivedParams":` + params + `}}`
	}
	for _, profile := range []string{"codex-app-server", "codex-app-server-old"} {
		synctest.Test(t, func(t *testing.T) {
			l := play(t, profile, "form=shim")
			l.want("", events, `{"event":"ready"}`)
			l.want(`{"id":1,"method":"initialize","params":`+params+`}`, result(params))
			l.end()
			l = play(t, profile, "form=shim", "v2=-32602")
			l.want("", events, `{"event":"ready"}`)
			l.want(`{"id":1,"method":"initialize","params":`+params+`}`, `{"jsonrpc":"2.0","error":{"code":-32602,"message":"Invalid params: unknown field `+"`protocolVersion`"+`"},"id":1}`)
			l.want(`{"id":1,"method":"initialize","params":`+old+`}`, result(old))
			l.end()
		})
	}
}
