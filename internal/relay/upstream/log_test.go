package upstream

import (
	"context"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
	"github.com/dragoman-mcp/dragoman/internal/relay/event"
)

// stuckLog is a slog.Handler that blocks until proceed is closed.
type stuckLog struct {
	slog.Handler
	proceed chan struct{}
}

func (l stuckLog) Enabled(context.Context, slog.Level) bool { return true }
func (l stuckLog) Handle(context.Context, slog.Record) error {
	<-l.proceed
	return nil
}

// TestStuckLogDelaysNothing checks that a blocked log delays neither calls nor the status.
func TestStuckLogDelaysNothing(t *testing.T) {
	h := &program{legacy: true, fails: func(n int) bool { return n <= 2 }}
	synctest.Test(t, func(t *testing.T) {
		u := h.open(Spec{})
		log := stuckLog{slog.DiscardHandler, make(chan struct{})}
		u.opts.Log = slog.New(log)
		for i := range 3 {
			answered := make(chan error, 1)
			go func() {
				_, err := call(t, u, modernClient, mcp.MethodCallTool, `{"name":"t"}`)
				answered <- err
			}()
			synctest.Wait()
			select {
			case err := <-answered:
				if (err == nil) != (i == 2) {
					t.Errorf("call %d: %v", i, err)
				}
			default:
				t.Errorf("call %d waits for the log", i)
			}
			looked := make(chan Status, 1)
			go func() { looked <- u.Status() }()
			synctest.Wait()
			select {
			case s := <-looked:
				if want := map[bool]State{true: Ready, false: Broken}[i == 2]; s.State != want {
					t.Errorf("status %d: %+v", i, s)
				}
			default:
				t.Errorf("status %d waits for the log", i)
			}
			time.Sleep(5 * time.Second) // wait until the back-off has ended
		}
		close(log.proceed)
		u.Close(t.Context())
	})
}

// TestRepeatedEndsAreLoggedInShort checks a server that ends again and again for the same reason.
// Dragoman logs a full record at most once in ten minutes.
func TestRepeatedEndsAreLoggedInShort(t *testing.T) {
	h := &program{legacy: true}
	keptOpen(t, h, Spec{}, func(t *testing.T, u *Upstream, log *journal) {
		end := func() {
			h.kill()
			synctest.Wait()
			time.Sleep(2 * time.Minute)
			synctest.Wait()
		}
		for range 4 {
			end()
		}
		full, short := `msg="connection to server ended" server=h class=`, `msg="connection to server ended again" server=h class=cut_off times=`
		if got := log.String(); strings.Count(got, full) != 1 || strings.Count(got, short) != 3 || !strings.Contains(got, short+"4") {
			t.Errorf("four ends:\n%s", got)
		}
		time.Sleep(sameEnd)
		end()
		if got := log.String(); strings.Count(got, full) != 2 || strings.Count(got, short) != 3 {
			t.Errorf("one more after a while:\n%s", got)
		}
	})
}

// TestEventOfAnEnd checks that Dragoman publishes one event with the reason when the connection to
// a server breaks.
func TestEventOfAnEnd(t *testing.T) {
	h := &program{legacy: true}
	bubble(t, h, Spec{}, func(t *testing.T, u *Upstream) {
		events, p := &eventList{}, &event.Publisher{}
		defer p.Tap(event.Of(event.Lifecycle), events.add)()
		u.opts.Events = p
		u.KeepOpen(true)
		_, _ = u.Hello(t.Context(), nil)
		synctest.Wait()
		h.kill()
		synctest.Wait()
		if n := events.count(`the connection to server "h" broke`); n != 1 {
			t.Errorf("%d events: %q", n, events.all)
		}
	})
}
