package fake

import (
	"sync/atomic"

	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
)

// nearlyServers returns the profiles of strict legacy servers with one unusual behaviour each. The
// handshake fails if the client does not handle this behaviour.
func nearlyServers() []Profile {
	nearly := func(name, revision, about string, makeTwist func(s *settings) (twist, error), more ...Setting) Profile {
		return Dialect.twisted(name, revision, about, makeTwist, more...)
	}
	return []Profile{
		nearly("dies-on-probe", usual, "A server that crashes on server/discover.", func(*settings) (twist, error) {
			return twist{receive: func(h *arrival, next func()) {
				if h.m != nil && h.m.Method == mcp.MethodDiscover {
					h.c.s.die()
					return
				}
				next()
			}}, nil
		}),
		nearly("gate-initialized", usual, "A server that refuses the first requests after notifications/initialized.", gateInitialized,
			Setting{"refusals", "2", "how many requests it refuses"}),
		nearly("silent-on-unknown", usual, "A server that does not answer unknown methods.", func(*settings) (twist, error) {
			return twist{receive: func(h *arrival, next func()) {
				if h.m != nil && h.m.Kind == jsonrpc.Request && h.c.s.methods[h.m.Method] == nil {
					return
				}
				next()
			}}, nil
		}),
		nearly("strict-version", "2025-03-26", "A server that refuses initialize with any version other than its own.", strictVersion,
			Setting{"says", "code", `how it names its version: code (a string code and supported_versions) or text ("Expected: …")`}),
		nearly("string-codes", usual, "A server whose errors have strings as codes.", func(*settings) (twist, error) {
			return twist{say: sayStringCode}, nil
		}),
		nearly("wrong-code-on-unknown", usual, "A server that refuses unknown methods with a code other than -32601.", wrongCode,
			Setting{"code", "-32600", "the code to use, such as -32600 or -32602"}),
	}
}

// wrongCode refuses unknown methods with the error code in the setting "code".
func wrongCode(s *settings) (twist, error) {
	code, err := s.number("code", -40_000, 40_000)
	return twist{receive: func(h *arrival, next func()) {
		m := h.m
		if m == nil || m.Kind != jsonrpc.Request || h.c.s.methods[m.Method] != nil {
			next()
			return
		}
		if m.Method != mcp.MethodDiscover { // a probe by a modern client is not a violation
			h.c.s.violate(m.Method, "%s has no such method", h.c.ed.date)
		}
		h.c.send(h.out, m, jsonrpc.AppendError(nil, m.ID, refusal(int64(code), "Invalid request: %s", clip(m.Method))))
	}}, err
}

// gateInitialized refuses the first requests after the handshake. The setting "refusals" is the
// number of refused requests.
func gateInitialized(s *settings) (twist, error) {
	n, err := s.number("refusals", 0, 1000)
	var left atomic.Int64
	left.Store(int64(n))
	return twist{receive: func(h *arrival, next func()) {
		m := h.m
		if m == nil || m.Kind != jsonrpc.Request || m.Method == mcp.MethodInitialize || m.Method == mcp.MethodPing || h.c.s.methods[m.Method] == nil || left.Add(-1) < 0 {
			next()
			return
		}
		h.c.send(h.out, m, jsonrpc.AppendError(nil, m.ID, refusal(-32000, "Client not initialized yet [1]")))
	}}, err
}

// strictVersion refuses initialize with an unsupported version. The setting "says" selects the form
// of the error.
func strictVersion(s *settings) (twist, error) {
	how, err := s.oneOf("says", "code", "text")
	return twist{receive: func(h *arrival, next func()) {
		m := h.m
		if m == nil || m.Kind != jsonrpc.Request || m.Method != mcp.MethodInitialize {
			next()
			return
		}
		date := h.c.ed.date
		got, _ := jsonrpc.Text(m.Raw, m.Param("protocolVersion"))
		if got == date {
			next()
			return
		}
		e := `{"code":"INVALID_PROTOCOL_VERSION","message":"Unsupported protocol version","data":{"supported_versions":["` + date + `"]}}`
		if how == "text" {
			e = `{"code":-32602,"message":` + quote("Invalid protocol version: "+clip(got)+". Expected: "+date) + `}`
		}
		h.c.send(h.out, m, []byte(`{"jsonrpc":"2.0","id":`+string(m.ID)+`,"error":`+e+`}`))
	}}, err
}

// codeWords maps error codes of JSON-RPC to the words that some servers send instead.
var codeWords = map[int64]string{
	jsonrpc.CodeParse: "PARSE_ERROR", jsonrpc.CodeInvalidRequest: "INVALID_REQUEST", jsonrpc.CodeMethodNotFound: "METHOD_NOT_FOUND",
	jsonrpc.CodeInvalidParams: "INVALID_PARAMS", jsonrpc.CodeInternal: "INTERNAL_ERROR", mcp.CodeResourceNotFound: "RESOURCE_NOT_FOUND",
}

func sayStringCode(_ *conversation, _ *jsonrpc.Message, msg []byte) []byte {
	m, err := jsonrpc.Scan(msg, jsonrpc.Limits{Tolerant: true})
	if err != nil || m.Kind != jsonrpc.Failure {
		return msg
	}
	at := jsonrpc.Find(m.Raw, m.Error, "code")
	n, _ := jsonrpc.Int(m.Raw, at)
	word := codeWords[n]
	if word == "" {
		word = "ERROR"
	}
	var e jsonrpc.Edits
	e.Replace(jsonrpc.NoReason, at, []byte(quote(word)))
	return jsonrpc.Splice(nil, msg, &e)
}
