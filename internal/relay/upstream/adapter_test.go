package upstream

import (
	"context"
	"errors"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
	"github.com/dragoman-mcp/dragoman/internal/transport"
)

// watcher is an adapter that counts how often its methods are called. It does not change messages.
type watcher struct {
	refuse          error
	admitted        atomic.Int64
	adapted, closed atomic.Int64
}

func (w *watcher) Admit(context.Context) error {
	w.admitted.Add(1)
	return w.refuse
}

func (w *watcher) Adapt(p transport.Pipe) transport.Pipe {
	w.adapted.Add(1)
	return &watched{p, w}
}

func (w *watcher) Readiness() string { return "well" }

func (w *watcher) Environ() []string { return []string{"WATCHED=yes"} }

func (w *watcher) Negotiated() (version, cause string) { return "v1", "why" }

func (w *watcher) Handshakes() map[[2]string]uint64 { return map[[2]string]uint64{{"v1", "schema"}: 1} }

type watched struct {
	transport.Pipe
	w *watcher
}

func (p *watched) Write(b []byte) error {
	if strings.Contains(string(b), mcp.MethodDiscover) {
		return errors.New("an adapted server was probed")
	}
	return p.Pipe.Write(b)
}

func (p *watched) Close() error {
	p.w.closed.Add(1)
	return p.Pipe.Close()
}

// TestAdapterWrapsTheChild checks an adapter for a child process. Dragoman calls Admit before the
// start, and uses and closes the pipe from Adapt. Dragoman does not probe the server. Several
// clients that support elicitation share the child, because each server request names its call.
func TestAdapterWrapsTheChild(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	w := &watcher{}
	u := New(Spec{Name: "child", Command: self, Env: map[string]string{childEnv: "1"}, Adapter: w}, Options{})
	var wait sync.WaitGroup
	for i := range 5 {
		wait.Go(func() {
			info := &mcp.ClientInfo{Revision: mcp.R20260728, Capabilities: []byte(`{"elicitation":{}}`), Conversation: uint64(i)}
			if _, err := call(t, u, info, mcp.MethodCallTool, `{"name":"pid"}`); err != nil {
				t.Error(err)
			}
		})
	}
	wait.Wait()
	if s := u.Status(); s.Readiness != "well" || s.Sessions != 1 {
		t.Errorf("status %+v", s)
	}
	u.Close(t.Context())
	if a, b, c := w.admitted.Load(), w.adapted.Load(), w.closed.Load(); a != 1 || b != 1 || c == 0 {
		t.Errorf("Admit was called %d times, Adapt %d times, and %d pipes were closed", a, b, c)
	}
}

func TestAdapterRefusesAStart(t *testing.T) {
	w := &watcher{refuse: errors.New("too many starts have failed")}
	u := New(Spec{Name: "child", Command: "/nowhere", Adapter: w}, Options{})
	defer u.Close(t.Context())
	_, err := call(t, u, modernClient, mcp.MethodCallTool, `{"name":"pid"}`)
	var e *mcp.Error
	if !errors.As(err, &e) || e.Cause != "not_admitted" || !strings.Contains(e.Message, "too many starts have failed") || e.Outcome != mcp.NotSent {
		t.Errorf("got %v", err)
	}
	if w.adapted.Load() != 0 {
		t.Error("the child was started")
	}
}

// TestDialectIsRecognised checks a child that answers initialize in a dialect. Dragoman restarts
// the child with the adapter for this dialect. Without an adapter, the call fails with the error
// of the handshake.
func TestDialectIsRecognised(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for _, known := range []bool{true, false} {
		w := &translator{}
		spec := Spec{Name: "child", Command: self, Env: map[string]string{childEnv: "codex"}}
		if known {
			spec.AdapterFor = func(dialect string) Adapter {
				if dialect != "codex-app-server" {
					t.Errorf("the dialect is %q", dialect)
				}
				return w
			}
		}
		u := New(spec, Options{})
		_, err := call(t, u, modernClient, mcp.MethodCallTool, `{"name":"pid"}`)
		if known != (err == nil) || known != (w.adapted.Load() == 1) {
			t.Errorf("adapter known %t: %v, Adapt was called %d times", known, err, w.adapted.Load())
		}
		u.Close(t.Context())
	}
}

// translator converts the app-server's answer to initialize to an MCP answer.
type translator struct{ watcher }

func (w *translator) Adapt(p transport.Pipe) transport.Pipe {
	w.adapted.Add(1)
	return &translated{p}
}

type translated struct{ transport.Pipe }

func (p *translated) Read() (*jsonrpc.Message, error) {
	m, err := p.Pipe.Read()
	if err == nil && !m.ResultMember("userAgent").IsZero() {
		return jsonrpc.Scan(jsonrpc.AppendResult(nil, m.ID, []byte(`{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"c","version":"1"}}`)), jsonrpc.Limits{})
	}
	return m, err
}

// TestAdapterEnviron checks that an adapter adds its variables to the environment of the process,
// except those that the configuration or the inherited environment sets.
func TestAdapterEnviron(t *testing.T) {
	for name, c := range map[string]struct {
		spec      Spec
		inherited string
		adapter   Adapter
		want      []string
	}{
		"added":              {adapter: &watcher{}, want: []string{"WATCHED=yes"}},
		"set in env":         {spec: Spec{Env: map[string]string{"WATCHED": "no"}}, adapter: &watcher{}, want: []string{"WATCHED=no"}},
		"inherited":          {spec: Spec{Inherit: func(string) bool { return true }}, inherited: "maybe", adapter: &watcher{}, want: []string{"WATCHED=maybe"}},
		"not inherited":      {inherited: "maybe", adapter: &watcher{}, want: []string{"WATCHED=yes"}},
		"without an adapter": {want: nil},
	} {
		t.Run(name, func(t *testing.T) {
			if c.inherited != "" {
				t.Setenv("WATCHED", c.inherited)
			}
			c.spec.Name, c.spec.Command = "child", "x"
			u := New(c.spec, Options{})
			defer u.Close(t.Context())
			var got []string
			for _, v := range u.process(c.adapter).Env {
				if strings.HasPrefix(v, "WATCHED=") {
					got = append(got, v)
				}
			}
			if !slices.Equal(got, c.want) {
				t.Errorf("%q, want %q", got, c.want)
			}
		})
	}
}
