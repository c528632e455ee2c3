//go:build unix

package daemon

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/app/admin"
	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
)

// TestObservation makes a fixed sequence of requests, and compares the log, at all levels, and
// /metrics with a golden file. It sorts the lines, because the order of lines from two goroutines
// is random.
func TestObservation(t *testing.T) {
	t.Parallel()
	legacy, modern := child(t, "legacy", "legacy"), child(t, "modern", "modern")
	strict, odd := child(t, "strict", "fake strict-2025-11-25"), child(t, "odd_", "legacy")
	s := snapshot(legacy, modern, strict, odd)
	r := serve(t, s)
	await(t, "the tools of all servers are known", 20*time.Second, func() bool {
		status, _ := r.status()
		for _, s := range status.Servers {
			if !slices.ContainsFunc(s.Lists, func(l admin.List) bool { return l.Method == "tools/list" && l.ReadAt != nil }) {
				return false
			}
		}
		return true
	})

	// Read the merged list and the list of one server.
	r.modern("/mcp", "1", "tools/list", "", "")
	r.modern("/s/legacy/mcp", "1", "tools/list", "", "")

	// Make calls of both eras, and calls that fail.
	r.call("/mcp", "legacy__echo", `{"v":1}`).wantText(t, `{"v":1}`)
	r.call("/mcp", "modern__echo", `{"v":2}`).wantText(t, `{"v":2}`)
	r.call("/s/legacy/mcp", "echo", `{"v":3}`).wantText(t, `{"v":3}`)
	r.call("/s/legacy/mcp", "no such tool", `{}`)
	r.call("/mcp", "legacy__unknown", `{}`)
	r.modern("/mcp", "1", "resources/read", "test://none", `"uri":"test://none"`)
	session := r.initialize("/mcp", "2025-11-25", `{"roots":{"listChanged":true}}`)
	in := []string{"Mcp-Session-Id", session}
	r.post("/mcp", toolCall("2", "modern__echo", `{"v":4}`), in...).wantText(t, `{"v":4}`)
	r.post("/mcp", toolCall("3", "legacy__echo", `{"v":5}`), in...).wantText(t, `{"v":5}`)
	r.post("/mcp", initializeBody("1999-01-01", "{}"))
	r.modern("/s/modern/mcp", "1", "server/discover", "", "")

	// Make a call that is parked, a retry with wrong arguments, and a correct retry.
	const params = `"name":"ask","arguments":{"v":1}`
	ask := func(params string) *jsonrpc.Message {
		return r.post("/s/legacy/mcp", canElicit(modernBody("1", "tools/call", params)), modernHeader("tools/call", "ask")...).message(t)
	}
	state, key := inputRequestOf(t, ask(params))
	if m := ask(retryOf(`"name":"ask","arguments":{"v":2}`, state, key, "{}")); errorCode(m) == 0 {
		t.Errorf("a state was accepted for another call: %s", m.Raw)
	}
	if m := ask(retryOf(params, state, key, "{}")); errorCode(m) != 0 {
		t.Errorf("the retry: %s", m.Raw)
	}

	// Cause losses: content that the client's revision lacks, and a notification that the server's
	// revision lacks.
	old := r.initialize("/s/strict/mcp", "2024-11-05", "{}")
	r.post("/s/strict/mcp", toolCall("2", "media", "{}"), "Mcp-Session-Id", old)
	r.post("/s/strict/mcp", toolCall("3", "add", `{"a":1,"b":2}`), "Mcp-Session-Id", old)
	single := r.initialize("/s/modern/mcp", "2025-11-25", `{"roots":{"listChanged":true}}`)
	r.post("/s/modern/mcp", `{"jsonrpc":"2.0","method":"notifications/roots/list_changed"}`, "Mcp-Session-Id", single)
	await(t, "the notification is lost", 20*time.Second, func() bool {
		return strings.Contains(r.do(t.Context(), "GET", "/metrics", nil).body, `what="notifications/roots/list_changed"`)
	})

	metrics := r.do(t.Context(), "GET", "/metrics", nil).body
	if err := r.stop(); err != nil {
		t.Error(err)
	}
	got := "-- metrics --\n" + maskMetrics(metrics) + "-- log --\n" + maskLog(r.log.String())
	const golden = "testdata/observation.txt"
	if *update {
		if err := os.WriteFile(golden, []byte(got), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(filepath.FromSlash(golden))
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("the log or the metrics differ; -update writes %s. Got:\n%s", golden, got)
	}
}

// maskMetrics returns the lines of Dragoman's own metrics, sorted, without those whose values vary
// between runs.
func maskMetrics(text string) string {
	return sortedLines(text, func(line string) string {
		if !strings.HasPrefix(line, "dragoman_") || metricVary.MatchString(line) {
			return ""
		}
		return line
	})
}

var (
	metricVary = regexp.MustCompile(`^dragoman_(\w+_seconds_(bucket|sum)|in_flight_bytes|door_|server_handshakes_)`)

	logTime = regexp.MustCompile(`^time=\S+ `)
	logRace = regexp.MustCompile(`msg="(handshake step|could not send an answer or cancellation to the server|discarded an unexpected message from the server|subscriptions/listen ended)"`)
	logVary = regexp.MustCompile(`(pid|port|remote|took|after|for)=\S+|127\.0\.0\.1:\d+`)
)

// maskLog returns the lines of a log, sorted, without times and numbers that vary. It omits lines
// that depend on timing, such as handshake steps, and repeated lines about initialize.
func maskLog(text string) string {
	repeated := map[string]bool{}
	return sortedLines(text, func(line string) string {
		if logRace.MatchString(line) {
			return ""
		}
		line = logVary.ReplaceAllString(logTime.ReplaceAllString(line, ""), "${1}~")
		if strings.Contains(line, "msg=initialize ") {
			if repeated[line] || strings.Contains(line, " more=") {
				return ""
			}
			repeated[line] = true
		}
		return line
	})
}

// sortedLines applies mask to each line and returns the non-empty results, sorted.
func sortedLines(text string, mask func(string) string) string {
	var all []string
	for line := range strings.Lines(text) {
		if line = mask(strings.TrimSuffix(line, "\n")); line != "" {
			all = append(all, line+"\n")
		}
	}
	slices.Sort(all)
	return strings.Join(all, "")
}
