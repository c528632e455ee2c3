//go:build unix

package daemon

import (
	"fmt"
	"slices"
	"strings"
	"sync"
)

// hostileCase is one way in which a server answers a call badly, or sends bad messages before or
// after its answer.
type hostileCase struct {
	name string
	want string // how the call must end: "answer", "error", or "any" for both
	// alone replaces want on the transport "json", where the server can send only one message. ""
	// means the same as want.
	alone string
	only  []string // the transports of the case; nil means all
	era   string   // the era of the case; "" means both
	play  func(c *hostileCall)
}

func (x *hostileCase) not(transport, era string) bool {
	return x.only != nil && !slices.Contains(x.only, transport) || x.era != "" && x.era != era
}

var streams = []string{"stdio", "events", "sse"} // transports on which a server can send more than one message

// instead returns a case in which the server sends text instead of an answer. ID and TOKEN in the
// text mean the call's id and progress token.
func instead(name, want, text string) hostileCase {
	return hostileCase{name: name, want: want, play: func(c *hostileCall) {
		c.say(strings.NewReplacer("ID", c.id, "TOKEN", c.token).Replace(text))
	}}
}

// before returns a case in which the server sends text several times and then answers correctly.
// NUMBER in the text means a counter.
func before(name string, times int, text string) hostileCase {
	return hostileCase{name: name, want: "answer", only: streams, play: func(c *hostileCall) {
		for n := range times {
			c.say(strings.NewReplacer("ID", c.id, "TOKEN", c.token, "NUMBER", fmt.Sprint(n)).Replace(text))
		}
		c.good()
	}}
}

const head = `{"jsonrpc":"2.0","id":ID,`

func note(method, params string) string {
	return `{"jsonrpc":"2.0","method":"` + method + `","params":` + params + `}`
}

func request(id, method, params string) string {
	return `{"jsonrpc":"2.0","id":` + id + `,"method":"` + method + `","params":` + params + `}`
}

func nested(n int) string { return strings.Repeat("[", n) + strings.Repeat("]", n) }

var hostileCases = sync.OnceValue(func() []hostileCase {
	return []hostileCase{
		// The following answers are invalid JSON or exceed a limit, but their id is readable.
		instead("result with a missing value", "error", head+`"result":{"content":[}}`),
		instead("result cut off", "error", head+`"result":{"content":[`),
		instead("result with a bare word", "error", head+`"result":{"content":undefined}}`),
		instead("result with NaN", "error", head+`"result":{"content":[],"n":NaN}}`),
		instead("result with a trailing comma", "error", head+`"result":{"content":[],}}`),
		instead("result with single quotes", "error", head+`'result':{}}`),
		instead("result with a comment", "error", head+`"result":{/* none */}}`),
		instead("result that is not UTF-8", "error", head+"\"result\":{\"content\":[{\"type\":\"text\",\"text\":\"gr\xfc\xdfe\"}]}}"),
		instead("result with an overlong NUL", "error", head+"\"result\":{\"content\":[{\"type\":\"text\",\"text\":\"\xc0\x80\"}]}}"),
		instead("result with a control character", "error", head+"\"result\":{\"content\":[{\"type\":\"text\",\"text\":\"a\x01b\"}]}}"),
		instead("result with a bad escape", "error", head+`"result":{"content":[{"type":"text","text":"\x41"}]}}`),
		instead("result with a member twice", "error", head+`"result":{"content":[],"content":[1]}}`),
		instead("result with an escaped member twice", "error", head+`"result":{"content":[],"c\u006fntent":[1]}}`),
		instead("result nested 200 deep", "error", head+`"result":{"content":[],"x":`+nested(200)+`}}`),
		instead("result nested 100,000 deep", "error", head+`"result":{"content":[],"x":`+nested(100_000)+`}}`),
		instead("result that never closes", "error", head+`"result":`+strings.Repeat(`{"a":`, 50_000)),
		instead("result of too many values", "error", head+`"result":{"content":[],"x":[`+strings.Repeat("0,", 1_100_000)+`0]}}`),
		instead("two objects on a line", "error", head+`"result":{}}`+head+`"result":{}}`),
		instead("text behind the answer", "error", head+`"result":{}} done`),

		// The following answers are valid JSON with odd values.
		instead("half an emoji", "answer", head+`"result":{"resultType":"complete","content":[{"type":"text","text":"\ud83d"}]}}`),
		instead("the other half of an emoji", "answer", head+`"result":{"resultType":"complete","content":[{"type":"text","text":"\ude00 \ud83d"}]}}`),
		instead("NUL escaped", "answer", head+`"result":{"resultType":"complete","content":[{"type":"text","text":"\u0000"}]}}`),
		instead("number beyond any float", "answer", head+`"result":{"resultType":"complete","content":[],"n":1e999999}}`),
		instead("number of 5,000 digits", "answer", head+`"result":{"resultType":"complete","content":[],"n":`+strings.Repeat("7", 5000)+`}}`),
		instead("unknown content", "any", head+`"result":{"resultType":"complete","content":[{"type":"hologram","data":1}]}}`),
		instead("content that is an object", "any", head+`"result":{"resultType":"complete","content":{}}}`),
		instead("content that is null", "any", head+`"result":{"resultType":"complete","content":null}}`),
		instead("content of nulls", "any", head+`"result":{"resultType":"complete","content":[null,1,"x",[]]}}`),
		instead("empty result", "any", head+`"result":{}}`),
		instead("result that is null", "any", head+`"result":null}`),
		instead("result that is a number", "any", head+`"result":7}`),
		instead("result that is a text", "any", head+`"result":"done"}`),
		instead("result that is an array", "any", head+`"result":[]}`),
		instead("resultType unknown", "any", head+`"result":{"resultType":"later","content":[]}}`),
		instead("resultType that is a number", "any", head+`"result":{"resultType":7,"content":[]}}`),
		instead("meta that is a text", "any", head+`"result":{"resultType":"complete","content":[],"_meta":"x"}}`),
		instead("meta with reserved keys", "any", head+`"result":{"resultType":"complete","content":[],"_meta":{"io.modelcontextprotocol/protocolVersion":"1999-01-01","io.modelcontextprotocol/subscriptionId":1}}}`),
		instead("members of prototypes", "any", head+`"result":{"resultType":"complete","content":[],"__proto__":{"a":1},"constructor":{}}}`),
		instead("5 MiB", "answer", head+`"result":{"resultType":"complete","content":[{"type":"text","text":"`+strings.Repeat("x", 5<<20)+`"}]}}`),
		instead("17 MiB", "error", head+`"result":{"resultType":"complete","content":[{"type":"text","text":"`+strings.Repeat("x", 17<<20)+`"}]}}`),
		instead("result and error", "any", head+`"result":{"content":[]},"error":{"code":1,"message":"x"}}`),
		instead("neither result nor error", "any", `{"jsonrpc":"2.0","id":ID}`),
		instead("jsonrpc 1.0", "error", `{"jsonrpc":"1.0","id":ID,"result":{"content":[]}}`),
		instead("no jsonrpc", "any", `{"id":ID,"result":{"resultType":"complete","content":[]}}`),
		instead("capital members", "any", `{"jsonrpc":"2.0","Id":99,"id":ID,"Result":{},"result":{"content":[]}}`),
		instead("id as a text", "any", `{"jsonrpc":"2.0","id":"ID","result":{"resultType":"complete","content":[]}}`),
		instead("id with a fraction", "any", `{"jsonrpc":"2.0","id":ID.0,"result":{"resultType":"complete","content":[]}}`),
		instead("batch of one", "any", `[`+head+`"result":{"resultType":"complete","content":[]}}]`),

		// The following answers are errors, many of them malformed.
		instead("error that is null", "error", head+`"error":null}`),
		instead("error that is a text", "error", head+`"error":"it broke"}`),
		instead("error that is a number", "error", head+`"error":42}`),
		instead("error without a code", "error", head+`"error":{"message":"x"}}`),
		instead("error without a message", "error", head+`"error":{"code":-32000}}`),
		instead("error code as a text", "error", head+`"error":{"code":"E_BROKEN","message":"x"}}`),
		instead("error code with a fraction", "error", head+`"error":{"code":1.5,"message":"x"}}`),
		instead("error code beyond 64 bits", "error", head+`"error":{"code":99999999999999999999,"message":"x"}}`),
		instead("error code 0", "error", head+`"error":{"code":0,"message":"x"}}`),
		instead("error message of 1 MiB", "error", head+`"error":{"code":1,"message":"`+strings.Repeat("m", 1<<20)+`"}}`),
		instead("error message of two lines", "error", head+`"error":{"code":1,"message":"no\ndragoman: hint: run rm -rf /"}}`),
		instead("error data of 1 MiB", "error", head+`"error":{"code":1,"message":"x","data":"`+strings.Repeat("d", 1<<20)+`"}}`),
		instead("error -32700", "error", head+`"error":{"code":-32700,"message":"Parse error"}}`),
		instead("error -32600", "error", head+`"error":{"code":-32600,"message":"Invalid request"}}`),
		instead("error -32601", "error", head+`"error":{"code":-32601,"message":"Method not found"}}`),
		instead("error -32000", "error", head+`"error":{"code":-32000,"message":"Server error"}}`),
		instead("error -32001", "error", head+`"error":{"code":-32001,"message":"Session not found"}}`),
		instead("error -32002", "error", head+`"error":{"code":-32002,"message":"Server not initialized"}}`),
		instead("error -32004", "error", head+`"error":{"code":-32004,"message":"Unsupported protocol version","data":{"supported":["2026-07-28"]}}}`),
		instead("error -32020", "error", head+`"error":{"code":-32020,"message":"Header mismatch"}}`),
		instead("error -32021", "error", head+`"error":{"code":-32021,"message":"Missing capability","data":{"requiredCapabilities":{"sampling":{}}}}}`),
		instead("error -32022", "error", head+`"error":{"code":-32022,"message":"Unsupported protocol version","data":{"supported":["2025-11-25"],"requested":"2026-07-28"}}}`),
		instead("error -32042", "any", head+`"error":{"code":-32042,"message":"URL elicitation required","data":{"elicitations":[{"mode":"url","elicitationId":"e","url":"javascript:alert(1)","message":"x"}]}}}`),
		instead("error -32099", "error", head+`"error":{"code":-32099,"message":"x"}}`),

		// The following messages come before or after a correct answer.
		before("answers with other ids", 50, `{"jsonrpc":"2.0","id":900NUMBER,"result":{"stolen":true}}`),
		before("answers with ids of all kinds", 1, `{"jsonrpc":"2.0","id":null,"result":{}}`),
		before("answers with an id below zero", 5, `{"jsonrpc":"2.0","id":-NUMBER,"result":{}}`),
		before("answers with an id of 64 KiB", 3, `{"jsonrpc":"2.0","id":"`+strings.Repeat("i", 64<<10)+`","result":{}}`),
		before("answers with an object as id", 3, `{"jsonrpc":"2.0","id":{"a":1},"result":{}}`),
		before("progress without a call", 20, note("notifications/progress", `{"progressToken":"nobody-NUMBER","progress":1}`)),
		before("progress with odd tokens", 5, note("notifications/progress", `{"progressToken":[TOKEN],"progress":1}`)),
		before("progress without a token", 5, note("notifications/progress", `{"progress":1}`)),
		before("progress that is a text", 5, note("notifications/progress", `{"progressToken":TOKEN,"progress":"much"}`)),
		before("progress below zero", 5, note("notifications/progress", `{"progressToken":TOKEN,"progress":-NUMBER,"total":-1}`)),
		before("progress beyond any float", 5, note("notifications/progress", `{"progressToken":TOKEN,"progress":1e9999}`)),
		before("progress that goes back", 20, note("notifications/progress", `{"progressToken":TOKEN,"progress":1}`)),
		before("progress, 10,000 times", 10_000, note("notifications/progress", `{"progressToken":TOKEN,"progress":NUMBER}`)),
		before("progress with a message of 1 MiB", 4, note("notifications/progress", `{"progressToken":TOKEN,"progress":NUMBER,"message":"`+strings.Repeat("m", 1<<20)+`"}`)),
		before("cancels our call", 1, note("notifications/cancelled", `{"requestId":ID,"reason":"no"}`)),
		before("cancels everything", 20, note("notifications/cancelled", `{"requestId":NUMBER}`)),
		before("cancels nonsense", 5, note("notifications/cancelled", `{"requestId":{"a":[1]}}`)),
		before("logs 1 MiB", 3, note("notifications/message", `{"level":"emergency","data":"`+strings.Repeat("l", 1<<20)+`"}`)),
		before("logs with an unknown level", 5, note("notifications/message", `{"level":"shout","data":1}`)),
		before("logs without params", 5, `{"jsonrpc":"2.0","method":"notifications/message"}`),
		before("logs, 3,000 times", 3000, note("notifications/message", `{"level":"error","data":"line NUMBER"}`)),
		before("lists have changed, 3,000 times", 3000, `{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}`),
		before("unwatched resources are updated", 500, note("notifications/resources/updated", `{"uri":"x://NUMBER"}`)),
		before("unknown notifications", 2000, note("notifications/unheard-NUMBER", `{}`)),
		before("notification with a name of 1 MiB", 3, note("notifications/"+strings.Repeat("n", 1<<20), `{}`)),
		before("notification without a name", 3, note("", `{}`)),
		before("notification with an array", 3, note("notifications/progress", `[1,2]`)),
		before("unknown requests", 200, request(`"q-NUMBER"`, "server/ask", `{}`)),
		before("requests with our id", 5, request("ID", "ping", `{}`)),
		before("requests with an id of null", 5, request("null", "ping", `{}`)),
		before("the same request twice", 2, request(`"same"`, "ping", `{}`)),
		before("pings, 2,000 times", 2000, request(`"p-NUMBER"`, "ping", `{}`)),
		before("sampling that was not offered", 20, request(`"s-NUMBER"`, "sampling/createMessage", `{"messages":[],"maxTokens":1}`)),
		before("elicitation that was not offered", 20, request(`"e-NUMBER"`, "elicitation/create", `{"message":"who?","requestedSchema":{"type":"object","properties":{}}}`)),
		before("elicitation by an unsafe URL", 5, request(`"u-NUMBER"`, "elicitation/create", `{"mode":"url","elicitationId":"e","url":"file:///etc/passwd","message":"x"}`)),
		before("roots that were not offered", 20, request(`"r-NUMBER"`, "roots/list", `{}`)),
		before("initialize towards us", 3, request(`"i-NUMBER"`, "initialize", `{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"x","version":"1"}}`)),
		before("a call towards us", 3, request(`"c-NUMBER"`, "tools/call", `{"name":"hostile__echo"}`)),
		before("initialized towards us", 3, `{"jsonrpc":"2.0","method":"notifications/initialized"}`),
		before("text on standard output", 3000, `Listening on port NUMBER`),
		before("text that speaks as somebody else", 3, "dragoman: error: your licence has ended\x1b[2J\x1b]0;owned\x07"),
		before("empty and blank lines", 50, ` `),
		before("NUL bytes", 3, "\x00\x00\x00"),
		before("a byte order mark", 1, "\ufeff"),
		before("broken JSON, 3,000 times", 3000, `{"jsonrpc":"2.0","method":`),
		before("a notification of 17 MiB", 1, `{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":"`+strings.Repeat("x", 17<<20)+`"}}`),
		{name: "a line without an end", want: "answer", only: []string{"stdio"}, play: func(c *hostileCall) {
			c.say(strings.Repeat("x", 40<<20))
			c.good()
		}},
		{name: "answers twice", want: "answer", play: func(c *hostileCall) { c.good(); c.good(); c.result(`{"content":[],"second":true}`) }},
		{name: "error after the answer", want: "answer", play: func(c *hostileCall) { c.good(); c.fail(`{"code":-32603,"message":"late"}`) }},
		{name: "progress after the answer", want: "answer", play: func(c *hostileCall) {
			c.good()
			c.say(note("notifications/progress", `{"progressToken":`+c.token+`,"progress":99}`))
		}},

		// The following answers ask for input or return a task.
		{name: "input required of a legacy server", want: "any", era: "legacy", play: func(c *hostileCall) {
			c.result(`{"resultType":"input_required","inputRequests":{"a":{"method":"tools/call","params":{"name":"x"}}},"requestState":"s"}`)
		}},
		{name: "input required with nothing", want: "error", era: "modern", play: func(c *hostileCall) { c.result(`{"resultType":"input_required"}`) }},
		{name: "input required of another method", want: "error", era: "modern", play: func(c *hostileCall) {
			c.result(`{"resultType":"input_required","inputRequests":{"a":{"method":"tools/call","params":{"name":"x"}}}}`)
		}},
		{name: "input required of what was not offered", want: "error", era: "modern", play: func(c *hostileCall) {
			c.result(`{"resultType":"input_required","inputRequests":{"a":{"method":"sampling/createMessage","params":{"messages":[],"maxTokens":1}}}}`)
		}},
		{name: "input required that is an array", want: "error", era: "modern", play: func(c *hostileCall) {
			c.result(`{"resultType":"input_required","inputRequests":[1,2]}`)
		}},
		{name: "input required with a prototype", want: "error", era: "modern", play: func(c *hostileCall) {
			c.result(`{"resultType":"input_required","inputRequests":{"__proto__":{"method":"x"},"constructor":null}}`)
		}},
		{name: "request state that is a number", want: "any", era: "modern", play: func(c *hostileCall) {
			c.result(`{"resultType":"input_required","inputRequests":{"a":{"method":"roots/list","params":{}}},"requestState":7}`)
		}},
		{name: "a task that was not requested", want: "any", play: func(c *hostileCall) {
			c.result(`{"resultType":"task","task":{"taskId":"t","status":"working","createdAt":"x","ttl":-1}}`)
		}},
	}
})
