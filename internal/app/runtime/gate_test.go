package runtime

import (
	"context"
	"log/slog"
	"strings"
	"testing"

	"github.com/dragoman-mcp/dragoman/internal/base/identity"
	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
	"github.com/dragoman-mcp/dragoman/internal/relay/event"
	"github.com/dragoman-mcp/dragoman/internal/relay/policy"
)

// librarian is a step that keeps the lists of tools to itself.
type librarian struct{ asked int }

func (l *librarian) Before(_ context.Context, c *policy.Call) policy.Verdict {
	if c.Request.Msg.Method == mcp.MethodListTools {
		l.asked++
		return policy.Verdict{Refuse: &jsonrpc.Error{Code: -31999, Message: "the shelf is locked"}}
	}
	return policy.Verdict{}
}

func (*librarian) After(context.Context, *policy.Call, *policy.Answer) {}

// TestGateBeforeSessions checks the ways to a server that are no endpoints: a session of a command, the
// console's visitor, and a trial. The policy decides about each of their requests, the auditor hears of
// it, and what is refused does not reach the server. So it is for lists, which a session reads whole.
func TestGateBeforeSessions(t *testing.T) {
	h := newHouse(t)
	for _, server := range h.Default().Current().Servers {
		s, err := Connect(t.Context(), ConnectOptions{
			Server: server, Log: slog.New(slog.DiscardHandler), Events: &event.Publisher{}, Gate: h.opts.Gate,
			Answer: func(context.Context, Question) Answer { return Answer{Action: "accept", Content: []byte("{}")} },
		})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		v, err := h.Default().Visit(t.Context(), server.Name, VisitOptions{Who: identity.Local})
		if err != nil {
			t.Fatal(err)
		}
		defer v.Close()
		for door, call := range map[string]func(text string) string{
			"session": func(text string) string {
				result, err := s.Call(t.Context(), "echo", []byte(`{"text":"`+text+`"}`), nil)
				if err != nil {
					return err.Error()
				}
				return string(result)
			},
			"visitor": func(text string) string {
				m, err := v.Call(t.Context(), mcp.MethodCallTool, []byte(`{"name":"echo","arguments":{"text":"`+text+`"}}`))
				if err != nil {
					t.Fatal(err)
				}
				return string(m.Raw)
			},
		} {
			h.gate.take()
			for text, want := range map[string]string{"yes": `"yes"`, "no": "the gate is shut"} {
				before := h.executions(text)
				if got := call(text); !strings.Contains(got, want) || h.executions(text)-before != len(text)-2 {
					t.Errorf("%s of %s: %s: got %s, and the server ran %d calls", door, server.Name, text, got, h.executions(text)-before)
				}
			}
			if got := strings.Join(h.gate.take(), ", "); !strings.Contains(got, "echo yes ok") || !strings.Contains(got, "echo no refused") {
				t.Errorf("%s of %s: the auditor heard %s", door, server.Name, got)
			}
		}
		if got, _ := s.Call(t.Context(), "echo", []byte(`{"text":"ask"}`), nil); !strings.Contains(string(got), `"ask"`) {
			t.Errorf("%s: after the question: %s", server.Name, got)
		}
		before := h.gate.began
		if list, err := s.List(t.Context(), "tools"); err != nil || len(list.Items) == 0 {
			t.Errorf("%s: %v, %d tools", server.Name, err, len(list.Items))
		}
		if r := h.Default().Try(t.Context(), server); r.Failure != nil || r.Counts[mcp.MethodListTools] == 0 {
			t.Errorf("%s: the trial: %v, %v", server.Name, r.Failure, r.Counts)
		}
		if n := h.gate.began - before; n < 2 || h.gate.began != h.gate.ended {
			t.Errorf("%s: the auditor heard of %d lists, and of %d beginnings and %d ends", server.Name, n, h.gate.began, h.gate.ended)
		}

		shelf := &librarian{}
		locked := Gate{Policy: policy.Chain{shelf}}
		l, err := Connect(t.Context(), ConnectOptions{Server: server, Log: slog.New(slog.DiscardHandler), Events: &event.Publisher{}, Gate: locked})
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		if list, err := l.List(t.Context(), "tools"); err == nil || !strings.Contains(err.Error(), "the shelf is locked") || len(list.Items) != 0 {
			t.Errorf("%s: a locked list: %v, %d tools", server.Name, err, len(list.Items))
		}
		strict := &Project{runtime: &Runtime{opts: Options{Gate: locked}}}
		if r := strict.Try(t.Context(), server); r.Failure == nil || len(r.Counts) != 0 || shelf.asked != 2 {
			t.Errorf("%s: a locked trial: %v, %v", server.Name, r.Failure, r.Counts)
		}
	}
}
