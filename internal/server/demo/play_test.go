package demo

import (
	"context"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
)

// house simulates an endpoint of Dragoman without a network. It answers each request at once. A
// modern client's call of legacy__ask_name gets the result input_required.
type house struct {
	mu       sync.Mutex
	at       map[string][]time.Duration // the times of the calls, by client, method and name
	sessions int
	gone     bool // the endpoint has forgotten the session
	began    time.Time
}

func (h *house) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Method == http.MethodDelete {
		return &http.Response{StatusCode: http.StatusNoContent, Body: http.NoBody, Request: r}, nil
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	m, err := jsonrpc.Scan(body, jsonrpc.Limits{})
	if err != nil {
		return nil, err
	}
	answer := func(status int, text string, header ...string) (*http.Response, error) {
		head := http.Header{"Content-Type": {"application/json"}}
		for i := 0; i+1 < len(header); i += 2 {
			head.Set(header[i], header[i+1])
		}
		return &http.Response{StatusCode: status, Header: head, Body: io.NopCloser(strings.NewReader(text)), Request: r}, nil
	}
	if m.Kind != jsonrpc.Request {
		return answer(http.StatusAccepted, "")
	}
	name, _ := jsonrpc.Text(m.Raw, m.Param("name"))
	who := "legacy "
	if r.Header.Get("Mcp-Method") != "" {
		who = "modern "
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	key := who + m.Method + " " + name
	if !m.Param("inputResponses").IsZero() {
		key += " again"
	}
	h.at[key] = append(h.at[key], time.Since(h.began))
	switch {
	case m.Method == mcp.MethodInitialize:
		h.sessions++
		h.gone = false
		return answer(200, string(jsonrpc.AppendResult(nil, m.ID, []byte(`{"protocolVersion":"2025-06-18","capabilities":{},"serverInfo":{"name":"house","version":"1"}}`))), "Mcp-Session-Id", "s")
	case m.Method == mcp.MethodDiscover:
		return answer(200, string(jsonrpc.AppendResult(nil, m.ID, []byte(`{"supportedVersions":["2026-07-28"],"capabilities":{}}`))))
	case who == "legacy " && h.gone:
		return answer(404, "")
	case key == "modern tools/call legacy__ask_name":
		return answer(200, string(jsonrpc.AppendResult(nil, m.ID, []byte(`{"resultType":"input_required","inputRequests":{"q":{"method":"elicitation/create","params":{"message":"Who?","requestedSchema":{"type":"object","properties":{"name":{"type":"string"}}}}}},"requestState":"x"}`))))
	}
	return answer(200, "event: message\ndata: "+string(jsonrpc.AppendResult(nil, m.ID, []byte(`{}`)))+"\n\n", "Content-Type", "text/event-stream")
}

// played runs the demo clients against a house until during returns.
func played(t *testing.T, during func(*house)) *house {
	h := &house{at: map[string][]time.Duration{}, began: time.Now()}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		playOver(ctx, "http://house/mcp", "1", h)
	}()
	during(h)
	cancel()
	<-done
	return h
}

// TestEveryMoveWithinTenSeconds checks that the demo clients make every call of their scripts
// within the first ten seconds.
func TestEveryMoveWithinTenSeconds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := played(t, func(*house) { time.Sleep(10 * time.Second) })
		for who, script := range map[string][]move{"legacy ": legacyScript, "modern ": modernScript} {
			for _, m := range script {
				key := who + mcp.MethodCallTool + " " + m.tool
				switch {
				case m.uri != "":
					key = who + mcp.MethodReadResource + " "
				case m.prompt != "":
					key = who + mcp.MethodGetPrompt + " " + m.prompt
				}
				if len(h.at[key]) == 0 {
					t.Errorf("%s was not called; got %v", key, h.at)
				}
			}
		}
		if len(h.at["modern tools/call legacy__ask_name again"]) != 1 {
			t.Errorf("the modern client did not answer the question: %v", h.at)
		}
		if h.sessions != 1 || len(h.at["legacy tools/list "]) != 1 || len(h.at["modern tools/list "]) != 1 {
			t.Errorf("%d sessions; want one, and one list of tools for each client: %v", h.sessions, h.at)
		}
	})
}

// TestThirtyCallsAMinute checks that the demo clients make about 30 calls per minute after the
// first minute.
func TestThirtyCallsAMinute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := played(t, func(*house) { time.Sleep(3*time.Minute + time.Second) })
		calls := 0
		for key, all := range h.at {
			for _, at := range all {
				if at > time.Minute+time.Second && !strings.HasSuffix(key, "again") {
					calls++
				}
			}
		}
		if calls < 58 || calls > 62 {
			t.Errorf("%d calls in two minutes; want 60: %v", calls, h.at)
		}
	})
}

// TestANewSession checks that the legacy client opens a new session when the endpoint has forgotten
// the old one.
func TestANewSession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := played(t, func(h *house) {
			time.Sleep(5500 * time.Millisecond)
			h.mu.Lock()
			h.gone = true
			h.mu.Unlock()
			time.Sleep(5 * time.Second)
		})
		if h.sessions != 2 {
			t.Errorf("%d sessions; want 2", h.sessions)
		}
	})
}

// TestNobodyThere runs the demo clients without an endpoint, so every request fails. The clients
// must not repeat requests in a fast loop.
func TestNobodyThere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 9500*time.Millisecond)
		defer cancel()
		n := 0
		var mu sync.Mutex
		playOver(ctx, "http://house/mcp", "1", roundTrip(func(*http.Request) (*http.Response, error) {
			mu.Lock()
			defer mu.Unlock()
			n++
			return nil, io.EOF
		}))
		if n > 40 {
			t.Errorf("%d requests in ten seconds", n)
		}
	})
}

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }
