package bridge

import (
	"bytes"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/base/identity"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
)

// TestRoots exchanges the secrets that two bridges share, one bridge after the other, and checks at each step what
// each of them opens of what the other has sealed.
func TestRoots(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		root := func(n byte, from time.Time) Root {
			return Root{ID: [keyIDLen]byte{n}, Secret: bytes.Repeat([]byte{n}, 32), From: from}
		}
		var here, there, strange Roots
		begin := time.Now()
		here.Set([]Root{root(1, begin)})
		there.Set([]Root{root(1, begin)})
		strange.Set([]Root{root(9, begin)})
		a, b := &Bridge{Keys: here.Keyring("default")}, &Bridge{Keys: there.Keyring("default")}
		shop, stranger := &Bridge{Keys: there.Keyring("shop")}, &Bridge{Keys: strange.Keyring("default")}
		u, alice := stateful(`"s"`), &mcp.ClientInfo{Who: identity.Named("alice")}

		made := func() (state, task string) {
			return first(t, a, u), a.taskID("s", alice, false, mcp.TaskRef{ID: "1"})
		}
		opens := func(what string, at *Bridge, state, task string, want bool) {
			t.Helper()
			_, err := relay(t.Context(), at, u, request26(t, "alice", mcp.MethodCallTool, retry(toolCall, state)), &ear{})
			_, bad := at.FindTask(t.Context(), []Server{u}, alice, false, task)
			if (err == nil) != want || (bad == nil) != want {
				t.Errorf("%s: opened %t, want %t (%v, %v)", what, !want, want, err, bad)
			}
		}
		state, task := made()
		opens("the same key", b, state, task, true)
		opens("another project", shop, state, task, false)
		opens("other keys", stranger, state, task, false)

		later := begin.Add(time.Minute)
		here.Set([]Root{root(2, later), root(1, begin)})
		early, earlyTask := made()
		opens("the other one has not read the new key yet", b, early, earlyTask, true)
		there.Set([]Root{root(2, later), root(1, begin)})
		time.Sleep(time.Minute)
		late, lateTask := made()
		if lateTask == earlyTask {
			t.Error("the new key has not signed a task")
		}
		opens("sealed with the new key", b, late, lateTask, true)
		opens("from before", b, state, task, true)
		there.Set([]Root{root(2, later)})
		opens("the old key is gone", b, early, earlyTask, false)
		opens("the new key stays", b, late, lateTask, true)

		here.Set([]Root{root(4, time.Now().Add(time.Hour)), root(3, time.Now().Add(time.Hour))})
		there.Set([]Root{root(3, time.Now().Add(time.Hour))})
		state, task = made()
		opens("too early for all: the oldest", b, state, task, true)
	})
}
