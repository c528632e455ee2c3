package codex_test

import (
	"strings"
	"testing"
	"testing/synctest"

	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/relay/codex"
)

// TestApprovals checks that a worker's approval requests reach the client, and that the client's
// decisions reach the worker in the form that the worker expects.
func TestApprovals(t *testing.T) {
	declined := "The client declined."
	for _, c := range []struct {
		profile, prompt, answer, want string
	}{
		{today, "run", decide("accept"), "the command got accept"},
		{today, "run", decide("accept always"), `the command got {"acceptWithExecpolicyAmendment":{"execpolicy_amendment":["touch"]}}`},
		{today, "run", decide("accept for session"), "the command got decline"}, // the form does not offer this decision
		{today, "run", decide("decline"), "the command got decline"},
		{today, "run", decide("what"), "the command got decline"},
		{today, "run", `{"action":"decline"}`, "the command got decline"},
		{today, "run", `{"action":"accept"}`, "the command got decline"},
		{today, "run", `{"action":"accept","content":{}}`, "the command got decline"},
		{today, "run", `{}`, "the command got decline"},
		{today, "run", decide("cancel"), "The turn was interrupted"},
		{today, "run", `{"action":"cancel"}`, "The turn was interrupted"},
		{today, "patch", decide("accept"), "the patch got accept"},
		{today, "patch", decide("accept for session"), "the patch got acceptForSession"},
		{today, "patch", decide("decline"), "the patch got decline"},
		{today, "child", decide("accept"), "the command got accept"},
		{today, "ask", `{"action":"accept","content":{"colour":"red"}}`, `the answers are {"colour":{"answers":["red"]}}`},
		{today, "ask", `{"action":"decline"}`, `the answers are {}`},
		{today, "grow", decide("accept"), `granted {"permissions":{"network":{"enabled":true}},"scope":"turn"}`},
		{today, "grow", decide("accept for session"), `granted {"permissions":{"network":{"enabled":true}},"scope":"session"}`},
		{today, "grow", decide("decline"), `granted {"permissions":{},"scope":"turn"}`},
		{old, "run", decide("accept"), "the command got approved"},
		{old, "run", decide("accept for session"), "the command got approved_for_session"},
		{old, "run", decide("decline"), "the command got denied"},
		{old, "run", `{"action":"cancel"}`, "The turn was interrupted"},
		{old, "patch", decide("accept"), "the patch got approved"},
		{old, "patch", decide("decline"), "the patch got denied"},
	} {
		t.Run(c.profile+"/"+c.prompt+"/"+c.answer, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := play(t, c.profile, codex.Options{})
				defer r.close()
				r.open(forms)
				id := r.call("codex", `{"prompt":"`+c.prompt+`"}`)
				q := r.question()
				if q.Method != "elicitation/create" {
					t.Fatalf("the request has the method %s", q.Raw)
				}
				r.reply(q, c.answer)
				m, _ := r.answerTo(id)
				if !strings.Contains(texts(m), c.want) {
					t.Errorf("the result is %s", m.Raw)
				}
				accepted := strings.Contains(c.answer, "accept") && !strings.Contains(c.want, "decline") && !strings.Contains(c.want, "denied") && !strings.Contains(c.want, `"permissions":{}`)
				if !strings.Contains(c.want, "interrupted") && accepted == strings.Contains(texts(m), declined) {
					t.Errorf("the note about a denial is wrong: %s", texts(m))
				}
			})
		})
	}
}

// TestQuestionsShowWhatIsAsked checks that a question shows the command or the patch.
func TestQuestionsShowWhatIsAsked(t *testing.T) {
	bubble(t, func(t *testing.T, profile string) {
		r := play(t, profile, codex.Options{})
		defer r.close()
		r.open(forms)
		for prompt, want := range map[string]string{
			"run rm -r x": "Codex asks to run a command in /work:",
			"patch":       "add /work/hello.txt\nhello",
		} {
			id := r.call("codex", `{"prompt":"`+prompt+`"}`)
			q := r.question()
			text, _ := jsonrpc.Text(q.Raw, q.Param("message"))
			if !strings.Contains(text, want) || prompt != "patch" && !(strings.Contains(text, "rm -r x") && strings.Contains(text, "need it")) {
				t.Errorf("the question for %q is %s", prompt, text)
			}
			schema := string(q.Param("requestedSchema").Of(q.Raw))
			if !strings.Contains(schema, `"enum":["accept"`) || !strings.Contains(schema, `"required":["decision"]`) {
				t.Errorf("the form is %s", schema)
			}
			r.reply(q, decide("decline"))
			r.answerTo(id)
		}
	})
}

// TestNobodyToAsk checks that a request is denied if the client cannot or does not want to be asked.
// The result must contain a note about the denial.
func TestNobodyToAsk(t *testing.T) {
	bubble(t, func(t *testing.T, profile string) {
		for _, capabilities := range []string{`{}`, `{"elicitation":{"url":{}}}`, forms} {
			r := play(t, profile, codex.Options{})
			r.open(capabilities)
			id := r.call("codex", `{"prompt":"run"}`)
			if capabilities == forms {
				q := r.question()
				r.write(jsonrpc.AppendError(nil, q.ID, &jsonrpc.Error{Code: -32601, Message: "not here"}))
			}
			m, _ := r.answerTo(id)
			denied := "the command got decline"
			if profile == old {
				denied = "the command got denied"
			}
			if !strings.Contains(texts(m), denied) || !strings.Contains(texts(m), "Dragoman declined") || isError(m) {
				t.Errorf("with %s: %s", capabilities, m.Raw)
			}
			if content(m) != denied {
				t.Errorf("the note is part of the content: %q", content(m))
			}
			r.close()
		}
	})
}

// TestQuestionsNameTheirCall runs two turns at once. Each question has the token of its own
// call, and each answer reaches the right question.
func TestQuestionsNameTheirCall(t *testing.T) {
	bubble(t, func(t *testing.T, profile string) {
		r := play(t, profile, codex.Options{})
		defer r.close()
		r.open(forms)
		calls := map[string]string{}
		for _, command := range []string{"first", "second"} {
			calls[string(r.call("codex", `{"prompt":"run `+command+`"}`))] = command
		}
		for _, q := range []*jsonrpc.Message{r.question(), r.question()} {
			token := string(jsonrpc.Find(q.Raw, q.Param("_meta"), "progressToken").Of(q.Raw))
			text, _ := jsonrpc.Text(q.Raw, q.Param("message"))
			command := calls[token]
			if command == "" || !strings.Contains(text, command) {
				t.Errorf("the question has the token %s (%q): %s", token, command, text)
			}
			decision := "accept"
			if command == "second" {
				decision = "decline"
			}
			r.reply(q, decide(decision))
		}
		word := map[string]string{"first": "accept", "second": "decline"}
		if profile == old {
			word = map[string]string{"first": "approved", "second": "denied"}
		}
		for range 2 {
			m := r.next()
			for m.Kind != jsonrpc.Result {
				m = r.next()
			}
			if want := "the command got " + word[calls[string(m.ID)]]; content(m) != want {
				t.Errorf("%s: %q, want %q", calls[string(m.ID)], content(m), want)
			}
		}
	})
}
