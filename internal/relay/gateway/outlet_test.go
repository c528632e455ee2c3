package gateway

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
)

// reader is a client that takes a fixed time to read each notification.
type reader struct {
	turn chan struct{} // nil means that the reader reads at once

	mu   sync.Mutex
	have []string
}

func (r *reader) ClientInfo() *mcp.ClientInfo { return nil }

func (r *reader) Ask(context.Context, *jsonrpc.Message) (*jsonrpc.Message, error) {
	return nil, mcp.ErrCannotAsk
}

func (r *reader) Notify(n *mcp.Note) {
	b := n.Bytes(nil)
	if r.turn != nil {
		<-r.turn
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.have = append(r.have, string(b))
}

func (r *reader) heard() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.have)
}

func (r *reader) all() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.have)
}

func notice(t *testing.T, method, params string) *jsonrpc.Message {
	t.Helper()
	m, err := jsonrpc.Scan(jsonrpc.AppendNotification(nil, method, []byte(params)), jsonrpc.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// TestOutletFlood floods a client. A repeated notification is sent at a limited pace. Its first
// copy is sent at once, and its last copy later. Other notifications are sent in order, and at most
// maxHeld of them wait.
func TestOutletFlood(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &reader{}
		o := &notifier{to: r, as: unchanged}
		changed := notice(t, mcp.NoteToolsChanged, "{}")
		o.put(nil, changed)
		synctest.Wait()
		if n := r.heard(); n != 1 {
			t.Fatalf("%d notifications were sent at once, want 1", n)
		}
		updated := notice(t, mcp.NoteResourceUpdated, `{"uri":"x:1"}`)
		for range 1000 {
			for range 100 {
				o.put(nil, changed)
				o.put(nil, updated)
			}
			time.Sleep(10 * time.Millisecond)
		}
		time.Sleep(changePace + pace)
		lists, updates := 0, 0
		for _, x := range r.all() {
			if strings.Contains(x, mcp.NoteToolsChanged) {
				lists++
			} else {
				updates++
			}
		}
		if lists < 10 || lists > 12 {
			t.Errorf("%d changes of one list were sent in ten seconds", lists)
		}
		if most := int(10*time.Second/pace) + 2; updates < 100 || updates > most {
			t.Errorf("%d of 100000 updates were sent in ten seconds", updates)
		}
		time.Sleep(changePace)
		o.put(nil, changed)
		synctest.Wait() // the writer pauses before its next write
		before := r.heard()
		for i := range 2 * maxHeld {
			o.put(nil, notice(t, mcp.NoteMessage, fmt.Sprintf(`{"data":%d}`, i)))
		}
		time.Sleep(2 * pace)
		if n := r.heard() - before; n != maxHeld {
			t.Errorf("%d messages were sent, want the first %d", n, maxHeld)
		}
		o.close()
		o.put(nil, changed)
		if n := r.heard() - before; n != maxHeld {
			t.Error("a notification was sent after close")
		}
	})
}

// TestOutletBlocked checks that a client that does not read does not delay put. The method close
// waits for the current write and drops the remaining notifications.
func TestOutletBlocked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &reader{turn: make(chan struct{})}
		o := &notifier{to: r, as: unchanged}
		start := time.Now()
		for i := range 10_000 {
			o.put(nil, notice(t, mcp.NoteResourceUpdated, fmt.Sprintf(`{"uri":"x://%d"}`, i%10)))
		}
		if took := time.Since(start); took != 0 {
			t.Errorf("put blocked for %v", took)
		}
		synctest.Wait() // the writer is writing
		closed := make(chan struct{})
		var closing sync.WaitGroup
		closing.Go(func() { o.close(); close(closed) })
		synctest.Wait()
		select {
		case <-closed:
			t.Error("close did not wait")
		default:
		}
		close(r.turn)
		closing.Wait()
		if n := r.heard(); n > 10 {
			t.Errorf("%d notifications were sent", n)
		}
	})
}

// unchanged is a rename function that does not change names.
func unchanged(_ string, _ *jsonrpc.Message, _ *jsonrpc.Edits) {}
