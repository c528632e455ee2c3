package fake

import (
	"strings"
	"testing"
	"testing/synctest"
)

const (
	sampleParams = `{"messages":[{"role":"user","content":{"type":"text","text":"?"}}],"maxTokens":100}`
	formSchema   = `"requestedSchema":{"type":"object","properties":{"name":{"type":"string"},"age":{"type":"integer"}},"required":["name"]}`
	sampleAnswer = `{"role":"assistant","content":{"type":"text","text":"yes"},"model":"m"}`
)

// TestAsksLive checks that a legacy fake server sends questions as server requests during the call.
func TestAsksLive(t *testing.T) {
	const date = "2025-11-25"
	synctest.Test(t, func(t *testing.T) {
		l := play(t, "strict-"+date)
		l.hello(date, allCaps)
		l.want(call(date, "1", "sample", `"prompt":"?"`), `{"jsonrpc":"2.0","id":1,"method":"sampling/createMessage","params":`+sampleParams+`}`)
		l.want(`{"jsonrpc":"2.0","id":1,"result":`+sampleAnswer+`}`, result(date, "1", words("yes")))
		l.want(call(date, "2", "elicit", ``), `{"jsonrpc":"2.0","id":2,"method":"elicitation/create","params":{"mode":"form","message":"Who are you?",`+formSchema+`}}`)
		l.want(`{"jsonrpc":"2.0","id":2,"result":{"action":"accept","content":{"name":"Ada","age":36}}}`, result(date, "2", words("accept Ada 36")))
		l.want(call(date, "3", "elicit_url", ``), `{"jsonrpc":"2.0","id":3,"method":"elicitation/create","params":{"mode":"url","elicitationId":"elicitation-page","url":"https://fake.invalid/page","message":"Please have a look."}}`)
		l.want(`{"jsonrpc":"2.0","id":3,"result":{"action":"accept"}}`,
			`{"jsonrpc":"2.0","method":"notifications/elicitation/complete","params":{"elicitationId":"elicitation-page"}}`, result(date, "3", words("accept")))
		l.want(call(date, "4", "elicit", ``), `{"jsonrpc":"2.0","id":4,"method":"elicitation/create","params":{"mode":"form","message":"Who are you?",`+formSchema+`}}`)
		l.want(`{"jsonrpc":"2.0","id":4,"result":{"action":"decline"}}`, result(date, "4", words("decline")))
		l.broken()

		// The following answers of the client do not match the request, or are errors.
		l.want(call(date, "5", "elicit", ``), `{"jsonrpc":"2.0","id":5,"method":"elicitation/create","params":{"mode":"form","message":"Who are you?",`+formSchema+`}}`)
		l.want(`{"jsonrpc":"2.0","id":5,"result":{"action":"accept","content":{"name":"Ada","age":"old"}}}`,
			result(date, "5", words("the client's answer does not match the request: content.age is not of type integer")+`,"isError":true`))
		l.want(call(date, "6", "roots", ``), `{"jsonrpc":"2.0","id":6,"method":"roots/list"}`)
		l.want(`{"jsonrpc":"2.0","id":6,"error":{"code":-1,"message":"no"}}`, result(date, "6", words("the client answered the request of this tool with the error -1: no")+`,"isError":true`))
		l.broken("answer to elicitation/create: content.age is not of type integer")

		// If the client cancels a call, the server cancels its server request. The client may still
		// answer.
		l.want(call(date, "7", "roots", ``), `{"jsonrpc":"2.0","id":7,"method":"roots/list"}`)
		l.want(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":7}}`,
			`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":7,"reason":"the call that needed this request was cancelled"}}`)
		l.want(`{"jsonrpc":"2.0","id":7,"result":{"roots":[]}}`)
		l.broken("answer to elicitation/create: content.age is not of type integer")
		l.end()
	})
}

// TestAsksInResults checks that a fake server of 2026-07-28 sends questions in a result, and that a
// retry of the call has the answers.
func TestAsksInResults(t *testing.T) {
	const date = modernDate
	inputs := func(id, state, requests string) string {
		return strings.Replace(result(date, id, `"inputRequests":{`+requests+`},"requestState":"`+state+`"`), "complete", "input_required", 1)
	}
	again := func(id, tool, state, responses string) string {
		return ask(date, id, "tools/call", `"name":"`+tool+`","arguments":{},"requestState":"`+state+`","inputResponses":{`+responses+`}`)
	}
	sample := func(key, words string) string {
		return `"` + key + `":{"method":"sampling/createMessage","params":` + strings.Replace(sampleParams, "?", words, 1) + `}`
	}
	synctest.Test(t, func(t *testing.T) {
		l := play(t, "strict-"+date)
		all := sample("sample", "Say something.") + `,"elicit":{"method":"elicitation/create","params":{"mode":"form","message":"Who are you?",` + formSchema + `}},"roots":{"method":"roots/list","params":{}}`
		const begun = "W10.nX_Mf_vk-pU4z0fIboniLQ" // the requestState before the first answer
		l.want(call(date, "1", "ask_all", ``), inputs("1", begun, all))
		// If an answer is missing, the server asks again.
		l.want(again("2", "ask_all", begun, `"sample":`+sampleAnswer), inputs("2", begun, all))
		l.want(again("3", "ask_all", begun, `"sample":`+sampleAnswer+`,"elicit":{"action":"cancel"},"roots":{"roots":[{"uri":"file:///a"}]}`),
			result(date, "3", words("yes; cancel; file:///a")))
		l.want(again("4", "ask_twice", begun, `"first":`+sampleAnswer), refused("4", "-32602", "params.requestState was not issued for this call, or was modified"))
		l.want(again("5", "ask_all", begun, `"sample":{"role":"assistant","model":"m"}`), refused("5", "-32602", "result.content is missing"))
		l.broken("tools/call: params.requestState was not issued for this call, or was modified", "answer to sampling/createMessage: result.content is missing")

		// In the second round, the requestState contains the first answer.
		l.say(call(date, "6", "ask_twice", ``))
		first := stateIn(t, l.receive())
		l.say(again("7", "ask_twice", first, `"first":`+sampleAnswer))
		got := l.receive()
		second := stateIn(t, got)
		if got[0] != inputs("7", second, sample("second", "You said: yes")) {
			t.Errorf("%s", got[0])
		}
		l.want(again("8", "ask_twice", second, `"second":`+sampleAnswer), result(date, "8", words("yes; yes")))
		l.end()
	})
}

func stateIn(t *testing.T, got []string) string {
	t.Helper()
	if len(got) != 1 {
		t.Fatalf("%q", got)
	}
	_, after, ok := strings.Cut(got[0], `"requestState":"`)
	s, _, end := strings.Cut(after, `"`)
	if !ok || !end {
		t.Fatalf("no state in %s", got[0])
	}
	return s
}

func TestSubscriptions(t *testing.T) {
	updated := `{"jsonrpc":"2.0","method":"notifications/resources/updated","params":{"uri":"fake://text"}}`
	synctest.Test(t, func(t *testing.T) {
		l := play(t, "strict-2025-06-18")
		l.hello(legacyDate, "{}")
		l.want(call(legacyDate, "1", "touch", `"uri":"fake://text"`), result(legacyDate, "1", words("touched")))
		l.want(ask(legacyDate, "2", "resources/subscribe", `"uri":"fake://text"`), `{"jsonrpc":"2.0","id":2,"result":{}}`)
		l.want(call(legacyDate, "3", "touch", `"uri":"fake://text"`), updated, result(legacyDate, "3", words("touched")))
		l.want(ask(legacyDate, "4", "resources/unsubscribe", `"uri":"fake://text"`), `{"jsonrpc":"2.0","id":4,"result":{}}`)
		l.want(call(legacyDate, "5", "touch", `"uri":"fake://text"`), result(legacyDate, "5", words("touched")))
		l.want(call(legacyDate, "6", "grow", ``), `{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}`, result(legacyDate, "6", words("grown")))
		l.want(call(legacyDate, "7", "grown", ``), result(legacyDate, "7", words("grown")))
		l.broken()
		l.end()
	})
	synctest.Test(t, func(t *testing.T) {
		l := play(t, "strict-"+modernDate)
		const id = `"_meta":{"io.modelcontextprotocol/subscriptionId":"s"}`
		l.want(ask(modernDate, `"s"`, "subscriptions/listen", `"notifications":{"toolsListChanged":true,"promptsListChanged":true,"resourceSubscriptions":["fake://text","fake://none"]}`),
			`{"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged","params":{`+id+`,"notifications":{"toolsListChanged":true,"resourceSubscriptions":["fake://text"]}}}`)
		l.want(call(modernDate, "1", "touch", `"uri":"fake://text"`),
			`{"jsonrpc":"2.0","method":"notifications/resources/updated","params":{`+id+`,"uri":"fake://text"}}`, result(modernDate, "1", words("touched")))
		l.want(call(modernDate, "2", "grow", ``), `{"jsonrpc":"2.0","method":"notifications/tools/list_changed","params":{`+id+`}}`, result(modernDate, "2", words("grown")))
		l.want(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"s"}}`)
		l.want(call(modernDate, "3", "grow", ``), result(modernDate, "3", words("shrunk")))
		l.want(ask(modernDate, `"t"`, "subscriptions/listen", `"notifications":{}`),
			`{"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged","params":{"_meta":{"io.modelcontextprotocol/subscriptionId":"t"},"notifications":{}}}`)
		l.broken()
		_ = l.s.Close() // Close ends the listen with messages to the client
		got := l.receive()
		if len(got) != 2 || !strings.Contains(got[0], `"method":"notifications/cancelled"`) || !strings.HasPrefix(got[1], `{"jsonrpc":"2.0","id":"t","result":{"resultType":"complete","_meta":{`) {
			t.Errorf("%q", got)
		}
		<-l.done
	})
}
