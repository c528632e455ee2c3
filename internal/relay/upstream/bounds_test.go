package upstream

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
)

// TestSubscriptionsOfOneClientAreBounded checks the bounds on the number and length of URIs
// that one client may watch, for servers of both eras. The client may watch the same resource
// twice, and may unsubscribe. Other clients are not affected.
func TestSubscriptionsOfOneClientAreBounded(t *testing.T) {
	for _, modern := range []bool{false, true} {
		for name, x := range map[string]struct {
			uri func(n int) string
			fit int
		}{
			"many": {func(n int) string { return fmt.Sprintf("x:%d", n) }, mcp.MaxWatched},
			"long": {func(n int) string { return fmt.Sprintf("x:%d%s", n, strings.Repeat("y", 64<<10-8)) }, 4},
		} {
			t.Run(fmt.Sprintf("%s_modern_%t", name, modern), func(t *testing.T) {
				h := &program{legacy: !modern, modern: modern}
				if modern {
					h.on = func(l *process, m *jsonrpc.Message) []byte {
						if m.Method != mcp.MethodListen {
							return nil
						}
						ack := fmt.Sprintf(`{"_meta":{"io.modelcontextprotocol/subscriptionId":%s},"notifications":%s}`, m.ID, m.Param("notifications").Of(m.Raw))
						_ = l.pipe.Write(jsonrpc.AppendNotification(nil, mcp.NoteAcknowledged, []byte(ack)))
						return silent
					}
				}
				bubble(t, h, Spec{}, func(t *testing.T, u *Upstream) {
					if _, err := u.Hello(t.Context(), legacyClient); err != nil {
						t.Fatal(err)
					}
					greedy := u.Subscribe(legacyClient, func(*jsonrpc.Message) {}, nil)
					other := u.Subscribe(info(mcp.R20251125, "", "{}", 2), func(*jsonrpc.Message) {}, nil)
					u.update(func(st *state) {
						greedy.want.URIs = map[string]bool{}
						for n := range x.fit - 1 {
							greedy.want.URIs[x.uri(n)] = true // sets the same state as a Subscribe call for each URI
						}
					})
					if _, err := greedy.Subscribe(t.Context(), x.uri(x.fit-1)); err != nil {
						t.Errorf("the last subscription that fits: %v", err)
					}
					for n := range 3 {
						_, err := greedy.Subscribe(t.Context(), x.uri(x.fit+n))
						if err == nil || mcp.Wire(err).Code != jsonrpc.CodeInvalidParams {
							t.Errorf("a subscription beyond the bound: %v", err)
						}
					}
					if _, err := greedy.Subscribe(t.Context(), x.uri(0)); err != nil {
						t.Errorf("a repeated subscription: %v", err)
					}
					if _, err := other.Subscribe(t.Context(), "z:1"); err != nil {
						t.Errorf("a subscription of another client: %v", err)
					}
					if _, err := greedy.Unsubscribe(t.Context(), x.uri(0)); err != nil {
						t.Error(err)
					}
					if _, err := greedy.Subscribe(t.Context(), "z:2"); err != nil {
						t.Errorf("a subscription after another was removed: %v", err)
					}
					greedy.Close()
					other.Close()
				})
			})
		}
	}
}

// TestForwardingsAreBoundedInBytes checks that the queue of client notifications for one server
// has a limit in bytes.
func TestForwardingsAreBoundedInBytes(t *testing.T) {
	h := &program{legacy: true}
	f := info(mcp.R20251125, "", canElicit, 1)
	bubble(t, h, Spec{}, func(t *testing.T, u *Upstream) {
		if _, err := u.Hello(t.Context(), f); err != nil {
			t.Fatal(err)
		}
		u.update(func(st *state) {
			st.forwards.sending = true // pretend that forwardAll is still running
		})
		raw := []byte(`{"jsonrpc":"2.0","method":"notifications/x","params":{"x":"` + strings.Repeat("x", 300<<10) + `"}}`)
		for range 2 * maxForwardings {
			u.Forward(f, raw, "notifications/x")
		}
		u.update(func(st *state) {
			size := 0
			for _, x := range st.forwards.queue {
				size += len(x.raw)
			}
			if size > maxForwardingBytes+len(raw) || size != st.forwards.bytes || size == 0 {
				t.Errorf("%d bytes are queued, %d are counted", size, st.forwards.bytes)
			}
		})
		u.broker.forwardAll()
		synctest.Wait()
		if n := get(u.core, func(st *state) int { return st.forwards.bytes }); n != 0 || h.count("notifications/x") == 0 {
			t.Errorf("%d bytes are counted for an empty queue", n)
		}
	})
}

// TestTaskStatusOfAClient checks that the status of a client's task reaches the server only if the
// client has the session for itself: ids of tasks at clients may be the same.
func TestTaskStatusOfAClient(t *testing.T) {
	for _, alone := range []bool{false, true} {
		h := &program{legacy: true}
		f := info(mcp.R20251125, "", canElicit, 1)
		bubble(t, h, Spec{OneClient: alone}, func(t *testing.T, u *Upstream) {
			if _, err := u.Hello(t.Context(), f); err != nil {
				t.Fatal(err)
			}
			for _, method := range []string{mcp.NoteTaskStatus, mcp.NoteRootsChanged} {
				u.Forward(f, []byte(`{"jsonrpc":"2.0","method":"`+method+`","params":{"taskId":"t1","status":"failed"}}`), method)
			}
			synctest.Wait()
			if got := h.count(mcp.NoteTaskStatus); (got > 0) != alone || h.count(mcp.NoteRootsChanged) == 0 {
				t.Errorf("alone %v: the server got %d statuses", alone, got)
			}
		})
	}
}

// TestForwardingsOfOneClientAreBounded lets a client send many notifications to a server that does not
// read its input. Those of another client get through all the same.
func TestForwardingsOfOneClientAreBounded(t *testing.T) {
	for name, size := range map[string]int{"many": 1, "long": 200 << 10} {
		t.Run(name, func(t *testing.T) {
			h := &program{legacy: true}
			loud, quiet := info(mcp.R20251125, "", canElicit, 1), info(mcp.R20251125, "", canElicit, 2)
			bubble(t, h, Spec{}, func(t *testing.T, u *Upstream) {
				if _, err := u.Hello(t.Context(), quiet); err != nil {
					t.Fatal(err)
				}
				u.update(func(st *state) {
					st.forwards.sending = true // pretend that forwardAll is still running
				})
				vendors := []byte(`{"jsonrpc":"2.0","method":"notifications/x","params":{"x":"` + strings.Repeat("x", size) + `"}}`)
				roots := []byte(`{"jsonrpc":"2.0","method":"` + mcp.NoteRootsChanged + `"}`)
				for range 2 * maxForwardings {
					u.Forward(loud, roots, mcp.NoteRootsChanged)
					u.Forward(loud, vendors, "notifications/x")
				}
				u.Forward(quiet, []byte(`{"jsonrpc":"2.0","method":"notifications/y"}`), "notifications/y")
				u.broker.forwardAll()
				synctest.Wait()
				if h.count("notifications/y") != 1 || h.count(mcp.NoteRootsChanged) != 1 || h.count("notifications/x") == 0 {
					t.Errorf("the server got %d of the other client, and %d and %d of the loud one", h.count("notifications/y"), h.count(mcp.NoteRootsChanged), h.count("notifications/x"))
				}
			})
		})
	}
}
