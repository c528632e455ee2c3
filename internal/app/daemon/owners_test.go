//go:build unix

package daemon

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/app/runtime"
	"github.com/dragoman-mcp/dragoman/internal/base/identity"
	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
	"github.com/dragoman-mcp/dragoman/internal/relay/bridge"
	"github.com/dragoman-mcp/dragoman/internal/relay/catalog"
	"github.com/dragoman-mcp/dragoman/internal/relay/codex"
	"github.com/dragoman-mcp/dragoman/internal/relay/conn"
	"github.com/dragoman-mcp/dragoman/internal/relay/downstream"
	"github.com/dragoman-mcp/dragoman/internal/relay/gateway"
	"github.com/dragoman-mcp/dragoman/internal/relay/handshake"
	"github.com/dragoman-mcp/dragoman/internal/relay/upstream"
	"github.com/dragoman-mcp/dragoman/internal/transport"
	"github.com/dragoman-mcp/dragoman/internal/transport/inmem"
	"github.com/dragoman-mcp/dragoman/internal/transport/sse"
	"github.com/dragoman-mcp/dragoman/internal/transport/stdio"
	"github.com/dragoman-mcp/dragoman/internal/transport/streamhttp"
	"github.com/dragoman-mcp/dragoman/internal/workbench/fake"
	"github.com/dragoman-mcp/dragoman/internal/workbench/tape"
)

// An owner is a value that starts goroutines and has a method that ends them. In these tests, two
// goroutines close one owner at the same time, while work is running. After that, the test closes
// the other owners. The race detector finds races. leaktest, or the end of the synctest bubble,
// finds goroutines that are left.

// workload is the work that runs while an owner is closed.
type workload struct {
	t       *testing.T
	ticks   chan struct{} // gets one element for each finished step
	closing chan struct{} // closed when finished steps are no longer counted
	bubble  bool
	all     sync.WaitGroup
}

func newWorkload(t *testing.T) *workload {
	return &workload{t: t, ticks: make(chan struct{}), closing: make(chan struct{})}
}

// newBubble returns a workload that runs in a synctest bubble.
func newBubble(t *testing.T) *workload {
	m := newWorkload(t)
	m.bubble = true
	return m
}

// pace sleeps in a bubble. Time in a bubble advances only while all its goroutines are blocked.
func (m *workload) pace() {
	if m.bubble {
		time.Sleep(time.Millisecond)
	}
}

// tick counts one finished step, unless closing is closed.
func (m *workload) tick() {
	select {
	case m.ticks <- struct{}{}:
	case <-m.closing:
	}
}

// repeat runs f in a loop until closing is closed, and then once more.
func (m *workload) repeat(f func()) {
	m.all.Go(func() {
		for over := false; !over; {
			f()
			m.tick()
			m.pace()
			select {
			case <-m.closing:
				over = true
			default:
			}
		}
		f()
	})
}

// closeDuring waits for n steps and then calls owner in two goroutines at the same time. After
// that, it calls others in order and waits until the work has ended.
func (m *workload) closeDuring(n int, owner func(), others ...func()) {
	m.t.Helper()
	late := time.After(time.Minute)
	for range n {
		select {
		case <-m.ticks:
		case <-late:
			m.t.Fatal("the work stopped before anything was closed")
		}
	}
	var closing sync.WaitGroup
	closing.Go(owner)
	closing.Go(owner)
	close(m.closing)
	closing.Wait()
	for _, f := range others {
		f()
	}
	m.all.Wait()
}

// converse acts as a client on a pipe until the pipe ends. It sends all kinds of requests and
// answers server requests. prefix is the prefix of the tool names.
func (m *workload) converse(p transport.Pipe, modern bool, prefix string) {
	write := func(format string, a ...any) bool { return p.Write(fmt.Appendf(nil, format, a...)) == nil }
	open, gone := make(chan struct{}, 16), make(chan struct{}) // open has one element for each request without an answer; gone is closed when the pipe has ended
	m.all.Go(func() {
		defer close(gone)
		for {
			x, err := p.Read()
			var refused *jsonrpc.Error
			switch {
			case errors.As(err, &refused):
				continue
			case err != nil:
				return
			case x.Kind == jsonrpc.Request:
				write(`{"jsonrpc":"2.0","id":%s,"result":{"action":"decline","roots":[],"role":"assistant","model":"m","content":{"type":"text","text":"t"}}}`, x.ID)
			case x.Kind != jsonrpc.Notification:
				select {
				case <-open:
				default:
				}
				m.tick()
			}
		}
	})
	m.all.Go(func() {
		more := func(params string) string {
			switch {
			case !modern:
				return params
			case params == "":
				return meta
			}
			return params + "," + strings.Replace(meta, `"io.modelcontextprotocol/clientCapabilities":{}`, `"io.modelcontextprotocol/clientCapabilities":{"elicitation":{},"sampling":{},"roots":{}}`, 1)
		}
		ok := true
		if !modern {
			ok = write(`{"jsonrpc":"2.0","id":"i","method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{"elicitation":{},"sampling":{},"roots":{"listChanged":true}},"clientInfo":{"name":"c","version":"1"}}}`) &&
				write(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
		}
		for n := 1; ok; n++ {
			m.pace()
			request := func(method, params string) bool {
				n++
				select {
				case open <- struct{}{}:
				case <-gone:
					return false
				}
				return write(`{"jsonrpc":"2.0","id":%d,"method":"%s","params":{%s}}`, n, method, more(params))
			}
			cancel := func() bool { // cancels the last request, which may already have an answer
				select {
				case <-open:
				default:
				}
				return write(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":%d}}`, n)
			}
			ok = request("tools/call", `"name":"`+prefix+`echo","arguments":{"text":"a"}`) &&
				request("tools/call", `"name":"`+prefix+`wait","arguments":{"ms":5000}`) &&
				cancel() && request("tools/call", `"name":"`+prefix+`ask_all","arguments":{}`) &&
				request("tools/list", "") && request("tools/call", `"name":"`+prefix+`grow","arguments":{}`)
			if ok && modern {
				ok = request("subscriptions/listen", `"notifications":{"toolsListChanged":true}`) && cancel()
			} else if ok {
				ok = request("resources/subscribe", `"uri":"fake://text"`) && request("ping", "") &&
					write(`{"jsonrpc":"2.0","method":"notifications/roots/list_changed"}`) && request("logging/setLevel", `"level":"info"`)
			}
		}
	})
}

// stack is a gateway with its upstreams and fake servers, all in this process.
type stack struct {
	fakes     []*fake.Server
	upstreams []*upstream.Upstream
	bridge    *bridge.Bridge
	merged    *gateway.Merged // nil if there is only one server
	endpoint  *downstream.Endpoint
	serving   sync.WaitGroup
}

// newFakePipe starts a fake server with the profile and returns a pipe to it.
func (w *stack) newFakePipe(t *testing.T, profile string) transport.Pipe {
	f, err := fake.NewServer(profile, fake.Options{})
	if err != nil {
		t.Error(err)
	}
	w.fakes = append(w.fakes, f)
	in, ourOut := io.Pipe()
	ourIn, out := io.Pipe()
	w.serving.Go(func() { _ = f.ServePipe(context.Background(), in, out) })
	return stdio.NewPipe(ourIn, ourOut, stdio.Options{Limits: jsonrpc.Limits{Bytes: stdio.MaxFromUpstream, Tolerant: true}})
}

func newStack(t *testing.T, profiles ...string) *stack {
	w := &stack{bridge: &bridge.Bridge{}}
	w.endpoint = &downstream.Endpoint{}
	var mu sync.Mutex // guards w.fakes
	var behind []gateway.Upstream
	for i, profile := range profiles {
		name := string(rune('a' + i))
		o := upstream.Options{}
		if len(profiles) > 1 {
			o.Changed = func(kind string) { w.merged.Changed(name, kind) }
		}
		isolation := upstream.Auto
		if profile == perCall {
			profile, isolation = legacyProfile, upstream.PerCall
		}
		u := upstream.New(upstream.Spec{Name: name, Isolation: isolation, Pipe: func(context.Context) (transport.Pipe, error) {
			mu.Lock()
			defer mu.Unlock()
			return w.newFakePipe(t, profile), nil
		}}, o)
		w.upstreams = append(w.upstreams, u)
		behind = append(behind, runtime.ForGateway(u))
	}
	if len(behind) == 1 {
		w.endpoint.Handler = &gateway.Single{Bridge: w.bridge, Upstream: behind[0]}
		return w
	}
	w.merged = &gateway.Merged{Bridge: w.bridge, Upstreams: behind, Identity: catalog.Identity{Name: "d", Version: "1"}}
	w.endpoint.Handler = w.merged
	return w
}

func (w *stack) close() {
	if w.merged != nil {
		w.merged.Close()
	} else {
		w.endpoint.Handler.(*gateway.Single).Drain()
	}
	w.bridge.Close()
	runtime.CloseAll(w.upstreams, 0)
	for _, f := range w.fakes {
		_ = f.Close()
	}
	w.serving.Wait()
}

// client starts a client on a pipe. stop ends the session from Dragoman's side, leave from the
// client's side.
func (w *stack) client(m *workload, modern bool, prefix string) (stop, leave func()) {
	theirs, ours := inmem.Pipe()
	ctx, cancel := context.WithCancel(context.Background())
	m.all.Go(func() { _ = w.endpoint.ServePipe(ctx, ours, transport.Peer{Transport: "stdio"}) })
	m.converse(theirs, modern, prefix)
	return cancel, func() { _ = theirs.Close() }
}

const (
	legacyProfile = "strict-2025-11-25"
	modernProfile = "strict-2026-07-28"
	perCall       = "" // the legacy profile, with a session for each call
)

// TestOwnersWithinThisProcessAreClosedInMidWork builds a whole stack with four clients, closes one
// of the owners while they work, and then closes the others.
func TestOwnersWithinThisProcessAreClosedInMidWork(t *testing.T) {
	t.Parallel()
	owners := map[string]func(w *stack, stop, leave func()) func(){
		"upstream.Upstream":   func(w *stack, _, _ func()) func() { return func() { runtime.CloseAll(w.upstreams, 0) } },
		"bridge.Bridge":       func(w *stack, _, _ func()) func() { return w.bridge.Close },
		"gateway":             func(w *stack, _, _ func()) func() { return w.closeHost },
		"downstream.Endpoint": func(_ *stack, stop, _ func()) func() { return stop },
		"downstream.Session":  func(_ *stack, _, leave func()) func() { return leave },
	}
	for name, owner := range owners {
		for chain, profiles := range map[string][]string{"legacy": {legacyProfile}, "modern": {modernProfile}, "merged": {legacyProfile, modernProfile}, "call": {legacyProfile, perCall}} {
			t.Run(name+"/"+chain, func(t *testing.T) {
				for _, n := range []int{1, 4, 12, 25, 50} {
					synctest.Test(t, func(t *testing.T) {
						m, w := newBubble(t), newStack(t, profiles...)
						var stops, leaves []func()
						for i := range 4 {
							prefix := ""
							if w.merged != nil {
								prefix = [...]string{"a__", "b__"}[i/2]
							}
							stop, leave := w.client(m, i%2 == 1, prefix)
							stops, leaves = append(stops, stop), append(leaves, leave)
						}
						all := func(fs []func()) func() {
							return func() {
								for _, f := range fs {
									f()
								}
							}
						}
						stop, leave := all(stops), all(leaves)
						m.closeDuring(n, owner(w, stop, leave), leave, stop, w.close)
					})
				}
			})
		}
	}
}

func (w *stack) closeHost() {
	if w.merged != nil {
		w.merged.Close()
		return
	}
	w.endpoint.Handler.(*gateway.Single).Drain()
}

// TestConversationsWithServersAreClosedInMidWork closes a conn.Server, and the codex adapter of a
// pipe, while calls are running.
func TestConversationsWithServersAreClosedInMidWork(t *testing.T) {
	t.Parallel()
	t.Run("conn.Server", func(t *testing.T) {
		for n := range 20 {
			for _, profile := range []string{legacyProfile, modernProfile} {
				synctest.Test(t, func(t *testing.T) {
					m, w := newBubble(t), &stack{}
					s, err := conn.OpenPipe(t.Context(), w.newFakePipe(t, profile), handshake.Offer{Capabilities: []byte(`{"roots":{},"sampling":{},"elicitation":{}}`)}, conn.Options{})
					if err != nil {
						t.Fatal(err)
					}
					f := &mcp.ClientInfo{Revision: mcp.LatestLegacy, Conversation: 1, Capabilities: []byte(`{"roots":{}}`)}
					for _, line := range []string{
						toolCall("1", "echo", `{"text":"a"}`), toolCall("1", "ask_all", `{}`), `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`,
						toolCall("1", "wait", `{"ms":10}`),
					} {
						x, err := jsonrpc.Scan([]byte(line), jsonrpc.Limits{})
						if err != nil {
							t.Fatal(err)
						}
						m.repeat(func() {
							_, _ = s.Call(context.Background(), mcp.NewAttempt(mcp.NewCall(x, x.Param(mcp.KeyMeta), f)), mcp.NoCaller{})
						})
						m.repeat(func() {
							_ = s.Forward(context.Background(), jsonrpc.AppendNotification(nil, mcp.NoteRootsChanged, nil), mcp.NoteRootsChanged)
						})
					}
					m.closeDuring(8*n, func() { _ = s.Close(nil) }, func() { _ = w.fakes[0].Close() }, w.serving.Wait)
				})
			}
		}
	})
	t.Run("codex", func(t *testing.T) {
		for n := range 20 {
			synctest.Test(t, func(t *testing.T) {
				m, w := newBubble(t), &stack{}
				p := codex.New(codex.Options{}).Adapt(w.newFakePipe(t, "codex-app-server"))
				var ids struct {
					sync.Mutex
					n int
				}
				m.all.Go(func() {
					for {
						x, err := p.Read()
						var refused *jsonrpc.Error
						if err != nil && !errors.As(err, &refused) {
							return
						}
						if err == nil && x.Kind == jsonrpc.Request {
							_ = p.Write(jsonrpc.AppendResult(nil, x.ID, []byte(`{"action":"accept","content":{"decision":"accept"}}`)))
						}
						m.tick()
					}
				})
				_ = p.Write([]byte(`{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{"elicitation":{}},"clientInfo":{"name":"c","version":"1"}}}`))
				for _, prompt := range []string{"say hello", "run command", "change files"} {
					m.all.Go(func() {
						for err := error(nil); err == nil; {
							ids.Lock()
							ids.n++
							id := ids.n
							ids.Unlock()
							err = p.Write(fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"codex","arguments":{"prompt":"%s"},"_meta":{"progressToken":%d}}}`, id, prompt, id))
							if id%5 == 0 {
								_ = p.Write(fmt.Appendf(nil, `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":%d}}`, id))
							}
							m.pace()
						}
					})
				}
				m.closeDuring(4*n, func() { _ = p.Close() }, func() { _ = w.fakes[0].Close() }, w.serving.Wait)
			})
		}
	})
}

// TestDoorsAreClosedInMidWork closes the two kinds of HTTP server (streamhttp and sse) while
// clients use them.
func TestDoorsAreClosedInMidWork(t *testing.T) {
	t.Parallel()
	t.Run("streamhttp.Server", func(t *testing.T) {
		for n := range 8 {
			m, w := newWorkload(t), newStack(t, legacyProfile, modernProfile)
			s := streamhttp.NewServer(streamhttp.Options{Acceptor: w.endpoint, Principal: identity.Anyone})
			life, endLife := context.WithCancel(context.Background())
			m.all.Go(func() { _ = s.Run(life) })
			web := httptest.NewServer(s)
			r := &rig{t: t, base: web.URL, http: &http.Client{}}
			ask := func(method, body string, header ...string) (id string) {
				resp, err := r.request(context.Background(), method, "", strings.NewReader(body), header...)
				if err != nil {
					return ""
				}
				_, _ = io.Copy(io.Discard, resp.Body)
				_ = resp.Body.Close()
				return resp.Header.Get("Mcp-Session-Id")
			}
			m.repeat(func() {
				ask("POST", modernBody("1", "tools/call", `"name":"a__echo","arguments":{"text":"a"}`), modernHeader("tools/call", "a__echo")...)
			})
			m.repeat(func() { ask("POST", modernBody("1", "tools/list", ""), modernHeader("tools/list", "")...) })
			m.repeat(func() {
				id := ask("POST", initializeBody("2025-11-25", `{"roots":{}}`))
				session := []string{"Mcp-Session-Id", id, "MCP-Protocol-Version", "2025-11-25"}
				var listening sync.WaitGroup
				listening.Go(func() { ask("GET", "", session...) })
				ask("POST", `{"jsonrpc":"2.0","method":"notifications/initialized"}`, session...)
				ask("POST", toolCall("2", "b__echo", `{"text":"a"}`), session...)
				ask("DELETE", "", session...)
				listening.Wait()
			})
			m.repeat(func() {
				id := ask("POST", initializeBody("2025-03-26", `{}`))
				ask("POST", `[`+toolCall("2", "a__echo", `{"text":"a"}`)+`,`+toolCall("3", "b__echo", `{"text":"a"}`)+`]`, "Mcp-Session-Id", id)
			})
			m.closeDuring(5*n, func() { _ = s.Close() }, web.Close, r.http.CloseIdleConnections, endLife, w.close)
		}
	})
	t.Run("sse.Server", func(t *testing.T) {
		for n := range 8 {
			m, w := newWorkload(t), newStack(t, legacyProfile, modernProfile)
			s := sse.NewServer(sse.Options{Acceptor: w.endpoint, Principal: identity.Anyone})
			web := httptest.NewServer(s)
			client := &http.Transport{}
			for range 3 {
				p, err := sse.Dial(t.Context(), web.URL+"/sse", sse.ClientOptions{HTTP: client})
				if err != nil {
					t.Fatal(err)
				}
				m.converse(p, false, "a__")
				defer p.Close()
			}
			m.closeDuring(5*n, func() { _ = s.Close() }, web.Close, client.CloseIdleConnections, w.close)
		}
	})
}

// TestProcessesAndPipesAreClosedInMidWork stops a child process, or closes the pipe to it, while a
// client uses the pipe.
func TestProcessesAndPipesAreClosedInMidWork(t *testing.T) {
	t.Parallel()
	for name, stop := range map[string]func(*stdio.Process){
		"stdio.Process": func(p *stdio.Process) { _ = p.Stop(context.Background()) },
		"stdio.Pipe":    func(p *stdio.Process) { _ = p.Pipe().Close() },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for n := range 6 {
				m := newWorkload(t)
				p, err := stdio.Start(t.Context(), stdio.Spec{
					Command: os.Args[0], Env: append(os.Environ(), asServer+"=fake "+legacyProfile, journalVar+"="+t.TempDir()+"/j"),
				})
				if err != nil {
					t.Fatal(err)
				}
				m.converse(p.Pipe(), false, "")
				m.repeat(func() { _, _ = p.StderrTail(5), p.ExitText() })
				m.closeDuring(5*n, func() { stop(p) }, func() { _ = p.Stop(context.Background()) })
			}
		})
	}
}

// TestRecorderIsClosedInMidWork ends a recorded conversation while both sides send. Either the
// server exits or the client disconnects.
func TestRecorderIsClosedInMidWork(t *testing.T) {
	t.Parallel()
	for n := range 20 {
		synctest.Test(t, func(t *testing.T) {
			m, w := newBubble(t), &stack{}
			r := tape.NewRecorder(io.Discard, "a test", nil)
			f, err := fake.NewServer(legacyProfile, fake.Options{})
			if err != nil {
				t.Fatal(err)
			}
			clientR, clientW := io.Pipe() // the stream that the client writes
			answerR, answerW := io.Pipe() // the stream that the client reads
			serverR, serverW := io.Pipe()
			outR, outW := io.Pipe()
			w.serving.Go(func() { _ = f.ServePipe(context.Background(), serverR, outW) })
			m.all.Go(func() {
				_ = r.Pipe(tape.Ends{From: clientR, To: answerW}, tape.Ends{From: outR, To: serverW}, func() { _ = clientR.Close() })
				_ = answerW.Close()
			})
			m.converse(stdio.NewPipe(answerR, clientW, stdio.Options{Limits: jsonrpc.Limits{Bytes: 1 << 20, Tolerant: true}}), false, "")
			m.repeat(func() { _ = r.Err() })
			owner := func() { _ = f.Close() } // the server exits
			if n%2 == 1 {
				owner = func() { _ = clientW.Close() } // the client disconnects
			}
			m.closeDuring(5*n, owner, func() { _ = clientW.Close(); _ = answerR.Close() }, func() { _ = f.Close() }, w.serving.Wait)
		})
	}
}

// TestServeAndRunAreClosedInMidWork stops Serve and Run, with child processes, while clients make
// calls.
func TestServeAndRunAreClosedInMidWork(t *testing.T) {
	t.Parallel()
	for n := range 4 {
		t.Run(fmt.Sprint("serve ", n), func(t *testing.T) {
			t.Parallel()
			m := newWorkload(t)
			r := serve(t, snapshot(child(t, "a", "fake "+legacyProfile), child(t, "b", "fake "+modernProfile)), func(o *ServeOptions) { o.Drain = time.Millisecond })
			ask := func(body string, header ...string) {
				resp, err := r.request(context.Background(), "POST", "/mcp", strings.NewReader(body), header...)
				if err != nil {
					return
				}
				_, _ = io.Copy(io.Discard, bufio.NewReader(resp.Body))
				_ = resp.Body.Close()
			}
			for _, tool := range []string{"a__echo", "b__echo"} {
				m.repeat(func() {
					ask(modernBody("1", "tools/call", `"name":"`+tool+`","arguments":{"text":"a"}`), modernHeader("tools/call", tool)...)
				})
			}
			m.repeat(func() { ask(modernBody("1", "tools/list", ""), modernHeader("tools/list", "")...) })
			m.repeat(func() { ask(initializeBody("2025-11-25", `{"elicitation":{}}`)) })
			m.closeDuring(1+10*n, func() { _ = r.stop() })
		})
		t.Run(fmt.Sprint("run ", n), func(t *testing.T) {
			t.Parallel()
			m := newWorkload(t)
			c := child(t, "a", "fake "+[]string{legacyProfile, modernProfile}[n%2])
			inR, inW := io.Pipe()
			outR, outW := io.Pipe()
			ctx, cancel := context.WithCancel(context.Background())
			m.all.Go(func() {
				if err := Run(ctx, RunOptions{Server: c.Server, Stdin: inR, Stdout: outW, Version: "test"}); err != nil && !errors.Is(err, context.Canceled) {
					t.Logf("run: %v", err)
				}
				_ = outW.Close()
				_ = inR.Close()
			})
			m.converse(stdio.NewPipe(outR, inW, stdio.Options{Limits: jsonrpc.Limits{Bytes: 1 << 20, Tolerant: true}}), n >= 2, "")
			m.closeDuring(1+10*n, cancel, func() { _ = inW.Close() })
		})
	}
}
