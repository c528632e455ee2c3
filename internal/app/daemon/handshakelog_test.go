//go:build unix

package daemon

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
	"github.com/dragoman-mcp/dragoman/internal/relay/upstream"
	"github.com/dragoman-mcp/dragoman/internal/setup/config"
)

// talker is the mode of a test server that repeats its password in a 6 KiB answer to initialize and
// on stderr. For a call of its tool "two", it writes 300 lines to stderr.
const talker = "talker mode"

// talkerPassword is the password of the talker. It contains a slash, because JSON can escape a
// slash, and Dragoman must mask the escaped password too.
const talkerPassword = "open/sesame-1001"

func runAsTalker() {
	s := &fakeServer{out: os.Stdout}
	password := os.Getenv("TALKER_PASSWORD")
	fmt.Fprintf(os.Stderr, "\x1b[31mlogged in\x1b[0m with %s\n", password)
	fmt.Fprintf(os.Stderr, "%s%s%s\n", strings.Repeat("y", 493), password, strings.Repeat("y", 3000))
	in := bufio.NewReader(os.Stdin)
	for {
		line, err := in.ReadBytes('\n')
		if err != nil {
			return
		}
		m, err := jsonrpc.Scan(line, jsonrpc.Limits{Bytes: len(line) + 1})
		if err != nil || m.Kind != jsonrpc.Request {
			continue
		}
		switch m.Method {
		case mcp.MethodInitialize:
			escaped := strings.ReplaceAll(password, "/", `\/`)
			s.result(m, `{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"t","version":"1"},"instructions":"The password is `+
				escaped+`. `+strings.Repeat("x", 6000)+`"}`)
		case mcp.MethodListTools:
			s.result(m, `{"tools":[{"name":"one","inputSchema":{"type":"object"}},{"name":"two","inputSchema":{"type":"object"}},{"name":"three","inputSchema":{"type":"object"}}]}`)
		case mcp.MethodCallTool:
			if name, _ := jsonrpc.Text(m.Raw, m.Param("name")); name == "two" {
				for i := range 300 {
					fmt.Fprintf(os.Stderr, "line %d\n", i)
				}
			}
			s.result(m, `{"content":[{"type":"text","text":"done"}]}`)
		default:
			s.write(jsonrpc.AppendError(nil, m.ID, &jsonrpc.Error{Code: jsonrpc.CodeMethodNotFound, Message: "Method not found"}))
		}
	}
}

// bothFormats passes each record to a text handler and to a JSON handler. Both logs have the
// records in the same order.
type bothFormats struct {
	mu         *sync.Mutex
	text, json slog.Handler
}

func (b bothFormats) Enabled(ctx context.Context, l slog.Level) bool { return b.text.Enabled(ctx, l) }

func (b bothFormats) Handle(ctx context.Context, r slog.Record) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	_ = b.text.Handle(ctx, r.Clone())
	return b.json.Handle(ctx, r)
}

func (b bothFormats) WithAttrs(all []slog.Attr) slog.Handler {
	return bothFormats{b.mu, b.text.WithAttrs(all), b.json.WithAttrs(all)}
}

func (b bothFormats) WithGroup(name string) slog.Handler {
	return bothFormats{b.mu, b.text.WithGroup(name), b.json.WithGroup(name)}
}

// logRecord is a record of a text log or a JSON log. All values are strings, so that the records of
// both formats can be compared.
type logRecord map[string]string

func recordsOfJSON(t *testing.T, log string) (all []logRecord) {
	t.Helper()
	for line := range strings.Lines(log) {
		var x map[string]any
		if err := json.Unmarshal([]byte(line), &x); err != nil {
			t.Fatalf("not a record: %v: %s", err, line)
		}
		r := logRecord{}
		for key, value := range x {
			r[key] = fmt.Sprint(value)
			if list, ok := value.([]any); ok { // the text format has the elements of a list in one string
				var words []string
				for _, x := range list {
					words = append(words, fmt.Sprint(x))
				}
				r[key] = strings.Join(words, " | ")
			}
		}
		all = append(all, r)
	}
	return all
}

var textMember = regexp.MustCompile(`(\w+)=("(?:[^"\\]|\\.)*"|\S*)`)

func recordsOfText(t *testing.T, log string) (all []logRecord) {
	t.Helper()
	for line := range strings.Lines(log) {
		r := logRecord{}
		for _, m := range textMember.FindAllStringSubmatch(line, -1) {
			value := m[2]
			if plain, err := strconv.Unquote(value); err == nil {
				value = plain
			}
			r[m[1]] = value
		}
		all = append(all, r)
	}
	return all
}

// TestHandshakeLog checks the log of the handshakes with a server that has a process for each call.
// With --trace-bytes, the log contains the messages. It also contains the number of tools, the
// lines of stderr, and why Dragoman opened each process. The text log and the JSON log have the
// same content, and neither has the password.
func TestHandshakeLog(t *testing.T) {
	t.Parallel()
	u := child(t, "each", talker, func(s *config.Server) {
		s.Isolation = config.IsolateCall
		s.Env["TALKER_PASSWORD"] = config.NewSecret(talkerPassword)
	})
	var text, inJSON journal
	o := &slog.HandlerOptions{Level: upstream.LevelBytes}
	r := serve(t, snapshot(u), func(o2 *ServeOptions) {
		o2.Log = slog.New(bothFormats{&sync.Mutex{}, slog.NewTextHandler(&text, o), slog.NewJSONHandler(&inJSON, o)})
	})
	r.joined() // Dragoman has the server's lists before the first call
	session := r.initialize("/mcp", "2025-06-18", "{}")
	header := []string{"Mcp-Session-Id", session, "MCP-Protocol-Version", "2025-06-18"}
	if a := r.post("/mcp", `{"jsonrpc":"2.0","id":2,"method":"tools/list"}`, header...); !strings.Contains(a.body, `"each__three"`) {
		t.Fatalf("tools/list: %s", a.body)
	}
	// The first call may use a process that Dragoman opened for a list. Each later call opens a new
	// process, so repeat the call.
	await(t, "a process was opened for a call", time.Minute, func() bool {
		r.post("/mcp", toolCall("3", "each__one", "{}"), header...).wantText(t, "done")
		return strings.Contains(text.String(), "sent=initialize for=tools/call")
	})
	await(t, "all processes are open", time.Minute, func() bool {
		log := text.String()
		return strings.Count(log, "sent=initialize for=") == strings.Count(log, `reason="the connection is open"`) && strings.Contains(log, `got="3 tools"`)
	})
	if err := r.stop(); err != nil {
		t.Fatal(err)
	}
	if s := text.String() + inJSON.String(); strings.Contains(s, "sesame") || strings.Contains(s, "open/") || strings.Contains(s, `open\\/`) {
		t.Errorf("the log has the password: %s", s)
	}

	records := recordsOfJSON(t, inJSON.String())
	plain := recordsOfText(t, text.String())
	if len(plain) != len(records) {
		t.Fatalf("%d records in the text and %d in JSON", len(plain), len(records))
	}
	for i, want := range records {
		got := plain[i]
		if !slices.Equal(slices.Sorted(maps.Keys(got)), slices.Sorted(maps.Keys(want))) {
			t.Errorf("the members are %q in the text and %q in JSON", slices.Sorted(maps.Keys(got)), slices.Sorted(maps.Keys(want)))
		}
		for key, value := range want {
			if got[key] != value && key != "time" && key != "took" { // the formats write times and durations in different ways
				t.Errorf("%s is %q in the text and %q in JSON", key, got[key], value)
			}
		}
	}

	// of returns the records about the server with this message.
	of := func(msg string) (found []logRecord) {
		for _, x := range records {
			if x["msg"] == msg && x["server"] == "each" {
				found = append(found, x)
			}
		}
		return found
	}
	begun, listed := map[string]int{}, 0
	for _, x := range of("handshake step") {
		if x["level"] != "DEBUG" || x["code"] != "handshake_step" || len(x["bytes"]) > 4<<10 {
			t.Errorf("a step: %q", x)
		}
		switch {
		case x["sent"] == mcp.MethodInitialize && x["got"] == "":
			begun[x["for"]]++
			if !strings.Contains(x["bytes"], `"protocolVersion":"2025-11-25"`) {
				t.Errorf("initialize is sent: %q", x)
			}
		case strings.HasPrefix(x["sent"], "initialize ("):
			if b := x["bytes"]; !strings.HasPrefix(b, `{"jsonrpc":"2.0","id":`) || !strings.Contains(b, `"instructions":"The password is ***. xxx`) ||
				!strings.HasSuffix(b, "xxx…") || len(b) < 3<<10 {
				t.Errorf("the answer to initialize: %q", b)
			}
		case x["sent"] == mcp.MethodListTools && x["got"] != "":
			listed++
			if x["got"] != "3 tools" || x["reason"] != "the list is complete" || !strings.Contains(x["bytes"], `{"name":"three","inputSchema":{"type":"object"}}]}}`) {
				t.Errorf("the answer to tools/list: %q", x)
			}
		}
	}
	if begun["tools/call"] == 0 || begun["lists"]+begun["tools/list"] < 1 || len(begun) > 3 || listed == 0 {
		t.Errorf("the server was opened for %v, and its tools were listed %d times", begun, listed)
	}
	opened := of("server ready")
	if len(opened) == 0 || opened[0]["level"] != "INFO" || opened[0]["for"] != "lists" {
		t.Errorf("the server is open: %q", opened)
	}
	for i, x := range opened {
		if i > 0 && x["level"] != "DEBUG" { // only the first process is logged at INFO
			t.Errorf("another process: %q", x)
		}
	}
	lines := of("server stderr")
	if len(lines) < 2 || lines[0]["line"] != "logged in with ***" || len(lines[1]["line"]) > 500 || !strings.HasPrefix(lines[1]["line"], strings.Repeat("y", 493)+"***y") {
		t.Errorf("stderr: %q", lines)
	}
}

// TestStderrIsBounded checks that a server that writes many lines to stderr does not fill the log.
// Dragoman logs only the first lines and the number of the others.
func TestStderrIsBounded(t *testing.T) {
	t.Parallel()
	r := serve(t, snapshot(child(t, "each", talker)))
	r.call("/mcp", "each__two", "{}").wantText(t, "done")
	if err := r.stop(); err != nil {
		t.Fatal(err)
	}
	log := r.log.String()
	n := strings.Count(log, `msg="server stderr" server=each line=`)
	if counted := regexp.MustCompile(`msg="server stderr" .*more=\d+`).MatchString(log); n < 50 || n > 110 || !counted {
		t.Errorf("%d lines of stderr are in the log; the others are counted: %t", n, counted)
	}
}
