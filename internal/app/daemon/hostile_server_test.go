//go:build unix

package daemon

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
	"github.com/dragoman-mcp/dragoman/internal/setup/config"
)

// A hostile server misbehaves only in calls of its tool "hostile". The argument "case" of the tool
// is the name of one of hostileCases. At the same time, innocent clients call the server's tool
// "echo".

// hostileCall is a call of the tool "hostile".
type hostileCall struct {
	id, token string            // raw JSON; token is "null" if the request has none
	say       func(text string) // sends text as a line, an event or a body, depending on the transport
}

func (c *hostileCall) sayf(format string, args ...any) { c.say(fmt.Sprintf(format, args...)) }

// result answers the call with a result object.
func (c *hostileCall) result(result string) {
	c.sayf(`{"jsonrpc":"2.0","id":%s,"result":%s}`, c.id, result)
}

// fail answers the call with an error object.
func (c *hostileCall) fail(object string) {
	c.sayf(`{"jsonrpc":"2.0","id":%s,"error":%s}`, c.id, object)
}

const goodResult = `{"resultType":"complete","content":[{"type":"text","text":"good"}]}`

func (c *hostileCall) good() { c.result(goodResult) }

// hostileServer is a hostile server on any transport. take gets each message and a function that
// sends the answer.
type hostileServer struct{ era string }

func (s *hostileServer) take(m *jsonrpc.Message, say func(string)) {
	if m.Kind != jsonrpc.Request {
		return
	}
	id := string(m.ID)
	complete := ""
	if s.era == "modern" {
		complete = `"resultType":"complete",`
	}
	answer := func(result string) { say(`{"jsonrpc":"2.0","id":` + id + `,"result":` + result + `}`) }
	switch {
	case m.Method == mcp.MethodDiscover && s.era == "modern":
		answer(`{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{"tools":{"listChanged":true},"resources":{"subscribe":true}},"serverInfo":{"name":"hostile","version":"1"},"ttlMs":0,"cacheScope":"private"}`)
	case m.Method == mcp.MethodInitialize && s.era == "legacy":
		answer(`{"protocolVersion":"2025-11-25","capabilities":{"tools":{"listChanged":true},"logging":{},"resources":{"subscribe":true}},"serverInfo":{"name":"hostile","version":"1"}}`)
	case m.Method == mcp.MethodListTools:
		answer(`{` + complete + `"tools":[{"name":"echo","inputSchema":{"type":"object"}},{"name":"hostile","inputSchema":{"type":"object"}}]}`)
	case m.Method == mcp.MethodPing && s.era == "legacy", m.Method == mcp.MethodSetLevel && s.era == "legacy", m.Method == mcp.MethodSubscribe, m.Method == mcp.MethodUnsubscribe:
		answer(`{}`)
	case m.Method == mcp.MethodCallTool:
		args := m.Param("arguments")
		if name, _ := jsonrpc.Text(m.Raw, m.Param("name")); name == "echo" {
			answer(`{` + complete + `"content":[{"type":"text","text":` + string(jsonrpc.AppendQuote(nil, string(args.Of(m.Raw)))) + `}]}`)
			return
		}
		token := string(jsonrpc.Find(m.Raw, m.Param(mcp.KeyMeta), mcp.KeyProgressToken).Of(m.Raw))
		if token == "" {
			token = "null"
		}
		name, _ := jsonrpc.Text(m.Raw, jsonrpc.Find(m.Raw, args, "case"))
		for _, x := range hostileCases() {
			if x.name == name {
				x.play(&hostileCall{id: id, token: token, say: say})
				return
			}
		}
		say(`{"jsonrpc":"2.0","id":` + id + `,"error":{"code":-32602,"message":"no such case"}}`)
	default:
		say(`{"jsonrpc":"2.0","id":` + id + `,"error":{"code":-32601,"message":"Method not found"}}`)
	}
}

// runAsHostileServer runs this process as a hostile server on stdio.
func runAsHostileServer(era string) {
	s := &hostileServer{era}
	if f, err := os.OpenFile(os.Getenv(journalVar), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600); err == nil {
		fmt.Fprintf(f, "start %d\n", os.Getpid())
		_ = f.Close()
	}
	var mu sync.Mutex
	say := func(text string) {
		mu.Lock()
		defer mu.Unlock()
		_, _ = io.WriteString(os.Stdout, text+"\n")
	}
	in := bufio.NewReaderSize(os.Stdin, 1<<16)
	for {
		line, err := in.ReadBytes('\n')
		if err != nil {
			return
		}
		if m, err := jsonrpc.Scan(line, jsonrpc.Limits{Bytes: len(line) + 1, Tolerant: true}); err == nil {
			go s.take(m, say)
		}
	}
}

// hostileWeb is a hostile server over HTTP. kind is "json", "events" (answers as event streams) or
// "sse" (HTTP+SSE).
type hostileWeb struct {
	hostileServer
	kind    string
	mu      sync.Mutex
	streams map[string]chan string
	last    int
}

func (s *hostileWeb) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodPost {
		if s.kind == "sse" && r.Method == http.MethodGet {
			s.stream(w, r)
			return
		}
		w.WriteHeader(http.StatusMethodNotAllowed)
		return
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	m, err := jsonrpc.Scan(body, jsonrpc.Limits{Bytes: len(body) + 1, Tolerant: true})
	if err != nil {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	if s.kind == "sse" {
		s.mu.Lock()
		out := s.streams[r.URL.Query().Get("s")]
		s.mu.Unlock()
		w.WriteHeader(http.StatusAccepted)
		s.take(m, func(text string) {
			select {
			case out <- text:
			case <-r.Context().Done():
			}
		})
		return
	}
	if m.Kind != jsonrpc.Request {
		w.WriteHeader(http.StatusAccepted)
		return
	}
	if name, _ := jsonrpc.Text(m.Raw, m.Param("name")); s.kind == "events" && name == "hostile" {
		w.Header().Set("Content-Type", "text/event-stream")
		s.take(m, func(text string) { writeEvent(w, text) })
		return
	}
	first := true // a JSON body can have only one message, so drop the others
	w.Header().Set("Content-Type", "application/json")
	s.take(m, func(text string) {
		if first {
			_, _ = io.WriteString(w, text)
		}
		first = false
	})
}

func writeEvent(w http.ResponseWriter, text string) {
	_, _ = io.WriteString(w, "data: "+strings.ReplaceAll(text, "\n", "\ndata: ")+"\n\n")
	w.(http.Flusher).Flush()
}

func (s *hostileWeb) stream(w http.ResponseWriter, r *http.Request) {
	out := make(chan string, 1024)
	s.mu.Lock()
	s.last++
	name := strconv.Itoa(s.last)
	s.streams[name] = out
	s.mu.Unlock()
	w.Header().Set("Content-Type", "text/event-stream")
	_, _ = io.WriteString(w, "event: endpoint\ndata: /sse?s="+name+"\n\n")
	w.(http.Flusher).Flush()
	for {
		select {
		case text := <-out:
			writeEvent(w, text)
		case <-r.Context().Done():
			return
		}
	}
}

// hostileOver starts a hostile server on a transport: "stdio", or a kind of hostileWeb.
func hostileOver(t *testing.T, transport, era string, more ...func(*config.Server)) *upstreamUnderTest {
	t.Helper()
	more = append(more, func(s *config.Server) { s.CallTimeout = 20 * time.Second })
	if transport == "stdio" {
		return child(t, "hostile", "hostile "+era, more...)
	}
	s := &hostileWeb{hostileServer: hostileServer{era}, kind: transport, streams: map[string]chan string{}}
	web := httptest.NewServer(s)
	t.Cleanup(web.CloseClientConnections)
	t.Cleanup(web.Close)
	c := config.Server{Name: "hostile", URL: web.URL + "/mcp"}
	if transport == "sse" {
		c.URL, c.Kind = web.URL+"/sse", config.KindSSE
	}
	for _, f := range more {
		f(&c)
	}
	complete, problem := config.Complete(c)
	if problem != nil {
		t.Fatal(problem)
	}
	return &upstreamUnderTest{Server: complete}
}

// innocent is a group of well-behaved clients that make calls until stop is called.
type innocent struct {
	calls  atomic.Int64
	faults chan string
	stop   func()
}

// innocents starts a client of each era for the hostile server, and a client of each era for the
// server "good".
func (r *rig) innocents() *innocent {
	i := &innocent{faults: make(chan string, 64)}
	done := make(chan struct{})
	var running sync.WaitGroup
	for _, server := range []string{"hostile", "good"} {
		for _, era := range []string{"modern", "legacy"} {
			session := r.initialize("/mcp", "2025-06-18", "{}")
			running.Go(func() {
				pause := time.NewTicker(5 * time.Millisecond) // leave CPU time for the hostile input
				defer pause.Stop()
				for n := 0; ; n++ {
					select {
					case <-done:
						return
					case <-pause.C:
					}
					args := fmt.Sprintf(`{"v":%d}`, n)
					body, header := modernBody("1", "tools/call", `"name":"`+server+`__echo","arguments":`+args), modernHeader("tools/call", server+"__echo")
					if era == "legacy" {
						body, header = toolCall(strconv.Itoa(n+2), server+"__echo", args), []string{"Mcp-Session-Id", session}
					}
					start := time.Now()
					text, err := r.postQuietly("/mcp", body, header...)
					took := time.Since(start)
					if want := string(jsonrpc.AppendQuote(nil, args)); err != nil || !strings.Contains(text, `"text":`+want) {
						i.fault(fmt.Sprintf("%s client of %s: %v %.300q", era, server, err, text))
					} else if took > patience(2*time.Second) {
						i.fault(fmt.Sprintf("%s client of %s waited for %v", era, server, took))
					}
					i.calls.Add(1)
				}
			})
		}
	}
	i.stop = sync.OnceFunc(func() { close(done); running.Wait() })
	r.t.Cleanup(i.stop)
	return i
}

func (i *innocent) fault(text string) {
	select {
	case i.faults <- text:
	default:
	}
}

// postReading posts a body, and again if serve has cut the answer's stream off because we did not read it: it waits
// for 100 ms, which on a busy machine may pass before we get a turn. A client would resume a stream of 2025-11-25
// then. It returns how long the last attempt took.
func (r *rig) postReading(body string, header ...string) (a answer, took time.Duration) {
	r.t.Helper()
	slow := func() (all []string) {
		for line := range strings.Lines(r.do(r.t.Context(), "GET", "/metrics", nil).body) {
			if strings.Contains(line, "slow_readers") {
				all = append(all, line)
			}
		}
		return all
	}
	for range 5 {
		before, start := slow(), time.Now()
		var err error
		if a, err = r.try(r.t.Context(), "POST", "/mcp", strings.NewReader(body), header...); err == nil {
			return a, time.Since(start)
		}
		if slices.Equal(slow(), before) {
			r.t.Fatalf("POST /mcp: %v after %.200q", err, a.body)
		}
	}
	r.t.Fatal("serve has cut us off five times")
	return a, 0
}

// checkUnaffected fails the test if an innocent client got a wrong answer or waited too long.
func (i *innocent) checkUnaffected(t *testing.T) {
	t.Helper()
	for {
		select {
		case text := <-i.faults:
			t.Errorf("an innocent client was affected: %s", text)
		default:
			return
		}
	}
}

// round waits until the innocent clients have made some more calls.
func (i *innocent) round(t *testing.T) {
	t.Helper()
	from := i.calls.Load()
	await(t, "the innocent clients are served", 10*time.Second, func() bool { return i.calls.Load() >= from+8 })
}

// postQuietly posts a body to a path and reads the response. It never fails the test, so any goroutine may
// call it.
func (r *rig) postQuietly(path, body string, header ...string) (string, error) {
	req, err := http.NewRequest("POST", r.base+path, strings.NewReader(body))
	if err != nil {
		return "", err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json, text/event-stream")
	for n := 0; n+1 < len(header); n += 2 {
		req.Header.Set(header[n], header[n+1])
	}
	resp, err := r.http.Do(req)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	return string(b), err
}

// TestHostileServers plays every case over every transport, with servers and clients of both eras.
// The call must end in time, in the way that the case says. Innocent clients of the same server and
// of another server must not be affected. Dragoman does not restart the server, the server's status
// stays ready, and each case logs few warnings.
func TestHostileServers(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("plays hundreds of cases")
	}
	for _, transport := range []string{"stdio", "events", "json", "sse"} {
		for _, era := range []string{"legacy", "modern"} {
			if transport == "sse" && era == "modern" || raceEnabled && transport != "stdio" {
				continue // HTTP+SSE is legacy; and under the race detector, one transport is enough
			}
			t.Run(transport+"/"+era, func(t *testing.T) {
				t.Parallel()
				playHostileServer(t, transport, era)
			})
		}
	}
}

func playHostileServer(t *testing.T, transport, era string) {
	bad, good := hostileOver(t, transport, era), child(t, "good", "legacy")
	r := serve(t, snapshot(bad, good))
	legacy := r.initialize("/mcp", "2025-11-25", "{}")
	i := r.innocents()
	i.round(t)
	for _, x := range hostileCases() {
		if x.not(transport, era) {
			continue
		}
		for _, client := range []string{"legacy", "modern"} {
			t.Run(strings.ReplaceAll(x.name, " ", "_")+"/"+client, func(t *testing.T) {
				r.t = t
				logged := r.log.count("level=WARN", "level=ERROR")
				args := `"name":"hostile__hostile","arguments":{"case":"` + x.name + `"}`
				body := `{"jsonrpc":"2.0","id":"h","method":"tools/call","params":{` + args + `,"_meta":{"progressToken":"p"}}}`
				header := []string{"Mcp-Session-Id", legacy}
				if client == "modern" {
					body = strings.Replace(modernBody(`"h"`, "tools/call", args), `"_meta":{`, `"_meta":{"progressToken":"p",`, 1)
					header = modernHeader("tools/call", "hostile__hostile")
				}
				a, took := r.postReading(body, header...)
				m := a.message(t)
				if string(m.ID) != `"h"` {
					t.Errorf("the answer has the id %s: %.300q", m.ID, a.body)
				}
				want := x.want
				if alone := x.alone; alone != "" && transport == "json" {
					want = alone
				}
				got := "answer"
				if m.Kind == jsonrpc.Failure {
					got = "error"
				}
				if want != "any" && got != want {
					t.Errorf("the call ends with %s, want %s: %d %.300q", got, want, a.status, a.body)
				}
				if got == "error" && errorData(m, "cause") == "timeout" || took > patience(2*time.Second) {
					t.Errorf("the call was left waiting for %v: %.300q", took, a.body)
				}
				if strings.Contains(a.body, "goroutine ") || strings.Contains(a.body, ".go:") {
					t.Errorf("the answer leaks internal details: %.300q", a.body)
				}
				i.round(t)
				i.checkUnaffected(t)
				if n := r.log.count("level=WARN", "level=ERROR") - logged; n > 20 {
					t.Errorf("%d warnings", n)
				}
				var ready string
				await(t, "the server is ready", 2*time.Second, func() bool {
					ready = r.do(t.Context(), "GET", "/readyz", nil).body
					return strings.Contains(ready, `"name":"hostile","state":"ready"`)
				})
			})
		}
	}
	r.t = t
	if transport == "stdio" {
		// Dragoman may have started a second process to check whether the server has changed its
		// era.
		pids := bad.pids(t)
		if len(pids) > 2 || !alive(pids[0]) {
			t.Errorf("the processes %v were started, the first one is alive: %v", pids, alive(pids[0]))
		}
	}
}
