//go:build unix

package cluster

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/testkit/leaktest"
	"github.com/dragoman-mcp/dragoman/internal/testkit/logtest"
	"github.com/dragoman-mcp/dragoman/internal/workbench/fake"
	"github.com/dragoman-mcp/dragoman/test/built"
)

const root = "../.."

// envLong makes the long tests run.
const envLong = "DRAGOMAN_CLUSTER_TEST"

// patience is the limit of everything that isn't meant to take long.
const patience = 30 * time.Second

func TestMain(m *testing.M) {
	if len(os.Args) > 3 && os.Args[1] == asProgram {
		if err := measured(os.Args[2], os.Args[3:]); err != nil {
			fmt.Fprintln(os.Stderr, "cluster:", err)
			os.Exit(1)
		}
		return
	}
	leaktest.Main(m)
}

// needPostgres skips a test if there is no PostgreSQL.
func needPostgres(t *testing.T) {
	t.Helper()
	if os.Getenv(built.EnvPostgres) == "" {
		t.Skipf("%s isn't set: run the test with .ci/postgres", built.EnvPostgres)
	}
}

func needLong(t *testing.T) {
	t.Helper()
	if os.Getenv(envLong) == "" {
		t.Skipf("takes minutes: set %s=1, or run make cluster-test", envLong)
	}
	needPostgres(t)
}

// start starts three replicas with two servers, which it returns.
func start(t *testing.T, program string, o built.ClusterOptions) (*built.Cluster, *servers) {
	t.Helper()
	s := newServers(t)
	o.Program, o.Folder, o.Servers = program, t.TempDir(), s.text
	c, err := built.StartCluster(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
		if t.Failed() {
			for _, r := range c.Replicas {
				t.Logf("%s:\n%s", r.Name, tail(r.Log(), 4000))
			}
		}
	})
	return c, s
}

func tail(s string, n int) string { return s[max(0, len(s)-n):] }

// servers are a legacy server and a modern one, which note each call that has a mark in it.
type servers struct {
	text  string               // their configuration
	delay func() time.Duration // before each marked call; nil for none
	mu    sync.Mutex
	runs  map[string]int // by mark
}

// mark matches what makes a call unique.
var mark = regexp.MustCompile(`mark-[0-9]+-[0-9]+`)

func newServers(t *testing.T) *servers {
	t.Helper()
	s := &servers{text: "mcpServers:\n", runs: map[string]int{}}
	for name, profile := range map[string]string{"old": "strict-2025-11-25", "new": "strict-2026-07-28"} {
		x, err := fake.NewServer(profile, fake.Options{})
		if err != nil {
			t.Fatal(err)
		}
		web := httptest.NewServer(s.noting(x.Handler()))
		t.Cleanup(func() {
			_ = x.Close()
			web.CloseClientConnections()
			web.Close()
		})
		s.text += fmt.Sprintf("  %s: {url: %q}\n", name, web.URL+"/mcp")
	}
	return s
}

func (s *servers) noting(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost {
			b, err := io.ReadAll(r.Body)
			if err != nil {
				return // the replica has gone before all of it was here
			}
			r.Body = io.NopCloser(strings.NewReader(string(b)))
			if m := mark.Find(b); m != nil {
				s.mu.Lock()
				s.runs[string(m)]++
				s.mu.Unlock()
				if s.delay != nil {
					time.Sleep(s.delay())
				}
			}
		}
		next.ServeHTTP(w, r)
	})
}

// ran returns how often the servers got a call with a mark.
func (s *servers) ran(mark string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.runs[mark]
}

// tool returns the path of a program, and the environment in which it finds its libraries. It skips the test if there is
// none.
func tool(t *testing.T, name string) (path string, env []string) {
	t.Helper()
	unpacked := os.Getenv("DRAGOMAN_REMOTE") // where .ci/remote unpacks what isn't installed
	for _, dir := range append(filepath.SplitList(os.Getenv("PATH")), "/usr/sbin", filepath.Join(unpacked, "usr/sbin")) {
		path, err := exec.LookPath(filepath.Join(dir, name))
		if err != nil {
			continue
		}
		env = os.Environ()
		if unpacked != "" && strings.HasPrefix(path, unpacked) {
			libraries, _ := filepath.Glob(filepath.Join(unpacked, "usr/lib/*-linux-gnu"))
			env = append(env, "LD_LIBRARY_PATH="+strings.Join(libraries, ":"))
		}
		return path, env
	}
	t.Skipf("there is no %s: run the test with .ci/remote, which unpacks it", name)
	return "", nil
}

// healthy reports whether a balancer passes on a question for the health of a replica.
func healthy(url string) func() bool {
	return func() bool {
		resp, err := http.Get(url + "/healthz")
		if err == nil {
			_ = resp.Body.Close()
		}
		return err == nil && resp.StatusCode == http.StatusOK
	}
}

// run starts a program that runs until the test ends, and waits until it's there.
func run(t *testing.T, cmd *exec.Cmd, there func() bool) {
	t.Helper()
	var said logtest.Buffer
	cmd.Stdout, cmd.Stderr = &said, &said
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	cmd.SysProcAttr.Setpgid = true
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() { // ends with the process
		_ = cmd.Wait()
		close(ended)
	}()
	t.Cleanup(func() {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM)
		late := time.AfterFunc(patience, func() { _ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) })
		defer late.Stop()
		<-ended
		if t.Failed() {
			t.Logf("%s says:\n%s", filepath.Base(cmd.Path), said.String())
		}
	})
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(50 * time.Millisecond) { // it's a separate process, so poll
		select {
		case <-ended:
			t.Fatalf("%s has ended:\n%s", cmd, said.String())
		default:
		}
		if there() {
			return
		}
	}
	t.Fatalf("%s doesn't answer:\n%s", filepath.Base(cmd.Path), said.String())
}

// person is a client. Each has connections of its own.
type person struct {
	http *http.Client
	base string
}

func newPerson(t *testing.T, base string) *person {
	transport := &http.Transport{MaxIdleConnsPerHost: 4}
	t.Cleanup(transport.CloseIdleConnections)
	return &person{&http.Client{Transport: transport}, base}
}

// message is what a client reads.
type message struct {
	ID     json.RawMessage `json:"id"`
	Method string          `json:"method"`
	Result *struct {
		Type     string                     `json:"resultType"`
		State    string                     `json:"requestState"`
		Requests map[string]json.RawMessage `json:"inputRequests"`
		Content  []struct{ Text string }    `json:"content"`
	} `json:"result"`
	Error *struct {
		Message string
		Data    struct{ Cause, Outcome string }
	} `json:"error"`
}

// text returns what a tool's result says.
func (m *message) text() string {
	if m == nil || m.Result == nil || len(m.Result.Content) == 0 {
		return ""
	}
	return m.Result.Content[0].Text
}

// answer is a response, which may still be arriving.
type answer struct {
	*http.Response
	lines *bufio.Scanner
}

func (p *person) do(ctx context.Context, method, path, body string, header ...string) (*answer, error) {
	req, err := http.NewRequestWithContext(ctx, method, p.base+path, strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	if body == "" {
		req.Body, req.ContentLength = nil, 0
	}
	for i := 0; i+1 < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	resp, err := p.http.Do(req)
	if err != nil {
		return nil, err
	}
	lines := bufio.NewScanner(resp.Body)
	lines.Buffer(nil, 1<<20)
	return &answer{resp, lines}, nil
}

func (p *person) post(ctx context.Context, path, body string, header ...string) (*answer, error) {
	return p.do(ctx, http.MethodPost, path, body, append(header, "Content-Type", "application/json", "Accept", "application/json, text/event-stream")...)
}

// errStatus is a response that's no answer.
type errStatus struct {
	code int
	body string
}

func (e *errStatus) Error() string { return fmt.Sprintf("HTTP %d: %.300s", e.code, e.body) }

// errCut is a response that has ended before the answer.
var errCut = errors.New("the response has ended without an answer")

// next returns the next message of a response, and errCut if there is none.
func (a *answer) next() (*message, error) {
	if a.StatusCode == http.StatusNotFound { // the error in it is that of HTTP
		b, _ := io.ReadAll(a.Body)
		return nil, &errStatus{a.StatusCode, string(b)}
	}
	var m message
	kind := a.Header.Get("Content-Type")
	if strings.HasPrefix(kind, "application/json") {
		b, err := io.ReadAll(a.Body)
		if err != nil {
			return nil, err
		}
		if json.Unmarshal(b, &m) == nil && (m.Result != nil || m.Error != nil) {
			return &m, nil
		}
		return nil, &errStatus{a.StatusCode, string(b)}
	}
	if a.StatusCode != http.StatusOK {
		b, _ := io.ReadAll(a.Body)
		return nil, &errStatus{a.StatusCode, string(b)}
	}
	for a.lines.Scan() {
		if data, ok := strings.CutPrefix(a.lines.Text(), "data: "); ok && data != "" {
			if data[0] != '{' {
				return &message{Method: data}, nil // the address in the first event of HTTP+SSE
			}
			return &m, json.Unmarshal([]byte(data), &m)
		}
	}
	if err := a.lines.Err(); err != nil {
		return nil, err
	}
	return nil, errCut
}

// final returns the answer to the request, past notifications.
func (a *answer) final() (*message, error) {
	defer func() { _ = a.Body.Close() }()
	for {
		m, err := a.next()
		if err != nil || m.Method == "" {
			return m, err
		}
	}
}

const meta = `"_meta":{"progressToken":"p","io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"cluster","version":"1"},` +
	`"io.modelcontextprotocol/clientCapabilities":{"elicitation":{"form":{}}}}`

// modern sends a request of 2026-07-28.
func (p *person) modern(ctx context.Context, method, name, params string) (*answer, error) {
	header := []string{"MCP-Protocol-Version", "2026-07-28", "Mcp-Method", method}
	if name != "" {
		header = append(header, "Mcp-Name", name)
	}
	return p.post(ctx, "/mcp", `{"jsonrpc":"2.0","id":1,"method":"`+method+`","params":{`+params+`,`+meta+`}}`, header...)
}

// call calls a tool as a client of 2026-07-28.
func (p *person) call(ctx context.Context, name, arguments, more string) (*message, error) {
	a, err := p.modern(ctx, "tools/call", name, fmt.Sprintf(`"name":%q,"arguments":%s%s`, name, arguments, more))
	if err != nil {
		return nil, err
	}
	return a.final()
}

// open opens a session of 2025-11-25, and returns the headers that belong to it.
func (p *person) open(ctx context.Context) ([]string, error) {
	a, err := p.post(ctx, "/mcp", initialize("2025-11-25"))
	if err != nil {
		return nil, err
	}
	if m, err := a.final(); err != nil || m.Result == nil {
		return nil, errors.Join(err, fmt.Errorf("initialize: %+v", m))
	}
	session := []string{"Mcp-Session-Id", a.Header.Get("Mcp-Session-Id"), "MCP-Protocol-Version", "2025-11-25"}
	a, err = p.post(ctx, "/mcp", `{"jsonrpc":"2.0","method":"notifications/initialized"}`, session...)
	if err != nil {
		return nil, err
	}
	defer func() { _ = a.Body.Close() }()
	if b, _ := io.ReadAll(a.Body); a.StatusCode != http.StatusAccepted {
		return nil, &errStatus{a.StatusCode, string(b)}
	}
	return session, nil
}

func initialize(revision string) string {
	return `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"` + revision + `","capabilities":{},"clientInfo":{"name":"cluster","version":"1"}}}`
}

func toolCall(id int, name, arguments string) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":%q,"arguments":%s,"_meta":{"progressToken":"p"}}}`, id, name, arguments)
}
