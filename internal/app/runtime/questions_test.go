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

// mixed is used by tests that follow.
var _ = jsonrpc.Whole
