package fake

import (
	"strings"
	"testing"
	"testing/synctest"
)

const allCaps = `{"roots":{"listChanged":true},"sampling":{},"elicitation":{"form":{},"url":{}}}`

// hello makes the handshake of a legacy revision.
func (l *line) hello(date, caps string) {
	l.t.Helper()
	l.say(`{"jsonrpc":"2.0","id":"hi","method":"initialize","params":{"protocolVersion":"`+date+`","capabilities":`+caps+`,"clientInfo":{"name":"t","version":"1"}}}`,
		`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	got := l.receive()
	if len(got) != 1 || !strings.HasPrefix(got[0], `{"jsonrpc":"2.0","id":"hi","result":{"protocolVersion":"`+date+`"`) {
		l.t.Fatalf("initialize: %q", got)
	}
}

// ask returns a request in the form of a revision. A request of 2026-07-28 has _meta.
func ask(date, id, method, params string) string {
	if date == "2026-07-28" {
		meta := `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"t","version":"1"},"io.modelcontextprotocol/clientCapabilities":` + allCaps + `}`
		if params != "" {
			params += ","
		}
		params += meta
	}
	return `{"jsonrpc":"2.0","id":` + id + `,"method":"` + method + `","params":{` + params + `}}`
}

func call(date, id, tool, args string) string {
	return ask(date, id, "tools/call", `"name":"`+tool+`","arguments":{`+args+`}`)
}

// result returns an answer in the form of a revision. members are the members of its result.
func result(date, id, members string) string {
	if date == "2026-07-28" {
		members = `"resultType":"complete","_meta":{"io.modelcontextprotocol/serverInfo":{"name":"fake","title":"Fake","version":"1.2.3"}},` + members
	}
	return `{"jsonrpc":"2.0","id":` + id + `,"result":{` + members + `}}`
}

func words(s string) string { return `"content":[{"type":"text","text":"` + s + `"}]` }

// TestEveryRevision checks a strict server of each revision, in particular the features that all
// revisions have.
func TestEveryRevision(t *testing.T) {
	for _, ed := range editions() {
		date := ed.date
		t.Run(date, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := play(t, "strict-"+date)
				if ed.has(handshake) {
					l.hello(date, allCaps)
				}
				l.want(call(date, "1", "echo", `"text":"a\u0041\n"`), result(date, "1", words(`a\u0041\n`)))
				sum := words("3.5")
				if ed.has(structured) {
					sum += `,"structuredContent":{"sum":3.5}`
				}
				l.want(call(date, "2", "add", `"a":1,"b":2.5`), result(date, "2", sum))
				l.want(call(date, "3", "count", ``)+"\n"+call(date, "4", "count", ``), result(date, "3", words("1")), result(date, "4", words("2")))
				l.want(call(date, "5", "fail", ``), result(date, "5", words("failed as asked")+`,"isError":true`))
				l.want(call(date, "6", "refuse", ``), `{"jsonrpc":"2.0","id":6,"error":{"code":-32602,"message":"refused as asked","data":{"why":"asked"}}}`)
				l.want(ask(date, "7", "prompts/get", `"name":"greet","arguments":{"name":"Ada"}`),
					result(date, "7", `"description":"A greeting.","messages":[{"role":"user","content":{"type":"text","text":"Say hello to Ada."}}]`))
				l.want(ask(date, "8", "completion/complete", `"ref":{"type":"ref/prompt","name":"greet"},"argument":{"name":"name","value":"a"}`),
					result(date, "8", `"completion":{"values":["ada","alan"],"total":2,"hasMore":false}`))
				l.want(call(date, "9", "violations", ""), result(date, "9", words("")))
				l.broken()
				l.end()
			})
		})
	}
}
