package gateway

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
	"github.com/dragoman-mcp/dragoman/internal/relay/bridge"
	"github.com/dragoman-mcp/dragoman/internal/relay/catalog"
)

// askOnce answers a call for a fake server. Before the answer, it sends one server request to the
// client.
func askOnce(ctx context.Context, _ *mcp.Attempt, k mcp.Caller) (*mcp.Reply, error) {
	if _, err := k.Ask(ctx, jsonrpc.NewRequest("1", mcp.MethodElicit, []byte(`{}`))); err != nil {
		return nil, err
	}
	return resultReply(mcp.R20251125, `{}`), nil
}

// TestCloseInMidWork closes a gateway and its bridge while clients send requests, listen, connect
// and disconnect, and while servers announce changed lists. After that, no goroutine and no parked
// call is left. The race detector makes the test stricter.
func TestCloseInMidWork(t *testing.T) {
	for n := range 60 {
		synctest.Test(t, func(t *testing.T) {
			var reading sync.WaitGroup // the list requests that the fake servers are answering
			counted := func(u *fake) *fake {
				u.list = func(context.Context, string) ([][]byte, error) {
					reading.Add(1)
					defer reading.Done()
					return items(`{"name":"t"}`), nil
				}
				return u
			}
			a, b := counted(&fake{name: "a"}), counted(&fake{name: "old", call: askOnce})
			b.hello.Revision = mcp.R20251125
			r := &bridge.Bridge{}
			g := &Merged{Bridge: r, Upstreams: []Upstream{a, b}, Identity: catalog.Identity{Name: "dragoman", Version: "1"}}
			done, closed := make(chan struct{}), make(chan struct{})
			var wait sync.WaitGroup
			do := func(f func()) {
				wait.Go(func() {
					for over := false; !over; {
						f()
						select {
						case done <- struct{}{}:
						case <-closed:
							over = true
						}
					}
					f() // run f once more after closed is closed
				})
			}
			for i := range 3 {
				do(func() { _, _ = g.Call(t.Context(), modern(t, mcp.MethodListTools, `{}`), &recordingCaller{}) })
				do(func() { g.Changed("a", [...]string{"tools", "", "prompts"}[i]) })
				do(func() {
					_, _ = exchange(t.Context(), r, b, mcp.NewAttempt(modern(t, mcp.MethodCallTool, `{"name":"t"}`)), &recordingCaller{})
				})
				do(func() {
					heard := &recordingCaller{}
					leave := g.Subscribe(&mcp.ClientInfo{Revision: mcp.R20251125, Conversation: uint64(i + 1)}, heard)
					g.announce(mcp.NoteToolsChanged, "a", catalog.Audience{})
					leave()
				})
				do(func() {
					ctx, stop := context.WithCancel(t.Context())
					defer stop()
					c := modern(t, mcp.MethodListen, `{"notifications":{"toolsListChanged":true}}`)
					_, _ = g.Call(ctx, c, stopping{stop})
				})
			}
			for range n {
				<-done
			}
			var closing sync.WaitGroup
			closing.Go(g.Close)
			closing.Go(r.Close)
			closing.Go(g.Close)
			close(closed)
			closing.Wait()
			reading.Wait()
			wait.Wait()
			if r.Parked() != 0 {
				t.Errorf("%d calls are parked after Close", r.Parked())
			}
		})
	}
}

// stopping is an mcp.Caller that ends its call when it gets a notification.
type stopping struct{ stop func() }

func (s stopping) Notify(*mcp.Note) { s.stop() }

func (s stopping) Ask(context.Context, *jsonrpc.Message) (*jsonrpc.Message, error) {
	return nil, context.Canceled
}
