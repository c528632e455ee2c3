package upstream

import (
	"sync"
	"testing"
	"testing/synctest"

	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
)

// TestListsShareTheProcessOfACall checks isolation "call": lists need no process of their own, and the
// next call uses the process that a list has opened. No call uses the process of another call.
func TestListsShareTheProcessOfACall(t *testing.T) {
	h := &program{legacy: true}
	bubble(t, h, Spec{Isolation: PerCall}, func(t *testing.T, u *Upstream) {
		release := make(chan struct{})
		h.on = held(release)
		do := func(method, params string) {
			t.Helper()
			if _, err := call(t, u, legacyClient, method, params); err != nil {
				t.Error(err)
			}
		}
		var wait sync.WaitGroup
		for range 3 {
			for range 5 {
				do(mcp.MethodListTools, `{}`)
			}
			wait.Go(func() { do(mcp.MethodCallTool, `{"name":"t"}`) })
			synctest.Wait()
		}
		if n := len(h.all()); n != 3 {
			t.Errorf("3 calls with 5 lists before each have used %d processes", n)
		}
		for i, l := range h.all() {
			n := 0
			for _, m := range l.methods() {
				if m == mcp.MethodCallTool {
					n++
				}
			}
			if n != 1 {
				t.Errorf("process %d got %d calls", i, n)
			}
		}
		close(release)
		wait.Wait()
		synctest.Wait()
		if n := h.alive(); n != 0 {
			t.Errorf("%d processes are left after their calls", n)
		}
	})
}
