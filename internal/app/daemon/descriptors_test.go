//go:build linux

package daemon

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// TestW10_NoDescriptors uses up all file descriptors. Existing sessions continue, and Dragoman logs
// few warnings. When descriptors are free again, Dragoman accepts connections and starts servers
// again.
func TestW10_NoDescriptors(t *testing.T) {
	t.Parallel()
	u := child(t, "child", "legacy")
	d := exec.Command(os.Args[0])
	d.Env = append(d.Environ(), asDragoman+"=few http legacy", journalVar+"="+u.journal)
	out, err := d.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	var log journal
	d.Stderr = &log
	if err := d.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = d.Process.Signal(syscall.SIGTERM)
		if err := d.Wait(); err != nil {
			t.Errorf("ended with %v", err)
		}
		if t.Failed() {
			t.Logf("log:\n%s", tailOf(log.String(), 4000))
		}
	}()
	url, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	r := &rig{t: t, base: strings.TrimSuffix(strings.TrimSpace(url), "/mcp"), http: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 1}}}
	defer r.http.CloseIdleConnections()
	session := []string{"Mcp-Session-Id", r.initialize("/mcp", "2025-11-25", "{}")}
	r.post("/mcp", toolCall("2", "echo", `{"v":1}`), session...).wantText(t, `{"v":1}`)
	stream := dialSSE(r, "/sse")
	stream.open()

	var idle []net.Conn
	for range 80 { // more connections than Dragoman has descriptors; the kernel queues those that Dragoman cannot accept
		c, err := net.Dial("tcp", strings.TrimPrefix(r.base, "http://"))
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		idle = append(idle, c)
	}
	await(t, "the warning", 30*time.Second, func() bool { return strings.Contains(log.String(), "no free file descriptors") })
	r.post("/mcp", toolCall("3", "echo", `{"v":2}`), session...).wantText(t, `{"v":2}`)
	// Kill the server. Dragoman cannot start it again without descriptors, so calls fail.
	pids := u.pids(t)
	if err := syscall.Kill(pids[0], syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	await(t, "the waiting connections have taken its descriptors", 20*time.Second, func() bool {
		all, _ := os.ReadDir(fmt.Sprintf("/proc/%d/fd", d.Process.Pid))
		return len(all) >= fewDescriptors
	})
	for range 3 {
		if a := r.post("/mcp", toolCall("4", "echo", `{"v":3}`), session...); a.code(t) != -32603 {
			t.Errorf("got %s", a.body)
		}
	}
	await(t, "the warning about servers", 20*time.Second, func() bool { return strings.Contains(log.String(), "servers cannot be started") })
	var newcomers sync.WaitGroup
	newcomers.Go(func() { // this connection waits in the kernel's queue until the idle connections are closed
		c := http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: 30 * time.Second}
		resp, err := c.Post(r.base+"/mcp", "application/json", strings.NewReader("{"))
		if err != nil {
			t.Errorf("a new client: %v", err)
			return
		}
		_, _ = io.Copy(io.Discard, resp.Body)
		_ = resp.Body.Close()
	})
	for _, c := range idle {
		_ = c.Close()
	}
	newcomers.Wait()
	await(t, "the server works again", 20*time.Second, func() bool {
		return strings.Contains(r.post("/mcp", toolCall("5", "echo", `{"v":4}`), session...).body, `{\"v\":4}`)
	})
	stream.send(`{"jsonrpc":"2.0","id":9,"method":"ping"}`)
	stream.answerTo("9")
	// Dragoman logs two kinds of warning about descriptors, for connections and for servers, each
	// at most once per minute.
	if n := strings.Count(log.String(), "no free file descriptors"); n > 2 {
		t.Errorf("%d warnings:\n%s", n, log.String())
	}
	if n := strings.Count(log.String(), "level=WARN"); n > 5 {
		t.Errorf("%d warnings in all:\n%s", n, log.String())
	}
}
