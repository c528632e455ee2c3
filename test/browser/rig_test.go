//go:build unix

package browser

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/testkit/certtest"
	"github.com/dragoman-mcp/dragoman/internal/testkit/leaktest"
	"github.com/dragoman-mcp/dragoman/internal/testkit/logtest"
	"github.com/dragoman-mcp/dragoman/test/built"
	"github.com/dragoman-mcp/dragoman/test/npm"
)

// TestMain fails if a process still runs after the tests. If BROWSER_TEST_SERVER is set, the test
// binary runs the hostile server instead of the tests.
func TestMain(m *testing.M) {
	if os.Getenv("BROWSER_TEST_SERVER") != "" {
		hostileServer(os.Stdin, os.Stdout, os.Stderr)
		return
	}
	leaktest.Main(m)
}

// rig holds what the parts of TestConsole share.
type rig struct {
	chrome   *chrome
	cert     string // the path of a certificate for publicName that Chromium trusts
	key      string // that of its key
	dragoman string // the path of the program
	axe      string // the source of axe-core
}

// TestConsole tests the console in Chromium. Its parts share one Chromium.
func TestConsole(t *testing.T) {
	mode := os.Getenv("DRAGOMAN_BROWSER")
	if mode == "" {
		t.Skip("set DRAGOMAN_BROWSER=1 (or make browser) to test the console in Chromium")
	}
	certificates := t.TempDir()
	r := &rig{dragoman: built.Dragoman(t, "-ldflags", "-X github.com/dragoman-mcp/dragoman/internal/app/cli.release=0.0.0"), cert: filepath.Join(certificates, "cert.pem"), key: filepath.Join(certificates, "key.pem")}
	r.chrome = startChrome(t, chromium(t), certtest.Write(t, r.cert, r.key, time.Hour, time.Hour))
	if mode == "screenshots" {
		t.Run("screenshots", r.screenshots)
		return
	}
	axe, err := os.ReadFile(filepath.Join(install(t, "."), "node_modules", "axe-core", "axe.min.js"))
	if err != nil {
		t.Fatal(err)
	}
	r.axe = string(axe)
	t.Run("access", r.access)
	t.Run("sign-in", r.signIn)
	t.Run("connections", r.connections)
	t.Run("threats", r.threats)
	t.Run("people", r.people)
	t.Run("projects", r.projects)
	t.Run("keys and people", r.keysAndPeople)
	t.Run("audit", r.audit)
	t.Run("questions", r.questions)
	t.Run("prompts", r.prompts)
	t.Run("reviews", r.reviews)
	t.Run("rules", r.rules)
	t.Run("pages", r.pages)
	t.Run("keyboard", r.keyboard)
	t.Run("hostile", r.hostile)
	t.Run("adding", r.adding)
	t.Run("playground", r.playground)
	t.Run("end to end", r.endToEnd)
	t.Run("team", r.team)
}

// chromium returns the path of Chromium. .ci/run installs Chromium on a CI machine.
func chromium(t *testing.T) string {
	t.Helper()
	if path := os.Getenv("DRAGOMAN_CHROMIUM"); path != "" {
		return path
	}
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome-stable", "google-chrome"} {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	t.Fatal("there is no Chromium on the PATH: install it (Debian: apt-get install chromium), or set DRAGOMAN_CHROMIUM to the path of Chromium or Chrome")
	return ""
}

// install puts the pinned packages of a folder below .cache, and returns the folder with node_modules. The tests of that
// folder install into the same place.
func install(t *testing.T, from string) string {
	t.Helper()
	folder, err := filepath.Abs(from)
	if err != nil {
		t.Fatal(err)
	}
	files := map[string][]byte{}
	for _, name := range []string{"package.json", "package-lock.json"} {
		if files[name], err = os.ReadFile(filepath.Join(folder, name)); err != nil {
			t.Fatal(err)
		}
	}
	return npm.Install(t, filepath.Base(folder), files)
}

// serveRun is a `dragoman serve`, with a home of its own.
type serveRun struct {
	t       *testing.T
	program string
	home    string
	env     []string
	origin  string // http://ADDRESS:PORT, or https:// with the public name; at a loopback address, the console has a host name of its own
	config  string // the path of the configuration file; if serve got no text, the file that the console can write
	stop    func() // ends the process; safe to call twice
}

var consoleLine = regexp.MustCompile(`the console is at (https?://[^/]+)/console/`)

// serve starts `dragoman serve` on a free port, with a configuration file if text is not "". It
// stops the process when the test ends.
func (r *rig) serve(t *testing.T, text string, args ...string) *serveRun {
	t.Helper()
	h := r.home(t, text)
	h.start(append([]string{"--listen", "127.0.0.1:0"}, args...)...)
	return h
}

// home makes a home for a `dragoman serve`, which doesn't run yet. Commands can use its database already.
func (r *rig) home(t *testing.T, text string) *serveRun {
	t.Helper()
	home := t.TempDir()
	h := &serveRun{t: t, program: r.dragoman, home: home, env: append(os.Environ(), "HOME="+home, "XDG_RUNTIME_DIR="+home, "XDG_CACHE_HOME="+filepath.Join(home, "cache"), "XDG_CONFIG_HOME="+filepath.Join(home, "config"), "XDG_DATA_HOME="+filepath.Join(home, "data"), "GORACE=atexit_sleep_ms=0")}
	h.config = filepath.Join(home, "config", "dragoman", "config.yaml")
	if text != "" {
		h.config = filepath.Join(home, "dragoman.yaml")
		if err := os.WriteFile(h.config, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return h
}

// start starts `dragoman serve`, again if it was stopped. It runs until stop is called or the test ends.
func (h *serveRun) start(args ...string) {
	t := h.t
	t.Helper()
	args = append([]string{"serve"}, args...)
	if filepath.Dir(h.config) == h.home {
		args = append(args, "-c", h.config)
	}
	cmd := exec.Command(h.program, args...)
	cmd.Env, cmd.Dir = append(h.env, "PATH="+filepath.Dir(h.program)+string(os.PathListSeparator)+os.Getenv("PATH")), h.home
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	stderr, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var log logtest.Buffer
	found, ended := make(chan string, 1), make(chan error, 1)
	go func() {
		lines := bufio.NewScanner(stderr)
		for lines.Scan() {
			fmt.Fprintln(&log, lines.Text())
			if m := consoleLine.FindStringSubmatch(lines.Text()); m != nil {
				select {
				case found <- m[1]:
				default:
				}
			}
		}
		_, _ = io.Copy(io.Discard, stderr)
		ended <- cmd.Wait()
	}()
	h.stop = sync.OnceFunc(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		select {
		case err := <-ended:
			if err != nil {
				t.Errorf("dragoman ended with %v", err)
			}
		case <-time.After(patience):
			_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
			<-ended
			t.Error("dragoman did not stop")
		}
		if t.Failed() {
			t.Logf("stderr of dragoman:\n%.6000s", log.String())
		}
	})
	t.Cleanup(h.stop)
	select {
	case h.origin = <-found:
	case err := <-ended:
		ended <- err
		t.Fatal("dragoman has ended")
	case <-time.After(patience):
		t.Fatal("dragoman did not print the address of the console")
	}
}

// run runs the program as a user would and returns its stdout.
func (h *serveRun) run(args ...string) string {
	h.t.Helper()
	return h.runWith("", args...)
}

// runWith does the same with a text on stdin.
func (h *serveRun) runWith(stdin string, args ...string) string {
	h.t.Helper()
	ctx, cancel := context.WithTimeout(h.t.Context(), patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, h.program, args...)
	cmd.Env, cmd.Stdin = h.env, strings.NewReader(stdin)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		h.t.Errorf("dragoman %s: %v\n%s%s", strings.Join(args, " "), err, out, stderr.String())
	}
	return string(out)
}

// link returns a one-time link to the console.
func (h *serveRun) link() string {
	h.t.Helper()
	u, err := url.Parse(h.origin)
	if err != nil {
		h.t.Fatal(err)
	}
	var answer struct{ URL string }
	out := h.run("console", "--listen", u.Host, "--json")
	if err := json.Unmarshal([]byte(out), &answer); err != nil || answer.URL == "" {
		h.t.Fatalf("dragoman console --json: %v\n%s", err, out)
	}
	return answer.URL
}

// enter opens the console in a new tab with a one-time link. The tab may then load only from the
// console's own host name.
func (r *rig) enter(t *testing.T, h *serveRun) *tab {
	t.Helper()
	p := r.chrome.newTab(t, "")
	p.follow(h.link())
	p.settle()
	return p
}

// follow opens a one-time link, which leads to the console's own host name.
func (p *tab) follow(link string) {
	p.t.Helper()
	p.open(link)
	p.wait("the Overview", `/^dragoman-[a-z2-7]+[.]localhost$/.test(location.hostname) && location.pathname === "/console/" && location.search === "" && document.querySelector("nav")`)
	p.origin = eval[string](p, `location.origin`)
}
