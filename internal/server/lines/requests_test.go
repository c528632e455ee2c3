package lines

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/testkit/transcript"
)

// TestTranscripts plays testdata/*.txtar against a server of the SDK, with synthetic time.
func TestTranscripts(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatalf("no transcript was found (%v)", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txtar"), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { transcript.Run(t, file, startWaits) })
		})
	}
}

// startWaits starts a server with the tool wait. A call of wait returns when the transcript's
// section upstream.send has a line with the call's argument name.
func startWaits(testing.TB, string) transcript.Ends {
	ours, client := transcript.Pipe()
	releases, upstream := transcript.Pipe()
	var mu sync.Mutex
	named := map[string]chan struct{}{}
	release := func(name string) chan struct{} {
		mu.Lock()
		defer mu.Unlock()
		if named[name] == nil {
			named[name] = make(chan struct{}, 1)
		}
		return named[name]
	}
	server := sdk.NewServer(&sdk.Implementation{Name: "waits", Version: "1"}, nil)
	type in struct {
		Name string `json:"name"`
	}
	sdk.AddTool(server, &sdk.Tool{Name: "wait"}, func(ctx context.Context, _ *sdk.CallToolRequest, in in) (*sdk.CallToolResult, any, error) {
		select {
		case <-release(in.Name):
			return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: in.Name}}}, nil, nil
		case <-ctx.Done():
			return nil, nil, ctx.Err()
		}
	})
	var running sync.WaitGroup
	running.Go(func() {
		for lines := bufio.NewScanner(releases); lines.Scan(); {
			release(lines.Text()) <- struct{}{}
		}
	})
	var err error
	running.Go(func() {
		err = Serve(context.Background(), server, ours, ours)
		_ = ours.Close()
		_ = releases.Close()
	})
	return transcript.Ends{Client: client, Upstream: upstream, Wait: func() error {
		running.Wait()
		if errors.Is(err, io.ErrClosedPipe) {
			return nil
		}
		return err
	}}
}

// TestRequestsBound sends more requests than may run. An answer makes room for one more request.
func TestRequestsBound(t *testing.T) { synctest.Test(t, testRequestsBound) }

func testRequestsBound(t *testing.T) {
	var in, passed, out strings.Builder
	for i := range maxRequests {
		fmt.Fprintf(&in, `{"jsonrpc":"2.0","id":%d,"method":"ping"}`+"\n", i)
		fmt.Fprintf(&passed, `{"jsonrpc":"2.0","id":"dragoman:%d","method":"ping"}`+"\n", i+1)
	}
	in.WriteString(`{"jsonrpc":"2.0","id":"more","method":"ping"}` + "\n")
	l := New(strings.NewReader(in.String()), &out)
	if got, err := io.ReadAll(l); err != nil || string(got) != passed.String() {
		t.Errorf("passed %d bytes of %d, %v", len(got), passed.Len(), err)
	}
	if want := `{"jsonrpc":"2.0","id":"more","error":{"code":-32603,"message":"too many requests are running: the limit is 1024; wait for some answers first"}}` + "\n"; out.String() != want {
		t.Errorf("answered %s", out.String())
	}
	more := jsonrpc.NewRequest(`"more"`, "ping", nil)
	for _, message := range []string{
		`{"jsonrpc":"2.0","id":7,"method":"roots/list"}`, `{"jsonrpc":"2.0","method":"notifications/x","params":{"id":"dragoman:7"}}`, `{"jsonrpc":"2.0","id":"7","result":{"id":"dragoman:7"}}`,
		`{"jsonrpc":"2.0","id":"dragoman:7777","result":{}}`, `{"jsonrpc":"2.0","id":7,"result":{}}`,
	} {
		out.Reset()
		if _, err := l.Write([]byte(message + "\n")); err != nil || out.String() != message+"\n" {
			t.Errorf("the client gets %s, %v", out.String(), err)
		}
		if refused := l.requests.add(more, l.requests.reserve(), nil); refused == nil {
			t.Errorf("%s makes room", message)
		}
	}
	if _, err := l.Write([]byte(`{"jsonrpc":"2.0","id":"dragoman:7","result":{}}` + "\n")); err != nil {
		t.Fatal(err)
	}
	if refused := l.requests.add(more, l.requests.reserve(), nil); refused != nil {
		t.Errorf("after an answer: %v", refused)
	}
}

// TestBatchBound answers the requests of a batch with results that are too large together. An error
// replaces the last result, and the batch is complete.
func TestBatchBound(t *testing.T) {
	var r requests
	b := &batch{}
	var numbers []uint64
	for i := range 3 {
		number := r.reserve()
		if refused := r.add(jsonrpc.NewRequest(jsonrpc.IntID(int64(i)), "ping", nil), number, b); refused != nil {
			t.Fatal(refused)
		}
		numbers = append(numbers, number)
	}
	large := strings.Repeat("x", maxBatchBytes/2-100)
	var line []byte
	for i, number := range numbers {
		line, _ = r.pass(fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%s,"result":{"text":"%s"}}`+"\n", appendOwnID(nil, number), large))
		if (line != nil) != (i == 2) {
			t.Fatalf("answer %d: %d bytes", i, len(line))
		}
	}
	want := `,{"jsonrpc":"2.0","id":2,"error":{"code":-32603,"message":"the answers of the batch are larger than 32 MiB together; send this request on its own"}}]` + "\n"
	if len(line) > maxBatchBytes+len(want) || !strings.HasSuffix(string(line), want) {
		t.Errorf("%d bytes, %.300s", len(line), line[max(0, len(line)-300):])
	}
}
