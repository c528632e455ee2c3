//go:build unix

package daemon

import (
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// TestLogsAreBounded checks clients and a server that cause the same event hundreds of times.
// Dragoman logs the event once, and later logs how often it occurred again. Calls of another client
// are not affected.
func TestLogsAreBounded(t *testing.T) {
	t.Parallel()
	u, noisy := child(t, "u", "modern"), child(t, "noisy", "noisy")
	r := serve(t, snapshot(u, noisy))
	r.call("/s/u/mcp", "echo", "{}").wantText(t, "{}")
	var hostile sync.WaitGroup
	began := time.Now()
	for w := range 4 {
		hostile.Go(func() {
			for i := range 80 {
				a := r.modern("/s/u/mcp", "1", "tools/call", "echo", fmt.Sprintf(`"name":"echo","arguments":{},"requestState":"forged %d %d"`, w, i))
				if a.code(t) != -32602 {
					t.Errorf("a forged state got %s", a.body)
				}
				r.call("/s/noisy/mcp", "request", "{}")
				r.call("/s/noisy/mcp", fmt.Sprint("unknown", i), "{}")
			}
		})
	}
	for range 20 {
		r.call("/s/u/mcp", "echo", `{"v":1}`).wantText(t, `{"v":1}`)
	}
	hostile.Wait()
	if err := r.stop(); err != nil {
		t.Error(err)
	}
	text := r.log.String()
	lines, refused := 0, 0
	for line := range strings.Lines(text) {
		if !strings.Contains(line, "refused a requestState") {
			continue
		}
		lines++
		if _, more, ok := strings.Cut(line, "more="); ok {
			n, _ := strconv.Atoi(strings.Fields(more)[0])
			refused += n
		} else {
			refused++
		}
	}
	if minutes := int(time.Since(began) / time.Minute); refused != 320 || lines > 2+minutes {
		t.Errorf("the log has %d lines about %d refused states", lines, refused)
	}
	if n := strings.Count(text, "level=WARN"); n > 60 {
		t.Errorf("%d warnings:\n%s", n, tailOf(text, 4000))
	}
	if n := strings.Count(text, "\n"); n > 1500 {
		t.Errorf("%d lines", n)
	}
}

// TestServerLog checks the levels of the log lines of net/http. A line about one client has the
// level debug. A line about a panic or about a failure to accept connections has a higher level.
func TestServerLog(t *testing.T) {
	t.Parallel()
	var j journal
	l := serverLog{slog.New(slog.NewTextHandler(&j, &slog.HandlerOptions{Level: slog.LevelInfo}))}
	for range 3 {
		for i, line := range []string{
			"http: Accept error: accept tcp 127.0.0.1:1: accept4: too many open files; retrying in %dms\n",
			"http: Accept error: accept tcp 127.0.0.1:1: connection aborted; retrying in %dms\n",
			"http: TLS handshake error from 127.0.0.1:%d: EOF\n",
			"http: panic serving 127.0.0.1:%d: boom\ngoroutine 1\x1b[2J\n",
		} {
			if n, err := l.Write(fmt.Appendf(nil, line, time.Now().Nanosecond()+i)); n == 0 || err != nil {
				t.Error(n, err)
			}
		}
	}
	text := j.String()
	for what, n := range map[string]int{
		"no free file descriptors: new connections wait": 3, "cannot accept connections for now": 3,
		"panic while serving a request": 3, "TLS": 0, "retrying": 0, "\x1b": 0,
	} {
		if got := strings.Count(text, what); got != n {
			t.Errorf("the log has %q %d times:\n%s", what, got, text)
		}
	}
}
