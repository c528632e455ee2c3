package downstream

import (
	"bufio"
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
	"github.com/dragoman-mcp/dragoman/internal/testkit/netsim"
	"github.com/dragoman-mcp/dragoman/internal/testkit/pipetest"
	"github.com/dragoman-mcp/dragoman/internal/transport"
	"github.com/dragoman-mcp/dragoman/internal/transport/stdio"
)

// pausingClient is a client on a pipe that reads only when the test calls read.
type pausingClient struct {
	t    *testing.T
	far  *netsim.Conn
	in   *bufio.Reader
	over bool  // ServePipe has returned
	err  error // the error that ServePipe returned
}

// startPausing lets r serve a pausingClient on a pipe. The pipe's buffer has room bytes.
func startPausing(ctx context.Context, t *testing.T, r *Endpoint, all *sync.WaitGroup, room int) *pausingClient {
	near, far := netsim.NewLink(netsim.Options{Buffer: room})
	h := &pausingClient{t: t, far: far, in: bufio.NewReaderSize(far, 4<<20)}
	all.Go(func() {
		h.err = r.ServePipe(ctx, stdio.NewPipe(near, near, stdio.Options{}), transport.Peer{Transport: "stdio"})
		h.over = true
	})
	return h
}

func (h *pausingClient) say(line string) {
	if _, err := h.far.Write([]byte(line + "\n")); err != nil {
		h.t.Fatal(err)
	}
	synctest.Wait()
}

func (h *pausingClient) read() string {
	h.t.Helper()
	_ = h.far.SetReadDeadline(time.Now().Add(time.Second))
	line, err := h.in.ReadString('\n')
	if err != nil {
		h.t.Fatalf("after %q: %v", line, err)
	}
	return line
}

// eras has, for each era, the first message of a client, and the text with which the params of its
// other requests begin.
var eras = map[string]struct{ hello, meta string }{"legacy": {hello25, ""}, "modern": {hello26, modernly + ","}}

func (h *pausingClient) open(era string) {
	h.say(eras[era].hello)
	h.read()
}

func (h *pausingClient) call(era string, id any, name string) {
	h.say(fmt.Sprintf(`{"jsonrpc":"2.0","id":%v,"method":"tools/call","params":{%s"name":%q}}`, id, eras[era].meta, name))
}

// chatty returns a handler with three special tools: "big" answers with 1 MiB, "chatty" sends many
// log messages before its answer, and "asks" sends a server request. The handler calls ended at the
// end of each call.
func chatty(ended func(name string)) *fakeHandler {
	return &fakeHandler{on: methods{mcp.MethodCallTool: func(ctx context.Context, c *mcp.Call, k mcp.Caller) (*mcp.Reply, error) {
		defer ended(c.Name)
		text := "small"
		switch c.Name {
		case "big":
			text = strings.Repeat("x", 1<<20)
		case "chatty":
			for range 400 {
				k.Notify(pipetest.Note(`{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":"` + strings.Repeat("y", 8<<10) + `"}}`))
			}
		case "asks":
			m, _ := jsonrpc.Scan([]byte(`{"jsonrpc":"2.0","id":1,"method":"x/ask"}`), jsonrpc.Limits{})
			ctx, stop := context.WithTimeout(ctx, 20*time.Second)
			defer stop()
			_, _ = k.Ask(ctx, m)
		}
		return mcp.Answer([]byte(`{"text":"` + text + `"}`)), nil
	}}}
}

// room is the size of the pipe's buffer in bytes, by tool. The buffer is smaller than the output of
// the tool.
var room = map[string]int{"small": 16, "asks": 16, "big": 4 << 10, "chatty": 4 << 10}

// TestS11_ClientThatStopsReading checks a client that does not read for a while. Meanwhile, a
// second client is not affected. If the pause is long, the calls end before the client reads again.
// When the client reads again, it gets all answers.
func TestS11_ClientThatStopsReading(t *testing.T) {
	for _, era := range []string{"legacy", "modern"} {
		for _, pause := range []time.Duration{time.Second, 11 * time.Second, time.Minute, time.Hour} {
			for _, tool := range []string{"small", "big", "chatty"} {
				t.Run(fmt.Sprint(era, "_", pause, "_", tool), func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) {
						var all sync.WaitGroup
						var ended atomic.Int32
						r := &Endpoint{Handler: chatty(func(name string) {
							if name == tool {
								ended.Add(1)
							}
						})}
						h := startPausing(t.Context(), t, r, &all, room[tool])
						other := startPausing(t.Context(), t, r, &all, 64<<10)
						h.open(era)
						other.open("legacy")
						begun := time.Now()
						for id := range 3 {
							h.call(era, id, tool)
						}
						h.say(`{broken`)
						for n := 0; time.Since(begun) < pause; n++ {
							other.call("legacy", n, "innocent")
							if line := other.read(); !strings.Contains(line, `"small"`) {
								t.Errorf("the second client got %.100s", line)
							}
							time.Sleep(pause / 10)
							synctest.Wait()
						}
						patient := pause <= hintStalled // if true, each log message still waits until the client reads
						if n := ended.Load(); n != 3 && !(patient && tool == "chatty") {
							t.Errorf("%d of 3 calls have ended", n)
						}
						answers, notes, errors := 0, 0, 0
						for answers < 3 || errors < 1 {
							switch line := h.read(); {
							case strings.Contains(line, `"result"`):
								answers++
							case strings.Contains(line, `"error"`):
								errors++
							default:
								notes++
							}
						}
						if tool == "chatty" && era == "legacy" && !patient && (notes < 100 || notes > 200) {
							t.Errorf("%d log messages were queued", notes)
						}
						h.call(era, 9, "innocent")
						if line := h.read(); !strings.Contains(line, `"id":9,"result"`) {
							t.Errorf("after the pause the client got %.100s", line)
						}
						_, _ = h.far.Close(), other.far.Close()
						all.Wait()
						if h.err != nil || other.err != nil {
							t.Errorf("ServePipe returned %v, %v", h.err, other.err)
						}
					})
				})
			}
		}
	}
}

// TestS11_ClientThatNeverReadsAgain checks a client that stops reading for ever. ServePipe still
// returns soon after the client closes its end or the context ends. A call that waits for the
// client's answer to a server request ends when its own context ends.
func TestS11_ClientThatNeverReadsAgain(t *testing.T) {
	for name, end := range map[string]func(h *pausingClient, stop func()){
		"end of input": func(h *pausingClient, _ func()) { _ = h.far.CloseWrite() },
		"signal":       func(_ *pausingClient, stop func()) { stop() },
	} {
		for _, tool := range []string{"small", "big", "chatty", "asks"} {
			t.Run(name+" "+tool, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					var all sync.WaitGroup
					var ended atomic.Value // a time.Time; the calls end at the same moment
					r := &Endpoint{Handler: chatty(func(string) { ended.Store(time.Now()) })}
					ctx, stop := context.WithCancel(t.Context())
					defer stop()
					h := startPausing(ctx, t, r, &all, room[tool])
					h.open("legacy")
					begun := time.Now()
					for id := range 3 {
						h.call("legacy", id, tool)
					}
					time.Sleep(time.Hour)
					synctest.Wait()
					if tool == "asks" {
						if d := ended.Load().(time.Time).Sub(begun); d != 20*time.Second {
							t.Errorf("the calls with a server request ended after %v", d)
						}
					}
					begun = time.Now()
					end(h, stop)
					all.Wait()
					if d := time.Since(begun); d > drainTimeout+stopTimeout {
						t.Errorf("ServePipe returned after %v", d)
					}
					_ = h.far.Close()
				})
			})
		}
	}
}

// TestClientThatTakesNoAnswers checks a client that closes the pipe from which it reads, but still
// writes. ServePipe returns an error that says so.
func TestClientThatTakesNoAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var all sync.WaitGroup
		r := &Endpoint{Handler: chatty(func(string) {})}
		near, far := netsim.NewLink(netsim.Options{Up: netsim.Faults{HalfCloseAfterBytes: 300}})
		var err error
		all.Go(func() {
			err = r.ServePipe(t.Context(), stdio.NewPipe(near, near, stdio.Options{}), transport.Peer{Transport: "stdio"})
		})
		h := &pausingClient{t: t, far: far, in: bufio.NewReader(far)}
		h.open("legacy")
		for id := range 10 {
			h.call("legacy", id, "small")
		}
		begun := time.Now()
		all.Wait()
		if err == nil || !strings.Contains(err.Error(), "stopped reading its answers") || time.Since(begun) > drainTimeout+stopTimeout {
			t.Errorf("after %v ServePipe returned %v", time.Since(begun), err)
		}
		_ = far.Close()
	})
}

// TestClientThatReadsSlowlyAfterItsEnd checks a client that has closed the pipe to which it writes.
// If it reads slowly, it still gets all answers. If it does not read, ServePipe returns an error.
func TestClientThatReadsSlowlyAfterItsEnd(t *testing.T) {
	for name, pause := range map[string]time.Duration{"slowly": 200 * time.Millisecond, "not at all": time.Hour} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var all sync.WaitGroup
				h := startPausing(t.Context(), t, &Endpoint{Handler: chatty(func(string) {})}, &all, 64<<10)
				h.open("legacy")
				for id := range 3 {
					h.call("legacy", id, "big")
				}
				_ = h.far.CloseWrite()
				synctest.Wait()
				_ = h.far.SetReadDeadline(time.Time{})
				var got int
				for buf := make([]byte, 60<<10); ; {
					time.Sleep(pause)
					n, err := h.far.Read(buf)
					got += n
					if err != nil {
						break
					}
				}
				all.Wait()
				whole := got > 3<<20
				if slowly := name == "slowly"; whole != slowly || (h.err == nil) != slowly {
					t.Errorf("the client read %d bytes, and ServePipe returned %v", got, h.err)
				}
				_ = h.far.Close()
			})
		})
	}
}
