package dashboard

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/dragoman-mcp/dragoman/test/built"
)

// empty are the queries that may have no data, since nobody breaks the protocol in the demo.
var empty = map[string]string{
	"Messages that break the protocol, per second A": "the demo's servers send no odd messages",
	"Messages that break the protocol, per second B": "the demo's servers answer once",
	"Messages that break the protocol, per second C": "the demo's servers stop in time",
}

// native are the queries that must also have data in a Prometheus that reads native histograms.
var native = regexp.MustCompile(`_seconds(_bucket)?\{`)

type query struct{ where, expr string }

// TestDashboard draws the dashboard with the demo's data, in a Prometheus that reads classic histograms and in
// one that reads native ones.
func TestDashboard(t *testing.T) {
	prometheus := findPrometheus(t)
	queries, variables := load(t)
	target := serveDemo(t)
	misbehave(t, target)
	classic, exponential := scrape(t, prometheus, target), scrape(t, prometheus, target, "--enable-feature=native-histograms")
	for _, v := range variables {
		if series := get(t, classic, "/api/v1/series", url.Values{"match[]": {v.expr}}); !strings.Contains(series, `"__name__"`) {
			t.Errorf("the variable %s has no values: %s", v.where, series)
		}
	}
	deadline := time.Now().Add(90 * time.Second)
	for _, q := range queries {
		bases := []string{classic}
		if native.MatchString(q.expr) {
			bases = append(bases, exponential)
		}
		for _, base := range bases {
			for {
				points, answer := draw(t, base, q.expr)
				if points > 0 || empty[q.where] != "" {
					break
				}
				if time.Now().After(deadline) {
					t.Errorf("%s draws nothing: %s\n%s", q.where, q.expr, answer)
					break
				}
				time.Sleep(500 * time.Millisecond)
			}
		}
	}
	t.Logf("%d queries of docs/grafana.json have data", len(queries)-len(empty))
}

// findPrometheus returns the path of Prometheus. Without one, the test is skipped, or fails if
// DRAGOMAN_DASHBOARD is set.
func findPrometheus(t *testing.T) string {
	t.Helper()
	if path := os.Getenv("DRAGOMAN_PROMETHEUS"); path != "" {
		return path
	}
	path, err := exec.LookPath("prometheus")
	switch {
	case err == nil:
	case os.Getenv("DRAGOMAN_DASHBOARD") != "":
		t.Fatal(err)
	default:
		t.Skip("Prometheus isn't installed: `make dashboard` installs it, and DRAGOMAN_PROMETHEUS names another one")
	}
	return path
}

// load returns the queries of the panels and the series of the variables, as Grafana would send them.
func load(t *testing.T) (queries, variables []query) {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("..", "..", "docs", "grafana.json"))
	if err != nil {
		t.Fatal(err)
	}
	var d struct {
		Templating struct {
			List []struct {
				Type, Name string
				Query      json.RawMessage
			}
		}
		Panels []struct {
			Title   string
			Targets []struct{ RefID, Expr string }
		}
	}
	if err := json.Unmarshal(b, &d); err != nil {
		t.Fatal(err)
	}
	fill := strings.NewReplacer("$__rate_interval", "10s", "$instance", ".*", "$project", ".*", "$server", ".*").Replace
	for _, v := range d.Templating.List {
		var q struct{ Query string }
		if v.Type == "query" && json.Unmarshal(v.Query, &q) == nil {
			series, _, _ := strings.Cut(strings.TrimPrefix(fill(q.Query), "label_values("), ", "+v.Name)
			variables = append(variables, query{v.Name, series})
		}
	}
	for _, p := range d.Panels {
		for _, q := range p.Targets {
			queries = append(queries, query{p.Title + " " + q.RefID, fill(q.Expr)})
		}
	}
	return queries, variables
}

// serveDemo builds Dragoman, starts the demo on a free port, and returns its address.
func serveDemo(t *testing.T) (address string) {
	t.Helper()
	dir := t.TempDir()
	cmd := exec.Command(built.Dragoman(t), "serve", "--demo", "--listen", "127.0.0.1:0", "--log-format", "text")
	cmd.Dir, cmd.Env = dir, append(os.Environ(), "HOME="+dir, "XDG_RUNTIME_DIR="+dir, "XDG_CACHE_HOME="+dir, "XDG_CONFIG_HOME="+dir)
	stderr, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	start(t, cmd)
	lines := bufio.NewScanner(stderr)
	for lines.Scan() {
		if m := regexp.MustCompile(`http://(127\.0\.0\.1:\d+)/mcp`).FindStringSubmatch(lines.Text()); m != nil {
			go func() { _, _ = io.Copy(io.Discard, stderr) }() // ends with the process
			return m[1]
		}
	}
	t.Fatal("dragoman printed no address")
	return ""
}

// misbehave makes those events happen that the demo doesn't have.
func misbehave(t *testing.T, address string) {
	t.Helper()
	for _, body := range []string{"{", `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"nothing"}}`} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+address+"/mcp", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set("Accept", "application/json, text/event-stream")
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
	}
}

// scrape starts a Prometheus that scrapes the address each second, and returns its URL.
func scrape(t *testing.T, program, address string, args ...string) (base string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	own := l.Addr().String()
	_ = l.Close()
	dir := t.TempDir()
	config := fmt.Sprintf("global: {scrape_interval: 1s}\nscrape_configs:\n  - job_name: dragoman\n    static_configs: [{targets: [%q]}]\n", address)
	if err := os.WriteFile(filepath.Join(dir, "prometheus.yml"), []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(program, append(args, "--config.file="+filepath.Join(dir, "prometheus.yml"), "--storage.tsdb.path="+filepath.Join(dir, "data"), "--web.listen-address="+own, "--log.level=warn")...)
	cmd.Dir = dir
	start(t, cmd)
	base = "http://" + own
	for range 300 {
		if points, _ := draw(nil, base, `up{job="dragoman"}`); points > 0 {
			return base
		}
		time.Sleep(100 * time.Millisecond)
	}
	t.Fatal("Prometheus has not scraped Dragoman")
	return ""
}

// start starts a program that ends with the test.
func start(t *testing.T, cmd *exec.Cmd) {
	t.Helper()
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		kill := time.AfterFunc(30*time.Second, func() { _ = cmd.Process.Kill() })
		defer kill.Stop()
		_ = cmd.Wait()
	})
}

// draw asks for the last ten seconds of a query, as Grafana does for a graph, and returns the number of
// values that are numbers. If t is nil, errors count as no values.
func draw(t *testing.T, base, expr string) (points int, answer string) {
	now := time.Now()
	seconds := func(at time.Time) string { return strconv.FormatInt(at.Unix(), 10) }
	answer = get(t, base, "/api/v1/query_range", url.Values{"query": {expr}, "start": {seconds(now.Add(-10 * time.Second))}, "end": {seconds(now)}, "step": {"1"}})
	var a struct {
		Data struct {
			Result []struct{ Values [][2]any }
		}
	}
	_ = json.Unmarshal([]byte(answer), &a)
	for _, r := range a.Data.Result {
		for _, v := range r.Values {
			text, _ := v[1].(string)
			if f, err := strconv.ParseFloat(text, 64); err == nil && !math.IsNaN(f) {
				points++
			}
		}
	}
	return points, answer
}

func get(t *testing.T, base, path string, q url.Values) string {
	resp, err := http.Get(base + path + "?" + q.Encode())
	if err != nil {
		if t != nil {
			t.Fatal(err)
		}
		return ""
	}
	defer resp.Body.Close()
	b, _ := io.ReadAll(resp.Body)
	if t != nil && resp.StatusCode != http.StatusOK {
		t.Fatalf("%s: %s", q, b)
	}
	return string(b)
}
