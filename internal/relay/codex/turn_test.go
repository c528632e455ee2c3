package codex_test

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/relay/codex"
)

// TestTurns runs threads and turns with workers of both generations.
func TestTurns(t *testing.T) {
	bubble(t, func(t *testing.T, profile string) {
		r := play(t, profile, codex.Options{})
		defer r.close()
		r.open("{}")
		list, _ := r.answerTo(r.send("tools/list", "{}"))
		for _, tool := range []string{`"name":"codex"`, `"name":"codex-reply"`} {
			if !strings.Contains(string(list.Raw), tool) {
				t.Errorf("the tools are %s", list.Raw)
			}
		}
		first, before := r.answerTo(r.call("codex", `{"prompt":"caf\u00e9 \"x\"","cwd":"/work","sandbox":"read-only","model":null}`))
		if got := content(first); got != `You said: café "x"` || isError(first) {
			t.Errorf("the first turn: %s", first.Raw)
		}
		var streamed strings.Builder
		for _, m := range before {
			if m.Method != "notifications/progress" || string(m.Param("progressToken").Of(m.Raw)) != string(first.ID) {
				t.Errorf("unexpected message: %s", m.Raw)
			}
			s, _ := jsonrpc.Text(m.Raw, m.Param("message"))
			streamed.WriteString(s)
		}
		if streamed.String() != content(first) {
			t.Errorf("the streamed text is %q", streamed.String())
		}
		if want := content(first) + "|threadId: " + thread(first); texts(first) != want {
			t.Errorf("the texts are %q, want %q", texts(first), want)
		}
		for _, key := range []string{"threadId", "conversationId"} {
			next, _ := r.answerTo(r.call("codex-reply", `{"`+key+`":"`+thread(first)+`","prompt":"more"}`))
			if content(next) != "You said: more" || thread(next) != thread(first) {
				t.Errorf("codex-reply by %s: %s", key, next.Raw)
			}
		}
		if other := r.say("hello"); thread(other) == thread(first) || thread(other) == "" {
			t.Errorf("a second thread: %s", other.Raw)
		}
		failed := r.say("fail")
		if !isError(failed) || !strings.Contains(texts(failed), "Codex could not finish the turn: the model is not there") {
			t.Errorf("a failing turn: %s", failed.Raw)
		}
		again, _ := r.answerTo(r.call("codex-reply", `{"threadId":"`+thread(failed)+`","prompt":"more"}`))
		if content(again) != "You said: more" {
			t.Errorf("the turn after the failing one: %s", again.Raw)
		}
	})
}

// TestThreadOfAnotherProcess checks that a worker resumes a thread that another process has
// opened.
func TestThreadOfAnotherProcess(t *testing.T) {
	bubble(t, func(t *testing.T, profile string) {
		r := play(t, profile, codex.Options{})
		r.open("{}")
		first := r.say("hello")
		other := attach(t, r.fake, r.server, r.log)
		other.open("{}")
		next, _ := other.answerTo(other.call("codex-reply", `{"threadId":"`+thread(first)+`","prompt":"more"}`))
		if content(next) != "You said: more" || isError(next) {
			t.Errorf("codex-reply: %s", next.Raw)
		}
		if err := other.pipe.Close(); err != nil {
			t.Error(err)
		}
		other.wg.Wait()
		r.close()
	})
}

// TestReplyFirst checks that the generation is also detected if codex-reply is called first.
func TestReplyFirst(t *testing.T) {
	bubble(t, func(t *testing.T, profile string) {
		r := play(t, profile, codex.Options{})
		defer r.close()
		r.open("{}")
		m, _ := r.answerTo(r.call("codex-reply", `{"threadId":"nowhere","prompt":"more"}`))
		if !isError(m) || !strings.Contains(texts(m), "Codex has no thread nowhere") || strings.Contains(string(m.Raw), "structuredContent") {
			t.Errorf("a thread that does not exist: %s", m.Raw)
		}
		if got := content(r.say("hello")); got != "You said: hello" {
			t.Errorf("the turn after it: %q", got)
		}
	})
}

// TestArguments checks that the model gets an error for invalid arguments. Unknown tools and undeclared
// methods get an error response.
func TestArguments(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := play(t, today, codex.Options{})
		defer r.close()
		r.open("{}")
		for _, c := range []struct{ tool, arguments, want string }{
			{"codex", `{}`, "prompt is missing"},
			{"codex", `{"prompt":" "}`, "prompt is missing"},
			{"codex", `{"prompt":1}`, "prompt has to be a string"},
			{"codex", `{"prompt":"x","config":"y"}`, "config has to be an object"},
			{"codex", `{"prompt":"x","effort":"high"}`, "Unknown argument: effort"},
			{"codex", `{"prompt":"x","sandbox":"none"}`, "unknown variant `none`"},
			{"codex-reply", `{"prompt":"x"}`, "threadId is missing"},
			{"codex-reply", `{"prompt":"x","threadId":"thread-77"}`, "You said: x"},
		} {
			m, _ := r.answerTo(r.call(c.tool, c.arguments))
			if !strings.Contains(texts(m), c.want) {
				t.Errorf("%s %s: %s", c.tool, c.arguments, m.Raw)
			}
		}
		if m, _ := r.answerTo(r.call("grep", `{}`)); m.Kind != jsonrpc.Failure {
			t.Errorf("an unknown tool: %s", m.Raw)
		}
		if m, _ := r.answerTo(r.send("resources/list", `{}`)); m.Kind != jsonrpc.Failure {
			t.Errorf("a method that was not declared: %s", m.Raw)
		}
		if m, _ := r.answerTo(r.send("ping", `{}`)); m.Kind != jsonrpc.Result {
			t.Errorf("ping: %s", m.Raw)
		}
	})
}

// TestCancel checks that a cancellation interrupts the turn, that the call gets no answer, and
// that the thread can be continued.
func TestCancel(t *testing.T) {
	bubble(t, func(t *testing.T, profile string) {
		r := play(t, profile, codex.Options{})
		defer r.close()
		r.open("{}")
		id := r.call("codex", `{"prompt":"wait"}`)
		if m := r.next(); m.Method != "notifications/progress" {
			t.Fatalf("the message is not progress: %s", m.Raw)
		}
		busy, _ := r.answerTo(r.call("codex-reply", `{"threadId":"thread-1","prompt":"more"}`))
		if !isError(busy) || !strings.Contains(texts(busy), "already running in this thread") {
			t.Errorf("a second turn in the same thread: %s", busy.Raw)
		}
		r.write(jsonrpc.AppendNotification(nil, "notifications/cancelled", []byte(`{"requestId":`+string(id)+`}`)))
		synctest.Wait()
		next, before := r.answerTo(r.call("codex-reply", `{"threadId":"thread-1","prompt":"more"}`))
		if content(next) != "You said: more" || isError(next) {
			t.Errorf("the turn after it: %s", next.Raw)
		}
		for _, m := range before {
			if m.ID == id {
				t.Errorf("the cancelled call has an answer: %s", m.Raw)
			}
		}
	})
}

// TestCancelTakesQuestionsBack checks that the cancellation of a call also cancels the call's
// question.
func TestCancelTakesQuestionsBack(t *testing.T) {
	bubble(t, func(t *testing.T, profile string) {
		r := play(t, profile, codex.Options{})
		defer r.close()
		r.open(forms)
		id := r.call("codex", `{"prompt":"run"}`)
		q := r.question()
		r.write(jsonrpc.AppendNotification(nil, "notifications/cancelled", []byte(`{"requestId":`+string(id)+`}`)))
		for {
			m := r.next()
			if m.Method == "notifications/cancelled" {
				if got := string(m.Param("requestId").Of(m.Raw)); got != string(q.ID) {
					t.Errorf("the cancelled question is %s, not %s", got, q.ID)
				}
				break
			}
		}
		synctest.Wait()
		r.reply(q, decide("accept")) // the answer comes too late
		next, _ := r.answerTo(r.call("codex-reply", `{"threadId":"thread-1","prompt":"more"}`))
		if content(next) != "You said: more" {
			t.Errorf("the turn after it: %s", next.Raw)
		}
	})
}

// TestSilentTurnStaysAlive checks that the adapter sends keep-alives for five minutes during a turn
// without events.
func TestSilentTurnStaysAlive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := play(t, today, codex.Options{})
		defer r.close()
		r.open("{}")
		id := r.call("codex", `{"prompt":"quiet"}`)
		time.Sleep(time.Hour)
		synctest.Wait()
		signs := 0
		for len(r.in) > 0 {
			if m := r.next(); m.Method != "notifications/progress" || !m.Param("message").IsZero() {
				t.Errorf("unexpected message: %s", m.Raw)
			}
			signs++
		}
		if signs != 14 {
			t.Errorf("%d keep-alives were sent, want one each 20 s for 5 min", signs)
		}
		r.write(jsonrpc.AppendNotification(nil, "notifications/cancelled", []byte(`{"requestId":`+string(id)+`}`)))
	})
}

// TestWorkerThatStopsReading checks a worker that stops reading during a call. Stalled reports how
// long the write has been blocked, and tools/list still gets a result. The call gets its result when
// the worker reads again.
func TestWorkerThatStopsReading(t *testing.T) {
	bubble(t, func(t *testing.T, profile string) {
		r := play(t, profile, codex.Options{})
		defer r.close()
		r.open("{}")
		goOn := make(chan struct{})
		r.halt.Store(&goOn)
		id := r.call("codex", `{"prompt":"hello"}`)
		time.Sleep(5 * time.Second)
		if d, _ := r.pipe.Stalled(); d < 4*time.Second || d > 5*time.Second {
			t.Errorf("Stalled returns %v after 5 s", d)
		}
		if list, _ := r.answerTo(r.send("tools/list", "{}")); list.Kind != jsonrpc.Result {
			t.Errorf("the call while the worker does not read: %s", list.Raw)
		}
		close(goOn)
		if m, _ := r.answerTo(id); content(m) != "You said: hello" {
			t.Errorf("the call when the worker reads again: %s", m.Raw)
		}
	})
}
