//go:build unix

package upstream

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
)

// TestU09_StoppedChild sends SIGSTOP and later SIGCONT to a real child process. Dragoman kills a
// child that stays stopped, and the next call starts another.
func TestU09_StoppedChild(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("this test waits 5 s for the end of a stopped child")
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	u := New(Spec{
		Name: "child", Command: self, Env: map[string]string{childEnv: "1"},
		Silence: 150 * time.Millisecond, Idle: 3 * time.Second,
	}, Options{})
	defer u.Close(t.Context())
	pid := func() int {
		t.Helper()
		r, err := call(t, u, modernClient, mcp.MethodCallTool, `{"name":"pid"}`)
		if err != nil {
			t.Error(err)
			return 0
		}
		n, _ := jsonrpc.Int(r.Msg.Raw, r.Msg.ResultMember("pid"))
		return int(n)
	}
	await := func(what string, is func() bool) {
		t.Helper()
		for end := time.Now().Add(30 * time.Second); !is(); time.Sleep(5 * time.Millisecond) {
			if time.Now().After(end) {
				t.Fatalf("%s: the state was not reached in 30 s, %+v", what, u.Status())
			}
		}
	}
	first := pid()
	// The threads of the child do not all stop at once. Until they have stopped, the child may
	// still answer.
	stop := func() {
		t.Helper()
		_ = syscall.Kill(first, syscall.SIGSTOP)
		await("the child stands still", func() bool {
			threads, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", first))
			for _, f := range threads {
				if b, err := os.ReadFile(f); err == nil && !strings.Contains(string(b), ") T ") {
					return false
				}
			}
			return true
		})
	}
	var wait sync.WaitGroup
	defer wait.Wait()
	stop()
	defer func() { _ = syscall.Kill(first, syscall.SIGCONT) }()
	wait.Go(func() { _, _ = call(t, u, modernClient, mcp.MethodCallTool, `{"name":"pid"}`) })
	await("unresponsive", func() bool { return u.Status().State == Unresponsive })
	_ = syscall.Kill(first, syscall.SIGCONT)
	await("ready again", func() bool { return u.Status().State == Ready })
	wait.Wait()
	if again := pid(); again != first {
		t.Errorf("another child was started, %s, although the first one was only stopped for a while", strconv.Itoa(again))
	}
	stop()
	wait.Go(func() { _, _ = call(t, u, modernClient, mcp.MethodCallTool, `{"name":"pid"}`) })
	await("its end", func() bool { return syscall.Kill(first, 0) == syscall.ESRCH })
	wait.Wait()
	if again := pid(); again == first || again == 0 {
		t.Errorf("the child is still the same, %d", again)
	}
}

// TestU16_StoppedChild stops a child on an operating system pipe. The status reports at once that
// messages are waiting. The child gets all messages when it continues.
func TestU16_StoppedChild(t *testing.T) {
	t.Parallel()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	u := New(Spec{Name: "child", Command: self, Env: map[string]string{childEnv: "1"}}, Options{})
	defer u.Close(t.Context())
	r, err := call(t, u, modernClient, mcp.MethodCallTool, `{"name":"pid"}`)
	if err != nil {
		t.Fatal(err)
	}
	pid, _ := jsonrpc.Int(r.Msg.Raw, r.Msg.ResultMember("pid"))
	var wait sync.WaitGroup
	defer wait.Wait()
	_ = syscall.Kill(int(pid), syscall.SIGSTOP)
	defer func() { _ = syscall.Kill(int(pid), syscall.SIGCONT) }()
	for range 4 { // together more bytes than a pipe holds; the child cannot read a line of 64 KiB
		wait.Go(func() {
			if r, err := call(t, u, modernClient, mcp.MethodCallTool, `{"name":"pid","arguments":{"a":"`+strings.Repeat("x", 40<<10)+`"}}`); err != nil || r.Code() != 0 {
				t.Errorf("a call that waited for the child: %v", err)
			}
		})
	}
	await := func(want State, reason string) {
		t.Helper()
		for end := time.Now().Add(30 * time.Second); ; time.Sleep(5 * time.Millisecond) {
			if s := u.Status(); s.State == want && s.Reason == reason {
				return
			} else if time.Now().After(end) {
				t.Fatalf("the state was not %s in 30 s: %+v", want, s)
			}
		}
	}
	await(Unresponsive, reasonStalled)
	_ = syscall.Kill(int(pid), syscall.SIGCONT)
	wait.Wait()
	await(Ready, "")
}
