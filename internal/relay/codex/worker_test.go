package codex

import (
	"context"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/transport/inmem"
	"github.com/dragoman-mcp/dragoman/internal/transport/stdio"
)

// TestBadAnswerOfAWorker checks that an answer that is not JSON, or too large, fails its own
// request at once. Another pending request still gets its answer.
func TestBadAnswerOfAWorker(t *testing.T) {
	for name, bad := range map[string]string{
		"NaN":          `{"id":1,"result":{"x":NaN}}`,
		"too large":    `{"id":1,"result":{"x":"` + strings.Repeat("x", 5000) + `"}}`,
		"its id later": `{"result":{"x":"` + strings.Repeat("x", 5000) + `"},"id":1}`,
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				in, says := io.Pipe()
				w := newWorker(stdio.NewPipe(in, discard{}, stdio.Options{Limits: jsonrpc.Limits{Bytes: 1000, Tolerant: true}}))
				w.receive, w.event = func(*jsonrpc.Message) {}, func(string) {}
				var wg sync.WaitGroup
				wg.Go(func() { _ = w.read() })
				outcome := make([]error, 2)
				for i := range outcome {
					wg.Go(func() { _, outcome[i] = w.call(context.Background(), "x", nil, nil) })
					synctest.Wait()
				}
				_, _ = io.WriteString(says, bad+"\n")
				synctest.Wait()
				if outcome[0] == nil || !strings.Contains(outcome[0].Error(), "the answer of Codex is not valid") {
					t.Errorf("the call with the bad answer: %v", outcome[0])
				}
				_, _ = io.WriteString(says, `{"id":2,"result":{}}`+"\n")
				_ = says.Close()
				wg.Wait()
				if outcome[1] != nil {
					t.Errorf("the other call: %v", outcome[1])
				}
			})
		})
	}
}

// TestTooLargeATurn checks that a call gets an error if Codex's text is too large for the pipe
// to the client. A result contains the text twice.
func TestTooLargeATurn(t *testing.T) {
	client, side := inmem.PipeOf(16 << 20)
	b := &bridge{side: side}
	m, err := jsonrpc.Scan([]byte(`{"jsonrpc":"2.0","id":7,"method":"tools/call"}`), jsonrpc.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	b.answer(m, fmt.Appendf(nil, `{"x":"%s"}`, strings.Repeat("x", 17<<20)))
	if got, err := client.Read(); err != nil || got.Kind != jsonrpc.Failure || got.ID != "7" {
		t.Errorf("the result is %v, %v", got, err)
	}
}

type discard struct{}

func (discard) Write(b []byte) (int, error) { return len(b), nil }
func (discard) Close() error                { return nil }
