//go:build unix

package upstream

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/base/failure"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
)

// TestExposed checks that the error for a client contains the class of the failure, a sentence and
// an action. If Exposed is set, the error does not contain the output of the process. The report
// always contains the whole failure.
func TestExposed(t *testing.T) {
	for _, exposed := range []bool{false, true} {
		u := New(Spec{
			Name: "a", Command: "/bin/sh", Args: []string{"-c", `read x; echo "Error: cannot open /srv/words" >&2; exit 3`},
			Env: map[string]string{"PATH": os.Getenv("PATH")},
		}, Options{Exposed: exposed})
		_, err := u.Acquire(t.Context(), nil, mcp.Need{})
		if err == nil {
			t.Fatal("the server was opened")
		}
		wire := mcp.Wire(err)
		shown := wire.Message + string(wire.Data)
		if !strings.Contains(shown, `"class":"exited"`) || !strings.Contains(shown, "exited with status 3") || !strings.Contains(shown, `"action":"`) {
			t.Errorf("exposed %t: the client gets %s", exposed, shown)
		}
		if strings.Contains(shown, "/srv/words") == exposed {
			t.Errorf("exposed %t: the client gets %s", exposed, shown)
		}
		r := u.Report()
		if r.Failure == nil || r.Fault.Failure != r.Failure || !strings.Contains(r.Failure.Sentence, "/srv/words") || r.Reason != r.Failure.Sentence {
			t.Errorf("exposed %t: the report has %+v", exposed, r.Failure)
		}
		u.Close(context.Background())
	}
}

// TestExitDuringACall checks the error of a call during which the child exits. The error
// contains the exit status and the output of the child.
func TestExitDuringACall(t *testing.T) {
	script := `
read x; printf '{"jsonrpc":"2.0","id":%s,"result":{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"s","version":"1"}}}\n' $(echo "$x" | sed 's/.*"id":\([0-9]*\).*/\1/')
read x; read x; echo "panic: out of paper" >&2; exit 7`
	u := New(Spec{Name: "a", Command: "/bin/sh", Args: []string{"-c", script}, Env: map[string]string{"PATH": os.Getenv("PATH")}, Pin: mcp.LatestLegacy}, Options{})
	defer u.Close(context.Background())
	l, err := u.Acquire(t.Context(), nil, mcp.Need{})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Release()
	_, err = l.Call(t.Context(), u.ownCall(mcp.MethodCallTool, []byte(`{"name":"x"}`), nil), mcp.NoCaller{})
	f := failure.Of(err, failure.Facts{})
	if want := `server "a" exited with status 7 before it answered: "panic: out of paper"`; f.Class != failure.Exited || f.Sentence != want || !slices.Equal(f.Evidence, []string{"panic: out of paper"}) {
		t.Errorf("got %+v (%v)", f, err)
	}
}

// TestOutputClosedDuringACall checks that a server that closes its stdout and runs on keeps nobody
// waiting: each caller gets its error after callGrace, not after exitGrace, which is for a failed
// start. A call of another server is not affected.
func TestOutputClosedDuringACall(t *testing.T) {
	t.Parallel()
	const hello = `
read x; printf '{"jsonrpc":"2.0","id":%s,"result":{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"s","version":"1"}}}\n' $(echo "$x" | sed 's/.*"id":\([0-9]*\).*/\1/')
read x`
	open := func(name, script string) *Upstream {
		u := New(Spec{Name: name, Command: "/bin/sh", Args: []string{"-c", hello + script}, Env: map[string]string{"PATH": os.Getenv("PATH")}, Pin: mcp.LatestLegacy}, Options{})
		t.Cleanup(func() { u.Close(context.Background()) })
		return u
	}
	call := func(u *Upstream) error {
		_, err := u.Call(t.Context(), u.ownCall(mcp.MethodCallTool, []byte(`{"name":"x"}`), nil).Call, mcp.NoCaller{})
		return err
	}
	bad := open("bad", `; read x; read x; exec 1>&-; exec sleep 60`)
	good := open("good", `; while read x; do printf '{"jsonrpc":"2.0","id":%s,"result":{"content":[]}}\n' $(echo "$x" | sed 's/.*"id":\([0-9]*\).*/\1/'); done`)
	if err := call(good); err != nil {
		t.Fatal(err)
	}
	lease, err := bad.Acquire(t.Context(), nil, mcp.Need{}) // the process runs before the clock does
	if err != nil {
		t.Fatal(err)
	}
	lease.Release()
	began := time.Now()
	var calls sync.WaitGroup
	for range 2 {
		calls.Go(func() {
			f := failure.Of(call(bad), failure.Facts{})
			if took := time.Since(began); f.Class != failure.Exited || took > exitGrace-time.Second {
				t.Errorf("after %s: %+v", took, f)
			}
		})
	}
	calls.Wait()
	if err := call(good); err != nil {
		t.Error(err)
	}
}

// TestLookAround checks the advice after the configured URL returns 404. Dragoman looks for an
// endpoint only at the usual paths of the same origin.
func TestLookAround(t *testing.T) {
	jsonAt := func(w http.ResponseWriter) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"jsonrpc":"2.0","id":1,"error":{"code":-32601,"message":"Method not found"}}`)
	}
	for name, tt := range map[string]struct {
		at, there string // the path of the configured URL, and the path of the endpoint
		serve     func(http.ResponseWriter, *http.Request)
		want      string
	}{
		"mcp":          {"/", "/mcp", func(w http.ResponseWriter, _ *http.Request) { jsonAt(w) }, "/mcp"},
		"below":        {"/v1/", "/v1/mcp", func(w http.ResponseWriter, _ *http.Request) { jsonAt(w) }, "/v1/mcp"},
		"unauthorized": {"/x", "/mcp", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(401) }, "/mcp"},
		"sse": {"/x", "/sse", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/event-stream")
			_, _ = io.WriteString(w, "event: endpoint\ndata: /m\n\n")
		}, "/sse"},
		"page":     {"/x", "/mcp", func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "<html>") }, ""},
		"redirect": {"/x", "/mcp", func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "http://other.invalid/mcp", 307) }, ""},
	} {
		t.Run(name, func(t *testing.T) {
			web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path != tt.there {
					http.NotFound(w, r)
					return
				}
				tt.serve(w, r)
			}))
			defer web.Close()
			u := New(Spec{Name: "a", URL: web.URL + tt.at, Shown: web.URL + tt.at}, Options{})
			defer u.Close(context.Background())
			_, err := u.Acquire(t.Context(), nil, mcp.Need{})
			f := failure.Of(err, failure.Facts{})
			want := "look up the URL"
			if tt.want != "" {
				want = "use " + web.URL + tt.want + ", where Dragoman found an MCP endpoint"
			}
			if f.Class != failure.WrongPath || !strings.HasPrefix(f.Action, want) {
				t.Errorf("got %s: %s; %s", f.Class, f.Sentence, f.Action)
			}
		})
	}
}
