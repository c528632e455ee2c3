//go:build unix

package daemon

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/app/runtime"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
)

// TestSessionCancels checks that the server gets a cancellation when the context of Session.Call
// ends, in both eras.
func TestSessionCancels(t *testing.T) {
	for _, mode := range []string{"legacy", "modern"} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			u := child(t, "s", mode)
			s, err := Connect(t.Context(), ConnectOptions{Server: u.Server})
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			// The tool "work" sends progress and then waits until it is cancelled.
			_, err = s.Call(ctx, "work", []byte(`{}`), func(float64, float64, string) { cancel() })
			if !errors.Is(err, context.Canceled) {
				t.Errorf("the call ended with %v", err)
			}
			for deadline := time.Now().Add(30 * time.Second); u.count("cancelled") == 0; time.Sleep(10 * time.Millisecond) {
				if time.Now().After(deadline) {
					t.Fatal("the server gets no cancellation of the call")
				}
			}
		})
	}
}

// TestSessionIsAsked checks how a Session answers server requests: elicitation with Answer, roots
// with Roots, and sampling with an error that it reports to Refused.
func TestSessionIsAsked(t *testing.T) {
	t.Parallel()
	u := child(t, "s", "legacy")
	asked := make(chan runtime.Question, 10)
	refused := make(chan string, 10)
	s, err := Connect(t.Context(), ConnectOptions{
		Server: u.Server, Roots: []string{"file:///srv/a%20b"}, Pages: true,
		Answer: func(_ context.Context, q runtime.Question) runtime.Answer {
			asked <- q
			return runtime.Answer{Action: "accept", Content: []byte(`{"a":1}`)}
		},
		Refused: func(method string) { refused <- method },
	})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	call := func(args, want string) {
		t.Helper()
		result, err := s.Call(t.Context(), "ask for", []byte(args), nil)
		if err != nil || !strings.Contains(string(result), want) {
			t.Errorf("%s: %s, %v, want %s", args, result, err, want)
		}
	}
	call(`{"method":"elicitation/create","params":{"message":"hi","requestedSchema":{"type":"object"}}}`, `\"content\":{\"a\":1}`)
	call(`{"method":"elicitation/create","params":{"mode":"url","message":"go","url":"https://example.com/x","elicitationId":"1"}}`, `\"action\":\"accept\"`)
	call(`{"method":"roots/list"}`, `file:///srv/a%20b`)
	call(`{"method":"sampling/createMessage","params":{"messages":[],"maxTokens":1}}`, `error`)
	close(asked)
	var got []string
	for q := range asked {
		got = append(got, q.Message+" "+string(q.Schema)+" "+q.URL)
	}
	if want := []string{`hi {"type":"object"} `, `go  https://example.com/x`}; !slices.Equal(got, want) {
		t.Errorf("the requests are %q, want %q", got, want)
	}
	select {
	case method := <-refused:
		if method != mcp.MethodSample {
			t.Errorf("refused %s", method)
		}
	default:
		t.Error("the command is not told that sampling was refused")
	}
	d, err := s.Describe(t.Context())
	if err != nil || d.Transport != "stdio" || d.Revision != mcp.LatestLegacy || !strings.Contains(string(d.Info), `"name"`) {
		t.Errorf("%+v, %v", d, err)
	}
}
