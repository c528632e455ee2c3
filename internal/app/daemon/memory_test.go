//go:build unix

package daemon

import (
	"context"
	"io"
	"net"
	"runtime/debug"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/app/runtime"
)

// TestW11_TooMuchUnderWayIsShed fills the memory for running messages nearly to its limit. Dragoman
// then refuses each large request with 503, but still accepts small requests. The memory of a
// message is released when the client disconnects, when the call is cancelled, and when the message
// is refused.
func TestW11_TooMuchUnderWayIsShed(t *testing.T) {
	t.Parallel()
	u := child(t, "u", "legacy")
	s := snapshot(u)
	s.Limits.Body, s.Limits.InFlight = 1<<20, 2<<20
	r := serve(t, s)
	held := func() int64 {
		s, _ := r.status()
		return s.InFlight.Held
	}
	r.call("/mcp", "u__echo", "{}").wantText(t, "{}")
	await(t, "nothing under way", 20*time.Second, func() bool { return held() == 0 })

	// A client sends the Content-Length of a body but not the body. Dragoman reserves this much
	// memory until the client disconnects.
	var idle []net.Conn
	for range 20 {
		c, err := net.Dial("tcp", strings.TrimPrefix(r.base, "http://"))
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		idle = append(idle, c)
		_, _ = io.WriteString(c, "POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nAccept: application/json, text/event-stream\r\nContent-Length: 60000\r\n\r\n{")
	}
	await(t, "the idle senders", 20*time.Second, func() bool { return held() == 20*60000 })
	for _, c := range idle {
		_ = c.Close()
	}
	await(t, "the idle senders have gone", 20*time.Second, func() bool { return held() == 0 })

	large := func(tool string) string {
		return modernBody("1", "tools/call", `"name":"`+tool+`","arguments":{"x":"`+strings.Repeat("x", 600<<10)+`"}`)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var calling sync.WaitGroup
	for range 3 {
		calling.Go(func() {
			resp, err := r.request(ctx, "POST", "/s/u/mcp", strings.NewReader(large("hang")), modernHeader("tools/call", "hang")...)
			if err == nil {
				_ = resp.Body.Close()
			}
		})
	}
	await(t, "the calls have arrived", 20*time.Second, func() bool { return u.count("call hang") == 3 })
	for range 3 {
		a := r.post("/s/u/mcp", large("echo"), modernHeader("tools/call", "echo")...)
		if a.status != 503 || a.header.Get("Retry-After") == "" {
			t.Errorf("one more: %d %v %.300s", a.status, a.header, a.body)
		}
		a.wantFault(t, "overloaded", "not_sent")
	}
	r.call("/mcp", "u__echo", `{"small":1}`).wantText(t, `{"small":1}`)
	if n := u.count("call echo"); n != 2 {
		t.Errorf("%d calls have reached the server", n)
	}
	st, _ := r.status()
	if st.InFlight.Refused != 3 || st.InFlight.Limit != 2<<20 || st.InFlight.Held < 3*600<<10 {
		t.Errorf("status: %+v", st.InFlight)
	}
	cancel()
	calling.Wait()
	await(t, "all is given back", 20*time.Second, func() bool { return held() == 0 })

	// Check the memory of a call over HTTP+SSE, which continues after its POST has ended, and of a
	// parked call.
	c := dialSSE(r, "/s/u/sse")
	defer c.events.stop()
	c.send(initializeBody("2024-11-05", "{}"))
	c.events.event()
	c.send(toolCall("2", "hang", `{"x":"`+strings.Repeat("x", 500<<10)+`"}`))
	await(t, "the call over SSE", 20*time.Second, func() bool { return u.count("call hang") == 4 && held() >= 500<<10 })
	c.send(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":2}}`)
	await(t, "its end", 20*time.Second, func() bool { return held() == 0 })
	asks := strings.Replace(large("ask"), `clientCapabilities":{}`, `clientCapabilities":{"elicitation":{}}`, 1)
	if a := r.post("/s/u/mcp", asks, modernHeader("tools/call", "ask")...); !strings.Contains(a.body, "input_required") {
		t.Fatalf("parked: %s", a.body)
	}
	await(t, "the parked call alone", 20*time.Second, func() bool { n := held(); return n >= 600<<10 && n < 700<<10 })
	// The memory of batches and of refused requests is released, so only the parked call holds
	// memory.
	session := r.initialize("/s/u/mcp", "2025-03-26", "{}")
	r.post("/s/u/mcp", `[`+toolCall("1", "echo", "{}")+`,`+toolCall("2", "echo", "{}")+`]`, "Mcp-Session-Id", session)
	r.post("/s/u/mcp", strings.Repeat("[", 100<<10))
	await(t, "the parked call alone, still", 20*time.Second, func() bool { n := held(); return n >= 600<<10 && n < 700<<10 })
}

func TestInFlightFollowsTheMemory(t *testing.T) {
	before := debug.SetMemoryLimit(64 << 20)
	defer debug.SetMemoryLimit(before)
	t.Setenv("GOMEMLIMIT", "64MiB")
	for _, test := range []struct{ configured, body, most int }{
		{256 << 20, 4 << 20, 16 << 20}, {8 << 20, 4 << 20, 8 << 20}, {1 << 20, 4 << 20, 4 << 20}, {256 << 20, 32 << 20, 32 << 20},
	} {
		if got := runtime.InFlight(test.configured, test.body); got != int64(test.most) {
			t.Errorf("%+v: %d", test, got)
		}
	}
	if runtime.RaiseMemoryLimit(64 << 20); debug.SetMemoryLimit(-1) != 64<<20 {
		t.Error("the limit of the environment was raised")
	}
	// Without GOMEMLIMIT, the memory limit of the process does not reduce the configured value.
	t.Setenv("GOMEMLIMIT", "")
	if got := runtime.InFlight(48<<20, 4<<20); got != 48<<20 {
		t.Errorf("without GOMEMLIMIT: %d", got)
	}
	if runtime.RaiseMemoryLimit(8 << 20); debug.SetMemoryLimit(-1) != 64<<20 {
		t.Error("the limit was raised without need")
	}
	if runtime.RaiseMemoryLimit(48 << 20); debug.SetMemoryLimit(-1) != 192<<20 {
		t.Errorf("the limit is %d, want 192 MiB", debug.SetMemoryLimit(-1))
	}
}
