package bridge

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
)

// away returns a call whose client shows no links and perhaps forms, and somebody elsewhere who answers with action, or
// with nothing if it's "".
func away(c *mcp.Call, caps, action string) (asked *[]string) {
	asked = &[]string{}
	f := *c.Client
	f.Capabilities = []byte(caps)
	c.Client = f.WithElicitation()
	c.Elsewhere = func(_ context.Context, server, item string, params jsonrpc.Value) ([]byte, error) {
		mode, _ := params.Get("mode").Text()
		*asked = append(*asked, server+" "+item+" "+mode)
		if action == "" {
			return nil, &mcp.NoAnswer{Cause: "no_answer", Why: "has waited for 10 minutes, and nobody has answered it"}
		}
		return []byte(`{"action":"` + action + `"}`), nil
	}
	return asked
}

// TestURLsAreVisitedElsewhere has a server refuse a call until pages were opened that its client can't show. Once
// somebody elsewhere has opened them, it's sent again; otherwise the client gets the error, or why nobody has answered.
func TestURLsAreVisitedElsewhere(t *testing.T) {
	const failure = `{"jsonrpc":"2.0","id":1,"error":{"code":-32042,"message":"visit","data":{"elicitations":[{"mode":"url","url":"https://a.example/x","message":"m","elicitationId":"1"},{"mode":"url","url":"https://a.example/y","message":"m","elicitationId":"2"}]}}}`
	for _, tt := range []struct {
		name, action string
		visits       int // before the server is content; -1 for never
		sent, asked  int
		want         string
	}{
		{"opened", "accept", 1, 2, 2, `{"done":true}`},
		{"opened twice", "accept", 2, 3, 4, `{"done":true}`},
		{"declined", "decline", 1, 1, 1, "-32042"},
		{"nobody answers", "", 1, 1, 1, "the question has waited for 10 minutes, and nobody has answered it"},
		{"never enough", "accept", -1, 1 + maxRounds, 2 * maxRounds, "-32042"},
	} {
		for _, era := range []string{"legacy", "modern"} {
			t.Run(tt.name+" "+era, func(t *testing.T) {
				b, u := &Bridge{}, &fake{name: "old"}
				defer b.Close()
				u.call = func(context.Context, *mcp.Attempt, mcp.Caller) (*mcp.Reply, error) {
					if tt.visits >= 0 && len(u.seen.all()) > tt.visits {
						return said(mcp.R20251125, `{"done":true}`), nil
					}
					return &mcp.Reply{Msg: message(t, failure), From: mcp.R20251125}, nil
				}
				c := legacy(t, mcp.MethodCallTool, `{"name":"t"}`)
				if era == "modern" {
					c = modern(t, mcp.MethodCallTool, `{"name":"t"}`)
				}
				asked := away(c, `{}`, tt.action)
				reply, err := relay(t.Context(), b, u, c, &ear{})
				got := fmt.Sprint(err)
				switch {
				case err == nil && reply.Code() != 0:
					got = fmt.Sprint(reply.Code())
				case err == nil:
					got = result(t, reply)
				}
				if !strings.Contains(got, tt.want) || len(u.seen.all()) != tt.sent || len(*asked) != tt.asked {
					t.Errorf("got %s after %d requests, and %q", got, len(u.seen.all()), *asked)
				}
			})
		}
	}
}

// TestARoundIsAnsweredInTwoPlaces has a modern server ask a modern client for what it can and what it can't show. It
// gets the first, its retry brings all answers to the server, and works once.
func TestARoundIsAnsweredInTwoPlaces(t *testing.T) {
	const round = `{"resultType":"input_required","inputRequests":{"a":{"method":"elicitation/create","params":{"mode":"url","url":"https://a.example/","message":"m"}},"b":{"method":"roots/list","params":{}}},"requestState":"s1"}`
	b, u := &Bridge{}, &fake{name: "new"}
	defer b.Close()
	u.hello.Revision = mcp.R20260728
	u.call = func(_ context.Context, a *mcp.Attempt, _ mcp.Caller) (*mcp.Reply, error) {
		if len(a.Retry) > 0 {
			return said(mcp.R20260728, `{"resultType":"complete"}`), nil
		}
		return said(mcp.R20260728, round), nil
	}
	c := modern(t, mcp.MethodCallTool, `{"name":"t"}`)
	asked := away(c, `{"roots":{}}`, "accept")
	reply, err := relay(t.Context(), b, u, c, &ear{})
	if err != nil || !reply.Asks || string(reply.Msg.ResultMember("inputRequests").Of(reply.Msg.Raw)) != `{"b":{"method":"roots/list","params":{}}}` || len(*asked) != 1 {
		t.Fatalf("%v, %v, %q", reply, err, *asked)
	}
	again := func() (string, error) {
		c := modern(t, mcp.MethodCallTool, fmt.Sprintf(`{"name":"t","inputResponses":{"b":{"roots":[]}},"requestState":%q}`, text(t, reply, "requestState")))
		away(c, `{"roots":{}}`, "accept")
		res, err := b.Open(u, c)
		if err == nil {
			_, err = b.Answers(u, mcp.NewAttempt(c), res)
		}
		if err != nil {
			return "", err
		}
		reply, err := b.Exchange(t.Context(), u, mcp.NewAttempt(c), res, &ear{})
		if err != nil {
			return "", err
		}
		return result(t, reply), nil
	}
	if got, err := again(); err != nil || got != `{"resultType":"complete"}` {
		t.Errorf("the retry: %s, %v", got, err)
	}
	sent := u.seen.all()
	if last := sent[len(sent)-1]; !strings.Contains(last, `"inputResponses":{"a":{"action":"accept"},"b":{"roots":[]}}`) || !strings.Contains(last, `"requestState":"s1"`) {
		t.Errorf("the server got %s", last)
	}
	if _, err := again(); !errors.Is(err, error(errSpent)) {
		t.Errorf("a second retry: %v", err)
	}
	if len(u.seen.all()) != len(sent) {
		t.Error("the server got it")
	}
}
