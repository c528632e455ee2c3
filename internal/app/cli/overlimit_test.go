package cli

import (
	"bytes"
	"context"
	"strings"
	"testing"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/app/daemon"
	"github.com/dragoman-mcp/dragoman/internal/app/runtime"
	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
)

// limited is a session with a server behind a Dragoman that refuses everything but lists.
type limited struct {
	answering
	lists *int
	err   error
}

func (l limited) List(context.Context, string) (runtime.List, error) {
	*l.lists++
	return runtime.List{Items: [][]byte{[]byte(`{"name":"echo","inputSchema":{"type":"object"}}`)}}, nil
}
func (l limited) Call(context.Context, string, []byte, func(float64, float64, string)) ([]byte, error) {
	return nil, l.err
}

// TestOverALimit checks that call says that a limit of Dragoman's has refused it, and when to try again, and that it
// doesn't use up more of the limit to find out. What a server says about limits of its own is an answer of the server.
func TestOverALimit(t *testing.T) {
	refused := mcp.Wire(&mcp.Error{Origin: mcp.FromGateway, Cause: "limit", Outcome: mcp.NotSent, Retryable: true, RetryAfter: 19873 * time.Millisecond, Message: `the key "ci" gets at most 1 call`})
	for _, tt := range []struct {
		err   error
		lists int
		says  []string
	}{
		{refused, 0, []string{"a limit of the Dragoman", `the key \"ci\" gets at most 1 call`, "try again in 19.9s"}},
		{&jsonrpc.Error{Code: -32000, Message: "slow down", Data: []byte(`{"cause":"limit","retryAfterMs":5000}`)}, 1, []string{`the server answered "slow down"`}},
	} {
		var out, said bytes.Buffer
		a := &app{world: world{stdout: &out, env: noEnv, status: newStatus(&said, false, noEnv)}}
		lists := 0
		a.backend = Backend{Connect: func(context.Context, daemon.ConnectOptions) (Session, error) {
			return limited{lists: &lists, err: tt.err}, nil
		}}
		if code := a.main([]string{"call", "--no-check", "http://127.0.0.1:1/mcp", "echo"}); code != exitFailure || lists != tt.lists {
			t.Errorf("exit code %d, %d lists: %s", code, lists, said.String())
		}
		for _, part := range tt.says {
			if !strings.Contains(said.String(), part) {
				t.Errorf("it doesn't say %s: %s", part, said.String())
			}
		}
	}
}
