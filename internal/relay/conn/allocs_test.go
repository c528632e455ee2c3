package conn

import (
	"context"
	"sync"
	"testing"

	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
	"github.com/dragoman-mcp/dragoman/internal/relay/handshake"
	"github.com/dragoman-mcp/dragoman/internal/testkit/pipetest"
	"github.com/dragoman-mcp/dragoman/internal/transport/inmem"
)

// maxAllocs is the limit on the allocations for one relayed call. The limit includes the allocations
// of the pipe and of the server, which run in the same process. The measured number was 25.
const maxAllocs = 32

func TestAllocationsOfACall(t *testing.T) {
	near, far := inmem.Pipe()
	var all sync.WaitGroup
	defer all.Wait()
	defer func() { _ = far.Close() }()
	all.Go(func() {
		for {
			m, err := far.Read()
			switch {
			case err != nil:
				return
			case m.Kind != jsonrpc.Request:
			case m.Method == mcp.MethodInitialize:
				_ = far.Write(jsonrpc.AppendResult(nil, m.ID, []byte(`{"protocolVersion":"2025-11-25","capabilities":{},"serverInfo":{"name":"s","version":"1"}}`)))
			default:
				_ = far.Write(jsonrpc.AppendResult(nil, m.ID, []byte(`{"content":[]}`)))
			}
		}
	})
	c, err := OpenPipe(t.Context(), near, handshake.Offer{Pin: mcp.R20251125}, Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close(nil) }()
	m := pipetest.Scan(t, toolCall)
	caller := &running{}
	got := testing.AllocsPerRun(500, func() {
		if _, err := c.Call(context.Background(), mcp.NewAttempt(mcp.NewCall(m, m.Param(mcp.KeyMeta), anna)), caller); err != nil {
			t.Error(err)
		}
	})
	t.Logf("a call makes %v allocations", got)
	if got > maxAllocs {
		t.Errorf("a call makes %v allocations, want at most %d", got, maxAllocs)
	}
}
