package codex_test

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/relay/codex"
	events "github.com/dragoman-mcp/dragoman/internal/relay/event"
	"github.com/dragoman-mcp/dragoman/internal/testkit/leaktest"
	"github.com/dragoman-mcp/dragoman/internal/testkit/logtest"
	"github.com/dragoman-mcp/dragoman/internal/transport"
	"github.com/dragoman-mcp/dragoman/internal/transport/stdio"
	"github.com/dragoman-mcp/dragoman/internal/workbench/fake"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

// These are the generations of workers, as profiles of the fake.
const (
	today = "codex-app-server"
	old   = "codex-app-server-old"
)

var generations = []string{today, old}

// journal collects the log and the handshake traces.
type journal struct{ logtest.Buffer }

// rig is a client that uses a worker, in a synctest bubble.
type rig struct {
	t      *testing.T
	fake   *fake.Server
	server *codex.Server
	log    *journal
	pipe   transport.Pipe
	in     chan *jsonrpc.Message
	ended  error // the error of the reading goroutine, valid after the channel in is closed
	wg     sync.WaitGroup
	last   int
	halt   atomic.Pointer[chan struct{}] // the worker does not read until this channel is closed
}

// halted is the worker's input. A test can block reads from it with rig.halt.
type halted struct {
	io.ReadCloser
	r *rig
}

func (h halted) Read(b []byte) (int, error) {
	n, err := h.ReadCloser.Read(b[:min(1, len(b))])
	if c := h.r.halt.Load(); c != nil {
		<-*c
	}
	return n, err
}

// play starts a fake worker behind an adapter. set contains settings of the fake worker.
func play(t *testing.T, profile string, o codex.Options, set ...string) *rig {
	t.Helper()
	f := newFake(t, profile, set...)
	log := &journal{}
	o.Log = slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	o.Server = "w"
	o.Events = &events.Publisher{}
	o.Events.Tap(events.Of(events.Step), func(e events.Event) {
		fmt.Fprintf(log, "step %d of %s: %s: %s; %s\n", e.Step.N, e.Server, e.Step.Sent, e.Step.Got, e.Step.Reason)
	})
	return attach(t, f, codex.New(o), log)
}

func newFake(t *testing.T, profile string, set ...string) *fake.Server {
	t.Helper()
	values := map[string]string{}
	for _, kv := range set {
		k, v, _ := strings.Cut(kv, "=")
		values[k] = v
	}
	f, err := fake.NewServer(profile, fake.Options{Set: values})
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// attach connects a fake worker to an adapter, and returns the rig of this connection.
func attach(t *testing.T, f *fake.Server, s *codex.Server, log *journal) *rig {
	t.Helper()
	workerIn, ourOut := io.Pipe()
	ourIn, workerOut := io.Pipe()
	r := &rig{t: t, fake: f, server: s, log: log, in: make(chan *jsonrpc.Message, 4096)}
	r.wg.Go(func() { _ = f.ServePipe(context.Background(), halted{workerIn, r}, workerOut) })
	r.pipe = s.Adapt(stdio.NewPipe(ourIn, ourOut, stdio.Options{Limits: jsonrpc.Limits{Bytes: stdio.MaxFromUpstream, Tolerant: true}}))
	r.wg.Go(func() {
		defer close(r.in)
		for {
			m, err := r.pipe.Read()
			if err != nil {
				r.ended = err
				return
			}
			r.in <- m
		}
	})
	return r
}

// close ends the connection and the worker, and fails the test if the fake saw violations.
func (r *rig) close() {
	r.t.Helper()
	if err := r.pipe.Close(); err != nil {
		r.t.Errorf("Close: %v", err)
	}
	r.wg.Wait()
	if v := r.fake.Violations(); len(v) > 0 {
		r.t.Errorf("the worker reports violations: %s", strings.Join(v, "; "))
	}
	_ = r.fake.Close()
	if r.t.Failed() {
		r.t.Log(r.log.String())
	}
}

func (r *rig) write(b []byte) {
	r.t.Helper()
	if err := r.pipe.Write(b); err != nil {
		r.t.Fatal(err)
	}
}

// send sends a request and returns its id.
func (r *rig) send(method, params string) jsonrpc.ID {
	r.t.Helper()
	r.last++
	id := jsonrpc.IntID(int64(r.last))
	r.write(jsonrpc.AppendRequest(nil, id, method, []byte(params)))
	return id
}

// next returns the next message.
func (r *rig) next() *jsonrpc.Message {
	r.t.Helper()
	m, ok := <-r.in
	if !ok {
		r.t.Fatalf("the pipe has ended: %v\n%s", r.ended, r.log)
	}
	return m
}

// answerTo returns the response to a request, and the messages before it.
func (r *rig) answerTo(id jsonrpc.ID) (answer *jsonrpc.Message, before []*jsonrpc.Message) {
	r.t.Helper()
	for {
		m := r.next()
		if (m.Kind == jsonrpc.Result || m.Kind == jsonrpc.Failure) && m.ID == id {
			return m, before
		}
		before = append(before, m)
	}
}

// open sends initialize with the given client capabilities.
func (r *rig) open(capabilities string) *jsonrpc.Message {
	r.t.Helper()
	id := r.send("initialize", `{"protocolVersion":"2025-11-25","capabilities":`+capabilities+`,"clientInfo":{"name":"c","version":"7","title":null}}`)
	m, _ := r.answerTo(id)
	return m
}

const forms = `{"elicitation":{}}`

func (r *rig) call(tool, arguments string) jsonrpc.ID {
	r.t.Helper()
	return r.send("tools/call", `{"name":"`+tool+`","arguments":`+arguments+`}`)
}

// say calls the tool codex, waits until the turn has ended, and returns the response.
func (r *rig) say(prompt string) *jsonrpc.Message {
	r.t.Helper()
	m, _ := r.answerTo(r.call("codex", `{"prompt":"`+prompt+`"}`))
	return m
}

// reply answers a request from the worker.
func (r *rig) reply(q *jsonrpc.Message, result string) {
	r.t.Helper()
	r.write(jsonrpc.AppendResult(nil, q.ID, []byte(result)))
}

func decide(decision string) string {
	return `{"action":"accept","content":{"decision":"` + decision + `"}}`
}

// question returns the next question and skips progress.
func (r *rig) question() *jsonrpc.Message {
	r.t.Helper()
	for {
		m := r.next()
		if m.Kind == jsonrpc.Request {
			return m
		}
		if m.Method != "notifications/progress" {
			r.t.Fatalf("the message is not a question: %s", m.Raw)
		}
	}
}

// content and thread return parts of a tool's result.
func content(m *jsonrpc.Message) string {
	s, _ := jsonrpc.Text(m.Raw, jsonrpc.Find(m.Raw, m.ResultMember("structuredContent"), "content"))
	return s
}

func thread(m *jsonrpc.Message) string {
	s, _ := jsonrpc.Text(m.Raw, jsonrpc.Find(m.Raw, m.ResultMember("structuredContent"), "threadId"))
	return s
}

// texts returns the text blocks of a result, joined by |.
func texts(m *jsonrpc.Message) string {
	var all []string
	for x := range jsonrpc.Elements(m.Raw, m.ResultMember("content")) {
		s, _ := jsonrpc.Text(m.Raw, jsonrpc.Find(m.Raw, x, "text"))
		all = append(all, s)
	}
	return strings.Join(all, "|")
}

func isError(m *jsonrpc.Message) bool { return string(m.ResultMember("isError").Of(m.Raw)) == "true" }

// bubble runs a test for each generation, in synthetic time.
func bubble(t *testing.T, f func(t *testing.T, profile string)) {
	for _, profile := range generations {
		t.Run(profile, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { f(t, profile) })
		})
	}
}

// ends has the two ends of a byte pipe.
type ends struct {
	r *io.PipeReader
	w *io.PipeWriter
}

func newPipe() ends {
	r, w := io.Pipe()
	return ends{r, w}
}
