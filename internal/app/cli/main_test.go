package cli

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/dragoman-mcp/dragoman/internal/app/daemon"
	"github.com/dragoman-mcp/dragoman/internal/app/runtime"
	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
	"github.com/dragoman-mcp/dragoman/internal/setup/config"
	"github.com/dragoman-mcp/dragoman/internal/testkit/leaktest"
	"github.com/dragoman-mcp/dragoman/internal/workbench/tape"
)

var update = flag.Bool("update", false, "write the generated files")

type leakChecked struct{ m *testing.M }

func (l leakChecked) Run() int {
	if dataHome != "" {
		defer func() { _ = os.RemoveAll(dataHome) }()
	}
	return leaktest.Run(l.m)
}

// dataHome is where the tests of this process have a database, if one of them makes it.
var dataHome string

// programs are the programs that the test binary can act as, by name. The scripts start them.
var programs = map[string]func(){
	"dragoman":        func() { script(fakeBackend()) },
	"dragoman-daemon": func() { script(Daemon()) },
	"dragoman-events": func() { script(eventsBackend()) },
	"settings-peer":   func() { settingsPeer(); leaktest.Exit(0) },
}

// script runs the command line of a script. It doesn't report steps that take long, since many scripts check that
// nothing is reported.
func script(b Backend) {
	noticeAfter = time.Hour
	leaktest.Exit(Main(b))
}

func TestMain(m *testing.M) {
	// No test may open the database of whoever runs it, or one of other tests.
	if os.Getenv("XDG_DATA_HOME") == "" {
		dataHome = filepath.Join(os.TempDir(), "dragoman-test-data-"+strconv.Itoa(os.Getpid()))
		_ = os.Setenv("XDG_DATA_HOME", dataHome)
	}
	testscript.Main(leakChecked{m}, programs)
}

func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata/script",
		UpdateScripts:       *update,
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		Setup: func(e *testscript.Env) error {
			e.Setenv("XDG_CONFIG_HOME", e.WorkDir+"/xdg")
			e.Setenv("XDG_CACHE_HOME", e.WorkDir+"/cache")
			if race := os.Getenv(leaktest.RaceOptions); race != "" {
				e.Setenv(leaktest.RaceOptions, race)
			}
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){"exits": exits, "records": records},
	})
}

// records implements the script command "records [CODE]...". It checks that stderr of the last
// command has at least one line, and that every line is a JSON record with a time, a level, a
// message and keys in snake_case. A record with each CODE must exist.
func records(ts *testscript.TestScript, neg bool, args []string) {
	if neg {
		ts.Fatalf("usage: records [CODE]...")
	}
	text, codes := ts.ReadFile("stderr"), map[string]bool{}
	if text == "" {
		ts.Fatalf("no records")
	}
	for line := range strings.Lines(text) {
		var r map[string]any
		if err := json.Unmarshal([]byte(line), &r); err != nil {
			ts.Fatalf("not a record: %v: %s", err, line)
		}
		for _, key := range []string{"time", "level", "msg"} {
			if r[key] == nil {
				ts.Fatalf("a record without %s: %s", key, line)
			}
		}
		for key := range r {
			if !regexp.MustCompile(`^[a-z][a-z0-9]*(_[a-z0-9]+)*$`).MatchString(key) {
				ts.Fatalf("the key %q is not snake_case: %s", key, line)
			}
		}
		if code, ok := r["code"].(string); ok {
			codes[code] = true
		}
	}
	for _, code := range args {
		if !codes[code] {
			ts.Fatalf("no record has the code %s: %s", code, text)
		}
	}
}

// exits implements the script command "exits CODE COMMAND [ARG]...". It runs a command and
// checks its exit code.
func exits(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: exits CODE COMMAND [ARG]...")
	}
	code := 0
	var exit *exec.ExitError
	if err := ts.Exec(args[1], args[2:]...); errors.As(err, &exit) {
		code = exit.ExitCode()
	} else if err != nil {
		ts.Fatalf("%v", err)
	}
	if args[0] != strconv.Itoa(code) {
		ts.Fatalf("exit code %d, want %s", code, args[0])
	}
}

// fakeBackend returns a backend that prints its options and answers from environment
// variables: FAKE_ITEMS, FAKE_RESULT, FAKE_ERROR, FAKE_DATA and others.
func fakeBackend() Backend {
	fail := func() error {
		switch text := os.Getenv("FAKE_ERROR"); {
		case text == "":
			return nil
		case strings.HasPrefix(text, "-"):
			var code int64
			_, _ = fmt.Sscan(text, &code)
			_, message, _ := strings.Cut(text, " ")
			return &jsonrpc.Error{Code: code, Message: message, Data: []byte(os.Getenv("FAKE_DATA"))}
		default:
			return errors.New(text)
		}
	}
	return Backend{
		Run: func(ctx context.Context, o daemon.RunOptions) error {
			if err := fail(); err != nil {
				return err
			}
			fmt.Fprintf(os.Stdout, "run %s listen=%q\n", describe(o.Server), o.Listen)
			if o.Listen != "" {
				o.Ready("http://" + o.Listen + "/mcp")
			}
			o.Log.Info("the log", "secret", config.NewSecret("x"))
			if os.Getenv("FAKE_WAIT") != "" {
				<-ctx.Done()
				return context.Cause(ctx)
			}
			_, err := io.Copy(os.Stdout, os.Stdin)
			return err
		},
		Serve: func(_ context.Context, o daemon.ServeOptions) error {
			if err := fail(); err != nil {
				return err
			}
			fmt.Fprintf(os.Stdout, "serve file=%q servers=%d listen=%q stdio=%t\n",
				o.ConfigPath, len(o.Config.Servers), o.Listen, o.Stdio)
			o.Ready("http://" + o.Config.Listen + "/mcp")
			return nil
		},
		Connect: func(ctx context.Context, o daemon.ConnectOptions) (Session, error) {
			o.Progress(o.Server.Name, "starting")
			if wait := os.Getenv("FAKE_WAIT"); wait != "" {
				fmt.Fprintln(os.Stderr, "waiting")
				for wait == "loud" { // blocks when the pipe is full
					o.Log.Warn(strings.Repeat("x", 1<<10))
				}
				<-ctx.Done()
				if wait == "stubborn" {
					fmt.Fprintln(os.Stderr, "still here")
					select {}
				}
				return nil, ctx.Err()
			}
			if err := fail(); err != nil && os.Getenv("FAKE_AT") == "" {
				return nil, err
			}
			if o.Server.Unusable != nil {
				return nil, errors.New(o.Server.Unusable.Text)
			}
			if slices.Contains(strings.Fields(os.Getenv("FAKE_DOWN")), o.Server.Name) {
				return nil, errors.New("no answer from " + o.Server.Name)
			}
			o.Log.Debug("handshake step", "server", o.Server.Name, "n", 1, "sent", "initialize")
			return &fakeSession{o: o, fail: fail}, nil
		},
		Record: func(ctx context.Context, o daemon.RecordOptions) (int, error) {
			fmt.Printf("record %s listen=%q\n", describe(o.Server), o.Listen)
			if o.Server.URL != "" {
				o.Ready("http://" + o.Listen + "/mcp")
			}
			fmt.Fprint(o.Tape, "-- client --\n{}\n")
			if os.Getenv("FAKE_WAIT") != "" {
				<-ctx.Done()
				return 0, context.Cause(ctx)
			}
			code, _ := strconv.Atoi(os.Getenv("FAKE_CODE"))
			return code, fail()
		},
		Replay: func(_ context.Context, o daemon.ReplayOptions) ([]tape.Difference, error) {
			fmt.Printf("replay http=%t listen=%q timeout=%s strict=%t\n", o.Tape.HTTP(), o.Listen, o.Timeout, o.Strict)
			if o.Server != nil {
				fmt.Println("to " + describe(*o.Server))
			}
			if o.Listen != "" {
				o.Ready("http://" + o.Listen + "/mcp")
			}
			if d := os.Getenv("FAKE_DIFFERENCE"); d != "" {
				return []tape.Difference{{Where: d, Tape: "a", Live: "b\x1b[2J"}}, nil
			}
			return nil, fail()
		},
	}
}

func describe(s config.Server) string {
	out := "name=" + s.Name
	if s.Command != "" {
		out += fmt.Sprintf(" command=%q", append([]string{s.Command}, s.Args...))
	} else {
		out += " url=" + s.URL
	}
	for _, k := range slices.Sorted(maps.Keys(s.Env)) {
		out += " env:" + k + "=" + s.Env[k].Reveal()
	}
	if len(s.InheritEnv) > 0 {
		out += fmt.Sprintf(" inherit=%v", s.InheritEnv)
	}
	for _, f := range s.Header {
		out += " header:" + f.Name + "=" + f.Value.Reveal()
	}
	if s.Dir != "" {
		out += " dir=" + s.Dir
	}
	if s.Dialect != "" {
		out += " dialect=" + s.Dialect
	}
	if s.Revision != 0 {
		out += " revision=" + s.Revision.String()
	}
	return out
}

type fakeSession struct {
	o    daemon.ConnectOptions
	fail func() error
}

func (s *fakeSession) List(_ context.Context, kind string) (runtime.List, error) {
	raw := []byte(os.Getenv("FAKE_ITEMS"))
	if prompts := os.Getenv("FAKE_PROMPTS"); prompts != "" && kind == "prompts" {
		raw, kind = []byte(prompts), ""
	}
	l := runtime.List{Failed: strings.Fields(os.Getenv("FAKE_FAILED"))}
	if raw == nil || kind == "prompts" {
		return l, nil
	}
	for e := range jsonrpc.Elements(raw, jsonrpc.Whole(raw)) {
		if s.o.Answer == nil && !jsonrpc.Find(raw, e, "asks").IsZero() {
			continue // act like a server that lists this tool only for clients that declare elicitation
		}
		l.Items = append(l.Items, e.Of(raw))
	}
	return l, nil
}

func (s *fakeSession) Call(ctx context.Context, tool string, args []byte, onProgress func(float64, float64, string)) ([]byte, error) {
	onProgress(1, 2, "half")
	if err := s.fail(); err != nil {
		return nil, err
	}
	if question := os.Getenv("FAKE_QUESTION"); question != "" && s.o.Answer != nil {
		answer := s.o.Answer(ctx, runtime.Question{Message: "who are you?", Schema: []byte(question)})
		return fmt.Appendf(nil, `{"content":[{"type":"text","text":"%s %s"}]}`, answer.Action, strings.ReplaceAll(string(answer.Content), `"`, `\"`)), nil
	}
	if result := os.Getenv("FAKE_RESULT"); result != "" {
		return []byte(result), nil
	}
	text := jsonrpc.AppendQuote(nil, describe(s.o.Server)+" "+tool+" "+string(args))
	return fmt.Appendf(nil, `{"content":[{"type":"text","text":%s}]}`, text), nil
}

// Request answers with FAKE_RESULT. If this variable is not set, it answers with the request as the
// text of a resource.
func (s *fakeSession) Request(_ context.Context, method string, params []byte) ([]byte, error) {
	if err := s.fail(); err != nil {
		return nil, err
	}
	if result := os.Getenv("FAKE_RESULT"); result != "" {
		return []byte(result), nil
	}
	text := jsonrpc.AppendQuote(nil, describe(s.o.Server)+" "+method+" "+string(params)+"\n")
	return fmt.Appendf(nil, `{"contents":[{"uri":"x:y","text":%s}]}`, text), nil
}

func (s *fakeSession) Describe(context.Context) (runtime.Description, error) {
	return runtime.Description{
		Revision: mcp.LatestLegacy, Transport: "stdio", Info: []byte(`{"name":"fake","title":"A fake","version":"1.2"}`),
		Capabilities: []byte(`{"tools":{}}`), Instructions: os.Getenv("FAKE_INSTRUCTIONS"),
	}, nil
}

func (s *fakeSession) Close() error { return nil }
