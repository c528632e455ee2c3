//go:build unix

package cli

import (
	"context"
	"encoding/pem"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/setup/config"
	"github.com/dragoman-mcp/dragoman/internal/testkit/idptest"
	"github.com/dragoman-mcp/dragoman/internal/testkit/logtest"
)

// setting is a row of the table: a setting of the configuration file and its visible
// effect. Every setting must have a row.
type setting struct {
	// entry has further members of the server's entry, besides command and env. env has
	// environment variables for the server.
	entry, env string
	// ours has members of "dragoman". own has members of "dragoman.servers.a".
	ours, own string
	// whole, if not "", is the whole file. It replaces the fields above.
	whole string
	// effect checks the visible effect of the setting on a running daemon.
	effect func(s *stage)
	// fails, if not "", is part of the error with which serve must fail to start.
	fails string
}

// stage is a running daemon with one server. The server writes its input to a file.
type stage struct {
	*testing.T
	base  string // http://127.0.0.1:port
	log   *logtest.Buffer
	dir   string
	notes string // the path of the file to which the server writes its input
	web   *httptest.Server
	idp   *idptest.Provider

	mu   sync.Mutex
	seen []string // the requests to the HTTP server
}

// env has the environment of the daemon and the commands: only a folder for the daemon's key.
func (s *stage) env(name string) (string, bool) { return s.dir, name == "XDG_RUNTIME_DIR" }

const modernMeta = `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}`

// post sends a body and returns the status and the body of the response.
func (s *stage) post(path, body string, header ...string) string {
	s.Helper()
	r, err := http.NewRequest(http.MethodPost, s.base+path, strings.NewReader(body))
	if err != nil {
		s.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "application/json, text/event-stream")
	for i := 0; i+1 < len(header); i += 2 {
		if header[i] == "Host" {
			r.Host = header[i+1]
		}
		r.Header.Set(header[i], header[i+1])
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		return err.Error()
	}
	defer resp.Body.Close()
	b, _ := io.ReadAll(resp.Body)
	return fmt.Sprint(resp.StatusCode, " ", string(b))
}

// get requests a path and returns the status and the body of the response.
func (s *stage) get(path string) string {
	s.Helper()
	resp, err := http.Get(s.base + path)
	if err != nil {
		return err.Error()
	}
	defer resp.Body.Close()
	b, _ := io.ReadAll(resp.Body)
	return fmt.Sprint(resp.StatusCode, " ", string(b))
}

// ask sends a modern request.
func (s *stage) ask(path, method, name, params string) string {
	s.Helper()
	if params != "" {
		params += ","
	}
	header := []string{"MCP-Protocol-Version", "2026-07-28", "Mcp-Method", method}
	if name != "" {
		header = append(header, "Mcp-Name", name)
	}
	body := `{"jsonrpc":"2.0","id":1,"method":"` + method + `","params":{` + params + modernMeta + `}}`
	answer := s.post(path, body, header...)
	// A list comes without the servers that start slowly.
	for end := time.Now().Add(time.Minute); strings.HasSuffix(method, "/list") && strings.Contains(answer, `"starting":[`) && time.Now().Before(end); {
		time.Sleep(10 * time.Millisecond)
		answer = s.post(path, body, header...)
	}
	return answer
}

// call calls a tool of the server at its own endpoint.
func (s *stage) call(tool, args string) string {
	s.Helper()
	return s.ask("/s/a/mcp", "tools/call", tool, `"name":"`+tool+`","arguments":`+args)
}

// list requests a list from the merged endpoint.
func (s *stage) list(kind string) string { s.Helper(); return s.ask("/mcp", kind+"/list", "", "") }

// hello opens a legacy session.
func (s *stage) hello(path, revision string) string {
	s.Helper()
	return s.post(path, `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"`+revision+`","capabilities":{},"clientInfo":{"name":"c","version":"1"}}}`)
}

func (s *stage) wants(got string, parts ...string) {
	s.Helper()
	for _, p := range parts {
		if !strings.Contains(got, p) {
			s.Errorf("no %s in %.600s", p, got)
		}
	}
}

func (s *stage) lacks(got string, parts ...string) {
	s.Helper()
	for _, p := range parts {
		if strings.Contains(got, p) {
			s.Errorf("%s in %.600s", p, got)
		}
	}
}

// noted returns the text that the server has read from stdin.
func (s *stage) noted() string {
	b, _ := os.ReadFile(s.notes)
	return string(b)
}

// requests returns the requests to the web server, one per line.
func (s *stage) requests() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return strings.Join(s.seen, "\n")
}

// TestEverySettingHasAnEffect serves a configuration for each setting of the file and checks
// the effect of the setting.
func TestEverySettingHasAnEffect(t *testing.T) {
	table := settings()
	t.Setenv("PEER_OURS", "from our environment")
	for _, key := range config.Keys() {
		if _, ok := table[key]; !ok {
			t.Errorf("%s has no row in the table", key)
		}
	}
	for key, row := range table {
		if !slices.Contains(config.Keys(), key) {
			t.Errorf("%s is not a setting", key)
			continue
		}
		t.Run(strings.ReplaceAll(key, ".NAME", ""), func(t *testing.T) {
			t.Parallel()
			play(t, row)
		})
	}
}

var announced = regexp.MustCompile(`MCP clients connect to (http://[^/\s]+)/mcp`)

// play runs serve with the configuration of a row and checks the effect.
func play(t *testing.T, row setting) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	s := &stage{T: t, log: &logtest.Buffer{}, dir: dir, notes: filepath.Join(dir, "notes")}
	s.web = httptest.NewServer(settingsWeb(func(r *http.Request, body string) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.seen = append(s.seen, fmt.Sprint(r.Method, " ", r.URL.Path, " ", r.Header, " ", body))
	}))
	defer s.web.Close()
	s.idp = idptest.New(t)
	secure := httptest.NewTLSServer(s.web.Config.Handler)
	defer secure.Close()
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: secure.Certificate().Raw})
	if err := os.WriteFile(filepath.Join(dir, "ca.pem"), ca, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "secrets"), []byte("PEER_SECRET=from the file\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "token.jwt"), []byte("ey.from.the-file\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	text := row.whole
	if text == "" {
		text = `{mcpServers: {a: {command: settings-peer, env: {PEER_NOTES: "` + s.notes + `", PATH: "${PATH}", ` + row.env + `}, ` + row.entry + `}}, ` +
			`dragoman: {listen: "127.0.0.1:0", servers: {a: {` + row.own + `}}, ` + row.ours + `}}`
	}
	text = strings.NewReplacer("@WEB@", s.web.URL, "@TLS@", secure.URL, "@IDP@", s.idp.URL, "@NOTES@", s.notes).Replace(text)
	if strings.Contains(text, "@OAUTH@") {
		text = strings.ReplaceAll(text, "@OAUTH@", oauthWeb(t))
	}
	file := filepath.Join(dir, "dragoman.yaml")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	env := s.env
	a := &app{world: world{backend: Daemon(), stdin: strings.NewReader(""), stdout: io.Discard, env: env, program: "dragoman", status: newStatus(s.log, false, env)}}
	defer a.status.End() // as Main does
	root := a.root()
	root.SetArgs([]string{"serve", "-c", file})
	ctx, cancel := context.WithCancelCause(t.Context())
	done := make(chan error, 1)
	go func() { done <- root.ExecuteContext(ctx) }()
	stop := func() error {
		cancel(context.Canceled)
		http.DefaultClient.CloseIdleConnections()
		return <-done
	}
	for begin := time.Now(); s.base == ""; time.Sleep(5 * time.Millisecond) {
		select {
		case err := <-done:
			if row.fails == "" || err == nil || !strings.Contains(err.Error(), row.fails) {
				t.Fatalf("serve ended with %v\n%s\n%s", err, s.log, text)
			}
			return
		default:
		}
		if at := announced.FindStringSubmatch(s.log.String()); at != nil {
			s.base = at[1]
		}
		if time.Since(begin) > time.Minute {
			t.Errorf("serve does not print its URL: %s", s.log)
			_ = stop()
			return
		}
	}
	defer func() {
		_ = stop()
		if t.Failed() {
			t.Logf("%s\nnotes:\n%s\nlog:\n%s", text, s.noted(), s.log)
		}
	}()
	if row.fails != "" {
		t.Error("serve started, want a failure")
	}
	row.effect(s)
}

// freePort returns an address that is not in use.
func freePort() string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	defer l.Close()
	return l.Addr().String()
}
