package upstream

import (
	"context"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
	"github.com/dragoman-mcp/dragoman/internal/transport"
	"github.com/dragoman-mcp/dragoman/internal/transport/inmem"
)

// TestSilenceIsWaitedForOnce checks a server that never answers the probe. The wait for the answer
// delays only the first connection to this server.
func TestSilenceIsWaitedForOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		var seen [][]string // methods that the server got, by session
		var far []transport.Pipe
		var serving sync.WaitGroup
		u := New(Spec{Name: "s", Pipe: func(context.Context) (transport.Pipe, error) {
			client, server := inmem.Pipe()
			mu.Lock()
			n := len(seen)
			seen, far = append(seen, nil), append(far, server)
			mu.Unlock()
			serving.Go(func() {
				for {
					m, err := server.Read()
					if err != nil {
						return
					}
					mu.Lock()
					seen[n] = append(seen[n], m.Method)
					mu.Unlock()
					if m.Method == mcp.MethodInitialize {
						_ = server.Write(jsonrpc.AppendResult(nil, m.ID, []byte(`{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"s","version":"1"}}`)))
					}
				}
			})
			return client, nil
		}}, Options{})
		modern := &mcp.ClientInfo{Revision: mcp.Latest, Capabilities: []byte("{}")}
		for session, want := range []time.Duration{3 * time.Second, 0} {
			begun := time.Now()
			if _, err := u.Hello(t.Context(), modern); err != nil {
				t.Fatal(err)
			}
			if took := time.Since(begun); took != want {
				t.Errorf("session %d took %v to open, want %v", session, took, want)
			}
			mu.Lock()
			_ = far[session].Close()
			mu.Unlock()
			synctest.Wait()
		}
		u.Close(context.Background())
		serving.Wait()
		if !slices.Equal(seen[0][:2], []string{mcp.MethodDiscover, mcp.MethodInitialize}) || seen[1][0] != mcp.MethodInitialize {
			t.Errorf("the server got %q", seen)
		}
	})
}
