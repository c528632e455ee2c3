// Package echo is the upstream server of a measurement. It is an MCP server with one tool,
// echo. It is as fast as possible, but its answers are correct even for a strict client.
//
// The server supports one era, over HTTP or stdio. It refuses messages of the other era in the same
// way as real servers do, so that a probe detects the right era. A call needs two scans of the
// message and one copy of the text. The server never decodes ids and texts, and echoes them
// unchanged. It does not compare headers with bodies, and does not check capabilities or arguments.
// It creates legacy session ids and recognises them by their prefix, but does not store them. So
// the number of sessions has no limit, and a deleted session still works.
//
// The server is only for benchmarks. It is not hardened against hostile input.
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
	// 2026-07-28 §Caching: lists and the discover result must have ttlMs and cacheScope. ttlMs is
	// 0 to prevent caching, because answers from a cache would distort the measurement.
	uncached     = `,"ttlMs":0,"cacheScope":"private"`
	capabilities = `"capabilities":{"tools":{}}`
	identity     = `{"name":"bench-echo","version":"1"}`
)

// answer is the answer to one message.
type answer struct {
	body   []byte // nil if the message gets no answer
	status int    // the HTTP status
	opens  bool   // the message was an accepted initialize; over HTTP its answer gets a session id
}

// request holds the parts of a message that reply needs. They are slices of the message.
type request struct {
	id, method, params []byte // a nil id means a notification
	valid              bool
}

// Reply appends to dst the answer to msg, in the format of era. It returns nil if the message gets
// no answer. Reply is for servers that do not use the transports of this package.
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

// reply appends to dst the answer to the message q, in the format of era.
func reply(dst []byte, era words.Era, q request) answer {
	switch {
	case !q.valid:
		return failure(dst, []byte("null"), -32700, "Parse error", 400)
	case q.method == nil || q.id == nil:
		// q is a notification, or an answer to a request that this server never sent.
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
		// 2026-07-28 §Versioning, "Backward Compatibility": the error message names the
		// supported version, because a legacy client can show its user only this message.
		return failure(dst, q.id, -32601, "Method not found: this server speaks only "+words.ModernVersion, 404)
	}
	// 2026-07-28 §Streamable HTTP, "Protocol Version Header": an unknown method gets the status
	// 404 and the error code -32601.
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

// offered returns the version for the answer to an initialize. It returns the requested version if
// this is a legacy version, otherwise words.LegacyVersion (2025-11-25 §Lifecycle, "Version
// Negotiation").
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

// call answers tools/call. opening is the part of the result before the text.
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
