package runtime

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/base/identity"
	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
	"github.com/dragoman-mcp/dragoman/internal/relay/event"
	"github.com/dragoman-mcp/dragoman/internal/relay/questions"
	"github.com/dragoman-mcp/dragoman/internal/workbench/fake"
)

const inboxRules = `dragoman: {questions: console, policy: [{match: ["*/echo"], do: confirm}]}` + "\n"

// answerer answers each question in a box until stop is called, which returns what was asked.
func answerer(box *questions.Box, action string) (stop func() []questions.Question) {
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	var all []questions.Question
	running.Go(func() {
		for ctx.Err() == nil {
			for _, q := range box.All() {
				params := fmt.Sprintf(`{"message":"","requestedSchema":%s}`, q.Schema)
				if q.Schema == nil {
					params = fmt.Sprintf(`{"message":"","mode":"url","url":%q}`, q.URL)
				}
				result, _ := fake.Obliging(fake.Ask{Method: mcp.MethodElicit, Params: []byte(params)})
				if q.Rule || action != "accept" {
					result = []byte(`{"action":"` + action + `"}`)
				}
				if box.Answer(q.ID, questions.Answer{Action: action, By: identity.Named("eve"), Result: result}) {
					all = append(all, q)
				}
			}
			time.Sleep(time.Millisecond)
		}
	})
	return func() []questions.Question {
		cancel()
		running.Wait()
		return all
	}
}

// TestQuestionsAtEveryDoor lets people elsewhere answer the questions that a client can't show: it has declared no
// elicitation at all, or only forms. The clients have every revision, over HTTP and on a pipe, at the endpoint of all
// servers and at those of one server of each era. What a client can show, it gets itself.
func TestQuestionsAtEveryDoor(t *testing.T) {
	h := newRuledHouse(t)
	h.Apply(event.DefaultProject, snapshotOf(t, inboxRules+h.text))
	for _, revision := range mcp.Revisions() {
		for _, without := range []string{"elicitation", "url"} {
			for _, door := range []struct{ path, server, prefix string }{{"", "old", "old__"}, {"", "new", "new__"}, {"/s/old", "old", ""}, {"/s/new", "new", ""}} {
				for _, pipe := range []bool{false, true} {
					t.Run(fmt.Sprintf("%s without %s %s at %q pipe %t", revision, without, door.server, door.path, pipe), func(t *testing.T) {
						h.askElsewhere(t, revision, without, door.path, door.server, door.prefix, pipe)
					})
				}
			}
		}
	}
}

func (h *ruledHouse) askElsewhere(t *testing.T, revision mcp.Revision, without, path, server, prefix string, pipe bool) {
	at := fake.Where{URL: h.sites["ann"].base + path + "/mcp"}
	switch {
	case pipe && path == "":
		at = pipeTo(t, h.Default().Joined())
	case pipe:
		at = pipeTo(t, h.Default().mount(server).clients)
	case !revision.Can(mcp.StreamableHTTP):
		at.URL = h.sites["ann"].base + path + "/sse"
	}
	c, err := fake.OpenClient(t.Context(), "strict-"+revision.String(), at, fake.ClientOptions{Without: []string{without, "tasks"}})
	if err != nil {
		t.Fatal(err)
	}
	forms := revision.Can(mcp.Elicitation) && without == "url" // the client shows them
	for _, x := range []struct {
		tool, args, result string
		kind               string // of the question
		own                bool   // the client shows it
	}{
		{"elicit", `{}`, "accept Ada 36", "form", forms},
		{"elicit_rich", `{}`, `accept color=\"#f00\" sizes=[\"s\"] tags=[\"wet\",\"dry\"] name=\"Ada\" age=36 gloss=true`, "form", forms},
		{"elicit_url", `{}`, `"accept"`, "link", false},
		{"ask_all", `{}`, "sampled: Say something.; accept Ada 36; " + fake.ObligingRoot, "form", forms},
		{"echo", `{"text":"x\u202ey"}`, `x\u202ey`, "confirmation", forms},
	} {
		stop := answerer(h.Default().Questions(), "accept")
		before := len(c.Asks())
		got := said(t, c, mcp.MethodCallTool, fmt.Sprintf(`"name":%q,"arguments":%s`, prefix+x.tool, x.args))
		asked := stop()
		if !strings.Contains(got, x.result) || strings.Contains(got, "isError") {
			t.Errorf("%s: got %s", x.tool, got)
		}
		own := 0
		for _, a := range c.Asks()[before:] {
			if a.Method == mcp.MethodElicit {
				own++
			}
		}
		switch {
		case x.own && (own != 1 || len(asked) != 0), !x.own && (own != 0 || len(asked) != 1):
			t.Errorf("%s: the client was asked %d times, and somebody elsewhere %d times", x.tool, own, len(asked))
		case !x.own:
			q := asked[0]
			q.Schema = nil
			if q.Server != server || q.Item != x.tool || q.Kind() != x.kind || q.Client != "fake-client" || q.Message == "" || (q.URL == "") == (x.kind == "link") {
				t.Errorf("%s: the question was %+v", x.tool, q)
			}
		}
	}
	if err := c.Close(); err != nil {
		t.Error(err)
	}
	if bad := c.Violations(); len(bad) > 0 {
		t.Errorf("the client saw violations: %q", bad)
	}
}

// TestQuestionsEnd lets a client of every revision hang up, or cancel its call, while a question waits: it's gone then,
// a late answer doesn't count, and an innocent client's question is still there and goes on with its answer.
func TestQuestionsEnd(t *testing.T) {
	h := newRuledHouse(t)
	h.Apply(event.DefaultProject, snapshotOf(t, inboxRules+h.text))
	box := h.Default().Questions()
	waits := func(t *testing.T, n int) []questions.Question {
		t.Helper()
		for deadline := time.Now().Add(20 * time.Second); ; time.Sleep(time.Millisecond) {
			switch all := box.All(); {
			case len(all) == n:
				return all
			case time.Now().After(deadline):
				t.Fatalf("%d questions wait, want %d", len(all), n)
			}
		}
	}
	for _, revision := range mcp.Revisions() {
		for _, tool := range []string{"old__elicit", "new__elicit", "old__echo"} {
			for _, how := range []string{"cancel", "close"} {
				t.Run(fmt.Sprintf("%s %s %s", revision, tool, how), func(t *testing.T) {
					open := func(who string) *fake.Client {
						leaf := "/mcp"
						if !revision.Can(mcp.StreamableHTTP) {
							leaf = "/sse"
						}
						c, err := fake.OpenClient(t.Context(), "strict-"+revision.String(), fake.Where{URL: h.sites[who].base + leaf}, fake.ClientOptions{Without: []string{"elicitation", "tasks"}})
						if err != nil {
							t.Fatal(err)
						}
						return c
					}
					c, innocent := open("ann"), open("bob")
					var running sync.WaitGroup
					defer running.Wait()
					result := make(chan string, 1)
					running.Go(func() { result <- said(t, innocent, mcp.MethodCallTool, `"name":"old__elicit","arguments":{}`) })
					first := waits(t, 1)[0]
					ctx, cancel := context.WithCancel(t.Context())
					defer cancel()
					running.Go(func() {
						_, _ = c.Call(ctx, mcp.MethodCallTool, []byte(fmt.Sprintf(`{"name":%q,"arguments":{"text":"x"}}`, tool)), fake.CallOptions{})
					})
					gone := waits(t, 2)[1]
					if how == "cancel" {
						cancel()
					} else if err := c.Close(); err != nil {
						t.Error(err)
					}
					waits(t, 1)
					if box.Answer(gone.ID, questions.Answer{Action: "accept", By: identity.Local, Result: []byte(`{"action":"accept"}`)}) {
						t.Error("a late answer counts")
					}
					if !box.Answer(first.ID, questions.Answer{Action: "accept", By: identity.Local, Result: []byte(`{"action":"accept","content":{"name":"Bob","age":7}}`)}) {
						t.Error("the innocent question is gone")
					}
					if got := <-result; !strings.Contains(got, "accept Bob 7") {
						t.Errorf("the innocent client got %s", got)
					}
					cancel()
					for _, x := range []*fake.Client{c, innocent} {
						_ = x.Close()
						if bad := x.Violations(); len(bad) > 0 && (x == innocent || how == "cancel") { // who closes forgets its request
							t.Errorf("a client saw violations: %q", bad)
						}
					}
				})
			}
		}
	}
}

// TestQuestionsWhileTheyWait checks that a client hears progress while its call waits, whose values increase also when
// the server's own follow, that the setting holds at once in a session that was there before, and that a project that
// ends says so to whoever waits.
func TestQuestionsWhileTheyWait(t *testing.T) {
	h := newRuledHouse(t)
	rules := `dragoman: {questions: console, policy: [{match: ["*/wait"], do: confirm}]}` + "\n"
	for _, revision := range mcp.Revisions() {
		t.Run(revision.String(), func(t *testing.T) {
			h.Apply(event.DefaultProject, snapshotOf(t, strings.Replace(rules, "console", "off", 1)+h.text))
			leaf := "/mcp"
			if !revision.Can(mcp.StreamableHTTP) {
				leaf = "/sse"
			}
			c, err := fake.OpenClient(t.Context(), "strict-"+revision.String(), fake.Where{URL: h.sites["ann"].base + leaf}, fake.ClientOptions{Without: []string{"elicitation", "tasks"}})
			if err != nil {
				t.Fatal(err)
			}
			if got := said(t, c, mcp.MethodCallTool, `"name":"old__wait","arguments":{"steps":3,"ms":1}`); !strings.Contains(got, "this client can't ask one") {
				t.Errorf("off: %s", got)
			}
			h.Apply(event.DefaultProject, snapshotOf(t, rules+h.text))
			stop := answerer(h.Default().Questions(), "accept")
			r, err := c.Call(t.Context(), mcp.MethodCallTool, []byte(`{"name":"old__wait","arguments":{"steps":3,"ms":1}}`), fake.CallOptions{Progress: true})
			if asked := stop(); err != nil || r.Err != nil || len(asked) != 1 {
				t.Fatalf("on: %v %v, and %d questions", err, r, len(asked))
			}
			if len(r.Progress) != 4 || !strings.Contains(string(r.Progress[0].Params), `"progress":0.0009765625`) || strings.Contains(string(r.Progress[0].Params), "waiting for a person who confirms the call") != revision.Can(mcp.ProgressMessages) {
				t.Errorf("progress: %+v", r.Progress)
			}
			stop = answerer(h.Default().Questions(), "decline")
			got := said(t, c, mcp.MethodCallTool, `"name":"old__wait","arguments":{"steps":3,"ms":1}`)
			if stop(); !strings.Contains(got, "the person who was asked did not agree") {
				t.Errorf("declined: %s", got)
			}
			_ = c.Close()
			if bad := c.Violations(); len(bad) > 0 {
				t.Errorf("the client saw violations: %q", bad)
			}
		})
	}
	c := h.client(t, "ann", mcp.R20250326, "", func() {})
	var running sync.WaitGroup
	defer running.Wait()
	running.Go(func() {
		if got := said(t, c, mcp.MethodCallTool, `"name":"old__wait","arguments":{"steps":3,"ms":1}`); !strings.Contains(got, "the call was not sent: a person has to confirm it first, and the question has no answer, because Dragoman is stopping") {
			t.Errorf("at the end: %s", got)
		}
	})
	for h.Default().Questions().Waiting() == 0 {
		time.Sleep(time.Millisecond)
	}
	h.Drain()
}

// TestConfirmedWhileDenied denies a tool while the question about a call of it waits, at the client or in the inbox,
// before the person accepts: the call isn't sent. Another tool that somebody has denied meanwhile changes nothing.
func TestConfirmedWhileDenied(t *testing.T) {
	h := newRuledHouse(t)
	box := h.Default().Questions()
	rule := func(do string) {
		h.Apply(event.DefaultProject, snapshotOf(t, strings.Replace(inboxRules, "{match: [\"*/echo\"], do: confirm}", do, 1)+h.text))
	}
	for _, revision := range mcp.Revisions() {
		for _, own := range []bool{false, true} {
			for do, sent := range map[string]bool{
				`{match: ["*/echo"], do: deny}`:                                   false,
				`{match: ["*/wait"], do: deny}, {match: ["*/echo"], do: confirm}`: true,
				`{match: ["*/wait"], do: deny}`:                                   true,
			} {
				if own && !revision.Can(mcp.Elicitation) {
					continue
				}
				t.Run(fmt.Sprintf("%s own %t %s", revision, own, do), func(t *testing.T) {
					rule(`{match: ["*/echo"], do: confirm}`)
					leaf, o := "/mcp", fake.ClientOptions{Without: []string{"tasks"}, Answer: func(_ context.Context, a fake.Ask) ([]byte, *jsonrpc.Error) {
						rule(do)
						return []byte(`{"action":"accept"}`), nil
					}}
					if !revision.Can(mcp.StreamableHTTP) {
						leaf = "/sse"
					}
					if !own {
						o.Without = append(o.Without, "elicitation")
					}
					c, err := fake.OpenClient(t.Context(), "strict-"+revision.String(), fake.Where{URL: h.sites["ann"].base + leaf}, o)
					if err != nil {
						t.Fatal(err)
					}
					defer func() { _ = c.Close() }()
					var running sync.WaitGroup
					defer running.Wait()
					if !own {
						running.Go(func() {
							for box.Waiting() == 0 && t.Context().Err() == nil {
								time.Sleep(time.Millisecond)
							}
							rule(do)
							for _, q := range box.All() {
								box.Answer(q.ID, questions.Answer{Action: "accept", By: identity.Named("eve"), Result: []byte(`{"action":"accept"}`)})
							}
						})
					}
					r, err := c.Call(t.Context(), mcp.MethodCallTool, []byte(`{"name":"old__echo","arguments":{"text":"x"}}`), fake.CallOptions{})
					switch {
					case err != nil:
						t.Error(err)
					case sent && r.Err != nil:
						t.Errorf("refused: %v", r.Err)
					case !sent && r.Err == nil:
						t.Errorf("it was sent: %s", r.Result)
					case !sent && !strings.Contains(string(r.Err.Data), `"outcome":"not_sent"`) && r.Err.Code != jsonrpc.CodeInvalidParams:
						t.Errorf("refused with %v %s", r.Err, r.Err.Data)
					}
				})
			}
		}
	}
}
