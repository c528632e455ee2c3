//go:build unix

package cluster

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/dragoman-mcp/dragoman/test/built"
)

// TestTC36 lets clients of both eras, and of HTTP+SSE, reach three replicas through the balancers of examples/cluster.
func TestTC36(t *testing.T) {
	t.Parallel()
	needPostgres(t)
	program := built.Dragoman(t)
	for name, with := range map[string]func(t *testing.T, c *built.Cluster, at string) *exec.Cmd{
		"haproxy": func(t *testing.T, c *built.Cluster, at string) *exec.Cmd {
			return haproxy(t, example(t, "haproxy.cfg", c, at))
		},
		"haproxy that was taught": func(t *testing.T, c *built.Cluster, at string) *exec.Cmd {
			return haproxy(t, strings.ReplaceAll(example(t, "haproxy.cfg", c, at), "#use-server", "use-server"))
		},
		"nginx": func(t *testing.T, c *built.Cluster, at string) *exec.Cmd {
			return nginx(t, example(t, "nginx.conf", c, at))
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tool(t, strings.Fields(name)[0]) // or skip, before three processes are started
			c, s := start(t, program, built.ClusterOptions{})
			at := free(t)
			run(t, with(t, c, at), healthy("http://"+at))
			through(t, c, s, "http://"+at)
		})
	}
}

// free returns an address at which nobody listens.
func free(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	return l.Addr().String()
}

// example returns a file of examples/cluster in which the addresses of the replicas and of the balancer are replaced.
func example(t *testing.T, name string, c *built.Cluster, at string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(root, "examples", "cluster", name))
	if err != nil {
		t.Fatal(err)
	}
	text := replace(t, string(b), "127.0.0.1:7310", at)
	for i, r := range c.Replicas {
		text = replace(t, text, fmt.Sprint("127.0.0.1:731", i+1), r.Address)
	}
	return text
}

func replace(t *testing.T, text, old, with string) string {
	t.Helper()
	if !strings.Contains(text, old) {
		t.Fatalf("there is no %s in the example", old)
	}
	return strings.ReplaceAll(text, old, with)
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func haproxy(t *testing.T, text string) *exec.Cmd {
	t.Helper()
	path, env := tool(t, "haproxy")
	file := filepath.Join(t.TempDir(), "haproxy.cfg")
	write(t, file, text)
	cmd := exec.Command(path, "-db", "-f", file)
	cmd.Env = env
	return cmd
}

func nginx(t *testing.T, text string) *exec.Cmd {
	t.Helper()
	path, env := tool(t, "nginx")
	dir := t.TempDir()
	temp := "" // nginx would write below /var
	for _, kind := range []string{"client_body", "proxy", "fastcgi", "uwsgi", "scgi"} {
		temp += kind + "_temp_path " + dir + "/" + kind + ";\n"
	}
	user := ""
	if os.Geteuid() == 0 {
		user = "user root; "
	}
	file := filepath.Join(dir, "nginx.conf")
	write(t, file, "daemon off; "+user+"pid "+dir+"/pid;\nevents {}\nhttp {\naccess_log off;\n"+temp+text+"}\n")
	cmd := exec.Command(path, "-p", dir, "-e", "stderr", "-c", file)
	cmd.Env = env
	return cmd
}

// through does what clients do. None of it fails, and all replicas take part.
func through(t *testing.T, c *built.Cluster, s *servers, base string) {
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	var all sync.WaitGroup
	for name, does := range map[string]func(*person) error{
		"a modern client": func(p *person) error { return modernClient(ctx, p) },
		"a legacy client": func(p *person) error { return legacyClient(ctx, p) },
		"HTTP+SSE":        func(p *person) error { return eventsClient(ctx, p) },
	} {
		for range 2 { // each with connections of its own
			p := newPerson(t, base)
			all.Go(func() {
				if err := does(p); err != nil {
					t.Errorf("%s: %v", name, err)
				}
			})
		}
	}
	all.Wait()

	homes := map[string]bool{}
	for range 6 {
		session, err := newPerson(t, base).open(ctx)
		if err != nil {
			t.Fatal(err)
		}
		name, _, _ := strings.Cut(session[1], "-")
		homes[name] = true
	}
	if len(homes) != len(c.Replicas) {
		t.Errorf("only %v begin sessions", homes)
	}
	for _, path := range []string{"/metrics", "/readyz", "/api/v1/status"} {
		if a, err := newPerson(t, base).do(ctx, http.MethodGet, path, ""); err != nil || a.StatusCode != http.StatusNotFound {
			t.Errorf("clients get %s: %+v, %v", path, a, err)
		}
	}

	// A replica has stopped. Until the balancer knows that, the requests that it should have got go to the others.
	if err := c.Replicas[1].Stop(); err != nil {
		t.Error(err)
	}
	p := newPerson(t, base)
	for i := range 30 {
		text := fmt.Sprint("mark-0-", i)
		if m, err := p.call(ctx, "new__echo", fmt.Sprintf(`{"text":%q}`, text), ""); err != nil || m.text() != text {
			t.Errorf("call %d after a replica was stopped: %+v, %v", i, m, err)
		}
		if n := s.ran(text); n != 1 {
			t.Errorf("call %d was run %d times", i, n)
		}
	}
}

// modernClient calls, is asked, and listens. Each request comes to another replica.
func modernClient(ctx context.Context, p *person) error {
	listen, err := p.modern(ctx, "subscriptions/listen", "", `"notifications":{"toolsListChanged":true}`)
	if err != nil {
		return err
	}
	defer func() { _ = listen.Body.Close() }()
	if m, err := listen.next(); err != nil || m.Method != "notifications/subscriptions/acknowledged" { // the stream has no end, so nothing holds it back
		return fmt.Errorf("a stream begins with %+v, %w", m, err)
	}
	for i := range 9 {
		for _, server := range []string{"new", "old"} {
			if m, err := p.call(ctx, server+"__add", fmt.Sprintf(`{"a":%d,"b":1}`, i), ""); err != nil || m.text() != fmt.Sprint(i+1) {
				return fmt.Errorf("add: %+v, %w", m, err)
			}
		}
	}
	for _, server := range []string{"new", "old"} {
		for range 3 {
			m, err := p.call(ctx, server+"__elicit", "{}", "")
			if err != nil || m.Result == nil || m.Result.Type != "input_required" {
				return fmt.Errorf("elicit: %+v, %w", m, err)
			}
			more := fmt.Sprintf(`,"requestState":%q,"inputResponses":{`, m.Result.State)
			for key := range m.Result.Requests {
				more += fmt.Sprintf(`%q:{"action":"accept","content":{"name":"Ada","age":36}}`, key)
			}
			if m, err = p.call(ctx, server+"__elicit", "{}", more+"}"); err != nil || !strings.Contains(m.text(), "Ada") {
				return fmt.Errorf("the answer: %+v, %w", m, err)
			}
		}
	}
	return nil
}

// legacyClient has a session, whose requests come to all replicas, and a stream for list changes.
func legacyClient(ctx context.Context, p *person) error {
	session, err := p.open(ctx)
	if err != nil {
		return err
	}
	stream, err := p.do(ctx, http.MethodGet, "/mcp", "", append(session, "Accept", "text/event-stream")...)
	if err != nil || stream.StatusCode != http.StatusOK {
		return fmt.Errorf("the stream: %+v, %w", stream, err)
	}
	defer func() { _ = stream.Body.Close() }()
	for i := range 12 {
		a, err := p.post(ctx, "/mcp", toolCall(i+2, "new__add", fmt.Sprintf(`{"a":%d,"b":1}`, i)), session...)
		if err != nil {
			return err
		}
		if m, err := a.final(); err != nil || m.text() != fmt.Sprint(i+1) {
			return fmt.Errorf("call %d: %+v, %w", i, m, err)
		}
	}
	a, err := p.post(ctx, "/mcp", toolCall(99, "new__grow", "{}"), session...)
	if err != nil {
		return err
	}
	if m, err := a.final(); err != nil || m.Result == nil {
		return fmt.Errorf("grow: %+v, %w", m, err)
	}
	if m, err := stream.next(); err != nil || m.Method != "notifications/tools/list_changed" { // the stream has no end, so nothing holds it back
		return fmt.Errorf("the stream has %+v, %w", m, err)
	}
	a, err = p.do(ctx, http.MethodDelete, "/mcp", "", session...)
	if err != nil || a.StatusCode/100 != 2 {
		return fmt.Errorf("DELETE: %+v, %w", a, err)
	}
	return nil
}

// eventsClient is one of 2024-11-05: all answers come on the stream, which is at one replica.
func eventsClient(ctx context.Context, p *person) error {
	stream, err := p.do(ctx, http.MethodGet, "/sse", "", "Accept", "text/event-stream")
	if err != nil {
		return err
	}
	defer func() { _ = stream.Body.Close() }()
	first, err := stream.next()
	if err != nil {
		return err
	}
	where := strings.TrimPrefix(first.Method, p.base)
	for i, body := range []string{initialize("2024-11-05"), `{"jsonrpc":"2.0","method":"notifications/initialized"}`, toolCall(2, "old__add", `{"a":1,"b":2}`), toolCall(3, "new__add", `{"a":1,"b":2}`)} {
		a, err := p.post(ctx, where, body)
		if err != nil {
			return err
		}
		_ = a.Body.Close()
		if a.StatusCode != http.StatusAccepted {
			return fmt.Errorf("message %d: %s", i, a.Status)
		}
		if i == 1 {
			continue
		}
		m, err := stream.next()
		for err == nil && m.Method != "" {
			m, err = stream.next()
		}
		if err != nil || m.Result == nil || i > 1 && m.text() != "3" {
			return fmt.Errorf("message %d: %+v, %w", i, m, err)
		}
	}
	return nil
}

// TestTC36Commands does what docs/cluster.md says: from the URL of a database to three replicas behind HAProxy.
func TestTC36Commands(t *testing.T) {
	t.Parallel()
	needPostgres(t)
	path, env := tool(t, "haproxy")
	b, err := os.ReadFile(filepath.Join(root, "docs", "cluster.md"))
	if err != nil {
		t.Fatal(err)
	}
	all := regexp.MustCompile("(?s)\n```bash\n(.*?)```\n").FindAllStringSubmatch(string(b), -1)
	if len(all) != 1 {
		t.Fatalf("docs/cluster.md has %d blocks of bash, not one", len(all))
	}
	database, err := built.NewDatabase(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := os.CopyFS(filepath.Join(dir, "examples", "cluster"), os.DirFS(filepath.Join(root, "examples", "cluster"))); err != nil {
		t.Fatal(err)
	}
	script := replace(t, all[0][1], "postgres://dragoman:PASSWORD@db.internal/dragoman", database.URL)
	ports := map[string]string{}
	fill := regexp.MustCompile(`127\.0\.0\.1:73\d\d`)
	ported := func(text string) string {
		return fill.ReplaceAllStringFunc(text, func(a string) string {
			if ports[a] == "" {
				ports[a] = free(t)
			}
			return ports[a]
		})
	}
	config := filepath.Join(dir, "examples", "cluster", "haproxy.cfg")
	text, err := os.ReadFile(config)
	if err != nil {
		t.Fatal(err)
	}
	write(t, config, ported(string(text)))
	bin := filepath.Dir(built.Dragoman(t))
	if err := os.Symlink(path, filepath.Join(bin, "haproxy")); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "bash", "-euo", "pipefail", "-c", "trap 'kill $(jobs -p); wait' EXIT\n"+ported(script))
	cmd.Dir = dir
	cmd.Env = append(env, "HOME="+dir, "XDG_DATA_HOME="+dir, "XDG_RUNTIME_DIR="+dir, "XDG_CONFIG_HOME="+dir, "XDG_CACHE_HOME="+dir, "PATH="+bin+":"+os.Getenv("PATH"))
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	out, err := cmd.CombinedOutput()
	if err := database.Drop(); err != nil {
		t.Error(err)
	}
	if err != nil || !strings.Contains(string(out), "Served by whichever replica.") {
		t.Errorf("%v\n%s", err, out)
	}
	if n := len(regexp.MustCompile(`(?m)^[^#\s]`).FindAllString(all[0][1], -1)); n > 10 {
		t.Errorf("the page has %d commands", n)
	}
}
