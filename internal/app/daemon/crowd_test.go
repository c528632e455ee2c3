//go:build unix

package daemon

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	goruntime "runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/app/runtime"
	"github.com/dragoman-mcp/dragoman/internal/base/identity"
	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
	"github.com/dragoman-mcp/dragoman/internal/relay/bridge"
	"github.com/dragoman-mcp/dragoman/internal/relay/downstream"
	"github.com/dragoman-mcp/dragoman/internal/relay/event"
	"github.com/dragoman-mcp/dragoman/internal/relay/gateway"
	"github.com/dragoman-mcp/dragoman/internal/relay/upstream"
	"github.com/dragoman-mcp/dragoman/internal/setup/config"
	"github.com/dragoman-mcp/dragoman/internal/transport/httpdoor"
)

// crowdCallsVar sets how many calls TestX05_TM08_AllTheSameIDs makes; see `make same-ids`.
const crowdCallsVar = "DRAGOMAN_SOAK_CALLS"

// TestX05_TM08_AllTheSameIDs runs 64 clients of both eras, on pipes and over HTTP. All clients share one
// server process and use the id 1 and the progress token "1". Each call carries a mark. The test
// fails if a client gets an answer, a progress notification or a log line with the mark of another
// client.
func TestX05_TM08_AllTheSameIDs(t *testing.T) {
	calls := 100_000
	if testing.Short() || raceEnabled {
		calls = 5_000
	}
	if text := os.Getenv(crowdCallsVar); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil {
			t.Fatalf("%s: %v", crowdCallsVar, err)
		}
		calls = n
	}
	t.Run("legacy", func(t *testing.T) { crowded(t, "crowd legacy", calls) })
	t.Run("modern", func(t *testing.T) { crowded(t, "crowd modern", calls/10) })
}

func crowded(t *testing.T, mode string, calls int) {
	const clients, rounds = 64, 5
	before := measureUsage()
	u := child(t, "child", mode, func(s *config.Server) { s.Isolation = config.IsolateShared })
	c := openCrowd(t, u, clients)
	defer c.close()

	// One call after another: each log line can belong only to the one running call, so Dragoman
	// delivers all log lines.
	for _, m := range c.members {
		c.must(m.call(""))
	}
	c.wantCounts("one after another", crowdCounts{answers: clients, progress: clients, logs: clients})

	// Two clients at a time: sometimes one call runs, and sometimes two.
	for i := range clients {
		c.together(20, 0, c.members[i], c.members[(i+1+i/4)%clients])
	}
	var given, done int64 = 0, clients + 2*20*clients
	c.wantCounts("two at a time", crowdCounts{answers: done, progress: done, logs: -1})

	// The server still sends messages about a cancelled call. They must not reach the client
	// "other", although its call is now the only one that has not been cancelled.
	for i, m := range c.members {
		other := c.members[(i+1+i/4)%clients]
		c.must(m.start("late"))
		c.must(other.start("never"))
		c.must(m.giveUp())
		c.must(other.giveUp())
	}
	for _, m := range c.members {
		c.must(m.call("")) // this call also reads messages that were delivered to the wrong client before
	}
	given += 2 * clients
	done += clients
	c.wantCounts("given up", crowdCounts{answers: done, progress: done + given, logs: -1})

	// All clients at once. Dragoman usually cannot know to which call a log line belongs. Dragoman
	// must not deliver such a line to any client. Each client also cancels about one call in fifty.
	var now usage
	began := time.Now()
	each := max(1, calls/clients/rounds)
	for round := range rounds {
		c.together(each, 50, c.members...)
		if w := measureUsage(); round == 0 {
			now = w // the comparison starts after the first round, which fills pools and caches
		} else if round == rounds-1 && !raceEnabled {
			w.wantNoMore(t, "after the last round", now, 48<<20)
		}
	}
	stormed := int64(rounds * each * clients)
	took := time.Since(began)
	given += c.given.Load()
	done += stormed
	c.wantCounts("all at once", crowdCounts{answers: done, progress: done + given, logs: -1})

	// Every log line of the server was delivered to its client or counted as a loss. Only a log
	// line of a cancelled call may be neither.
	told, err := c.members[0].ask("count")
	c.must(err)
	sent, _ := strconv.ParseInt(told, 10, 64)
	heard, lost := c.counts.logs.Load(), c.lost.Load()
	if sent != done+given || heard+lost > sent || heard+lost < sent-given {
		t.Errorf("%d log lines were written for %d calls and %d cancelled calls, %d delivered, %d lost", sent, done, given, heard, lost)
	}
	if n := len(u.pids(t)); n != 1 {
		t.Errorf("%d processes", n)
	}
	t.Logf("%d calls at once in %.1f s, %.0f a second; %d calls in all, %d cancelled; of %d log lines %d delivered, %d lost",
		stormed, took.Seconds(), float64(stormed)/took.Seconds(), done, given, sent, heard, lost)
	c.close()
	u.wantGone(t)
	await(t, "nothing is left", 20*time.Second, func() bool { return measureUsage().within(before) })
}

// together lets some members make n calls each, in parallel. If every is not 0, each member also
// starts and cancels one extra call per "every" calls. Any failure ends the test.
func (c *crowd) together(n, every int, some ...*member) {
	c.t.Helper()
	var wait sync.WaitGroup
	for _, m := range some {
		wait.Go(func() {
			for range n {
				if every > 0 && m.calls%every == every/2 {
					if c.failed(m.start([]string{"late", "never"}[m.number/4%2])) || c.failed(m.giveUp()) {
						return
					}
					c.given.Add(1)
				}
				if c.failed(m.call("")) {
					return
				}
			}
		})
	}
	if wait.Wait(); c.t.Failed() {
		c.t.FailNow()
	}
}

// usage holds the resources of the process that a leak would increase.
type usage struct {
	goroutines, descriptors int
	resident                int64 // bytes; 0 if unknown
}

func measureUsage() usage {
	debug.FreeOSMemory()
	w := usage{goroutines: goruntime.NumGoroutine()}
	fds, _ := os.ReadDir("/proc/self/fd")
	w.descriptors = len(fds)
	if b, err := os.ReadFile("/proc/self/statm"); err == nil {
		if f := strings.Fields(string(b)); len(f) > 1 {
			pages, _ := strconv.ParseInt(f[1], 10, 64)
			w.resident = pages * int64(os.Getpagesize())
		}
	}
	return w
}

func (w usage) within(was usage) bool {
	return w.goroutines <= was.goroutines && w.descriptors <= was.descriptors+2 // the Go runtime opens two descriptors for its network poller at the first use
}

func (w usage) wantNoMore(t *testing.T, when string, was usage, bytes int64) {
	t.Helper()
	t.Logf("%s: %d goroutines, were %d; %d descriptors, were %d; %d KiB resident, were %d",
		when, w.goroutines, was.goroutines, w.descriptors, was.descriptors, w.resident>>10, was.resident>>10)
	// The number of idle connections and their goroutines varies.
	if w.goroutines > was.goroutines+100 || w.descriptors > was.descriptors+50 {
		t.Errorf("%s: goroutines or descriptors leak", when)
	}
	if w.resident > was.resident+bytes {
		t.Errorf("%s: memory leaks", when)
	}
}

// crowd is one gateway with one server and many clients. Each client is a member.
type crowd struct {
	t       *testing.T
	base    string
	http    *http.Client
	members []*member
	lost    atomic.Int64 // the number of log lines that no client got
	given   atomic.Int64
	counts  struct{ answers, progress, logs atomic.Int64 }
	close   func()
}

// crowdCounts are the numbers of messages that arrived. In wantCounts, -1 log lines means any
// number.
type crowdCounts struct{ answers, progress, logs int64 }

func (c *crowd) wantCounts(when string, want crowdCounts) {
	c.t.Helper()
	got := crowdCounts{c.counts.answers.Load(), c.counts.progress.Load(), c.counts.logs.Load()}
	if want.logs < 0 {
		want.logs = got.logs
	}
	if got != want {
		c.t.Errorf("%s: got %+v in all, want %+v", when, got, want)
	}
}

func (c *crowd) must(err error) {
	c.t.Helper()
	if err != nil {
		c.t.Fatal(err)
	}
}

// failed reports err to the test and returns whether the test has failed. Any goroutine may call
// it.
func (c *crowd) failed(err error) bool {
	if err != nil {
		c.t.Error(err)
	}
	return err != nil || c.t.Failed()
}

// openCrowd starts a gateway with one server and connects n clients. It works like Run, but also
// serves many pairs of pipes.
func openCrowd(t *testing.T, u *upstreamUnderTest, n int) *crowd {
	t.Helper()
	c := &crowd{t: t, http: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 2 * n}}}
	log := slog.New(slog.DiscardHandler)
	events := &event.Publisher{}
	events.Tap(event.Of(event.Loss), func(e event.Event) {
		if e.Name == mcp.NoteMessage {
			c.lost.Add(1)
		}
	})
	up := runtime.NewUpstream(u.Server, runtime.Hooks{Log: log, Events: events, Version: "test"})
	b := &bridge.Bridge{}
	host := &gateway.Single{Bridge: b, Upstream: runtime.ForGateway(up)}
	clients := &downstream.Endpoint{Handler: host, Log: log}
	endpoints := runtime.NewEndpoints()
	e := runtime.NewEndpoint("run", clients, runtime.EndpointOptions{Guard: httpdoor.NewGuard(nil, nil, nil), Principal: identity.Anyone, Log: log})
	endpoints.Add(e)
	mux := http.NewServeMux()
	e.Mount(mux, "")
	ctx, cancel := context.WithCancel(context.Background())
	ready := make(chan string, 1)
	var running sync.WaitGroup
	running.Go(func() {
		err := listen(ctx, listenOptions{address: "127.0.0.1:0", handler: mux, endpoints: endpoints, log: log, drain: host.Drain, ready: func(base string) { ready <- base }})
		if err != nil {
			t.Error(err)
			ready <- ""
		}
	})
	c.close = sync.OnceFunc(func() {
		for _, m := range c.members {
			m.line.close()
		}
		cancel()
		c.http.CloseIdleConnections()
		running.Wait()
		b.Close()
		runtime.CloseAll([]*upstream.Upstream{up}, runtime.StopLimit)
	})
	if c.base = <-ready; c.base == "" {
		t.FailNow()
	}
	for i := range n {
		m := &member{crowd: c, number: i, modern: i%2 == 1, givenUp: map[string]bool{}}
		c.members = append(c.members, m)
		if i%4 < 2 {
			theirIn, in, err := os.Pipe()
			c.must(err)
			out, theirOut, err := os.Pipe()
			c.must(err)
			running.Go(func() {
				if err := (pipeClient{clients, func() {}, 4 << 20, theirIn, theirOut, nil, nil}).serve(ctx); err != nil {
					t.Error(err)
				}
			})
			m.line = &crowdPipe{in: in, out: out, lines: bufio.NewReaderSize(out, 1<<14)}
		} else {
			m.line = &crowdHTTP{member: m}
		}
		c.must(m.open())
	}
	return c
}

// member is one client. Only one goroutine at a time uses it, except that a standing stream has its
// own goroutine.
type member struct {
	*crowd
	number int
	modern bool
	line   crowdLine
	calls  int
	mark   string // the mark of the running call
	body   string // the body of the running call

	mu      sync.Mutex
	givenUp map[string]bool // the marks of this member's cancelled calls; the server may still send messages about them
}

// crowdLine is the connection of a client to the gateway.
type crowdLine interface {
	// send sends a request. The caller must read the answer before it sends the next request.
	send(body string) error
	// next returns the next message that belongs to the sent request, or io.EOF at the end of the
	// stream.
	next() (*jsonrpc.Message, error)
	// notify sends a notification.
	notify(body string) error
	// hangUp ends an HTTP response; on a pipe, it does nothing. A modern HTTP client cancels a call
	// with hangUp.
	hangUp() error
	close()
}

func (m *member) open() error {
	if m.modern {
		return nil
	}
	for _, body := range []string{initializeBody("2025-11-25", "{}"), `{"jsonrpc":"2.0","method":"notifications/initialized"}`, `{"jsonrpc":"2.0","id":1,"method":"logging/setLevel","params":{"level":"info"}}`} {
		if strings.Contains(body, mcp.NoteInitialized) {
			if err := m.line.notify(body); err != nil {
				return err
			}
			if h, ok := m.line.(*crowdHTTP); ok {
				if err := h.stand(); err != nil {
					return err
				}
			}
			continue
		}
		if err := m.line.send(body); err != nil {
			return err
		}
		a, err := m.line.next()
		if err != nil {
			return err
		}
		if a.Kind != jsonrpc.Result || a.ID != "1" {
			return fmt.Errorf("client %d: %s", m.number, a.Raw)
		}
	}
	return nil
}

// start sends a call. If do is "late" or "never", start also waits for the call's first progress
// notification.
func (m *member) start(do string) error {
	m.calls++
	m.mark = fmt.Sprintf("%d-%d", m.number, m.calls)
	meta := `"progressToken":"1"`
	if m.modern {
		meta += `,"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{},"io.modelcontextprotocol/clientInfo":{"name":"t","version":"1"},"io.modelcontextprotocol/logLevel":"info"`
	}
	m.body = fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"say","arguments":{"mark":%q,"do":%q},"_meta":{%s}}}`, m.mark, do, meta)
	err := m.line.send(m.body)
	if err != nil || do == "" || do == "count" {
		return err
	}
	for {
		p, err := m.next()
		if err != nil {
			return fmt.Errorf("client %d, call %s: %w", m.number, m.mark, err)
		}
		if err := m.check(p, true); err != nil || p.Method == mcp.NoteProgress {
			return err
		}
	}
}

// next returns the next message for the running call. If Dragoman refuses the call because its id
// is still in use by a cancelled call, next sends the call again.
func (m *member) next() (*jsonrpc.Message, error) {
	for {
		a, err := m.line.next()
		if err != nil || a.Kind != jsonrpc.Failure || !strings.Contains(string(a.Raw), "still running") {
			return a, err
		}
		if err := m.line.send(m.body); err != nil {
			return nil, err
		}
	}
}

// giveUp cancels the running call.
func (m *member) giveUp() error {
	m.mu.Lock()
	m.givenUp[m.mark] = true
	m.mu.Unlock()
	if m.modern {
		if h, ok := m.line.(*crowdHTTP); ok {
			return h.hangUp()
		}
	}
	// 2026-07-28 §Cancellation: on a pipe, a modern client also cancels with a notification.
	if err := m.line.notify(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}`); err != nil {
		return err
	}
	return m.line.hangUp()
}

// call makes a call and checks that the answer has the mark of the call.
func (m *member) call(do string) error {
	text, err := m.ask(do)
	if err == nil && text != m.mark {
		err = fmt.Errorf("client %d got the answer %q to call %s", m.number, text, m.mark)
	}
	return err
}

func (m *member) ask(do string) (string, error) {
	if err := m.start(do); err != nil {
		return "", err
	}
	for heard := 0; ; {
		a, err := m.next()
		if err != nil {
			return "", fmt.Errorf("client %d, call %s: %w", m.number, m.mark, err)
		}
		if a.Kind == jsonrpc.Notification {
			if a.Method == mcp.NoteProgress {
				heard++
			}
			if err := m.check(a, true); err != nil {
				return "", err
			}
			continue
		}
		if a.Kind != jsonrpc.Result || a.ID != "1" {
			return "", fmt.Errorf("client %d, call %s: %s", m.number, m.mark, a.Raw)
		}
		if do == "" {
			if m.counts.answers.Add(1); heard != 1 {
				return "", fmt.Errorf("client %d, call %s: %d words of progress", m.number, m.mark, heard)
			}
		}
		return toolText(a), nil
	}
}

// check checks a notification. A progress notification must belong to the running call; a log
// line may also belong to a cancelled call of the same client.
func (m *member) check(n *jsonrpc.Message, underWay bool) error {
	switch n.Method {
	case mcp.NoteProgress:
		token, _ := jsonrpc.Text(n.Raw, n.Param("progressToken"))
		mark, _ := jsonrpc.Text(n.Raw, n.Param("message"))
		if underWay && token == "1" && mark == m.mark {
			m.counts.progress.Add(1)
			return nil
		}
	case mcp.NoteMessage:
		mark, _ := jsonrpc.Text(n.Raw, n.Param("data"))
		m.mu.Lock()
		own := m.givenUp[mark]
		m.mu.Unlock()
		if own || underWay && mark == m.mark {
			m.counts.logs.Add(1)
			return nil
		}
	}
	return fmt.Errorf("client %d, call %s, got a message of another call: %s", m.number, m.mark, n.Raw)
}

// crowdPipe is the connection of a client over a pair of pipes.
type crowdPipe struct {
	in, out *os.File
	lines   *bufio.Reader
}

func (p *crowdPipe) send(body string) error {
	_, err := io.WriteString(p.in, body+"\n")
	return err
}

func (p *crowdPipe) notify(body string) error { return p.send(body) }

func (p *crowdPipe) next() (*jsonrpc.Message, error) {
	_ = p.out.SetReadDeadline(time.Now().Add(time.Minute))
	line, err := p.lines.ReadBytes('\n')
	if err != nil {
		return nil, err
	}
	return jsonrpc.Scan(line, jsonrpc.Limits{Bytes: len(line) + 1})
}

func (p *crowdPipe) hangUp() error { return nil }

func (p *crowdPipe) close() {
	_ = p.in.Close()
	_, _ = io.Copy(io.Discard, p.lines)
	_ = p.out.Close()
}

// crowdHTTP is the connection of a client over HTTP.
type crowdHTTP struct {
	member   *member
	session  string
	body     io.ReadCloser // the body of the running response
	events   *bufio.Reader // the events of the running response; nil for plain JSON
	cancel   context.CancelFunc
	standing sync.WaitGroup
	leave    context.CancelFunc // ends the standing stream
}

func (h *crowdHTTP) request(ctx context.Context, method, body string) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, method, h.member.base+"/mcp", strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json, text/event-stream")
	switch {
	case h.member.modern:
		req.Header.Set("MCP-Protocol-Version", modernVersion)
		req.Header.Set("Mcp-Method", mcp.MethodCallTool)
		req.Header.Set("Mcp-Name", "say")
	case h.session != "":
		req.Header.Set("Mcp-Session-Id", h.session)
		req.Header.Set("MCP-Protocol-Version", "2025-11-25")
	}
	return h.member.http.Do(req)
}

func (h *crowdHTTP) send(body string) error {
	if err := h.hangUp(); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	resp, err := h.request(ctx, http.MethodPost, body)
	if err != nil {
		cancel()
		return err
	}
	h.body, h.cancel, h.events = resp.Body, cancel, nil
	if h.session == "" {
		h.session = resp.Header.Get("Mcp-Session-Id")
	}
	if strings.HasPrefix(resp.Header.Get("Content-Type"), "text/event-stream") {
		h.events = bufio.NewReader(resp.Body)
	}
	return nil
}

func (h *crowdHTTP) next() (*jsonrpc.Message, error) {
	if h.events != nil {
		return nextEvent(h.events)
	}
	b, err := io.ReadAll(h.body)
	if err != nil {
		return nil, err
	}
	return jsonrpc.Scan(b, jsonrpc.Limits{Bytes: len(b) + 1})
}

// nextEvent reads until the next event that has a message.
func nextEvent(in *bufio.Reader) (*jsonrpc.Message, error) {
	for {
		line, err := in.ReadBytes('\n')
		if err != nil {
			return nil, err
		}
		if data, ok := bytes.CutPrefix(line, []byte("data:")); ok {
			if data = bytes.TrimSpace(data); len(data) > 0 {
				return jsonrpc.Scan(data, jsonrpc.Limits{Bytes: len(data) + 1})
			}
		}
	}
}

func (h *crowdHTTP) notify(body string) error {
	resp, err := h.request(context.Background(), http.MethodPost, body)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusAccepted {
		return fmt.Errorf("client %d: %s to %s", h.member.number, resp.Status, body)
	}
	return nil
}

// hangUp ends the running response. If a modern client cancels its call, hangUp only closes the
// response. Otherwise hangUp reads the response to the end and checks that the response has no
// message of another client.
func (h *crowdHTTP) hangUp() error {
	if h.body == nil {
		return nil
	}
	defer func() { h.body = nil }()
	defer h.cancel()
	defer h.body.Close()
	if h.member.modern && h.member.isGivenUp() {
		return nil
	}
	if h.events == nil {
		_, err := io.Copy(io.Discard, h.body)
		return err
	}
	for {
		m, err := nextEvent(h.events)
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		}
		if err := h.member.check(m, false); err != nil {
			return err
		}
	}
}

func (m *member) isGivenUp() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.givenUp[m.mark]
}

// stand opens the standing stream of the session and checks that it carries no messages of other
// clients.
func (h *crowdHTTP) stand() error {
	ctx, cancel := context.WithCancel(context.Background())
	h.leave = cancel
	resp, err := h.request(ctx, http.MethodGet, "")
	if err != nil {
		return err
	}
	h.standing.Go(func() {
		defer resp.Body.Close()
		in := bufio.NewReader(resp.Body)
		for {
			m, err := nextEvent(in)
			if err != nil {
				if ctx.Err() == nil {
					h.member.t.Errorf("client %d: standing stream: %v", h.member.number, err)
				}
				return
			}
			if err := h.member.check(m, false); err != nil {
				h.member.t.Errorf("standing stream: %v", err)
			}
		}
	})
	return nil
}

func (h *crowdHTTP) close() {
	_ = h.hangUp()
	if h.leave != nil {
		h.leave()
	}
	h.standing.Wait()
}
