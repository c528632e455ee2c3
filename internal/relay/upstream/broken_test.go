package upstream

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"

	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
	"github.com/dragoman-mcp/dragoman/internal/transport"
	"github.com/dragoman-mcp/dragoman/internal/transport/inmem"
)

// closedInput is a pipe whose other end has closed its input if closed is true. The other end may
// still write.
type closedInput struct {
	transport.Pipe
	closed *atomic.Bool
}

func (p *closedInput) Send(ctx context.Context, quit <-chan struct{}, b []byte) error {
	if p.closed.Load() {
		return fmt.Errorf("%w: %w", transport.ErrNotSent, syscall.EPIPE)
	}
	return p.Pipe.Send(ctx, quit, b)
}

// TestWriteFails checks a server that has closed its input but has not exited. Further calls
// are sent to a new session. Another client's call that the server has already read still gets
// its answer.
func TestWriteFails(t *testing.T) {
	for _, modern := range []bool{false, true} {
		for _, others := range []int{0, 1} {
			t.Run(fmt.Sprintf("modern=%v others=%d", modern, others), func(t *testing.T) {
				var all []*atomic.Bool
				h := &program{legacy: !modern, modern: modern}
				h.link = func() (ours, theirs transport.Pipe) {
					ours, theirs = inmem.Pipe()
					all = append(all, &atomic.Bool{})
					return &closedInput{ours, all[len(all)-1]}, theirs
				}
				bubble(t, h, Spec{}, func(t *testing.T, u *Upstream) {
					release := make(chan struct{})
					pausing(h, release)
					if _, err := call(t, u, legacyClient, mcp.MethodListTools, `{}`); err != nil {
						t.Fatal(err)
					}
					var running sync.WaitGroup
					var busy []*tool
					for range others {
						busy = append(busy, start(t.Context(), t, u, &running, "busy", 1))
					}
					synctest.Wait()
					all[0].Store(true)
					for range 2 {
						if _, err := call(t, u, legacyClient, mcp.MethodCallTool, `{"name":"t"}`); err != nil {
							t.Error(err)
						}
					}
					if n := len(h.all()); n != 2 {
						t.Fatalf("%d sessions were opened", n)
					}
					close(release)
					running.Wait()
					for _, x := range busy {
						if x.err != nil {
							t.Errorf("the call that the server has read: %v", x.err)
						}
					}
					if last := h.all()[1].last(mcp.MethodCallTool); !strings.Contains(last, `"t"`) {
						t.Errorf("the new session got %q", last)
					}
				})
			})
		}
	}
}
