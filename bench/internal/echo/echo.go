// Package echo is the upstream server of a measurement. It is an MCP server with one tool,
// echo. It is as fast as possible, but its answers are correct even for a strict client.
//
// The server supports one era, over HTTP or stdio. It refuses messages of the other era in the same
// way as real servers do, so that a probe detects the right era. It never decodes ids and texts, and
// echoes them unchanged. It does not compare headers with bodies, and does not check capabilities or arguments.
// It creates legacy session ids and recognises them by their prefix, but does not store them. So
// the number of sessions has no limit, and a deleted session still works.
//
// The server is only for benchmarks. It is not hardened against hostile input.
package echo

import (
	"fmt"
	"strconv"
	"strings"
	"sync"

	"github.com/dragoman-mcp/dragoman/bench/internal/words"
	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
)

// maxMessage is the maximum length of a message in bytes.
const maxMessage = 16 << 20

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

// Reply appends to dst the answer to msg, in the format of era. It returns nil if the message gets
// no answer. Reply is for servers that do not use the transports of this package.
func Reply(dst []byte, era words.Era, msg []byte) []byte {
	return reply(dst, era, parse(msg)).body
}

// parse returns nil if msg is not a message.
func parse(msg []byte) *jsonrpc.Message {
	m, err := jsonrpc.Scan(msg, jsonrpc.Limits{Bytes: maxMessage})
	if err != nil {
		return nil
	}
	return m
}

// reply appends to dst the answer to the message q, in the format of era.
func reply(dst []byte, era words.Era, q *jsonrpc.Message) answer {
	switch {
	case q == nil:
		return failure(dst, "null", -32700, "Parse error", 400)
	case q.Kind != jsonrpc.Request:
		// q is a notification, or an answer to a request that this server never sent.
		return answer{status: 202}
	case era == words.Modern:
		return replyModern(dst, q)
	}
	return replyLegacy(dst, q)
}

func replyModern(dst []byte, q *jsonrpc.Message) answer {
	switch q.Method {
	case "tools/call":
		return call(dst, q, `{"resultType":"complete","content":[{"type":"text","text":`)
	case "tools/list":
		return result(dst, q.ID, `{"resultType":"complete",`+tools+uncached+`}`)
	case "server/discover":
		return result(dst, q.ID, `{"resultType":"complete","supportedVersions":["`+words.ModernVersion+`"],`+capabilities+
			`,"_meta":{"io.modelcontextprotocol/serverInfo":`+identity+`}`+uncached+`}`)
	case "initialize":
		// 2026-07-28 §Versioning, "Backward Compatibility": the error message names the
		// supported version, because a legacy client can show its user only this message.
		return failure(dst, q.ID, -32601, "Method not found: this server speaks only "+words.ModernVersion, 404)
	}
	// 2026-07-28 §Streamable HTTP, "Protocol Version Header": an unknown method gets the status
	// 404 and the error code -32601.
	return failure(dst, q.ID, -32601, "Method not found", 404)
}

func replyLegacy(dst []byte, q *jsonrpc.Message) answer {
	switch q.Method {
	case "tools/call":
		return call(dst, q, `{"content":[{"type":"text","text":`)
	case "tools/list":
		return result(dst, q.ID, `{`+tools+`}`)
	case "ping":
		return result(dst, q.ID, `{}`)
	case "initialize":
		a := result(dst, q.ID, `{"protocolVersion":"`+offered(q)+`",`+capabilities+`,"serverInfo":`+identity+`}`)
		a.opens = true
		return a
	}
	return failure(dst, q.ID, -32601, "Method not found", 200)
}

// large is a list of 5,000 tools. The first is echo, and no other one works.
var large = sync.OnceValue(func() string {
	var all strings.Builder
	all.WriteString(strings.TrimSuffix(tools, "]"))
	for i := range 4999 {
		fmt.Fprintf(&all, `,{"name":"tool_%d","description":"Does something useful with its argument.","inputSchema":{"type":"object","properties":{"text":{"type":"string"}}}}`, i)
	}
	return all.String() + "]"
})

// listLarge answers tools/list with all of large.
func listLarge(dst []byte, era words.Era, q *jsonrpc.Message) answer {
	if era == words.Modern {
		return result(dst, q.ID, `{"resultType":"complete",`+large()+uncached+`}`)
	}
	return result(dst, q.ID, `{`+large()+`}`)
}

// offered returns the version for the answer to an initialize. It returns the requested version if
// this is a legacy version, otherwise words.LegacyVersion (2025-11-25 §Lifecycle, "Version
// Negotiation").
func offered(q *jsonrpc.Message) string {
	switch v, _ := jsonrpc.Text(q.Raw, q.Param("protocolVersion")); v {
	case "2024-11-05", "2025-03-26", "2025-06-18":
		return v
	}
	return words.LegacyVersion
}

// call answers tools/call. opening is the part of the result before the text.
func call(dst []byte, q *jsonrpc.Message, opening string) answer {
	if name, _ := jsonrpc.Text(q.Raw, q.Param("name")); name != "echo" {
		return failure(dst, q.ID, -32602, "Unknown tool", 200)
	}
	dst = open(dst, q.ID)
	dst = append(dst, opening...)
	dst = append(dst, jsonrpc.Find(q.Raw, q.Param("arguments"), "text").Of(q.Raw)...)
	dst = append(dst, `}]}}`...)
	return answer{body: dst, status: 200}
}

func open(dst []byte, id jsonrpc.ID) []byte {
	dst = append(dst, `{"jsonrpc":"2.0","id":`...)
	dst = append(dst, id...)
	return append(dst, `,"result":`...)
}

func result(dst []byte, id jsonrpc.ID, value string) answer {
	dst = append(open(dst, id), value...)
	return answer{body: append(dst, '}'), status: 200}
}

func failure(dst []byte, id jsonrpc.ID, code int, message string, status int) answer {
	dst = append(dst, `{"jsonrpc":"2.0","id":`...)
	dst = append(dst, id...)
	dst = append(dst, `,"error":{"code":`...)
	dst = strconv.AppendInt(dst, int64(code), 10)
	dst = append(dst, `,"message":"`...)
	dst = append(dst, message...)
	return answer{body: append(dst, `"}}`...), status: status}
}
