//go:build unix

package daemon

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestListsOutliveARestart starts serve twice. The second time, one server does not become ready, and a
// manifest client, which asks only once, gets the tools that the first process read. A call of such a
// tool waits for the server. A server that has no kept list is missing, and the log says so.
func TestListsOutliveARestart(t *testing.T) {
	t.Parallel()
	gate := filepath.Join(t.TempDir(), "gate")
	if err := os.WriteFile(gate, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	late, good, mute := child(t, "late", "legacy").late("wait", gate), child(t, "good", "modern"), child(t, "mute", "mute")
	folder := t.TempDir()
	keep := func(o *ServeOptions) { o.KeyFolders = []string{t.TempDir(), folder} }
	first := serve(t, snapshot(late, good), keep)
	first.call("/mcp", "late__echo", "{}").wantText(t, "{}")
	first.call("/mcp", "good__echo", "{}").wantText(t, "{}")
	await(t, "the lists are kept", time.Minute, func() bool {
		files, _ := filepath.Glob(filepath.Join(folder, "lists", "*.json"))
		return len(files) == 4 // the tools and the capabilities of two servers
	})
	if err := first.stop(); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(gate); err != nil {
		t.Fatal(err)
	}

	s := snapshot(late, good, mute)
	s.Limits.ManifestClient = 3 * time.Second
	second := serve(t, s, keep)
	ctx, stop := context.WithTimeout(t.Context(), time.Minute)
	defer stop()
	const bare = `{"jsonrpc":"2.0","id":1,"method":"initialize"}`
	if a := second.do(ctx, "POST", "/mcp", strings.NewReader(bare)); !strings.Contains(a.body, `"late__echo"`) || !strings.Contains(a.body, `"good__echo"`) {
		t.Errorf("the tools are %s", a.body)
	}
	if log := second.log.String(); !strings.Contains(log, "starting=[mute]") {
		t.Errorf("the log does not name the server that is missing: %s", log)
	}
	report, _ := second.status()
	if x := serverIn(t, report, "late"); x.State == "ready" || len(x.Lists) == 0 || x.Lists[0].KeptAt == nil || x.Lists[0].ReadAt != nil || x.Lists[0].Items == 0 {
		t.Errorf("the status of the server is %+v", x)
	}
	if text := string(report.Text(time.Now())); !strings.Contains(text, "from disk, read ") {
		t.Errorf("the status is %s", text)
	}
	answered := make(chan answer, 1)
	go func() { answered <- second.call("/mcp", "late__echo", `{"x":1}`) }()
	select {
	case a := <-answered:
		t.Fatalf("the call was answered before the server was ready: %s", a.body)
	case <-time.After(200 * time.Millisecond):
	}
	if err := os.WriteFile(gate, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	a := <-answered
	a.wantText(t, `{"x":1}`)
	await(t, "the list is read", time.Minute, func() bool {
		report, _ := second.status()
		x := serverIn(t, report, "late")
		return x.State == "ready" && x.Lists[0].ReadAt != nil && x.Lists[0].KeptAt == nil
	})
}
