package upstream

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
	"github.com/dragoman-mcp/dragoman/internal/testkit/netsim"
	"github.com/dragoman-mcp/dragoman/internal/transport"
	"github.com/dragoman-mcp/dragoman/internal/transport/inmem"
	"github.com/dragoman-mcp/dragoman/internal/transport/stdio"
)

// links contains functions that make pipes, on which the tests let a server stop reading. The
// buffers of the stdio pipes are smaller than any message.
var links = map[string]func() (ours, theirs transport.Pipe){
	"stdio": func() (transport.Pipe, transport.Pipe) {
		near, far := netsim.NewLink(netsim.Options{Buffer: 32})
		o := stdio.Options{}
		o.Limits.Bytes = 4 << 20
		return stdio.NewPipe(near, near, o), stdio.NewPipe(far, far, o)
	},
	"stdio without deadlines": func() (transport.Pipe, transport.Pipe) {
		r1, w1 := io.Pipe()
		r2, w2 := io.Pipe()
		return stdio.NewPipe(r1, w2, stdio.Options{}), stdio.NewPipe(r2, w1, stdio.Options{})
	},
	"inmem": func() (transport.Pipe, transport.Pipe) { return inmem.Pipe() },
}

// pausing makes the first process of a program stop reading while it runs the tool "busy". The
// process reads again when release is closed.
func pausing(h *program, release <-chan struct{}) {
	h.on = func(l *process, m *jsonrpc.Message) []byte {
		if l.n == 0 && strings.Contains(string(m.Raw), `"busy"`) {
			<-release
			return ok(m, `{"content":[]}`)
		}
		return nil
	}
}

// tool is the result of one tool call. over is true when the call has ended.
type tool struct {
	took time.Duration
	over bool
	err  error
}

// start starts a call of the named tool with size bytes of arguments. It returns when the call has
// ended or is blocked.
func start(ctx context.Context, t *testing.T, u *Upstream, all *sync.WaitGroup, name string, size int) *tool {
	x := &tool{}
	raw := fmt.Sprintf(`{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":%q,"arguments":{"a":%q}}}`, name, strings.Repeat("x", size))
	m, err := jsonrpc.Scan([]byte(raw), jsonrpc.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	all.Go(func() {
		begun := time.Now()
		_, x.err = u.Call(ctx, mcp.NewCall(m, m.Param(mcp.KeyMeta), legacyClient), mcp.NoCaller{})
		x.took, x.over = time.Since(begun), true
	})
	synctest.Wait()
	return x
}

// TestU16_ServerThatStopsReading checks a server that does not read for a while, while few or many
// bytes are waiting to be sent. The call that keeps the server busy and the call that the server
// has partly read still get their answers. Calls of a second client are answered all the time, if
// necessary through another session. The status is correct within two seconds.
func TestU16_ServerThatStopsReading(t *testing.T) {
	t.Parallel()
	for link, open := range links {
		for _, era := range []string{"legacy", "modern"} {
			for _, isolation := range []Isolation{Auto, Shared} {
				for _, pause := range []time.Duration{time.Second, 11 * time.Second, time.Minute} {
					for _, waiting := range []int{1, 1 << 20} {
						if isolation == Shared && pause > 30*time.Second {
							continue // there is no other session; see TestU16_OneSessionForEverybody
						}
						if link == "inmem" && waiting > 1 {
							continue // the limit of this pipe is in messages, not in bytes
						}
						name := fmt.Sprintf("%s/%s/%s/%v/%d", link, era, isolation, pause, waiting)
						t.Run(strings.ReplaceAll(name, " ", "_"), func(t *testing.T) {
							h := &program{legacy: era == "legacy", modern: era == "modern", link: open}
							stopsReading(t, h, isolation, pause, waiting)
						})
					}
				}
			}
		}
	}
}

func stopsReading(t *testing.T, h *program, isolation Isolation, pause time.Duration, waiting int) {
	bubble(t, h, Spec{Isolation: isolation, Idle: 90 * time.Second}, func(t *testing.T, u *Upstream) {
		release := make(chan struct{})
		pausing(h, release)
		var all sync.WaitGroup
		keeps := start(t.Context(), t, u, &all, "busy", 1)
		// On a stdio pipe, the server reads only part of the first of these calls. An in-memory
		// pipe holds 64 messages, so the calls fill it.
		var fills []*tool
		for range 66 {
			fills = append(fills, start(t.Context(), t, u, &all, "fill", waiting))
			if d, _ := u.first().server.Stalled(); d > 0 || u.stalledNow() {
				break
			}
		}
		begun := time.Now()
		var innocent []*tool
		for at := time.Second; at < pause+5*time.Second; at += time.Second {
			time.Sleep(time.Until(begun.Add(at)) - time.Millisecond)
			if at == 2*time.Second && pause > at {
				if s := u.Status(); s.State != Unresponsive || s.Reason != reasonStalled {
					t.Errorf("the status after 2 s is %+v", s)
				}
			}
			if at == pause {
				close(release)
			}
			if at == pause+2*time.Second {
				if s := u.Status(); s.State != Ready || s.Reason != "" {
					t.Errorf("the status 2 s after the server reads again is %+v", s)
				}
			}
			impatient, stop := context.WithTimeoutCause(t.Context(), 500*time.Millisecond, errImpatient)
			x := start(impatient, t, u, &all, "gone", 1)
			innocent = append(innocent, start(t.Context(), t, u, &all, "innocent", 1))
			time.Sleep(600 * time.Millisecond)
			synctest.Wait()
			stop()
			if !x.over {
				t.Errorf("at %v a call with a deadline of 500 ms still runs", at)
			}
		}
		all.Wait()
		for _, x := range append(fills, keeps) {
			if x.err != nil {
				t.Errorf("a call that the server has read: %v", x.err)
			}
		}
		for i, x := range innocent {
			if x.err != nil || x.took > stallLimit+2*stallTick {
				t.Errorf("call %d of the other client: %v, %v", i, x.took, x.err)
			}
		}
		want := 1
		if isolation == Auto && pause > stallLimit {
			want = 2
		}
		if n := len(h.all()); n != want {
			t.Errorf("there are %d processes, want %d", n, want)
		}
	})
}

var errImpatient = errors.New("the client has no more patience")

func (u *Upstream) first() *session {
	return get(u.core, func(st *state) *session { return st.pools.all()[0] })
}

// stalledNow reports whether any message currently waits for the server.
func (u *Upstream) stalledNow() bool {
	time.Sleep(20 * time.Millisecond)
	d, _ := u.first().server.Stalled()
	return d > 0
}

// TestU16_ServerThatNeverReadsAgain checks a server that never reads again. Its running call
// continues until it times out, and other calls get another session. Then Dragoman kills the
// process. The status is always correct.
func TestU16_ServerThatNeverReadsAgain(t *testing.T) {
	t.Parallel()
	for link, open := range links {
		for _, era := range []string{"legacy", "modern"} {
			for _, waiting := range []int{1, 1 << 20} {
				if link == "inmem" && waiting > 1 {
					continue
				}
				t.Run(strings.ReplaceAll(fmt.Sprintf("%s/%s/%d", link, era, waiting), " ", "_"), func(t *testing.T) {
					h := &program{legacy: era == "legacy", modern: era == "modern", link: open}
					bubble(t, h, Spec{}, func(t *testing.T, u *Upstream) {
						never := make(chan struct{})
						pausing(h, never)
						var all sync.WaitGroup
						keeps := start(t.Context(), t, u, &all, "busy", 1)
						for range 66 {
							start(t.Context(), t, u, &all, "fill", waiting)
							if u.stalledNow() {
								break
							}
						}
						var innocent []*tool
						for range 80 {
							time.Sleep(time.Second)
							innocent = append(innocent, start(t.Context(), t, u, &all, "innocent", 1))
						}
						all.Wait()
						var e *mcp.Error
						if !errors.As(keeps.err, &e) || e.Outcome != mcp.OutcomeUnknown || keeps.took != time.Minute {
							t.Errorf("the call that the server never answers: %v, %v", keeps.took, keeps.err)
						}
						for i, x := range innocent {
							if x.err != nil || x.took > stallLimit+2*stallTick {
								t.Errorf("call %d of the other client: %v, %v", i, x.took, x.err)
							}
						}
						close(never) // lets the goroutine of the killed process end
						synctest.Wait()
						r := u.Report()
						if r.State != Ready || r.Restarts != 1 || r.Fault.Text == "" || h.alive() != 1 || len(h.all()) != 2 {
							t.Errorf("%d of %d processes are left: %+v", h.alive(), len(h.all()), r)
						}
					})
				})
			}
		}
	}
}

// TestU16_OneSessionForEverybody checks that calls wait for a busy session until they time out if
// there is no other session. When all calls have ended, Dragoman kills the server, and the next
// call starts it again.
func TestU16_OneSessionForEverybody(t *testing.T) {
	h := &program{legacy: true, link: links["stdio"]}
	bubble(t, h, Spec{Isolation: Shared}, func(t *testing.T, u *Upstream) {
		never := make(chan struct{})
		pausing(h, never)
		var all sync.WaitGroup
		keeps := start(t.Context(), t, u, &all, "busy", 1)
		time.Sleep(4 * time.Second) // before Dragoman pings the server
		part := start(t.Context(), t, u, &all, "part", 1)
		time.Sleep(6 * time.Second)
		waits := start(t.Context(), t, u, &all, "waits", 1)
		time.Sleep(30 * time.Second)
		if s := u.Status(); s.State != Unresponsive || s.Sessions != 1 || len(h.all()) != 1 {
			t.Errorf("%+v", s)
		}
		all.Wait()
		close(never)
		var e *mcp.Error
		if !errors.As(keeps.err, &e) || e.Cause != "timeout" || e.Outcome != mcp.OutcomeUnknown {
			t.Errorf("the call that the server never answers: %v", keeps.err)
		}
		if !errors.As(part.err, &e) || e.Cause != "timeout" || e.Outcome != mcp.OutcomeUnknown || part.took != time.Minute {
			t.Errorf("the call that the server has partly read: %v, %v", part.took, part.err)
		}
		if waits.err != nil || waits.took > time.Minute {
			t.Errorf("the call that was not sent: %v, %v", waits.took, waits.err)
		}
		synctest.Wait()
		if r := u.Report(); r.State != Ready || r.Restarts != 1 || h.alive() != 1 {
			t.Errorf("%+v", r)
		}
	})
}
