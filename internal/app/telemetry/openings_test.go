package telemetry

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/base/identity"
	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/base/loglimit"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
	"github.com/dragoman-mcp/dragoman/internal/relay/downstream"
	"github.com/dragoman-mcp/dragoman/internal/relay/event"
	"github.com/dragoman-mcp/dragoman/internal/transport"
	"github.com/dragoman-mcp/dragoman/internal/transport/stdio"
	"github.com/dragoman-mcp/dragoman/internal/transport/streamhttp"
)

// helloHandler answers only handshakes.
type helloHandler struct{ err error }

func (h helloHandler) Hello(context.Context, *mcp.ClientInfo) (*mcp.ServerInfo, error) {
	return &mcp.ServerInfo{Info: []byte(`{"name":"s","version":"1"}`), Capabilities: []byte(`{}`)}, h.err
}

func (helloHandler) Call(context.Context, *mcp.Call, mcp.Caller) (*mcp.Reply, error) {
	return mcp.Answer([]byte(`{"tools":[]}`)), nil
}

func (helloHandler) Notify(context.Context, *mcp.ClientInfo, *jsonrpc.Message) {}

func (helloHandler) Resubscribe(context.Context, *mcp.ClientInfo, []string) {}

func (helloHandler) Subscribe(*mcp.ClientInfo, mcp.Subscriber) func() { return func() {} }

// TestOutcomesOfHandshakes causes each outcome of initialize and server/discover over HTTP and
// stdio. Each outcome must be in the log, in the metric and in an event.
func TestOutcomesOfHandshakes(t *testing.T) {
	opening := func(date, info string) string {
		return `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":` + date + `,"capabilities":{},"clientInfo":` + info + `}}`
	}
	discover := func(date string) string {
		return `{"jsonrpc":"2.0","id":1,"method":"server/discover","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"` + date + `","io.modelcontextprotocol/clientCapabilities":{},"io.modelcontextprotocol/clientInfo":{"name":"c\u001b[1m","version":"1"}}}}`
	}
	const who = `{"name":"c\u001b[1m","version":"1"}` // the name must be safe in a terminal
	for name, test := range map[string]struct {
		body       string
		modern     string // the revision in the header
		strict     bool
		fails      bool
		limited    bool // the case is for HTTP only, because a client on stdio opens one session
		requested  string
		revision   string
		outcome    string
		label      string // the label of the metric, if it differs from requested
		client     string // the client in the log; "" means "c_[1m"
		level      string // the level in the log; "" means INFO
		statusHTTP int    // the HTTP status; 0 means 200
	}{
		"ok":                    {body: opening(`"2025-06-18"`, who), requested: "2025-06-18", revision: "2025-06-18", outcome: "ok"},
		"without params":        {body: `{"jsonrpc":"2.0","id":1,"method":"initialize"}`, requested: "none", revision: "2025-11-25", outcome: "ok", client: "unknown"},
		"negotiated":            {body: opening(`"2024-01-01"`, who), requested: "2024-01-01", label: "other", revision: "2025-11-25", outcome: "negotiated"},
		"unsupported":           {body: opening(`"2024-01-01"`, who), strict: true, requested: "2024-01-01", label: "other", revision: "none", outcome: "unsupported_version", level: "WARN"},
		"no version":            {body: `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"clientInfo":` + who + `}}`, requested: "none", revision: "none", outcome: "malformed"},
		"params is a list":      {body: `{"jsonrpc":"2.0","id":1,"method":"initialize","params":[]}`, requested: "none", revision: "none", outcome: "malformed", client: "unknown", statusHTTP: 400},
		"JSON-RPC 1.0":          {body: strings.Replace(opening(`"2025-06-18"`, who), `"2.0"`, `"1.0"`, 1), requested: "none", revision: "none", outcome: "malformed", client: "unknown", statusHTTP: 400},
		"null id":               {body: strings.Replace(opening(`"2025-06-18"`, who), `"id":1`, `"id":null`, 1), requested: "none", revision: "none", outcome: "malformed", client: "unknown", statusHTTP: 400},
		"half":                  {body: opening(`"2025-06-18"`, who)[:90], requested: "none", revision: "none", outcome: "malformed", client: "unknown", statusHTTP: 400},
		"discover, JSON-RPC 1":  {body: strings.Replace(discover("2026-07-28"), `"2.0"`, `"1.0"`, 1), modern: "2026-07-28", requested: "none", revision: "none", outcome: "malformed", client: "unknown", statusHTTP: 400},
		"no name":               {body: opening(`"2025-06-18"`, `{}`), strict: true, requested: "2025-06-18", revision: "none", outcome: "malformed", client: "unknown"},
		"failed":                {body: opening(`"2025-06-18"`, who), fails: true, requested: "2025-06-18", revision: "2025-06-18", outcome: "failed"},
		"rate limited":          {body: opening(`"2025-06-18"`, who), limited: true, requested: "2025-06-18", revision: "none", outcome: "rate_limited", statusHTTP: 429},
		"discover":              {body: discover("2026-07-28"), modern: "2026-07-28", requested: "2026-07-28", revision: "2026-07-28", outcome: "ok"},
		"discover, unsupported": {body: discover("2031-01-01"), modern: "2031-01-01", requested: "2031-01-01", label: "other", revision: "none", outcome: "unsupported_version", level: "WARN", statusHTTP: 400},
		"discover, failed":      {body: discover("2026-07-28"), modern: "2026-07-28", fails: true, requested: "2026-07-28", revision: "2026-07-28", outcome: "failed", statusHTTP: -1},
	} {
		for _, over := range []string{"stdio", "http"} {
			if test.limited && over == "stdio" {
				continue
			}
			t.Run(name+" over "+over, func(t *testing.T) {
				var b bytes.Buffer
				var seen []event.Event
				p, m := &event.Publisher{}, NewMetrics()
				defer m.Subscribe(p)()
				defer p.Tap(event.Of(event.Handshake), func(e event.Event) { seen = append(seen, e) })()
				log := NewLog(p, LogOptions{Log: logger(&b, slog.LevelInfo)})
				var failure error
				if test.fails {
					failure = errors.New("a bug")
				}
				rules := &downstream.Rules{Strict: test.strict}
				if test.strict {
					rules.Revisions = []mcp.Revision{mcp.R20250618}
				}
				endpoint := &downstream.Endpoint{Handler: helloHandler{failure}, Events: p, Rules: func() *downstream.Rules { return rules }}
				answer, remote := "", over
				if over == "http" {
					remote = "192.0.2.1" // the address that httptest uses
					status := 0
					status, answer = overHTTP(t, endpoint, test.body, test.modern, test.limited)
					if want := max(test.statusHTTP, 200); test.statusHTTP >= 0 && status != want {
						t.Errorf("status %d, want %d", status, want)
					}
				} else {
					answer = overStdio(t, endpoint, test.body)
				}
				log.Close()
				if test.client == "" {
					test.client = "c_[1m"
				}
				if test.level == "" {
					test.level = "INFO"
				}
				if test.label == "" {
					test.label = test.requested
				}
				version := "1"
				if test.client == "unknown" {
					version = "unknown"
				}
				start := "level=" + test.level + " msg=initialize client=" + test.client + " client_version=" + version +
					" requested=" + test.requested + " revision=" + test.revision + " outcome=" + test.outcome + " took="
				if got := b.String(); strings.Count(got, "\n") != 1 || !strings.HasPrefix(got, start) || !strings.Contains(got, " remote="+remote+" project=default") {
					t.Errorf("the log is\n%swant\n%s…\nanswer %s", got, start, answer)
				}
				want := `dragoman_handshakes_total{client="` + test.client + `",outcome="` + test.outcome + `",requested="` + test.label + `"} 1` + "\n"
				if text := scrape(m); !strings.Contains(text, want) || strings.Count(text, "\ndragoman_handshakes_total{") != 1 {
					t.Errorf("no %s", want)
				}
				if len(seen) != 1 || string(seen[0].Outcome) != test.outcome || seen[0].Name != test.client || seen[0].Opening.Remote != remote {
					t.Errorf("the events are %+v", seen)
				}
			})
		}
	}
}

// overHTTP posts one message and returns the status and the body of the response.
func overHTTP(t *testing.T, a transport.Acceptor, body, modern string, limited bool) (int, string) {
	s := streamhttp.NewServer(streamhttp.Options{Acceptor: a, Principal: identity.Anyone, AllowInitialize: func(context.Context, transport.Newcomer) (time.Duration, bool) {
		return time.Second, !limited
	}})
	defer func() { _ = s.Close() }()
	r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "http://localhost/mcp", strings.NewReader(body))
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "application/json, text/event-stream")
	if modern != "" {
		r.Header.Set("MCP-Protocol-Version", modern)
		r.Header.Set("Mcp-Method", "server/discover")
		if strings.Contains(body, `"tools/list"`) {
			r.Header.Set("Mcp-Method", "tools/list")
		}
	}
	w := httptest.NewRecorder()
	s.ServeHTTP(w, r)
	return w.Code, w.Body.String()
}

// overStdio sends one line, closes stdin and returns what arrives on stdout.
func overStdio(t *testing.T, r *downstream.Endpoint, line string) string {
	out, in := io.Pipe()
	var all sync.WaitGroup
	var got []byte
	all.Go(func() { got, _ = io.ReadAll(out) })
	p := stdio.NewPipe(io.NopCloser(strings.NewReader(line+"\n")), in, stdio.Options{})
	if err := r.ServePipe(t.Context(), p, transport.Peer{Transport: "stdio"}); err != nil {
		t.Error(err)
	}
	_ = in.Close()
	all.Wait()
	return string(got)
}

// TestRepeatedHandshakes checks that repeated handshakes of one client within a minute are logged
// as a count, and that the handshakes of other clients are still logged.
func TestRepeatedHandshakes(t *testing.T) {
	var b bytes.Buffer
	limited := loglimit.New(logger(&b, slog.LevelInfo).Handler())
	p := &event.Publisher{}
	l := NewLog(p, LogOptions{Log: slog.New(limited)})
	for i := range 300 {
		for _, client := range []string{"a", "b"} {
			p.Publish(event.Event{Kind: event.Handshake, Level: slog.LevelInfo, Method: "initialize", From: mcp.R20250618, Outcome: event.OK, Took: time.Duration(i), Opening: &event.Opening{Client: client, Version: "1", Requested: "2025-06-18", Remote: "::1"}})
		}
		if i%50 == 49 { // empties the log's queue, which has a bound
			l.Close()
			l = NewLog(p, LogOptions{Log: slog.New(limited)})
		}
	}
	l.Close()
	limited.Close()
	got := b.String()
	for _, want := range []string{"msg=initialize client=a client_version=1", "msg=initialize client=b client_version=1",
		"msg=initialize client=a outcome=ok remote=::1 more=299 within=1m0s", "msg=initialize client=b outcome=ok remote=::1 more=299 within=1m0s"} {
		if strings.Count(got, want) != 1 {
			t.Errorf("no %s in\n%s", want, got)
		}
	}
	if strings.Count(got, "\n") != 4 {
		t.Error(got)
	}
}

// TestFoldedHandshakesKeepTheirOutcome checks that the count of repeated handshakes says how they
// ended, and that another client has a count of its own.
func TestFoldedHandshakesKeepTheirOutcome(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		limited := loglimit.New(slog.NewTextHandler(&out, nil))
		p := &event.Publisher{}
		l := NewLog(p, LogOptions{Log: slog.New(limited)})
		say := func(n int, client string, outcome mcp.Outcome) {
			for range n {
				p.Publish(event.Event{Kind: event.Handshake, Level: slog.LevelInfo, Method: mcp.MethodInitialize, Name: client, Outcome: outcome, Opening: &event.Opening{Client: client, Remote: "127.0.0.1"}})
			}
			synctest.Wait()
		}
		say(5, "flood", event.RateLimited)
		say(3, "flood", event.OK)
		say(2, "innocent", event.OK)
		l.Close()
		limited.Close()
		for _, want := range []string{"client=flood outcome=rate_limited remote=127.0.0.1 more=4", "client=flood outcome=ok remote=127.0.0.1 more=2", "client=innocent outcome=ok remote=127.0.0.1 more=1"} {
			if !strings.Contains(out.String(), want) {
				t.Errorf("no %q in\n%s", want, out.String())
			}
		}
	})
}
