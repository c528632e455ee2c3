package logscreen

import (
	"flag"
	"log/slog"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unicode"

	"github.com/google/go-cmp/cmp"

	"github.com/dragoman-mcp/dragoman/internal/base/failure"
	"github.com/dragoman-mcp/dragoman/internal/base/logcode"
	"github.com/dragoman-mcp/dragoman/internal/base/loglimit"
	"github.com/dragoman-mcp/dragoman/internal/base/screen"
	"github.com/dragoman-mcp/dragoman/internal/testkit/logtest"
)

var update = flag.Bool("update", false, "write the golden files")

func open(level slog.Level, width int) (*slog.Logger, *Handler, *logtest.Buffer) {
	out := &logtest.Buffer{}
	h := New(Options{Level: level, Out: out, Width: func() int { return width }})
	return slog.New(logcode.New(h)), h, out
}

// problems is an Advice.
type problems struct{}

func (problems) LogValue() slog.Value { return slog.StringValue("not shown") }

func (problems) Advice(tell func(where, text, action string)) {
	tell("dragoman.yaml:3:5", "mcpServers.a.comand: unknown key", "did you mean command?")
	tell("dragoman.yaml:9:1", "syntax error", "")
}

var broken = failure.Failure{
	Class: failure.Exited, Sentence: `server "db" exited with status 1 before it was ready: "FATAL: password authentication failed"`,
	Action: "run the command by hand to see its complete output", Evidence: []string{"FATAL: password authentication failed", "Traceback (most recent call last):"}, EvidenceFrom: failure.Stderr, Cause: "exited",
}

// records writes one record of each form.
func records(log *slog.Logger) {
	db := slog.String("server", "db")
	log.Info("server ready", db, "took", "27ms", "attempts", 1, "for", "lists")
	log.Warn("server could not be opened", append([]any{db, "attempt", 1, "retry_after", "600ms"}, broken.Attrs()...)...)
	log.Info("server could still not be opened", db, "class", "exited", "attempts", 2, "retry_in", "1.7s")
	log.Info("server ready", db, "took", "12.34s", "attempts", 6, "for", "lists")
	log.Warn("a server is not started", "server", "w", "at", problems{}, "sentence", `the environment variable KEY is not set, so server "w" is not started`, "action", "set KEY and restart Dragoman")
	log.Warn("problem in the configuration", "at", problems{})
	log.Error("the changed configuration is invalid; keeping the current one", "problems", problems{})
	log.Info("configuration applied", "added", 1, "removed", 0, "changed", 2, "kept", 7, "settings", "limits")
	log.Info("server changed", db, "settings", "args env", "effect", "restarted")
	log.Info("initialize", loglimit.Peer("client", "inspector"), "client_version", "2.1.0", "requested", "2025-06-18", "revision", "2025-06-18", "outcome", "ok", loglimit.Measured("took", slog.DurationValue(time.Millisecond)), "remote", "127.0.0.1", "project", "default")
	log.Warn("initialize", "client", "old one", "client_version", "1", "requested", "2099-01-01", "revision", "none", "outcome", "unsupported_version", "remote", "10.0.0.7", "project", "team", "error_code", -32602)
	log.Info("initialize", "client", "inspector", "more", 12, "within", "1m0s")
	log.Warn("not sent to clients", "server", "", "what", "initialize", "why", "the extension \"x\" is left out")
	log.Info("call", db, "tool", "find it", "took", "12ms", "outcome", "tool_error", "client", "inspector", "from", "2025-06-18", "to", "2026-07-28")
	log.Warn("refused a request: its Host header is not allowed", "value", "evil.example", "fix", "to allow it, add evil.example to allowedHosts", "code", "host_refused")
	log.Warn("the configuration file is not watched for changes", "cause", "too many open files")
	log.With("project", "team").WithGroup("g").Warn("something new", "server", "not the server", slog.Group("h", "deep", "日本語 text"))
	log.Debug("handshake step", db, "n", 2, "sent", "initialize (2025-11-25)", "got", "a result with protocolVersion 2025-11-25, capabilities, serverInfo", "reason", "the server uses 2025-11-25", "for", "lists")
	log.Debug("server stderr", db, "line", "listening")
}

// TestRecords compares what people see with a golden file, for three widths and with -v.
func TestRecords(t *testing.T) {
	for name, c := range map[string]struct {
		level slog.Level
		width int
	}{"60": {slog.LevelInfo, 60}, "80": {slog.LevelInfo, 80}, "200": {slog.LevelInfo, 200}, "verbose": {slog.LevelDebug, 80}} {
		synctest.Test(t, func(t *testing.T) {
			log, h, out := open(c.level, c.width)
			defer h.Close()
			records(log)
			got := strings.ReplaceAll(out.Take(), time.Now().Format(time.TimeOnly), "12:00:00")
			path := "testdata/" + name + ".txt"
			if *update {
				if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(path)
			if d := cmp.Diff(string(want), got); err != nil || d != "" {
				t.Errorf("%s is stale; run `go test ./internal/base/logscreen -update` if this is right: %v\n%s", path, err, d)
			}
			for l := range strings.Lines(got) {
				if n := screen.Width(strings.TrimSuffix(l, "\n")); n > c.width {
					t.Errorf("in %d columns a line takes %d: %s", c.width, n, l)
				}
			}
		})
	}
}

// TestFlappingServer checks a server that ends again and again: people see the first end, that it
// repeats, and a count when the server has been ready for a while or ends for another reason.
func TestFlappingServer(t *testing.T) {
	for _, verbose := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			level := slog.LevelInfo
			if verbose {
				level = slog.LevelDebug
			}
			log, h, out := open(level, 500)
			defer h.Close()
			ready := func() { log.Info("server ready", "server", "f", "took", "700ms", "attempts", 1) }
			again := func(n int) {
				log.Warn("server ended again", "server", "f", "class", "exited", "times", n)
				time.Sleep(time.Second)
				ready()
				time.Sleep(20 * time.Second)
			}
			log.Warn("server ended", append([]any{"server", "f"}, broken.Attrs()...)...)
			ready()
			again(2)
			if got := out.Take(); strings.Count(got, "is ready") != map[bool]int{false: 1, true: 2}[verbose] || !strings.Contains(got, `server "f" has ended again for the same reason, 2 times by now`) {
				t.Errorf("after two ends:\n%s", got)
			}
			again(3)
			again(4)
			if got := out.Take(); (got == "") == verbose {
				t.Errorf("after more:\n%s", got)
			}
			log.Info("server ready", "server", "innocent", "took", "1ms", "attempts", 1)
			if got := out.Take(); !strings.Contains(got, `"innocent" is ready`) {
				t.Errorf("another server:\n%s", got)
			}
			time.Sleep(time.Minute)
			synctest.Wait()
			if got := out.Take(); !verbose && (!strings.Contains(got, `server "f" has been ready again for 60 s`) || !strings.Contains(got, "ended 2 times more")) || verbose && got != "" {
				t.Errorf("after a minute without an end:\n%s", got)
			}
			again(5)
			again(6)
			out.Take()
			log.Warn("server ended", "server", "f", "sentence", "it is another reason")
			if got := out.Take(); !strings.Contains(got, "it is another reason") || strings.Contains(got, "happened once more") == verbose {
				t.Errorf("another reason:\n%s", got)
			}
			again(2)
			out.Take()
			h.Close()
			time.Sleep(time.Hour)
			if got := out.Take(); got != "" {
				t.Errorf("after Close:\n%s", got)
			}
		})
	}
}

// TestHold checks that what the table of the start says isn't said twice, and isn't lost without a table.
func TestHold(t *testing.T) {
	for _, shown := range []bool{true, false} {
		log, h, out := open(slog.LevelInfo, 100)
		h.Hold()
		log.Info("server ready", "server", "early")
		log.Info("server added", "server", "other")
		if got := out.Take(); strings.Contains(got, "early") || !strings.Contains(got, "other") {
			t.Errorf("while records are held back:\n%s", got)
		}
		if shown {
			seen := time.Now()
			log.Info("server ready", "server", "since")
			h.Release(seen)
		} else {
			h.Close()
		}
		if got := out.Take(); strings.Contains(got, "early") == shown || strings.Contains(got, "since") != shown {
			t.Errorf("shown %t:\n%s", shown, got)
		}
		log.Info("server ready", "server", "late")
		if got := out.Take(); !strings.Contains(got, "late") {
			t.Errorf("later:\n%s", got)
		}
		h.Close()
	}
}

// TestSayingsHaveCodes checks that the table knows no message that nobody logs.
func TestSayingsHaveCodes(t *testing.T) {
	debug := []string{"call"} // a record of level debug, or info with --log-calls
	for message := range sayings {
		if logcode.Of(message) == "" && message != debug[0] {
			t.Errorf("package logcode doesn't have %q", message)
		}
	}
}

// FuzzRecord checks that a peer can't control the terminal, and that its text can't begin a line.
func FuzzRecord(f *testing.F) {
	f.Add("server ready", "\x1b[2J\n12:00:00 forged", "\u202e{server}")
	f.Add("server stderr", "\xff", "x\r\ny")
	f.Fuzz(func(t *testing.T, message, a, b string) {
		for _, level := range []slog.Level{slog.LevelInfo, slog.LevelDebug} {
			log, h, out := open(level, 40)
			log.With("project", a).Warn(message, "server", a, "sentence", b, "action", a, "cause", b, "line", a, "took", b, "client", a, "outcome", b, a, b)
			h.Close()
			for i, l := range strings.Split(strings.TrimSuffix(out.Take(), "\n"), "\n") {
				if strings.ContainsFunc(l, func(r rune) bool { return !unicode.IsPrint(r) }) || i > 0 && !strings.HasPrefix(l, strings.Repeat(" ", indent)) {
					t.Errorf("line %d: %q", i, l)
				}
			}
		}
	})
}
