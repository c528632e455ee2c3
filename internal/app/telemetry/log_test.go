package telemetry

import (
	"bytes"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/base/identity"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
	"github.com/dragoman-mcp/dragoman/internal/relay/event"
)

// logger returns a logger that writes to b, without times.
func logger(b *bytes.Buffer, level slog.Level) *slog.Logger {
	return slog.New(slog.NewTextHandler(b, &slog.HandlerOptions{Level: level, ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
		if a.Key == slog.TimeKey {
			return slog.Attr{}
		}
		return a
	}}))
}

// TestLog checks the record of each kind of event, and that Close waits for all records.
func TestLog(t *testing.T) {
	var b bytes.Buffer
	var steps, traces []string
	p := &event.Publisher{}
	l := NewLog(p, LogOptions{
		Log:   logger(&b, slog.LevelDebug),
		Step:  func(server, step string) { steps = append(steps, server+": "+step) },
		Trace: func(server, trace string) { traces = append(traces, server+": "+trace) },
	})
	for _, e := range []event.Event{
		{Kind: event.Loss, Level: slog.LevelDebug, Name: "content.audio", Detail: "no audio"},
		{Kind: event.Loss, Level: slog.LevelDebug, Server: "s", Name: "tasks", Detail: "no room"},
		{Kind: event.Loss, Level: slog.LevelWarn, Name: "tools/list", Detail: "too many"},
		{Kind: event.Rename, Level: slog.LevelWarn, Server: "s", Method: "tools/list", Name: "x", Detail: "too long"},
		{Kind: event.Changed, Level: slog.LevelWarn, Server: "s", Method: "tools/list", Detail: "1 changed", Change: &event.ListChange{Changes: 1, Additions: 2, Removals: 3}},
		{Kind: event.Pinned, Level: slog.LevelWarn, Server: "s", Name: "tool a", Detail: "held", In: 2},
		{Kind: event.Question, Level: slog.LevelInfo, Server: "s", Method: "form", Name: "t", Who: identity.Named("ann"), Detail: "waits for a person"},
		{Kind: event.Question, Level: slog.LevelInfo, Server: "s", Method: "form", Name: "t", Who: identity.Named("eve"), Detail: "accept", Outcome: event.OK, Took: time.Second},
		{Kind: event.Question, Level: slog.LevelInfo, Server: "s", Method: "link", Name: "t", Who: identity.Named("ann"), Detail: "is late", Outcome: mcp.Failed, Took: time.Minute},
		{Kind: event.Refusal, Level: slog.LevelWarn, Server: "s", Method: "tools/call", Who: identity.Named("ann"), Detail: "refused"},
		{Kind: event.Call, Server: "s"},
		{Kind: event.Lifecycle, Server: "s", Detail: "starting"},
		{Kind: event.Lifecycle, Server: "s"},
		{Kind: event.Handshake, Name: "client"},
		{Kind: event.Step, Level: slog.LevelDebug, Server: "s", Step: &event.HandshakeStep{N: 1, Sent: "initialize", Bytes: "{}"}},
		{Kind: event.Step, Level: slog.LevelDebug, Server: "s", Step: &event.HandshakeStep{N: 2, Sent: "initialize", Got: "a result", Reason: "the server uses 2025-11-25"}},
		{Kind: event.Stderr, Level: slog.LevelDebug, Server: "s", Detail: "hello"},
		{Kind: event.Handshake, Level: slog.LevelInfo, Method: "initialize", From: mcp.R20250618, Outcome: event.Negotiated, Took: time.Millisecond, Opening: &event.Opening{Client: "c", Version: "1", Requested: "1.0", Remote: "stdio"}},
		{Kind: event.Handshake, Level: slog.LevelWarn, Method: "server/discover", Code: -32022, Outcome: event.UnsupportedVersion, Opening: &event.Opening{Client: "c", Version: "1", Remote: "::1"}},
		{Kind: event.Handshake, Server: "s", Detail: "initialize -> 2025-11-25\n"},
	} {
		p.Publish(e)
	}
	l.Close()
	l.Close()
	p.Publish(event.Event{Kind: event.Loss})
	if want := `level=DEBUG msg=loss what=content.audio why="no audio"
level=DEBUG msg=loss server=s what=tasks why="no room"
level=WARN msg="not sent to clients" server="" what=tools/list why="too many"
level=WARN msg="renamed an item" server=s list=tools/list name=x why="too long"
level=WARN msg="tools of a server have changed" server=s what="1 changed" changed=1 added=2 removed=3
level=WARN msg="definitions have changed since they were approved" server=s what="tool a" then=held definitions=2
level=INFO msg="a question waits for a person" server=s kind=form name=t principal=ann
level=INFO msg="a question was answered" server=s kind=form name=t answer=accept by=eve took=1s
level=INFO msg="a question has no answer" server=s kind=link name=t why="is late" took=1m0s
level=WARN msg=refused server=s principal=ann method=tools/call code=request_refused
level=DEBUG msg="handshake step" server=s n=1 sent=initialize bytes={}
level=DEBUG msg="handshake step" server=s n=2 sent=initialize got="a result" reason="the server uses 2025-11-25"
level=DEBUG msg="server stderr" server=s line=hello
level=INFO msg=initialize client=c client_version=1 requested=1.0 revision=2025-06-18 outcome=negotiated took=1ms remote=stdio project=default
level=WARN msg=initialize client=c client_version=1 requested=none revision=none outcome=unsupported_version took=0s remote=::1 project=default method=server/discover error_code=-32022
`; b.String() != want {
		t.Errorf("got\n%swant\n%s", b.String(), want)
	}
	if got := strings.Join(append(steps, traces...), "|"); got != "s: starting|s: |s: initialize -> 2025-11-25\n" {
		t.Errorf("shown: %q", got)
	}
}

// TestLogInOrder checks that a record stands after the events that were published before it. An
// attribute, a group and an end of the Log change nothing.
func TestLogInOrder(t *testing.T) {
	var b bytes.Buffer
	var want strings.Builder
	p := &event.Publisher{}
	l := NewLog(p, LogOptions{Log: logger(&b, slog.LevelDebug)})
	log := l.InOrder()
	for i := range 300 {
		for n := range i % 40 {
			p.Publish(event.Event{Kind: event.Step, Level: slog.LevelDebug, Server: "s", Step: &event.HandshakeStep{N: n, Sent: "initialize"}})
			fmt.Fprintf(&want, "level=DEBUG msg=\"handshake step\" server=s n=%d sent=initialize\n", n)
		}
		switch i % 3 {
		case 0:
			log.Info("server ready", "i", i)
			fmt.Fprintf(&want, "level=INFO msg=\"server ready\" i=%d\n", i)
		case 1:
			log.With("i", i).Info("server ready")
			fmt.Fprintf(&want, "level=INFO msg=\"server ready\" i=%d\n", i)
		case 2:
			log.WithGroup("of").Info("server ready", "i", i)
			fmt.Fprintf(&want, "level=INFO msg=\"server ready\" of.i=%d\n", i)
		}
	}
	l.Close()
	log.Info("server ready")
	want.WriteString("level=INFO msg=\"server ready\"\n")
	if b.String() != want.String() {
		t.Errorf("the records are in another order, or some are missing:\n%s", b.String())
	}
}

// TestLogMisses checks that publishers do not wait for a slow log, and that the log counts
// the events that it missed.
func TestLogMisses(t *testing.T) {
	var b bytes.Buffer
	p := &event.Publisher{}
	begun, slow := make(chan struct{}), make(chan struct{})
	l := NewLog(p, LogOptions{Log: logger(&b, slog.LevelWarn), Step: func(string, string) {
		close(begun)
		<-slow
	}})
	p.Publish(event.Event{Kind: event.Lifecycle, Server: "s", Detail: "starting"})
	<-begun
	for range logDepth + 5 {
		p.Publish(event.Event{Kind: event.Loss, Level: slog.LevelDebug, Name: "x"})
	}
	close(slow)
	l.Close()
	if want := "level=WARN msg=\"too many events at once; some were not logged\" missed=5\n"; b.String() != want {
		t.Errorf("got %s", b.String())
	}
}

// TestLogMasksNamesOfServers checks that names from a server, which may contain its secrets, are masked
// with the function for its project.
func TestLogMasksNamesOfServers(t *testing.T) {
	var b bytes.Buffer
	p := &event.Publisher{}
	l := NewLog(p, LogOptions{Log: logger(&b, slog.LevelWarn), Clean: func(project, server string) func(string) string {
		return func(text string) string { return strings.ReplaceAll(text, "pw of "+project+" "+server, "***") }
	}})
	for _, kind := range []event.Kind{event.Loss, event.Rename, event.Changed, event.Pinned, event.Question} {
		for _, server := range []string{"s", "other"} {
			p.Publish(event.Event{Kind: kind, Level: slog.LevelWarn, Project: "shop", Server: server, Method: "resources/list", Name: "db://pw of shop s/", Detail: "it is db://pw of shop s/", Change: &event.ListChange{}})
		}
	}
	l.Close()
	for line := range strings.Lines(b.String()) {
		if strings.Contains(line, "pw of") == strings.Contains(line, "server=s") {
			t.Error(line)
		}
	}
	if n := strings.Count(b.String(), "***"); n != 2+2+1+2+1 {
		t.Errorf("%d names are masked:\n%s", n, b.String())
	}
}
