package gateway_test

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
	"github.com/dragoman-mcp/dragoman/internal/relay/bridge"
	"github.com/dragoman-mcp/dragoman/internal/relay/calls"
	"github.com/dragoman-mcp/dragoman/internal/relay/downstream"
	"github.com/dragoman-mcp/dragoman/internal/relay/event"
	"github.com/dragoman-mcp/dragoman/internal/relay/gateway"
	"github.com/dragoman-mcp/dragoman/internal/relay/upstream"
	"github.com/dragoman-mcp/dragoman/internal/transport"
	"github.com/dragoman-mcp/dragoman/internal/transport/stdio"
)

// relayed is a client that is connected to one server through a complete Dragoman. Both connections
// are pipes within the process, with the framing of stdio. The server gives the same answer to
// every call.
type relayed struct {
	t    testing.TB
	out  io.Writer
	in   *bufio.Reader
	line []byte // a call of about 1 KiB
}

// osPipe returns the ends of an OS pipe, which is what stdio uses.
func osPipe(t testing.TB) (r, w *os.File) {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	return r, w
}

// pairing describes a client and a server that communicate through Dragoman.
type pairing struct {
	client, server bool   // whether the client is modern, and whether the server is modern
	caps           string // the capabilities of the client
	// kept means that Dragoman keeps the calls in memory, as `dragoman serve` does. record means
	// that Dragoman also records their messages.
	kept, record bool
}

func newRelayed(t testing.TB, with pairing) *relayed {
	t.Helper()
	fromClient, toUs := osPipe(t)
	fromUs, toClient := osPipe(t)
	fromServer, toGateway := osPipe(t)
	atServer, toServer := osPipe(t)
	u := upstream.New(upstream.Spec{Name: "s", Pipe: func(context.Context) (transport.Pipe, error) {
		return stdio.NewPipe(fromServer, toServer, pipeOptions), nil
	}}, upstream.Options{})
	relay := &bridge.Bridge{}
	endpoint := &downstream.Endpoint{Handler: &gateway.Single{Bridge: relay, Upstream: server{u}}}
	if with.kept {
		endpoint.Events = &event.Publisher{}
		endpoint.Calls = calls.New(calls.Options{Keep: 40, Record: with.record, Bytes: 256 << 10})
	}
	var running sync.WaitGroup
	running.Go(func() {
		answerAll(t, with.server, atServer, toGateway)
	})
	running.Go(func() {
		_ = endpoint.ServePipe(context.Background(), stdio.NewPipe(fromClient, toClient, pipeOptions), transport.Peer{Transport: "stdio", Endpoint: "stdio"})
		relay.Close()
		u.Close(context.Background())
	})
	t.Cleanup(func() {
		_ = toUs.Close()
		running.Wait()
		for _, f := range []*os.File{fromUs, atServer, toGateway} {
			_ = f.Close()
		}
	})
	r := &relayed{t: t, out: toUs, in: bufio.NewReaderSize(fromUs, 1<<16)}
	meta := ""
	if with.client {
		meta = `,"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":` + with.caps + `}`
	} else {
		r.exchange([]byte(`{"jsonrpc":"2.0","id":"i","method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":` + with.caps + `,"clientInfo":{"name":"c","version":"1"}}}` + "\n"))
	}
	r.line = []byte(`{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"t","arguments":{"body":"` + strings.Repeat(answerText, 20) + `"}` + meta + `}}` + "\n")
	return r
}

const answerText = "The quick brown fox jumps over the lazy dog. "

// answerAll runs the server. The server does little work, so that the benchmark measures
// Dragoman.
func answerAll(t testing.TB, modern bool, from io.Reader, to io.Writer) {
	in := bufio.NewReaderSize(from, 1<<16)
	typed := ""
	if modern {
		typed = `"resultType":"complete",`
	}
	result := []byte(`{` + typed + `"content":[{"type":"text","text":"` + strings.Repeat(answerText, 20) + `"}]}`)
	discovered := []byte(`{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{"tools":{}},"ttlMs":0,"cacheScope":"private"}`)
	hello := []byte(`{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"s","version":"1"}}`)
	var out []byte
	for {
		line, err := in.ReadSlice('\n')
		if err != nil {
			return
		}
		m, err := jsonrpc.Scan(line, jsonrpc.Limits{})
		if err != nil {
			t.Errorf("the server got a bad message: %v: %s", err, line)
			return
		}
		switch {
		case m.Kind != jsonrpc.Request:
			continue
		case m.Method == "server/discover" && modern:
			out = jsonrpc.AppendResult(out[:0], m.ID, discovered)
		case m.Method == "server/discover" || m.Method == "initialize" && modern:
			out = jsonrpc.AppendError(out[:0], m.ID, &jsonrpc.Error{Code: jsonrpc.CodeMethodNotFound, Message: "Method not found"})
		case m.Method == "initialize":
			out = jsonrpc.AppendResult(out[:0], m.ID, hello)
		default:
			out = jsonrpc.AppendResult(out[:0], m.ID, result)
		}
		if _, err := to.Write(append(out, '\n')); err != nil {
			return
		}
	}
}

// exchange sends a line and returns the next line, which is valid until the next exchange.
func (r *relayed) exchange(line []byte) []byte {
	if _, err := r.out.Write(line); err != nil {
		r.t.Fatal(err)
	}
	answer, err := r.in.ReadSlice('\n')
	if err != nil {
		r.t.Fatal(err)
	}
	return answer
}

func (r *relayed) call() {
	if got := r.exchange(r.line); !bytes.HasPrefix(got, []byte(`{"jsonrpc":"2.0","id":7,"result":{`)) || !bytes.Contains(got, []byte(`"content":[`)) {
		r.t.Fatalf("got %s", got)
	}
}

// pairings are the client and server pairs whose calls have an allocation budget. The field most is
// the maximum number of allocations of one call. This number includes the allocations of both
// connections and of the test's server, which also reads the message.
var pairings = []struct {
	name string
	pairing
	most float64
}{
	{"legacy client, legacy server", pairing{caps: `{}`}, 45},
	{"legacy client, modern server", pairing{server: true, caps: `{}`}, 49},
	{"modern client, legacy server", pairing{client: true, caps: `{}`}, 51},
	{"modern client, modern server", pairing{client: true, server: true, caps: `{}`}, 45},
	// If the server can send a request to the client during a call, the call needs its own
	// goroutine.
	{"modern client that can be asked, legacy server", pairing{client: true, caps: `{"elicitation":{}}`}, 61},
	// A modern server never sends a request during a call.
	{"modern client that can be asked, modern server", pairing{client: true, server: true, caps: `{"elicitation":{}}`}, 45},
	{"legacy client, legacy server, kept", pairing{caps: `{}`, kept: true}, 47},
	// A recorded call needs a trail. The trail reuses the memory of an earlier call's trail.
	{"legacy client, legacy server, recorded", pairing{caps: `{}`, kept: true, record: true}, 48},
	{"modern client, legacy server, recorded", pairing{client: true, caps: `{}`, kept: true, record: true}, 54},
	{"modern client, modern server, recorded", pairing{client: true, server: true, caps: `{}`, kept: true, record: true}, 48},
}

// BenchmarkRelay runs one call after another. It measures the time from the client's write of the
// call to its read of the answer. This time includes the client, the server and four transfers
// through a pipe.
func BenchmarkRelay(b *testing.B) {
	for _, p := range pairings {
		b.Run(p.name, func(b *testing.B) {
			r := newRelayed(b, p.pairing)
			b.SetBytes(int64(len(r.line)))
			b.ReportAllocs()
			for b.Loop() {
				r.call()
			}
		})
	}
}

// TestRelayAllocs checks that a call over two pipes stays within its allocation budget.
func TestRelayAllocs(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector adds allocations")
	}
	for _, p := range pairings {
		t.Run(p.name, func(t *testing.T) {
			r := newRelayed(t, p.pairing)
			for range 50 { // fills the list of calls
				r.call()
			}
			n := testing.AllocsPerRun(500, r.call)
			t.Logf("a call allocates %v times", n)
			if n > p.most {
				t.Errorf("a call allocates %v times, want at most %v", n, p.most)
			}
		})
	}
}

// pipeOptions contains the options that the daemon uses for its pipes.
var pipeOptions = stdio.Options{Limits: jsonrpc.Limits{Names: mcp.MethodName}}
