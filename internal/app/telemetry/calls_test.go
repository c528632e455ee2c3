package telemetry

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/base/identity"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
	"github.com/dragoman-mcp/dragoman/internal/relay/event"
)

// TestCallLog checks the log record of each kind of call.
func TestCallLog(t *testing.T) {
	var b bytes.Buffer
	p := &event.Publisher{}
	l := NewCallLog(p, logger(&b, slog.LevelInfo), slog.LevelInfo, nil)
	named := func(name string) *mcp.ClientInfo {
		return &mcp.ClientInfo{Info: []byte(`{"name":"` + name + `","version":"1"}`)}
	}
	for _, e := range []event.Event{
		{Server: "files", Method: mcp.MethodCallTool, Name: "read_file", Took: 12345 * time.Microsecond, Outcome: event.OK, Client: named("Claude Code"), From: mcp.R20251125, To: mcp.R20260728},
		{Method: mcp.MethodListTools, Took: 1234 * time.Nanosecond, Outcome: event.OK, Client: named(`a\u001b[2J \"b\"`), From: mcp.R20260728},
		{Server: "s", Method: mcp.MethodGetPrompt, Name: "two\nlines", Took: 12345 * time.Millisecond, Outcome: mcp.Failed, Code: -32602, Who: identity.Named("ann"), From: mcp.R20241105, To: mcp.R20250618, Client: &mcp.ClientInfo{}},
		{Server: "s", Method: mcp.MethodCallTool, Name: "t", Took: time.Second, Outcome: event.ToolError},
		{Server: "s", Method: "made/up", Took: time.Second, Outcome: event.Refused, Code: -32601},
	} {
		e.Kind = event.Call
		p.Publish(e)
	}
	l.Close()
	if p.Wants(event.Call) {
		t.Error("Wants is true after the log was closed")
	}
	if want := `level=INFO msg=call server=files tool=read_file took=12ms outcome=ok client="Claude Code" from=2025-11-25 to=2026-07-28
level=INFO msg=call method=tools/list took=0s outcome=ok client="a_[2J \"b\"" from=2026-07-28
level=INFO msg=call server=s method=prompts/get prompt="two lines" took=12.3s outcome=failed error_code=-32602 principal=ann from=2024-11-05 to=2025-06-18
level=INFO msg=call server=s tool=t took=1s outcome=tool_error
level=INFO msg=call server=s method=made/up took=1s outcome=refused error_code=-32601
`; b.String() != want {
		t.Errorf("got\n%swant\n%s", b.String(), want)
	}
}

// TestCallLogMasksNames checks that what a client or server wrote is masked with the function for its
// server, before it's cut, and that the rest of the record stays as it is.
func TestCallLogMasksNames(t *testing.T) {
	var b bytes.Buffer
	p := &event.Publisher{}
	l := NewCallLog(p, logger(&b, slog.LevelInfo), slog.LevelInfo, func(project, server string) func(string) string {
		if server == "unknown" {
			return nil
		}
		return func(text string) string { return strings.ReplaceAll(text, "pw-"+project+"-"+server, "***") }
	})
	for _, server := range []string{"s", "other", "unknown"} {
		for _, method := range []string{mcp.MethodCallTool, mcp.MethodReadResource, "x/pw-shop-s"} {
			p.Publish(event.Event{
				Kind: event.Call, Project: "shop", Server: server, Method: method, Name: strings.Repeat("n", maxSubject-5) + "pw-shop-s",
				Client: &mcp.ClientInfo{Info: []byte(`{"name":"pw-shop-s"}`)},
			})
		}
	}
	l.Close()
	masked := 0
	for line := range strings.Lines(b.String()) {
		ours := strings.Contains(line, " server=s ")
		if strings.Contains(line, "pw-") == ours || !strings.Contains(line, "project=shop") {
			t.Error(line)
		}
		masked += strings.Count(line, "***")
	}
	if masked != 2+2+2 {
		t.Errorf("%d texts are masked:\n%s", masked, b.String())
	}
}

// TestCallLogOff checks a log that discards the level of the call log. NewCallLog then does not
// subscribe, so the call log costs nothing.
func TestCallLogOff(t *testing.T) {
	p := &event.Publisher{}
	l := NewCallLog(p, logger(&bytes.Buffer{}, slog.LevelInfo), slog.LevelDebug, nil)
	if l != nil || p.Wants(event.Call) {
		t.Error("it listens")
	}
	l.Close()
}

// TestCallLogMisses checks that calls do not wait for a slow log, and that the number of lost
// records is logged.
func TestCallLogMisses(t *testing.T) {
	var b bytes.Buffer
	p := &event.Publisher{}
	h := &slowHandler{Handler: logger(&b, slog.LevelWarn).Handler(), begun: make(chan struct{}), slow: make(chan struct{})}
	l := NewCallLog(p, slog.New(h), slog.LevelInfo, nil)
	p.Publish(event.Event{Kind: event.Call})
	<-h.begun
	for range callDepth + 5 {
		p.Publish(event.Event{Kind: event.Call})
	}
	close(h.slow)
	l.Close()
	if want := "level=WARN msg=\"too many calls at once; some were not logged\" code=calls_not_logged missed=5\n"; b.String() != want {
		t.Errorf("got %s", b.String())
	}
}

// slowHandler blocks while it handles the first record.
type slowHandler struct {
	slog.Handler
	begun, slow chan struct{}
	waited      bool
}

func (h *slowHandler) Enabled(context.Context, slog.Level) bool { return true }

func (h *slowHandler) Handle(ctx context.Context, r slog.Record) error {
	if !h.waited {
		h.waited = true
		close(h.begun)
		<-h.slow
	}
	if !h.Handler.Enabled(ctx, r.Level) {
		return nil
	}
	return h.Handler.Handle(ctx, r)
}
