package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"
	"unicode"

	"github.com/dragoman-mcp/dragoman/internal/app/daemon"
	"github.com/dragoman-mcp/dragoman/internal/app/runtime"
	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/base/loglimit"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
)

// forged is text from a hostile peer. It has line breaks, three sequences that clear the screen,
// a character that reverses the text direction, and imitations of Dragoman's messages.
const forged = "bad\r\ndragoman: hint: FORGED \x1b[2J\u009b2J\\x1b[2J\u202e\u2028dragoman: error: FORGED"

// hostileSession is a session with a peer that sends forged in every text.
type hostileSession struct {
	o    daemon.ConnectOptions
	fail error
}

func hostileItem() []byte {
	f := jsonrpc.AppendQuote(nil, forged)
	return fmt.Appendf(nil, `{"name":%s,"uri":%s,"uriTemplate":%s,"title":%s,"description":%s,"inputSchema":{"type":"object"}}`, f, f, f, f, f)
}

func (s *hostileSession) List(context.Context, string) (runtime.List, error) {
	return runtime.List{Items: [][]byte{hostileItem()}, Failed: []string{forged}}, nil
}

func (s *hostileSession) Call(ctx context.Context, _ string, _ []byte, onProgress func(float64, float64, string)) ([]byte, error) {
	onProgress(1, 2, forged)
	if s.o.Answer != nil {
		for _, schema := range []string{"", `{"type":"object","properties":{"a":{"type":"string"}}}`,
			`{"type":"object","properties":{"a":{"type":"string"},"b":{"type":"string"}},"required":["b"]}`,
			`{"type":"object","properties":{"a":{"type":"integer"}}}`} {
			schema = strings.ReplaceAll(schema, `"b"`, string(jsonrpc.AppendQuote(nil, forged)))
			s.o.Answer(ctx, runtime.Question{Message: forged, Schema: []byte(schema)})
		}
	}
	if s.fail != nil {
		return nil, s.fail
	}
	f := jsonrpc.AppendQuote(nil, forged)
	return fmt.Appendf(nil, `{"isError":true,"content":[{"type":%s},{"type":"image","mimeType":%s},{"type":"resource","resource":{"uri":%s,"blob":"AA"}}]}`, f, f, f), nil
}

func (s *hostileSession) Request(context.Context, string, []byte) ([]byte, error) {
	f := jsonrpc.AppendQuote(nil, forged)
	return fmt.Appendf(nil, `{"contents":[{"uri":%s,"text":%s}],"messages":[{"role":%s,"content":{"type":"text","text":%s}},{"role":"user","content":{"type":%s}}],"completion":{"values":[%s],"total":7}}`, f, f, f, f, f, f), s.fail
}

func (s *hostileSession) Describe(context.Context) (runtime.Description, error) {
	f := jsonrpc.AppendQuote(nil, forged)
	return runtime.Description{
		Info: fmt.Appendf(nil, `{"name":%s,"title":%s,"version":%s,"websiteUrl":%s}`, f, f, f, f), Capabilities: []byte(`{"tools":{},"resources":{},"prompts":{}}`),
		Instructions: forged, Transport: "http",
	}, nil
}

func (s *hostileSession) Close() error { return nil }

// checkLines fails the test if a line of text imitates Dragoman, has unquoted text from a peer, or
// has control characters.
func checkLines(t *testing.T, name, text string) {
	t.Helper()
	for l := range strings.Lines(text) {
		l = strings.TrimSuffix(l, "\n")
		if strings.ContainsFunc(l, func(r rune) bool { return !unicode.IsPrint(r) }) {
			t.Errorf("%s: a line has control characters: %q", name, l)
		}
		if strings.HasPrefix(l, "dragoman: hint: FORGED") || strings.HasPrefix(l, "dragoman: error: FORGED") {
			t.Errorf("%s: a peer imitates Dragoman: %q", name, l)
		}
		if at := strings.Index(l, "FORGED"); at >= 0 && !strings.Contains(l[:at], `"`) && !strings.HasPrefix(l, "[") {
			t.Errorf("%s: the text of a peer is not quoted: %q", name, l)
		}
	}
}

// TestPeersCannotImitateDragoman checks what Dragoman prints on stderr about hostile peers.
func TestPeersCannotImitateDragoman(t *testing.T) {
	wire := &jsonrpc.Error{Code: -32000, Message: forged}
	for _, c := range []struct {
		name    string
		args    []string
		connect error
		call    error
	}{
		{name: "an error of the server", args: []string{"call", "http://h", "x"}, call: wire},
		{name: "an error of the server, wrapped", args: []string{"call", "http://h", "x"}, call: fmt.Errorf("call: %w", wire)},
		{name: "a result that is an error", args: []string{"call", "http://h", "x"}},
		{name: "questions", args: []string{"call", "http://h", "x", "--accept", "a=y"}, call: wire},
		{name: "verbose", args: []string{"-v", "call", "http://h", "x", "--accept", "a=y"}, call: wire},
		{name: "a resource", args: []string{"read", "http://h", "x:y"}, call: wire},
		{name: "a prompt", args: []string{"prompt", "http://h", "x"}, call: wire},
		{name: "a completion", args: []string{"complete", "http://h", "prompt", "x", "y"}, call: wire},
		{name: "an error at the opening", args: []string{"list", "http://h"}, connect: wire},
		{name: "a cause of several lines", args: []string{"list", "http://h"}, connect: &mcp.Error{Message: "not opened", Err: errors.New("\"x\"\ndragoman: hint: FORGED")}},
	} {
		var out, said bytes.Buffer
		a := &app{world: world{stdout: &out, env: noEnv, status: newStatus(&said, false, noEnv)}}
		a.backend = Backend{Connect: func(_ context.Context, o daemon.ConnectOptions) (Session, error) {
			if c.connect != nil {
				return nil, c.connect
			}
			o.Log.Error("something", "peer", forged, "cause", errors.New(forged))
			return &hostileSession{o, c.call}, nil
		}}
		if code := a.main(c.args); code != exitFailure {
			t.Errorf("%s: exit code %d", c.name, code)
		}
		checkLines(t, c.name, said.String())
		if !strings.Contains(said.String(), "FORGED") {
			t.Errorf("%s: the text of the peer is missing:\n%s", c.name, said.String())
		}
	}
}

// TestListOfHostileServer checks that each item of a list stays on one line.
func TestListOfHostileServer(t *testing.T) {
	for _, args := range [][]string{{"list", "http://h"}, {"list", "resources", "http://h"}, {"list", "templates", "http://h"}, {"list", "--json", "http://h"},
		{"show", "http://h"}, {"show", "--json", "http://h"}, {"show", "http://h", forged, "--schema"}, {"show", "--json", "http://h", forged},
		{"complete", "http://h", "prompt", "x", "y"}, {"read", "http://h", "x:y", "--json"}, {"prompt", "http://h", "x", "--json"}} {
		var out, said bytes.Buffer
		a := &app{world: world{stdout: &out, screen: true, env: noEnv, status: newStatus(&said, false, noEnv)}}
		a.backend = Backend{Connect: func(_ context.Context, o daemon.ConnectOptions) (Session, error) { return &hostileSession{o: o}, nil }}
		if code := a.main(args); code != exitOK {
			t.Errorf("%q: exit code %d: %s", args, code, said.String())
		}
		for l := range strings.Lines(out.String()) {
			if strings.ContainsFunc(strings.TrimSuffix(l, "\n"), func(r rune) bool { return !unicode.IsPrint(r) }) || strings.HasPrefix(l, "dragoman:") {
				t.Errorf("%q prints %q", args, l)
			}
		}
	}
}

// TestLogOfHostilePeer checks log records in every format.
func TestLogOfHostilePeer(t *testing.T) {
	for _, c := range []struct {
		name           string
		format         string
		terminal, dark bool
	}{{"text", "", false, false}, {"json", "json", false, false}, {"text on a terminal", "text", true, false}, {"colour", "", true, false}, {"no colour", "", true, true}} {
		var said bytes.Buffer
		env := noEnv
		if c.dark {
			env = func(k string) (string, bool) { return "1", k == "NO_COLOR" }
		}
		a := &app{world: world{logFormat: c.format, status: newStatus(&said, c.terminal, env)}}
		a.startLog(slog.LevelInfo, nil)
		a.log.Warn("something", "peer", forged, "cause", errors.New(forged), "plain", `\x1b[2J`, "list", []string{forged}, "error", errors.New(forged),
			slog.Group("g", "deep", forged))
		text := said.String()
		for _, seq := range []string{"\x1b[2m", "\x1b[0m", "\x1b[33m"} {
			text = strings.ReplaceAll(text, seq, "") // the colours that the log handler adds
		}
		for i, l := range strings.Split(strings.TrimSuffix(text, "\n"), "\n") {
			if i > 0 && (!c.terminal || c.format != "" || !strings.HasPrefix(l, "         ")) {
				t.Errorf("%s: a line of a record can't be told from another record: %q", c.name, l)
			}
		}
		if c.terminal {
			text = strings.ReplaceAll(text, "\n         ", " ")
		}
		checkLines(t, c.name, text)
	}
}

// TestDurationsHaveUnits checks that a duration has its unit in each format of the log.
func TestDurationsHaveUnits(t *testing.T) {
	for _, format := range []string{"", "json"} {
		var said bytes.Buffer
		a := &app{world: world{logFormat: format, status: newStatus(&said, false, noEnv)}}
		a.startLog(slog.LevelInfo, nil)
		a.log.Info("something", "took", 1200*time.Microsecond, loglimit.Measured("waited", slog.DurationValue(time.Second)), slog.Group("g", "deep", time.Minute))
		for _, want := range []string{"1.2ms", "1s", "1m0s"} {
			if !strings.Contains(said.String(), want) {
				t.Errorf("format %q: no %s in %s", format, want, said.String())
			}
		}
	}
}

func TestStderrOfRecordedServer(t *testing.T) {
	var said bytes.Buffer
	w := &childLines{newStatus(&said, false, noEnv), "srv"}
	for _, l := range []string{"plain words\n", "dragoman: hint: FORGED\n", "\x1b[31mred\x1b[0m \u202e\n"} {
		if n, err := w.Write([]byte(l)); n != len(l) || err != nil {
			t.Errorf("wrote %d, %v", n, err)
		}
	}
	want := "srv stderr: plain words\nsrv stderr: dragoman: hint: FORGED\nsrv stderr: red \\u202e\n"
	if said.String() != want {
		t.Errorf("got %q, want %q", said.String(), want)
	}
}
