//go:build unix

package daemon

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// TestT28_ChildrenThatMisbehave checks servers that write other text between their messages, use
// CRLF, ignore SIGTERM or start processes of their own. Clients of both eras can call their tools.
// After Dragoman has stopped, no process of these servers is left.
func TestT28_ChildrenThatMisbehave(t *testing.T) {
	t.Parallel()
	for mode, what := range map[string]string{
		"noisy": "banner lines, half messages and a flood on stderr", "crlf": "CRLF and empty lines",
		"latin": "lines that are not UTF-8", "stubborn": "ignores SIGTERM", "parent": "grandchildren",
	} {
		t.Run(strings.ReplaceAll(what, " ", "_"), func(t *testing.T) {
			t.Parallel()
			u := child(t, "child", mode)
			r := run(t, u)
			session := r.initialize("/mcp", "2025-06-18", "{}")
			for i := range 20 {
				args := fmt.Sprintf(`{"i":%d,"text":"é\n"}`, i)
				r.call("/mcp", "echo", args).wantText(t, args)
				r.post("/mcp", toolCall("1", "echo", args), "Mcp-Session-Id", session).wantText(t, args)
			}
			want := 1
			if mode == "parent" {
				want = 2
				await(t, "the grandchild is there", 20*time.Second, func() bool { return u.count("start") == 2 })
			}
			if n := u.count("start"); n != want {
				t.Errorf("there were %d processes, want %d", n, want)
			}
			for _, pid := range u.pids(t) {
				if !alive(pid) {
					t.Errorf("process %d has already exited, so the test proves nothing", pid)
				}
			}
			if err := r.stop(); err != nil {
				t.Error(err)
			}
			u.wantGone(t)
		})
	}
}

// TestT28_LargeLine checks that an answer of nearly 16 MiB, the limit for a line from a server,
// arrives complete. If the answer is longer, the call fails with the cause "too_large". The server
// keeps running and answers the next call. It isn't parallel: under the race detector, a line takes
// a processor for seconds, and a server that is silent for 20 s counts as dead.
func TestT28_LargeLine(t *testing.T) {
	const most = 16 << 20
	u := child(t, "child", "legacy")
	r := run(t, u)
	session := r.initialize("/mcp", "2025-06-18", "{}")
	for who, call := range map[string]func(n int) answer{
		"modern": func(n int) answer { return r.call("/mcp", "large", fmt.Sprintf(`{"n":%d}`, n)) },
		"legacy": func(n int) answer {
			return r.post("/mcp", toolCall("1", "large", fmt.Sprintf(`{"n":%d}`, n)), "Mcp-Session-Id", session)
		},
	} {
		pids := len(u.pids(t))
		if got := len(toolText(call(most - 200).message(t))); got != most-200 {
			t.Errorf("%s: got %d bytes", who, got)
		}
		if n := len(u.pids(t)); pids > 0 && n != pids {
			t.Errorf("%s: the process was replaced", who)
		}
		pids = len(u.pids(t))
		call(most+1).wantFault(t, "too_large", "unknown")
		r.call("/mcp", "echo", `{"v":1}`).wantText(t, `{"v":1}`)
		if n := len(u.pids(t)); n != pids {
			t.Errorf("%s: a line that is too long ended the process", who)
		}
	}
	u.wantOneLeft(t)
}

// wantOneLeft waits until exactly one process of the server is running.
func (u *upstreamUnderTest) wantOneLeft(t testing.TB) {
	t.Helper()
	await(t, "the others have ended", 20*time.Second, func() bool {
		n := 0
		for _, pid := range u.pids(t) {
			if alive(pid) {
				n++
			}
		}
		return n == 1
	})
}
