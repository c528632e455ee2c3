package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	goruntime "runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/app/daemon"
	"github.com/dragoman-mcp/dragoman/internal/app/runtime"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
	"github.com/dragoman-mcp/dragoman/internal/setup/config"
)

// answering is a session with a server whose lists are empty.
type answering struct{}

func (answering) List(context.Context, string) (runtime.List, error) { return runtime.List{}, nil }
func (answering) Call(context.Context, string, []byte, func(float64, float64, string)) ([]byte, error) {
	return []byte(`{"content":[{"type":"text","text":"done"}]}`), nil
}
func (answering) Request(context.Context, string, []byte) ([]byte, error) { return []byte(`{}`), nil }
func (answering) Describe(context.Context) (runtime.Description, error) {
	return runtime.Description{Transport: "http"}, nil
}
func (answering) Close() error { return nil }

// TestThroughServe checks when a command uses a running serve process.
func TestThroughServe(t *testing.T) {
	dir := t.TempDir()
	var status string
	mux := http.NewServeMux()
	mux.HandleFunc("/api/v1/status", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, status) })
	s := httptest.NewServer(mux)
	defer s.Close()
	file := filepath.Join(dir, "dragoman.yaml")
	text := `{"mcpServers":{"gh":{"command":"gh-mcp"},"new":{"command":"new-mcp"},"key":{"command":"key-mcp","env":{"K":"${NO_SUCH_KEY}"}}},"dragoman":{"listen":` + fmt.Sprintf("%q", strings.TrimPrefix(s.URL, "http://")) + `}}`
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	same, _ := json.Marshal(file)
	const endpoints = `"endpoints":[{"path":"/mcp"},{"path":"/s/gh/mcp","server":"gh"},{"path":"/s/key/mcp","server":"key"}],"servers":[{"name":"gh","state":"ready"}]`
	for _, c := range []struct {
		name, status string
		args         []string
		want, says   string
	}{
		{"the same configuration", `{"name":"dragoman","state":"serving","config":` + string(same) + `,` + endpoints + `}`, []string{"gh"}, s.URL + "/s/gh/mcp", "using the running serve"},
		{"a variable that only it has", `{"name":"dragoman","state":"serving","config":` + string(same) + `,` + endpoints + `}`, []string{"key"}, s.URL + "/s/key/mcp", "using the running serve"},
		{"--direct", `{"name":"dragoman","state":"serving","config":` + string(same) + `,` + endpoints + `}`, []string{"gh", "--direct"}, "gh-mcp", ""},
		{"a server that it does not have", `{"name":"dragoman","state":"serving","config":` + string(same) + `,` + endpoints + `}`, []string{"new"}, "new-mcp", "the running serve does not have the server"},
		{"another configuration", `{"name":"dragoman","state":"serving","config":"/other",` + endpoints + `}`, []string{"gh"}, "gh-mcp", "uses another configuration file"},
		{"no configuration", `{"name":"dragoman","state":"serving",` + endpoints + `}`, []string{"gh"}, "gh-mcp", "uses another configuration file"},
		{"it stops", `{"name":"dragoman","state":"stopping","config":` + string(same) + `,` + endpoints + `}`, []string{"gh"}, "gh-mcp", "is stopping"},
		{"another program", `<html>`, []string{"gh"}, "gh-mcp", "is not `dragoman serve`"},
		{"--revision", `{"name":"dragoman","state":"serving","config":` + string(same) + `,` + endpoints + `}`, []string{"gh", "--revision", "2025-03-26"}, s.URL + "/s/gh/mcp 2025-03-26", "using the running serve"},
		{"--revision and --direct", `<html>`, []string{"gh", "--revision", "2025-03-26", "--direct"}, "", "--revision needs a running serve"},
		{"--revision without a serve", `<html>`, []string{"gh", "--revision", "2025-03-26"}, "", "--revision needs a running serve"},
		{"another --revision", `{"name":"dragoman","state":"serving","config":` + string(same) + `,` + endpoints + `}`, []string{"gh", "--revision", "2020-01-01"}, "", `unknown revision "2020-01-01"`},
	} {
		status = c.status
		var out, said bytes.Buffer
		a := &app{world: world{stdout: &out, env: noEnv, status: newStatus(&said, false, noEnv)}}
		reached := ""
		a.backend = Backend{Connect: func(_ context.Context, o daemon.ConnectOptions) (Session, error) {
			if reached = o.Server.URL + o.Server.Command; o.Server.Revision != mcp.Unknown {
				reached += " " + o.Server.Revision.String()
			}
			return answering{}, nil
		}}
		args := append([]string{"-v", "call", "-c", file}, c.args...)
		if code := a.main(append(args, "tool")); (code == exitOK) != (c.want != "") || reached != c.want || !strings.Contains(said.String(), c.says) {
			t.Errorf("%s: exit code %d, reached %s, want %s:\n%s", c.name, code, reached, c.want, said.String())
		}
	}
}

// TestListOfServe checks that list with a kind but without a server uses the running serve process.
func TestListOfServe(t *testing.T) {
	mux := http.NewServeMux()
	mux.HandleFunc("/api/v1/status", func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, `{"name":"dragoman","state":"serving","endpoints":[{"path":"/s/gh/mcp","server":"gh"},{"path":"/mcp"}],"servers":[]}`)
	})
	s := httptest.NewServer(mux)
	defer s.Close()
	file := filepath.Join(t.TempDir(), "dragoman.yaml")
	if err := os.WriteFile(file, []byte("dragoman: {listen: '"+strings.TrimPrefix(s.URL, "http://")+"'}"), 0o600); err != nil {
		t.Fatal(err)
	}
	var out, said bytes.Buffer
	a := &app{world: world{stdout: &out, env: noEnv, status: newStatus(&said, false, noEnv)}}
	reached := ""
	a.backend = Backend{Connect: func(_ context.Context, o daemon.ConnectOptions) (Session, error) {
		reached = o.Server.URL
		return answering{}, nil
	}}
	if code := a.main([]string{"list", "prompts", "-c", file}); code != exitOK || reached != s.URL+"/mcp" {
		t.Errorf("exit code %d, reached %s:\n%s", code, reached, said.String())
	}
}

// TestShowThroughServe checks that show names the protocol of the server, not of the serve
// process.
func TestShowThroughServe(t *testing.T) {
	file := filepath.Join(t.TempDir(), "dragoman.yaml")
	same, _ := json.Marshal(file)
	mux := http.NewServeMux()
	mux.HandleFunc("/api/v1/status", func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, `{"name":"dragoman","state":"serving","config":`+string(same)+`,"endpoints":[{"path":"/s/gh/mcp","server":"gh"}],"servers":[{"name":"gh","state":"ready","revision":"2025-06-18","transport":"stdio"}]}`)
	})
	s := httptest.NewServer(mux)
	defer s.Close()
	text := `{"mcpServers":{"gh":{"command":"gh-mcp"}},"dragoman":{"listen":` + fmt.Sprintf("%q", strings.TrimPrefix(s.URL, "http://")) + `}}`
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ flag, want string }{{"--plain", "2025-06-18 over stdio (asked through the running serve)"}, {"--direct", " over http\n"}, {"--json", `"revision":"2025-06-18","transport":"stdio","via":"serve"`}} {
		var out, said bytes.Buffer
		a := &app{world: world{stdout: &out, env: noEnv, status: newStatus(&said, false, noEnv)}}
		a.backend = Backend{Connect: func(context.Context, daemon.ConnectOptions) (Session, error) { return answering{}, nil }}
		if code := a.main([]string{"show", "-c", file, c.flag, "gh"}); code != exitOK || !strings.Contains(out.String(), c.want) {
			t.Errorf("%s: exit code %d: %s%s", c.flag, code, out.String(), said.String())
		}
	}
}

// TestRunOnTerminal checks that run tells a person at a terminal that it waits for a client.
func TestRunOnTerminal(t *testing.T) {
	for _, person := range []bool{true, false} {
		var out, said bytes.Buffer
		a := &app{world: world{stdout: &out, env: noEnv, keyboard: person, interactive: person, status: newStatus(&said, false, noEnv)}}
		a.backend = Backend{Run: func(_ context.Context, o daemon.RunOptions) error {
			if o.Terminal != person || said.Len() > 0 {
				t.Errorf("%t: Run got Terminal %t after %q", person, o.Terminal, said.String())
			}
			o.Ready("")
			return nil
		}}
		code := a.main([]string{"run", "--", "srv", "x y"})
		if code != exitOK || strings.Contains(said.String(), "use `dragoman list -- srv 'x y'`") != person || out.Len() > 0 {
			t.Errorf("%t: exit code %d: %s", person, code, said.String())
		}
	}
}

// TestHealthIsBounded checks that the table does not wait forever for a server that never answers or
// cannot be opened. An interrupt ends the wait.
func TestHealthIsBounded(t *testing.T) {
	for _, interrupted := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			var out, said bytes.Buffer
			c := &listCommand{client: client{world: &world{stdout: &out, env: noEnv, status: newStatus(&said, false, noEnv)}}}
			c.timeout = 10 * time.Second
			c.backend = Backend{Connect: func(ctx context.Context, o daemon.ConnectOptions) (Session, error) {
				switch o.Server.Name {
				case "late":
					<-ctx.Done()
					return nil, ctx.Err()
				case "broken":
					return nil, errors.New("it is broken " + forged)
				}
				return answering{}, nil
			}}
			servers := []config.Server{{Name: "late"}, {Name: "good"}, {Name: "broken"}, {Name: "off", Disabled: true}}
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			if interrupted {
				time.AfterFunc(time.Second, cancel)
			}
			began := time.Now()
			direct := func(s config.Server) (config.Server, *serveReport) { return s, nil }
			rows := c.examineAll(ctx, servers, direct, c.rowPrinter(servers))
			took, want := time.Since(began), 10*time.Second+endTime
			if interrupted {
				want = time.Second
			}
			if took != want {
				t.Errorf("the command took %s, want %s", took, want)
			}
			var states []string
			for _, r := range rows {
				states = append(states, r.Name+" "+r.State)
			}
			got := strings.Join(states, ", ")
			if want := "late failed, good ready, broken failed, off disabled"; !interrupted && got != want || interrupted && got != "good ready, broken failed, off disabled" {
				t.Errorf("got %s, want %s", got, want)
			}
			if text := out.String(); !interrupted && !strings.Contains(text, `server "late" was not ready within 10s`) {
				t.Error(text)
			}
			var printed []string
			for line := range strings.Lines(out.String()) {
				if name, _, _ := strings.Cut(line, " "); !interrupted && name != "" && name != "SERVER" {
					printed = append(printed, name)
				}
			}
			if !interrupted && strings.Join(printed, " ") != "late good broken off" {
				t.Errorf("the rows are in the order %q", printed)
			}
			if strings.Contains(out.String(), "\x1b") || strings.Contains(out.String(), "\ndragoman:") {
				t.Errorf("%q", out.String())
			}
		})
	}
}

// TestTimeout checks that --timeout ends a command, even while it connects to the server.
func TestTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out, said bytes.Buffer
		c := &client{world: &world{stdout: &out, env: noEnv, status: newStatus(&said, false, noEnv)}, timeout: 90 * time.Minute, where: where{target: "http://h"}}
		c.backend = Backend{Connect: func(ctx context.Context, o daemon.ConnectOptions) (Session, error) {
			if o.Server.CallTimeout < 90*time.Minute {
				t.Errorf("the call has a timeout of %s", o.Server.CallTimeout)
			}
			<-ctx.Done()
			return nil, ctx.Err()
		}}
		defer c.status.End()
		began := time.Now()
		err := c.onServer(t.Context(), nil, nil)
		if took := time.Since(began); took != 90*time.Minute+endTime || err == nil || err.Error() != "no result within 1h30m0s" {
			t.Errorf("%s: %v", took, err)
		}
	})
}

// TestTimeoutKeepsTheFinding checks that a command which gives up after --timeout still says what the
// server has printed instead of an answer, for one server and in the table of all.
func TestTimeoutKeepsTheFinding(t *testing.T) {
	if goruntime.GOOS == "windows" {
		t.Skip("needs a shell")
	}
	u := newUser(t)
	const noise = `"echo hello noise; echo KEY is unset >&2; exec sleep 60"`
	file := u.write("all.yaml", "mcpServers: {noisy: {command: sh, args: [-c, "+noise+"]}}")
	for _, args := range [][]string{{"list", "--timeout", "500ms", "--", "sh", "-c", strings.Trim(noise, `"`)}, {"list", "--timeout", "500ms", "-c", file}} {
		code, out, said := u.run(args...)
		if code != exitFailure || !strings.Contains(out+said, `instead of MCP messages: "hello noise"`) {
			t.Errorf("%v: %d\n%s%s", args, code, out, said)
		}
	}
}

// TestRemembered checks that lists are cached for completion, if there is a cache folder.
func TestRemembered(t *testing.T) {
	cache := t.TempDir()
	env := func(key string) (string, bool) { return cache, key == "XDG_CACHE_HOME" }
	c := &client{world: &world{env: env}, where: where{target: "https://user:secret@h/mcp"}}
	items := [][]byte{[]byte(`{"name":"a"}`), []byte(`{"name":"b"}`)}
	c.remember("tools", items)
	if got := c.remembered("tools"); len(got) != 2 || string(got[1]) != `{"name":"b"}` {
		t.Errorf("%q", got)
	}
	if c.remembered("prompts") != nil || (&client{world: c.world, where: where{target: "https://h/mcp"}}).remembered("tools") != nil {
		t.Error("another list was returned")
	}
	files, _ := filepath.Glob(filepath.Join(cache, "dragoman", "completion", "*"))
	if len(files) != 1 || strings.Contains(files[0], "secret") {
		t.Errorf("%q", files)
	}
	old := time.Now().Add(-2 * rememberTime)
	if err := os.Chtimes(files[0], old, old); err != nil {
		t.Fatal(err)
	}
	if c.remembered("tools") != nil {
		t.Error("a list that is too old was returned")
	}
	if c.env = noEnv; c.listFile("tools") != "" {
		t.Error("there is no place for a list")
	}
}

// TestRememberedWithoutSecrets checks that a cached list contains no secret of the command line or of a
// server in the configuration file, even if the descriptions repeat them.
func TestRememberedWithoutSecrets(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "dragoman.yaml")
	if err := os.WriteFile(file, []byte("mcpServers:\n  s: {command: x, env: {API_TOKEN: \"sesame&7ä/open\"}}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	env := func(key string) (string, bool) { return dir, key == "XDG_CACHE_HOME" }
	out := &world{stdout: io.Discard, env: env, status: newStatus(io.Discard, false, noEnv)}
	out.backend = Backend{Connect: func(context.Context, daemon.ConnectOptions) (Session, error) { return answering{}, nil }}
	for _, w := range []where{{target: "s", file: file}, {target: "https://me:hunter22@h/mcp", file: file}} {
		c := &client{world: out, direct: true, file: file, where: w}
		err := c.onServer(t.Context(), nil, func(context.Context, Session, config.Server) error {
			c.remember("tools", [][]byte{[]byte(`{"name":"a","description":"uses sesame\u00267\u00e4/open, c2VzYW1lJjfDpC9vcGVu and hunter22"}`)})
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		got := c.remembered("tools")
		if len(got) != 1 || strings.Contains(string(got[0]), "open") || strings.Contains(string(got[0]), "vcGVu") || !strings.Contains(string(got[0]), `{"name":"a","description":"uses ***`) ||
			strings.HasPrefix(w.target, "https") && strings.Contains(string(got[0]), "hunter22") {
			t.Errorf("%s: %q", w.target, got)
		}
	}
}
