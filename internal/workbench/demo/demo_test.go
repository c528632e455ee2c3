package demo

import (
	"bufio"
	"context"
	"errors"
	"io"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/testkit/leaktest"
	"github.com/dragoman-mcp/dragoman/internal/testkit/transcript"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

// TestTranscripts plays each testdata/ERA_*.txtar against the demo server of the era ERA, with
// synthetic time.
func TestTranscripts(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatalf("no transcript was found (%v)", err)
	}
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".txtar")
		t.Run(name, func(t *testing.T) {
			era, _, _ := strings.Cut(name, "_")
			synctest.Test(t, func(t *testing.T) {
				transcript.Run(t, file, func(t testing.TB, _ string) transcript.Ends {
					ours, client := transcript.Pipe()
					nobody, upstream := transcript.Pipe()
					done := make(chan error, 1)
					go func() {
						defer nobody.Close()
						done <- Serve(t.Context(), era, ours, ours, "1.2.3")
					}()
					return transcript.Ends{Client: client, Upstream: upstream, Wait: func() error { return <-done }}
				})
			})
		})
	}
}

// served is a demo server under test, with the pipes to its stdin and from its stdout.
type served struct {
	t      *testing.T
	in     *io.PipeWriter
	lines  chan string
	cancel context.CancelCauseFunc
	done   chan error
}

// serve starts a demo server. The caller must be in a synctest bubble.
func serve(t *testing.T, era string) *served {
	ctx, cancel := context.WithCancelCause(t.Context())
	r, in := io.Pipe()
	out, w := io.Pipe()
	s := &served{t: t, in: in, lines: make(chan string, 1000), cancel: cancel, done: make(chan error, 1)}
	go func() { s.done <- Serve(ctx, era, r, w, "1.2.3") }()
	go func() {
		defer close(s.lines)
		in := bufio.NewScanner(out)
		in.Buffer(nil, 1<<20)
		for in.Scan() {
			s.lines <- in.Text()
		}
	}()
	return s
}

func (s *served) say(lines ...string) {
	s.t.Helper()
	for _, line := range lines {
		if _, err := io.WriteString(s.in, line+"\n"); err != nil {
			s.t.Fatal(err)
		}
	}
}

// receive waits until all goroutines of the bubble are blocked. Then it returns the lines that the
// server has written.
func (s *served) receive() []string {
	synctest.Wait()
	var got []string
	for {
		select {
		case line, ok := <-s.lines:
			if ok {
				got = append(got, line)
				continue
			}
		default:
		}
		return got
	}
}

// end closes the server's input and fails the test unless Serve returns nil.
func (s *served) end() {
	s.t.Helper()
	_ = s.in.Close()
	if err := <-s.done; err != nil {
		s.t.Errorf("Serve: %v", err)
	}
	s.cancel(nil)
}

func has(t *testing.T, lines []string, want ...string) {
	t.Helper()
	for _, w := range want {
		if !slices.ContainsFunc(lines, func(l string) bool { return strings.Contains(l, w) }) {
			t.Errorf("nothing has %s in\n%s", w, strings.Join(lines, "\n"))
		}
	}
}

const (
	hello = `{"jsonrpc":"2.0","id":"hi","method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}`
	meta  = `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}`
)

func TestListenHearsOfCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := serve(t, Modern)
		s.say(`{"jsonrpc":"2.0","id":"sub","method":"subscriptions/listen","params":{` + meta + `,"notifications":{"toolsListChanged":true,"resourceSubscriptions":["demo://about","demo://else"]}}}`)
		got := s.receive()
		if len(got) != 1 {
			t.Fatalf("got %q, want only the acknowledgement", got)
		}
		has(t, got, `"method":"notifications/subscriptions/acknowledged"`, `"notifications":{"resourceSubscriptions":["demo://about"]}`)
		s.say(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{` + meta + `,"name":"weather","arguments":{"city":"Vienna"}}}`)
		got = s.receive()
		if len(got) != 2 {
			t.Fatalf("got %q, want an answer and an update", got)
		}
		has(t, got, `"id":1,"result"`, `"params":{"_meta":{"io.modelcontextprotocol/subscriptionId":"sub"},"uri":"demo://about"}`)
		s.say(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"sub"}}`,
			`{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{`+meta+`,"name":"weather","arguments":{"city":"Vienna"}}}`)
		if got = s.receive(); len(got) != 1 {
			t.Errorf("got %q, want only the answer", got)
		}
		s.end()
	})
}

// TestStopSaysGoodbye checks that a server ends its listens with a result when its context is
// cancelled.
func TestStopSaysGoodbye(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := serve(t, Modern)
		s.say(`{"jsonrpc":"2.0","id":7,"method":"subscriptions/listen","params":{`+meta+`,"notifications":{}}}`,
			`{"jsonrpc":"2.0","id":8,"method":"tools/call","params":{`+meta+`,"name":"slow"}}`)
		has(t, s.receive(), `"method":"notifications/subscriptions/acknowledged"`)
		stop := errors.New("told to stop")
		s.cancel(stop)
		got := s.receive()
		if len(got) != 2 {
			t.Errorf("got %q, want a cancellation and a result", got)
		}
		has(t, got, `"method":"notifications/cancelled"`,
			`{"jsonrpc":"2.0","id":7,"result":{"resultType":"complete","_meta":{"io.modelcontextprotocol/subscriptionId":7,`)
		if err := <-s.done; err != stop {
			t.Errorf("Serve: %v", err)
		}
	})
}

// TestEndOfInputEndsCalls checks that Serve returns at once when its input ends, and sends no
// answers to running calls.
func TestEndOfInputEndsCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := serve(t, Legacy)
		s.say(hello,
			`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"count","arguments":{"to":1000,"delayMs":10000}}}`,
			`{"jsonrpc":"2.0","id":2,"method":"resources/subscribe","params":{"uri":"demo://clock"}}`)
		if got := s.receive(); len(got) != 2 {
			t.Fatalf("%q", got)
		}
		began := time.Now()
		s.end()
		if took := time.Since(began); took != 0 {
			t.Errorf("the end took %v", took)
		}
		if got := s.receive(); len(got) != 0 {
			t.Errorf("wrote after the end: %q", got)
		}
	})
}

func TestCallsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := serve(t, Modern)
		for i := range maxRunning + 1 {
			s.say(`{"jsonrpc":"2.0","id":` + strconv.Itoa(i) + `,"method":"tools/call","params":{` + meta + `,"name":"slow","arguments":{"seconds":60}}}`)
		}
		got := s.receive()
		if len(got) != 1 {
			t.Fatalf("got %q, want one refusal", got)
		}
		has(t, got, `"id":64,"error":{"code":-32603`)
		s.say(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":3}}`)
		s.receive()
		s.say(`{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{` + meta + `,"name":"slow","arguments":{"seconds":1}}}`)
		time.Sleep(time.Second)
		has(t, s.receive(), `"id":3,"result"`)
		s.end()
	})
}

func TestUnknownEra(t *testing.T) {
	if err := Serve(t.Context(), "bronze", strings.NewReader(""), io.Discard, "1"); err == nil {
		t.Error("an era that does not exist was served")
	}
}

// TestPlainStreams checks that Serve works with streams that cannot be closed.
func TestPlainStreams(t *testing.T) {
	var out strings.Builder
	if err := Serve(t.Context(), Legacy, strings.NewReader(hello), &out, "1.2.3"); err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(out.String(), `{"jsonrpc":"2.0","id":"hi","result":{"protocolVersion":"2025-11-25",`) {
		t.Error(out.String())
	}
}
