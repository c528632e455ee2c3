package gateway

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
)

func long(n int) string { return strings.Repeat("x", n) }

// TestNoticesThatWaitAreBoundedInBytes sends many long notifications to a client that does not
// read. The number of queued bytes is limited, and the queue still accepts a list change.
func TestNoticesThatWaitAreBoundedInBytes(t *testing.T) {
	u := &fake{name: "u"}
	other := func(n int) *jsonrpc.Message {
		return notice(t, "notifications/x", fmt.Sprintf(`{"n":%d,"x":"%s"}`, n, long(100<<10)))
	}
	updated := func(n, size int) *jsonrpc.Message {
		return notice(t, mcp.NoteResourceUpdated, fmt.Sprintf(`{"uri":"x:%d","x":"%s"}`, n, long(size)))
	}
	var large [3]*jsonrpc.Message
	for n := range large {
		large[n] = updated(n, 2<<20)
	}
	flood := func(put func(Upstream, *jsonrpc.Message)) {
		for n := range 100 {
			put(u, other(n))
			put(u, updated(n, 100<<10))
			put(u, large[n%3]) // may replace an older update of the same resource in the queue
		}
		put(u, notice(t, mcp.NoteToolsChanged, `{}`))
		put(u, updated(1000, 0))
	}
	check := func(waiting []queued) {
		t.Helper()
		size, last := 0, map[string]bool{}
		for _, q := range waiting {
			size += len(q.m.Raw)
			last[q.m.Method+string(q.m.Param("uri").Of(q.m.Raw))] = true
		}
		if size > maxHeldBytes+2*alwaysFits || size < maxHeldBytes/2 {
			t.Errorf("%d bytes are queued", size)
		}
		if !last[mcp.NoteToolsChanged] || !last[mcp.NoteResourceUpdated+`"x:1000"`] {
			t.Error("a list change was dropped because of a flood")
		}
	}
	q := &queue{wake: make(chan struct{}, 1)}
	flood(q.put)
	check(q.list)
	synctest.Test(t, func(t *testing.T) {
		turn := make(chan struct{})
		o := &notifier{to: &reader{turn: turn}, as: func(string, *jsonrpc.Message, *jsonrpc.Edits) {}}
		o.put(u, other(0)) // the goroutine that writes notifications blocks on this one
		synctest.Wait()
		flood(o.put)
		o.mu.Lock()
		check(o.waiting)
		o.mu.Unlock()
		go o.close()
		synctest.Wait()
		close(turn)
	})
}

// TestListensAreBoundedInBytes checks that Dragoman refuses subscriptions/listen if its URIs have
// too many bytes.
func TestListensAreBoundedInBytes(t *testing.T) {
	g := merged(t, &fake{name: "u"})
	params := `{"notifications":{"resourceSubscriptions":["x:` + long(mcp.MaxWatchedBytes) + `"]}}`
	if _, err := g.Call(t.Context(), modern(t, mcp.MethodListen, params), &recordingCaller{}); code(err) != jsonrpc.CodeInvalidParams {
		t.Errorf("got %v", err)
	}
}
