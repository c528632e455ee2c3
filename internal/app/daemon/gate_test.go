//go:build unix

package daemon

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"strings"
	"sync"
	"testing"

	"github.com/dragoman-mcp/dragoman/internal/app/runtime"
	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/relay/policy"
)

// porter is a step that refuses the tool "pid", and an auditor.
type porter struct {
	mu    sync.Mutex
	heard []string // the names and outcomes of calls of tools
}

func (p *porter) Before(_ context.Context, c *policy.Call) policy.Verdict {
	if c.Name == "pid" {
		return policy.Verdict{Refuse: &jsonrpc.Error{Code: -31999, Message: "the porter says no"}}
	}
	return policy.Verdict{}
}

func (*porter) After(context.Context, *policy.Call, *policy.Answer) {}

func (*porter) Begin(context.Context, *policy.Call) error { return nil }

func (p *porter) End(_ context.Context, c *policy.Call, a *policy.Answer) {
	if c.Name != "" {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.heard = append(p.heard, c.Name+" "+string(a.Outcome))
	}
}

// TestGateAtEveryCommand checks that `serve`, `run` over HTTP and on a pipe, and the commands that
// open a session pass the gate on: an allowed call runs once, a refused one doesn't reach the server,
// and the auditor hears of both.
func TestGateAtEveryCommand(t *testing.T) {
	for _, mode := range []string{"legacy", "modern"} {
		for _, door := range []string{"serve", "run", "pipe", "session"} {
			t.Run(mode+" "+door, func(t *testing.T) {
				t.Parallel()
				p := &porter{}
				gate := runtime.Gate{Policy: policy.Chain{p}, Audit: p}
				u := child(t, "s", mode)
				var call func(tool string) string
				switch door {
				case "serve":
					r := serve(t, snapshot(u), func(o *ServeOptions) { o.Gate = gate })
					call = func(tool string) string { return r.call("/s/s/mcp", tool, "{}").body }
				case "run":
					r := launch(t, func(ctx context.Context, log *slog.Logger, ready func(string)) error {
						return Run(ctx, RunOptions{Server: u.Server, Listen: "127.0.0.1:0", Log: log, Ready: ready, Gate: gate})
					})
					call = func(tool string) string { return r.call("/mcp", tool, "{}").body }
				case "pipe":
					c := pipeTo(t, func(ctx context.Context, log *slog.Logger, in io.Reader, out io.WriteCloser) error {
						return Run(ctx, RunOptions{Server: u.Server, Log: log, Stdin: in, Stdout: out, Gate: gate})
					})
					c.initialize("{}")
					call = func(tool string) string {
						c.send(toolCall("7", tool, "{}"))
						return string(c.answerTo("7").Raw)
					}
				case "session":
					s, err := Connect(t.Context(), ConnectOptions{Server: u.Server, Gate: gate})
					if err != nil {
						t.Fatal(err)
					}
					defer s.Close()
					call = func(tool string) string {
						result, err := s.Call(t.Context(), tool, []byte("{}"), nil)
						var wire *jsonrpc.Error
						if errors.As(err, &wire) {
							return wire.Message
						}
						return string(result)
					}
				}
				if got := call("echo"); !strings.Contains(got, `"content"`) {
					t.Errorf("an allowed call: %s", got)
				}
				u.once(t, "echo")
				if got := call("pid"); !strings.Contains(got, "the porter says no") {
					t.Errorf("a forbidden call: %s", got)
				}
				if n := u.count("call pid"); n != 0 {
					t.Errorf("the server ran the forbidden call %d times", n)
				}
				p.mu.Lock()
				defer p.mu.Unlock()
				if got := strings.Join(p.heard, ", "); got != "echo ok, pid refused" {
					t.Errorf("the auditor heard %q", got)
				}
			})
		}
	}
}
