// Package echo is the upstream of a measurement: an MCP server with one tool,
// echo, as fast as one can be while a strict peer still finds nothing wrong.
//
// It speaks one era, on HTTP or stdio, and refuses the other the way real servers
// of its era do, so that whoever probes it reaches the right verdict. A call costs
// it two scans of the message and one copy of the text; ids and texts are echoed
// as they were written, never decoded. It checks nothing that an answer does not
// need: no headers against bodies, no capabilities, no arguments against the
// schema. Legacy session ids are issued and recognised by their form, not stored,
// so a session cannot be used up, and a deleted one is not missed.
//
// Text between the processes of a benchmark only; nothing here is hardened.
package echo

import (
	"bytes"
	"strconv"

	"github.com/dragoman-mcp/dragoman/bench/internal/jsonspan"
	"github.com/dragoman-mcp/dragoman/bench/internal/words"
)

const (
	tools = `"tools":[{"name":"echo","description":"Answers with the text that it is given.",` +
		`"inputSchema":{"type":"object","properties":{"text":{"type":"string"}}}}]`
	// 2026-07-28 §Caching: ttlMs and cacheScope are required on lists and on the
	// discover result. Zero keeps a peer from caching, which would flatter it.
	uncached     = `,"ttlMs":0,"cacheScope":"private"`
	capabilities = `"capabilities":{"tools":{}}`
	identity     = `{"name":"bench-echo","version":"1"}`
)

// answer is the outcome of one message.
type answer struct {
	body   []byte // nil when nothing is to be said
	status int    // of HTTP
	opens  bool   // an accepted initialize: HTTP issues a session id
}

// request is what reply needs of a message, cut from it.
type request struct {
	id, method, params []byte // id nil: a notification
	valid              bool
}

// Reply answers msg in the words of era, appending to dst; nil if nothing is to be
// said. It is for servers that bring their own transport.
func Reply(dst []byte, era words.Era, msg []byte) []byte {
	return reply(dst, era, parse(msg)).body
}

func parse(msg []byte) (q request) {
	err := jsonspan.Members(msg, func(key, value []byte) {
		switch string(key) {
		case "id":
			q.id = value
		case "method":
			q.method, _ = jsonspan.Text(value)
		case "params":
			q.params = value
		}
	})
	q.valid = err == nil
	return q
}

// reply answers msg in the words of era, appending to dst.
func reply(dst []byte, era words.Era, q request) answer {
	switch {
	case !q.valid:
		return failure(dst, []byte("null"), -32700, "Parse error", 400)
	case q.method == nil || q.id == nil:
		// A notification, or an answer to a question that we never asked.
		return answer{status: 202}
	}
	if era == words.Modern {
		return replyModern(dst, q)
	}
	return replyLegacy(dst, q)
}

func replyModern(dst []byte, q request) answer {
	switch string(q.method) {
	case "tools/call":
		return call(dst, q, `{"resultType":"complete","content":[{"type":"text","text":"`)
	case "tools/list":
		return result(dst, q.id, `{"resultType":"complete",`+tools+uncached+`}`)
	case "server/discover":
		return result(dst, q.id, `{"resultType":"complete","supportedVersions":["`+words.ModernVersion+`"],`+capabilities+
			`,"_meta":{"io.modelcontextprotocol/serverInfo":`+identity+`}`+uncached+`}`)
	case "initialize":
		// 2026-07-28 §Versioning, "Backward Compatibility": name what is supported,
		// a legacy client has nothing else to show to its user.
		return failure(dst, q.id, -32601, "Method not found: this server speaks only "+words.ModernVersion, 404)
	}
	// 2026-07-28 §Streamable HTTP, "Protocol Version Header": 404 with -32601.
	return failure(dst, q.id, -32601, "Method not found", 404)
}

func replyLegacy(dst []byte, q request) answer {
	switch string(q.method) {
	case "tools/call":
		return call(dst, q, `{"content":[{"type":"text","text":"`)
	case "tools/list":
		return result(dst, q.id, `{`+tools+`}`)
	case "ping":
		return result(dst, q.id, `{}`)
	case "initialize":
		a := result(dst, q.id, `{"protocolVersion":"`+offered(q.params)+`",`+capabilities+`,"serverInfo":`+identity+`}`)
		a.opens = true
		return a
	}
	return failure(dst, q.id, -32601, "Method not found", 200)
}

// offered is the version that answers an initialize: the one asked for if it is a
// legacy one, else our own (2025-11-25 §Lifecycle, "Version Negotiation").
func offered(params []byte) string {
	version := words.LegacyVersion
	_ = jsonspan.Members(params, func(key, value []byte) {
		if string(key) == "protocolVersion" {
			switch v, _ := jsonspan.Text(value); string(v) {
			case "2024-11-05", "2025-03-26", "2025-06-18":
				version = string(v)
			}
		}
	})
	return version
}

// call answers tools/call; opening is the result up to the text.
func call(dst []byte, q request, opening string) answer {
	var name, arguments, text []byte
	_ = jsonspan.Members(q.params, func(key, value []byte) {
		switch string(key) {
		case "name":
			name, _ = jsonspan.Text(value)
		case "arguments":
			arguments = value
		}
	})
	if string(name) != "echo" {
		return failure(dst, q.id, -32602, "Unknown tool", 200)
	}
	_ = jsonspan.Members(arguments, func(key, value []byte) {
		if string(key) == "text" {
			text, _ = jsonspan.Text(value)
		}
	})
	dst = open(dst, q.id)
	dst = append(dst, opening...)
	dst = append(dst, text...)
	dst = append(dst, `"}]}}`...)
	return answer{body: dst, status: 200}
}

func open(dst, id []byte) []byte {
	dst = append(dst, `{"jsonrpc":"2.0","id":`...)
	dst = append(dst, id...)
	return append(dst, `,"result":`...)
}

func result(dst, id []byte, value string) answer {
	dst = append(open(dst, id), value...)
	return answer{body: append(dst, '}'), status: 200}
}

func failure(dst, id []byte, code int, message string, status int) answer {
	dst = append(dst, `{"jsonrpc":"2.0","id":`...)
	dst = append(dst, bytes.TrimSpace(id)...)
	dst = append(dst, `,"error":{"code":`...)
	dst = strconv.AppendInt(dst, int64(code), 10)
	dst = append(dst, `,"message":"`...)
	dst = append(dst, message...)
	return answer{body: append(dst, `"}}`...), status: status}
}
