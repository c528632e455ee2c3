package upstream

import (
	"fmt"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
)

// TestCloseUnderLoad closes a server while clients of both eras call, list, subscribe and
// disconnect, with every isolation. When Close has returned, no goroutine is left. The race
// detector makes the test stricter.
func TestCloseUnderLoad(t *testing.T) {
	t.Parallel()
	for _, isolation := range []Isolation{Auto, Shared, PerCall} {
		for _, modern := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s_modern_%t", isolation, modern), func(t *testing.T) {
				for n := range 60 {
					h := &program{legacy: true, modern: modern}
					bubble(t, h, Spec{Isolation: isolation}, func(t *testing.T, u *Upstream) { busy(t, u, n) })
				}
			})
		}
	}
}

// busy starts many operations, and closes the server while they run. The time of the close
// depends on n.
func busy(t *testing.T, u *Upstream, n int) {
	var wait sync.WaitGroup
	done, closed := make(chan struct{}), make(chan struct{})
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
			f() // runs once more after Close
		})
	}
	for i := range 3 {
		f := info(mcp.R20251125, fmt.Sprint("p", i), canElicit, uint64(i+1))
		do(func() { _, _ = call(t, u, f, mcp.MethodCallTool, `{"name":"t"}`) })
		do(func() { _, _, _ = u.List(t.Context(), f, mcp.MethodListTools) })
		do(func() {
			w := u.Subscribe(f, func(*jsonrpc.Message) {}, nil)
			w.Lists(true, true, true)
			_, _ = w.Subscribe(t.Context(), "file:///a")
			u.Forward(f, []byte(`{"jsonrpc":"2.0","method":"notifications/roots/list_changed"}`), mcp.NoteRootsChanged)
			w.Close()
		})
		do(func() { _, _ = call(t, u, modernClient, mcp.MethodCallTool, `{"name":"t"}`); u.Report() })
	}
	for range n {
		<-done
	}
	var closing sync.WaitGroup
	for range 2 {
		closing.Go(func() { u.Close(t.Context()) })
	}
	close(closed)
	closing.Wait()
	wait.Wait()
	synctest.Wait()
}
