package upstream

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
)

// childEnv is the environment variable that turns this test binary into a server on stdio.
const childEnv = "DRAGOMAN_TEST_CHILD"

// beChild runs a legacy server that exits during a call of the tool "crash". If childEnv is
// "codex", the server answers initialize as a Codex app-server does.
func beChild() {
	in := bufio.NewScanner(os.Stdin)
	for in.Scan() {
		m, err := jsonrpc.Scan(in.Bytes(), jsonrpc.Limits{})
		if err != nil || m.Kind != jsonrpc.Request {
			continue
		}
		var b []byte
		switch m.Method {
		case mcp.MethodInitialize:
			b = ok(m, `{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"child","version":"1"}}`)
			if os.Getenv(childEnv) == "codex" {
				b = ok(m, `{"userAgent":"c/1 (x)"}`)
			}
		case mcp.MethodCallTool:
			name, _ := jsonrpc.Text(m.Raw, m.Param("name"))
			if name == "crash" {
				fmt.Fprintln(os.Stderr, "out of luck")
				os.Exit(3)
			}
			b = ok(m, fmt.Sprintf(`{"content":[],"pid":%d}`, os.Getpid()))
		default:
			b = jsonrpc.AppendError(nil, m.ID, &jsonrpc.Error{Code: jsonrpc.CodeMethodNotFound, Message: "Method not found"})
		}
		os.Stdout.Write(append(b, '\n'))
	}
}

func TestChildIsStartedOnceAndAgainAfterACrash(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	u := New(Spec{Name: "child", Command: self, Env: map[string]string{childEnv: "1"}}, Options{})
	defer u.Close(t.Context())
	pid := func() string {
		t.Helper()
		r, err := call(t, u, modernClient, mcp.MethodCallTool, `{"name":"pid"}`)
		if err != nil {
			t.Error(err)
			return ""
		}
		return string(r.Msg.ResultMember("pid").Of(r.Msg.Raw))
	}
	var mu sync.Mutex
	pids := map[string]bool{}
	var wait sync.WaitGroup
	for range 10 {
		wait.Go(func() {
			p := pid()
			mu.Lock()
			defer mu.Unlock()
			pids[p] = true
		})
	}
	wait.Wait()
	if len(pids) != 1 {
		t.Errorf("the child processes are %v", pids)
	}
	_, err = call(t, u, modernClient, mcp.MethodCallTool, `{"name":"crash"}`)
	var e *mcp.Error
	if !errors.As(err, &e) || e.Outcome != mcp.OutcomeUnknown {
		t.Errorf("got %v", err)
	}
	if p := pid(); p == "" || pids[p] {
		t.Errorf("after the crash the server answers %q", p)
	}
}

// forgetful is a legacy HTTP server that knows only its newest session. A test can also make it
// forget this session.
type forgetful struct {
	opened, calls atomic.Int64
	valid         atomic.Int64 // number of the session that the server knows
	always        atomic.Bool  // the server forgets each session at once
}

func (s *forgetful) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	m, err := jsonrpc.Scan(body, jsonrpc.Limits{})
	if r.Method != http.MethodPost || err != nil {
		w.WriteHeader(http.StatusMethodNotAllowed)
		return
	}
	reply := func(b []byte) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write(b)
	}
	if m.Method == mcp.MethodInitialize {
		n := s.opened.Add(1)
		s.valid.Store(n)
		w.Header().Set("Mcp-Session-Id", fmt.Sprint(n))
		reply(ok(m, `{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"web","version":"1"}}`))
		return
	}
	if m.Method == mcp.MethodDiscover {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	if m.Kind != jsonrpc.Request {
		w.WriteHeader(http.StatusAccepted)
		return
	}
	if s.always.Load() || r.Header.Get("Mcp-Session-Id") != fmt.Sprint(s.valid.Load()) {
		w.WriteHeader(http.StatusNotFound)
		return
	}
	s.calls.Add(1)
	reply(ok(m, `{"content":[]}`))
}

func TestLostSessionIsOpenedOnceMoreAndTheCallSentAgain(t *testing.T) {
	s := &forgetful{}
	web := httptest.NewServer(s)
	defer web.Close()
	u := New(Spec{Name: "web", URL: web.URL + "/mcp", Kind: "http"}, Options{})
	defer u.Close(t.Context())
	send := func() error {
		_, err := call(t, u, modernClient, mcp.MethodCallTool, `{"name":"t"}`)
		return err
	}
	if err := send(); err != nil {
		t.Fatal(err)
	}
	s.valid.Store(0)
	if err := send(); err != nil {
		t.Errorf("the call after the session was lost: %v", err)
	}
	if o, c := s.opened.Load(), s.calls.Load(); o != 2 || c != 2 {
		t.Errorf("%d sessions were opened, and %d calls received", o, c)
	}
	s.valid.Store(0)
	if _, _, err := u.List(t.Context(), nil, mcp.MethodListTools); err != nil {
		t.Errorf("the list after the session was lost: %v", err)
	}
	s.always.Store(true)
	if err := send(); err == nil {
		t.Error("a call has an answer although the server always forgets the session")
	}
	if o := s.opened.Load(); o != 4 {
		t.Errorf("%d sessions were opened", o)
	}
	if s := u.Status(); strings.Contains(s.Reason, web.URL) {
		t.Errorf("the status is %+v", s)
	}
}
