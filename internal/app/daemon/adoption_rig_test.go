//go:build unix

package daemon

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/setup/config"
	"github.com/dragoman-mcp/dragoman/internal/testkit/dbtest"
)

// asReplica is an environment variable that turns the test binary into a replica: its name, the URL of its database, the
// schema and the configuration, each on a line of its own.
const asReplica = "DAEMON_TEST_REPLICA"

// longTests reports whether the tests of replicas may take minutes.
func longTests() bool { return os.Getenv("DRAGOMAN_CLUSTER_TEST") == "long" }

func runAsReplica(what string) {
	parts := strings.SplitN(what, "\n", 4)
	c, problems := config.Parse("dragoman.yaml", []byte(parts[3]), nil)
	if c == nil {
		panic(problems)
	}
	c.Database, c.VaultKey = parts[1], "env:VAULT"
	c.Cluster = config.Cluster{Listen: "127.0.0.1:0", Advertise: "127.0.0.1:0", Name: parts[0], DrainGrace: 3 * time.Second}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	err := Serve(ctx, ServeOptions{
		Config: c, Listen: "127.0.0.1:0", Version: "test", schema: parts[2],
		Log:   slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelInfo})),
		Ready: func(url string) { fmt.Println(url) },
		Env:   func(name string) (string, bool) { return strings.TrimSpace(sealingKey(7)), name == "VAULT" },
	})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// process is a replica in a process of its own.
type process struct {
	*rig
	name string
	cmd  *exec.Cmd
	over chan struct{} // closed when it has ended
	err  error         // of the process; valid after over
}

func (p *process) signal(s syscall.Signal) {
	p.t.Helper()
	if err := p.cmd.Process.Signal(s); err != nil {
		p.t.Error(err)
	}
}

// ended waits until the process has ended.
func (p *process) ended() {
	p.t.Helper()
	select {
	case <-p.over:
	case <-time.After(patience(40 * time.Second)):
		p.t.Fatal("the replica doesn't end")
	}
	p.http.CloseIdleConnections()
}

// herd is a number of replicas in processes of their own, behind a balancer that knows nothing but who is ready.
type herd struct {
	t        *testing.T
	text     string
	schema   string
	database string
	ledger   *ledger

	mu    sync.Mutex
	all   []*process // those that get requests
	turns int
	loads int // how often load was called
}

// newHerd starts replicas in front of a server that counts its calls, and others from a configuration. through returns the
// URL at which a replica reaches the database; nil means directly. Tests with a herd run one after the other on a machine
// that does nothing else, since a replica that hardly runs counts as dead.
func newHerd(t *testing.T, replicas int, through func(url string) string, others string) *herd {
	t.Helper()
	if os.Getenv("DRAGOMAN_CLUSTER_TEST") == "" {
		t.Skip("needs a machine that isn't busy; make cluster-short runs it")
	}
	direct, schema := dbtest.URL(t), "test_"+strings.ToLower(t.Name())
	drop := func() {
		for _, x := range []string{schema, schema + "_cluster"} {
			dbtest.Exec(t, direct, "DROP SCHEMA IF EXISTS "+x+" CASCADE")
		}
	}
	drop()
	t.Cleanup(drop)
	c := &herd{t: t, schema: schema, database: direct, ledger: newLedger(t)}
	if through != nil {
		c.database = through(direct)
	}
	c.text = fmt.Sprintf("mcpServers:\n  s: {url: %q}\n%sdragoman: {limits: {initializePerSecond: 1000}}\n", c.ledger.web.URL, strings.TrimPrefix(others, "mcpServers:\n"))
	for i := range replicas {
		c.add(c.start(fmt.Sprint("r", i)))
	}
	return c
}

// start starts a replica, which gets no requests yet.
func (c *herd) start(name string) *process {
	c.t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), asReplica+"="+strings.Join([]string{name, c.database, c.schema, c.text}, "\n"))
	out, err := cmd.StdoutPipe()
	if err != nil {
		c.t.Fatal(err)
	}
	p := &process{name: name, rig: &rig{t: c.t, log: &journal{}, http: newClient()}, cmd: cmd, over: make(chan struct{})}
	cmd.Stderr = p.log
	if err := cmd.Start(); err != nil {
		c.t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	var waiting sync.WaitGroup
	waiting.Go(func() {
		p.err = cmd.Wait()
		close(p.over)
	})
	c.t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGCONT)
		_ = cmd.Process.Kill()
		waiting.Wait()
		p.http.CloseIdleConnections()
		if text := p.log.String(); strings.Contains(text, "panic") || strings.Contains(text, "DATA RACE") {
			c.t.Errorf("%s: %s", name, text)
		}
		if c.t.Failed() {
			c.t.Logf("%s:\n%s", name, tailOf(p.log.String(), 3000))
		}
	})
	if err != nil {
		c.t.Fatalf("%s: %v\n%s", name, err, p.log.String())
	}
	p.base = strings.TrimSuffix(strings.TrimSpace(line), "/mcp")
	return p
}

func (c *herd) add(p *process) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.all = append(c.all, p)
}

// remove takes a replica out of those that get requests.
func (c *herd) remove(p *process) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for i := range c.all {
		if c.all[i] == p {
			c.all = append(c.all[:i:i], c.all[i+1:]...)
			return
		}
	}
}

func (c *herd) next() *process {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.turns++
	return c.all[c.turns%len(c.all)]
}

// unready takes a replica out when it says that it isn't ready.
func (c *herd) unready(p *process) {
	c.t.Helper()
	await(c.t, "the replica says that it isn't ready", 10*time.Second, func() bool {
		a, err := p.try(c.t.Context(), "GET", "/readyz", nil)
		return err != nil || a.status == http.StatusServiceUnavailable
	})
	c.remove(p)
}

// post sends a request to the next replica, as HAProxy does with retry-on conn-failure.
func (c *herd) post(body string, header ...string) (answer, error) {
	for {
		p := c.next()
		a, err := p.try(c.t.Context(), "POST", "/mcp", strings.NewReader(body), header...)
		if errors.Is(err, syscall.ECONNREFUSED) && c.t.Context().Err() == nil {
			time.Sleep(5 * time.Millisecond)
			continue
		}
		return a, err
	}
}

// ledger is a legacy server that counts how often it gets each call.
type ledger struct {
	web *httptest.Server

	mu   sync.Mutex
	runs map[string]int
}

func newLedger(t *testing.T) *ledger {
	l := &ledger{runs: map[string]int{}}
	l.web = httptest.NewServer(l)
	t.Cleanup(l.web.Close)
	return l
}

func (l *ledger) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var m struct {
		ID     json.RawMessage
		Method string
		Params struct{ Arguments struct{ Token string } }
	}
	if r.Method != http.MethodPost || json.NewDecoder(r.Body).Decode(&m) != nil {
		w.WriteHeader(http.StatusMethodNotAllowed)
		return
	}
	result := "{}"
	switch m.Method {
	case "initialize":
		result = `{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"ledger","version":"1"}}`
	case "tools/list":
		result = `{"tools":[{"name":"run","inputSchema":{"type":"object"}}]}`
	case "tools/call":
		l.mu.Lock()
		l.runs[m.Params.Arguments.Token]++
		l.mu.Unlock()
		time.Sleep(time.Duration(rand.IntN(20)) * time.Millisecond)
		result = `{"content":[{"type":"text","text":"` + m.Params.Arguments.Token + `"}]}`
	case "server/discover":
		w.Header().Set("Content-Type", "application/json")
		_, _ = fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"Method not found"}}`, m.ID)
		return
	}
	if m.ID == nil {
		w.WriteHeader(http.StatusAccepted)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":%s}`, m.ID, result)
}

// balance is what became of the calls of a load.
type balance struct {
	sent, results, errors, gone, refused int
	why                                  map[string]int
	slowest                              time.Duration
}

// load lets clients call the tool until stop is called, which returns what became of the calls. Every third is a modern
// one, and the others have a session each.
func (c *herd) load(clients int) (stop func() balance) {
	c.t.Helper()
	ctx, cancel := context.WithCancel(c.t.Context())
	var running sync.WaitGroup
	var mu sync.Mutex
	all := balance{why: map[string]int{}}
	c.loads++
	load := c.loads
	for n := range clients {
		header := modernHeader("tools/call", "s__run")
		if n%3 != 0 {
			header = []string{"Mcp-Session-Id", c.next().initialize("/mcp", "2025-06-18", "{}")}
		}
		running.Go(func() {
			for i := 0; ctx.Err() == nil; i++ {
				token, began := fmt.Sprintf("%d-%d-%d", load, n, i), time.Now()
				body := toolCall(fmt.Sprint(i+2), "s__run", fmt.Sprintf(`{"token":%q}`, token))
				if n%3 == 0 {
					body = modernBody(fmt.Sprint(i+2), "tools/call", fmt.Sprintf(`"name":"s__run","arguments":{"token":%q}`, token))
				}
				a, err := c.post(body, header...)
				mu.Lock()
				all.sent++
				all.slowest = max(all.slowest, time.Since(began))
				switch {
				case err != nil:
					all.gone++
				case a.status != 200:
					all.refused++
					all.why[fmt.Sprint(a.status, " ", a.body)]++
				case a.code(c.t) != 0:
					all.errors++
					all.why[errorData(a.message(c.t), "cause")+" "+errorData(a.message(c.t), "outcome")]++
				case toolText(a.message(c.t)) == token:
					all.results++
				}
				mu.Unlock()
				time.Sleep(20 * time.Millisecond)
			}
		})
	}
	return func() balance {
		cancel()
		running.Wait()
		return all
	}
}

// check checks that the ledger balances, that no session was refused, and that no call ran twice.
func (c *herd) check(b balance) {
	c.t.Helper()
	c.t.Logf("%d sent, %d results, %d errors, %d without an answer, %d refused, slowest %s: %v", b.sent, b.results, b.errors, b.gone, b.refused, b.slowest.Round(time.Millisecond), b.why)
	if b.sent == 0 || b.sent != b.results+b.errors+b.gone || b.refused > 0 {
		c.t.Errorf("the ledger doesn't balance")
	}
	c.ledger.mu.Lock()
	defer c.ledger.mu.Unlock()
	for token, n := range c.ledger.runs {
		if n > 1 {
			c.t.Errorf("call %s ran %d times", token, n)
		}
	}
}

// relay is a TCP relay that can be cut.
type relay struct {
	t    *testing.T
	l    net.Listener
	to   string
	mu   sync.Mutex
	open map[net.Conn]struct{}
	away bool
	work sync.WaitGroup
}

// newRelay returns a relay to the database, and a function that returns the URL of the database through it.
func newRelay(t *testing.T) (*relay, func(string) string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	r := &relay{t: t, l: l, open: map[net.Conn]struct{}{}}
	return r, func(text string) string {
		u, err := url.Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		r.to = u.Host
		u.Host = l.Addr().String()
		r.work.Go(r.accept)
		t.Cleanup(func() {
			_ = l.Close()
			r.cut(true)
			r.work.Wait()
		})
		return u.String()
	}
}

func (r *relay) accept() {
	for {
		near, err := r.l.Accept()
		if err != nil {
			return
		}
		far, err := net.Dial("tcp", r.to)
		r.mu.Lock()
		if err != nil || r.away {
			_ = near.Close()
			if err == nil {
				_ = far.Close()
			}
			r.mu.Unlock()
			continue
		}
		r.open[near], r.open[far] = struct{}{}, struct{}{}
		r.mu.Unlock()
		for _, way := range [][2]net.Conn{{near, far}, {far, near}} {
			r.work.Go(func() {
				_, _ = io.Copy(way[0], way[1])
				_ = way[0].Close()
				_ = way[1].Close()
				r.mu.Lock()
				delete(r.open, way[1])
				r.mu.Unlock()
			})
		}
	}
}

// cut ends all connections, and refuses others until it's called with false.
func (r *relay) cut(away bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.away = away
	if away {
		for conn := range r.open {
			_ = conn.Close()
		}
	}
}
