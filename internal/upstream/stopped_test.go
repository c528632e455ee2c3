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

	"github.com/dragoman-mcp/dragoman/internal/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/mcp"
)

// TestU09_StoppedChild: a real child is stopped (SIGSTOP) and continued. A child that stays
// stopped is killed, and the next call gets a new one.
func TestU09_StoppedChild(t *testing.T) {
	if testing.Short() {
		t.Skip("a stopped child is given its 5 s to end")
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
				t.Fatalf("%s: not in 30 s, %+v", what, u.Status())
			}
		}
	}
	first := pid()
	// One thread takes the signal first; the others may still answer until then.
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
		t.Errorf("another child, %s, for one that had only slept", strconv.Itoa(again))
	}
	stop()
	wait.Go(func() { _, _ = call(t, u, modernClient, mcp.MethodCallTool, `{"name":"pid"}`) })
	await("its end", func() bool { return syscall.Kill(first, 0) == syscall.ESRCH })
	wait.Wait()
	if again := pid(); again == first || again == 0 {
		t.Errorf("the same child, %d", again)
	}
}

// TestU16_StoppedChild over an operating system pipe: the status reports the waiting
// messages at once, and the child gets all of them when it continues.
func TestU16_StoppedChild(t *testing.T) {
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
	for range 4 { // more than a pipe holds; the child does not read a line of 64 KiB
		wait.Go(func() {
			if r, err := call(t, u, modernClient, mcp.MethodCallTool, `{"name":"pid","arguments":{"a":"`+strings.Repeat("x", 40<<10)+`"}}`); err != nil || r.Code() != 0 {
				t.Errorf("a call that waited: %v", err)
			}
		})
	}
	await := func(want State, reason string) {
		t.Helper()
		for end := time.Now().Add(30 * time.Second); ; time.Sleep(5 * time.Millisecond) {
			if s := u.Status(); s.State == want && s.Reason == reason {
				return
			} else if time.Now().After(end) {
				t.Fatalf("not %s in 30 s: %+v", want, s)
			}
		}
	}
	await(Unresponsive, reasonStalled)
	_ = syscall.Kill(int(pid), syscall.SIGCONT)
	wait.Wait()
	await(Ready, "")
}
