package codex_test

import (
	"bufio"
	"io"
	"sync"
	"testing"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/relay/codex"
	"github.com/dragoman-mcp/dragoman/internal/transport/stdio"
)

// FuzzWorker lets a worker send arbitrary data after a valid handshake. The client must get
// only MCP messages, and it must be possible to close the pipe.
func FuzzWorker(f *testing.F) {
	for _, seed := range []string{
		`{"method":"item/agentMessage/delta","params":{"threadId":"t","turnId":"u","delta":"x"}}`,
		`{"method":"turn/completed","params":{"threadId":"t","turn":{"id":"u","status":"completed","items":[{"type":"agentMessage","text":"x"}]}}}`,
		`{"method":"item/commandExecution/requestApproval","id":0,"params":{"threadId":"t","turnId":"u","command":"x","availableDecisions":["accept",{"acceptWithExecpolicyAmendment":{}}]}}`,
		`{"method":"item/fileChange/requestApproval","id":"a","params":{"threadId":"t","itemId":"i"}}`,
		`{"method":"applyPatchApproval","id":1,"params":{"conversationId":"t","fileChanges":{"a":{"type":"update","unified_diff":"-"}}}}`,
		`{"method":"item/tool/requestUserInput","id":2,"params":{"threadId":"t","questions":[{"id":"q","question":"?","options":[{"label":"l"}]}]}}`,
		`{"method":"mcpServer/elicitation/request","id":3,"params":{"threadId":"t","mode":"form","message":"m","requestedSchema":{}}}`,
		`{"method":"item/permissions/requestApproval","id":4,"params":{"threadId":"t","permissions":[]}}`,
		`{"method":"codex/event/error","params":{"conversationId":"t","id":"u","msg":{"type":"error","message":null}}}`,
		`{"method":"thread/started","params":{"thread":{"id":"c","parentThreadId":"t"}}}`,
		`{"method":"serverRequest/resolved","params":{"requestId":0}}`,
		`{"event":"ready"}`, `{"id":99,"result":{}}`, `{"id":null,"error":{}}`, `[]`, `nonsense`,
	} {
		f.Add(seed)
		f.Add(seed + "\n" + seed)
	}
	f.Fuzz(func(t *testing.T, said string) {
		theirIn, ourOut := io.Pipe()
		ourIn, theirOut := io.Pipe()
		var worker sync.WaitGroup
		worker.Go(func() {
			answers := map[string]string{"initialize": `{"userAgent":"x"}`, "thread/start": `{"thread":{"id":"t"}}`, "turn/start": `{"turn":{"id":"u"}}`}
			lines := bufio.NewScanner(theirIn)
			for lines.Scan() {
				m, err := jsonrpc.Scan(lines.Bytes(), jsonrpc.Limits{})
				if err != nil {
					t.Errorf("the worker gets %s: %v", lines.Bytes(), err)
				} else if m.Kind == jsonrpc.Request {
					_, _ = theirOut.Write(append(jsonrpc.AppendResult(nil, m.ID, []byte(answers[m.Method])), '\n'))
					if m.Method == "turn/start" {
						_, _ = io.WriteString(theirOut, said+"\n")
						_ = theirOut.Close()
					}
				}
			}
		})
		p := codex.New(codex.Options{}).Adapt(stdio.NewPipe(ourIn, ourOut, stdio.Options{Limits: jsonrpc.Limits{Bytes: 1 << 20, Tolerant: true}}))
		send := func(line string) {
			if err := p.Write([]byte(line)); err != nil {
				t.Fatal(err)
			}
		}
		send(`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"capabilities":{"elicitation":{}}}}`)
		if m, err := p.Read(); err != nil || m.Kind != jsonrpc.Result {
			t.Fatalf("initialize: %v", err)
		}
		send(`{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"codex","arguments":{"prompt":"x"}}}`)
		for {
			m, err := p.Read()
			if err != nil {
				break
			}
			if _, err := jsonrpc.Scan(m.Raw, jsonrpc.Limits{}); err != nil {
				t.Errorf("the client gets %s: %v", m.Raw, err)
			}
		}
		closed := time.AfterFunc(time.Minute, func() { panic("the pipe does not close") })
		if err := p.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
		closed.Stop()
		worker.Wait()
	})
}
