package gateway_test

import (
	"bufio"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/base/trails"
	"github.com/dragoman-mcp/dragoman/internal/testkit/transcript"
)

// talk holds the client end and the server end of a running Dragoman. It is for tests that a
// transcript cannot express, because one message depends on an earlier one.
type talk struct {
	t                testing.TB
	ends             transcript.Ends
	client, upstream *bufio.Reader
}

func newTalk(t testing.TB) *talk { return newTrailedTalk(t, nil) }

func newTrailedTalk(t testing.TB, trail *trails.Trail) *talk {
	return newTalkWith(t, startTrailed(t, "", trail), nil)
}

// newTalkWith returns a talk. If wrap is not nil, newTalkWith replaces the ends with the results of
// wrap.
func newTalkWith(t testing.TB, ends transcript.Ends, wrap func(client, server io.ReadWriteCloser) (io.ReadWriteCloser, io.ReadWriteCloser)) *talk {
	if wrap != nil {
		ends.Client, ends.Upstream = wrap(ends.Client, ends.Upstream)
	}
	return &talk{t, ends, bufio.NewReader(ends.Client), bufio.NewReader(ends.Upstream)}
}

func (k *talk) say(to io.Writer, line string) {
	k.t.Helper()
	if _, err := io.WriteString(to, line+"\n"); err != nil {
		k.t.Fatal(err)
	}
}

func (k *talk) hear(from *bufio.Reader) *jsonrpc.Message {
	k.t.Helper()
	line, err := from.ReadString('\n')
	if err != nil {
		k.t.Fatal(err)
	}
	m, err := jsonrpc.Scan([]byte(strings.TrimSuffix(line, "\n")), jsonrpc.Limits{})
	if err != nil {
		k.t.Fatalf("%v: %s", err, line)
	}
	return m
}

// server reads a request on the server side, checks it and answers it.
func (k *talk) server(method, result string) *jsonrpc.Message {
	k.t.Helper()
	m := k.hear(k.upstream)
	if m.Method != method {
		k.t.Fatalf("the server gets %s, want %s", m.Raw, method)
	}
	k.say(k.ends.Upstream, string(jsonrpc.AppendResult(nil, m.ID, []byte(result))))
	return m
}

// end closes the client's end, then the server's end, and waits for Dragoman to stop. Before it
// closes the server's end, it reads and drops all messages to the server, such as the cancellation
// of a listen request.
func (k *talk) end() {
	_ = k.ends.Client.Close()
	_, _ = io.Copy(io.Discard, k.upstream)
	_ = k.ends.Upstream.Close()
	if err := k.ends.Wait(); err != nil {
		k.t.Error(err)
	}
}

const (
	asker      = `{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{"elicitation":{"form":{}}}}`
	discovered = `{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{"tools":{}},"ttlMs":0,"cacheScope":"private"}`
	form       = `{"mode":"form","message":"%s","x":1e400,"requestedSchema":{"type":"object","properties":{}}}`
)

func modernCall(id, more string) string {
	return `{"jsonrpc":"2.0","id":` + id + `,"method":"tools/call","params":{"name":"t","arguments":{ "n":1e400 }` + more + `,"_meta":` + asker + `}}`
}

// TestStateCrossesModernHopsUnread checks that the input requests of a modern server reach a modern
// client byte for byte. The client gets a sealed state. The server gets its own state back byte for
// byte.
func TestStateCrossesModernHopsUnread(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newTalk(t)
		defer k.end()
		k.say(k.ends.Client, modernCall("1", ""))
		k.server("server/discover", discovered)
		asks := `{ "who":{"method":"elicitation/create" ,"params":` + fmt.Sprintf(form, "Who?") + `}}`
		const state = `"a\u0062\/c"`
		k.server("tools/call", `{"resultType":"input_required","inputRequests":`+asks+`,"requestState":`+state+`}`)

		asked := k.hear(k.client)
		if got := string(asked.ResultMember("inputRequests").Of(asked.Raw)); got != asks {
			t.Errorf("the client is asked %s, want %s", got, asks)
		}
		sealed := string(asked.ResultMember("requestState").Of(asked.Raw))
		if sealed == "" || strings.Contains(sealed, "abc") {
			t.Fatalf("the state is %s", sealed)
		}
		const answers = `{"who" :{"action":"accept","content":{"n" : 1e400}}}`
		k.say(k.ends.Client, modernCall("2", `,"inputResponses":`+answers+`,"requestState":`+sealed))
		again := k.server("tools/call", `{"resultType":"complete","content":[]}`)
		if got := string(again.Param("requestState").Of(again.Raw)); got != state {
			t.Errorf("the server gets state %s, want %s", got, state)
		}
		if got := string(again.Param("inputResponses").Of(again.Raw)); got != answers {
			t.Errorf("the server gets answers %s, want %s", got, answers)
		}
		if m := k.hear(k.client); m.ID != "2" || m.Kind != jsonrpc.Result {
			t.Errorf("the client gets %s", m.Raw)
		}
	})
}

// TestLegacyServerAsksInItsAnswer checks a server that supports both eras and can no longer send
// live requests on a legacy session. The server puts its input requests into its answer, with or
// without a state. A modern client can answer these requests, and Dragoman sends its responses to
// the server. Dragoman drops responses to questions that the server did not ask.
func TestLegacyServerAsksInItsAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newTalk(t)
		defer k.end()
		k.say(k.ends.Client, modernCall("1", `,"inputResponses":{"x":{"action":"accept"}}`))
		probe := k.hear(k.upstream)
		k.say(k.ends.Upstream, string(jsonrpc.AppendError(nil, probe.ID, &jsonrpc.Error{Code: jsonrpc.CodeMethodNotFound, Message: "?"})))
		k.server("initialize", `{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"s","version":"1"}}`)
		if m := k.hear(k.upstream); m.Method != "notifications/initialized" {
			t.Fatalf("the server gets %s", m.Raw)
		}
		asks := `{"who" :{"method":"elicitation/create","params":` + fmt.Sprintf(form, "Who?") + `}}`
		first := k.server("tools/call", `{"resultType":"input_required","inputRequests":`+asks+`,"requestState":"\u0061b"}`)
		if !first.Param("inputResponses").IsZero() {
			t.Errorf("the server gets answers to questions that it did not ask: %s", first.Raw)
		}
		retry := func(id string, asked *jsonrpc.Message) string {
			if got := string(asked.ResultMember("inputRequests").Of(asked.Raw)); got != asks {
				t.Errorf("the client is asked %s, want %s", got, asks)
			}
			return modernCall(id, `,"inputResponses":{ "who":{"action":"accept"}},"requestState":`+string(asked.ResultMember("requestState").Of(asked.Raw)))
		}
		k.say(k.ends.Client, retry("2", k.hear(k.client)))
		second := k.server("tools/call", `{"content":[],"inputRequests":`+asks+`}`)
		if got := string(second.Param("requestState").Of(second.Raw)); got != `"\u0061b"` {
			t.Errorf("the server gets state %s", got)
		}
		k.say(k.ends.Client, retry("3", k.hear(k.client)))
		third := k.server("tools/call", `{"content":[]}`)
		if !third.Param("requestState").IsZero() {
			t.Errorf("the server gets a state that it did not send: %s", third.Raw)
		}
		for _, m := range []*jsonrpc.Message{second, third} {
			if got := string(m.Param("inputResponses").Of(m.Raw)); got != `{ "who":{"action":"accept"}}` {
				t.Errorf("the server gets answers %s", got)
			}
		}
		if m := k.hear(k.client); m.ID != "3" || m.Kind != jsonrpc.Result {
			t.Errorf("the client gets %s", m.Raw)
		}
	})
}

// TestLegacyQuestionWaitsForAModernClient checks a legacy server that sends a request during a
// call. A modern client answers this request in a second tools/call. The server gets only one call.
func TestLegacyQuestionWaitsForAModernClient(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newTalk(t)
		defer k.end()
		k.say(k.ends.Client, modernCall("1", ""))
		probe := k.hear(k.upstream)
		k.say(k.ends.Upstream, string(jsonrpc.AppendError(nil, probe.ID, &jsonrpc.Error{Code: jsonrpc.CodeMethodNotFound, Message: "?"})))
		k.server("initialize", `{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"s","version":"1"}}`)
		if m := k.hear(k.upstream); m.Method != "notifications/initialized" {
			t.Fatalf("the server gets %s", m.Raw)
		}
		call := k.hear(k.upstream)
		params := fmt.Sprintf(form, "Who?")
		k.say(k.ends.Upstream, `{"jsonrpc":"2.0","id":"q" ,"method":"elicitation/create","params":`+params+`}`)

		asked := k.hear(k.client)
		var key string
		for ask := range jsonrpc.Members(asked.Raw, asked.ResultMember("inputRequests")) {
			key = string(ask.Key.Of(asked.Raw))
			if got := string(jsonrpc.Find(asked.Raw, ask.Value, "params").Of(asked.Raw)); got != params {
				t.Errorf("the client is asked %s, want %s", got, params)
			}
		}
		if asked.ID != "1" || key == "" {
			t.Fatalf("the client gets %s", asked.Raw)
		}
		const answer = `{"action":"accept","content":{"n" : 1e400}}`
		k.say(k.ends.Client, modernCall("2", `,"inputResponses":{`+key+`:`+answer+`},"requestState":`+string(asked.ResultMember("requestState").Of(asked.Raw))))
		if m := k.hear(k.upstream); m.ID != `"q"` || string(m.Result.Of(m.Raw)) != answer {
			t.Errorf("the server gets %s", m.Raw)
		}
		k.say(k.ends.Upstream, string(jsonrpc.AppendResult(nil, call.ID, []byte(`{"content":[ ]}`))))
		if m := k.hear(k.client); m.ID != "2" || string(m.ResultMember("content").Of(m.Raw)) != "[ ]" {
			t.Errorf("the client gets %s", m.Raw)
		}
	})
}

// TestTwoQuestionsOfARoundAreLive checks that a legacy client gets both input requests of one
// round, in either order. The server gets both results, each under its own key.
func TestTwoQuestionsOfARoundAreLive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newTalk(t)
		defer k.end()
		k.say(k.ends.Client, `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{"elicitation":{}},"clientInfo":{"name":"c","version":"1"}}}`)
		first := k.hear(k.upstream)
		k.say(k.ends.Upstream, string(jsonrpc.AppendError(nil, first.ID, &jsonrpc.Error{Code: jsonrpc.CodeMethodNotFound, Message: "?"})))
		k.server("server/discover", discovered)
		k.hear(k.client)
		k.say(k.ends.Client, `{"jsonrpc":"2.0","id":"k","method":"tools/call","params":{"name":"t","arguments":{}}}`)
		ask := func(key string) string {
			return `"` + key + `":{"method":"elicitation/create","params":` + fmt.Sprintf(form, key) + `}`
		}
		k.server("tools/call", `{"resultType":"input_required","inputRequests":{`+ask("one")+`, `+ask("two")+`},"requestState":"s"}`)
		for range 2 {
			q := k.hear(k.client)
			text := string(q.Param("message").Of(q.Raw))
			k.say(k.ends.Client, string(jsonrpc.AppendResult(nil, q.ID, []byte(`{"action":"accept","content":{"to":`+text+`}}`))))
		}
		again := k.server("tools/call", `{"resultType":"complete","content":[]}`)
		const want = `{"one":{"action":"accept","content":{"to":"one"}},"two":{"action":"accept","content":{"to":"two"}}}`
		if got := string(again.Param("inputResponses").Of(again.Raw)); got != want {
			t.Errorf("the server gets %s, want %s", got, want)
		}
		if m := k.hear(k.client); m.ID != `"k"` || m.Kind != jsonrpc.Result {
			t.Errorf("the client gets %s", m.Raw)
		}
	})
}
