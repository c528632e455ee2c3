//go:build linux

package remote

import (
	"bytes"
	"context"
	"errors"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/testkit/logtest"
	"github.com/dragoman-mcp/dragoman/test/built"
)

// These variables are for the process in the namespaces: the folder with the unpacked programs, Dragoman,
// and the test to run.
const (
	envPrograms = "DRAGOMAN_REMOTE"
	envDragoman = "DRAGOMAN_REMOTE_PROGRAM"
	envInside   = "DRAGOMAN_REMOTE_INSIDE"
)

// patience is the limit of everything that isn't meant to take long.
const patience = 30 * time.Second

const root = "../.."

// ways are the tests, each of which has its own namespaces.
var ways = map[string]func(*testing.T){}

func TestRemote(t *testing.T) {
	if way := os.Getenv(envInside); way != "" {
		t.Run(way, func(t *testing.T) {
			furnish(t)
			ways[way](t)
		})
		return
	}
	switch {
	case os.Getenv(envPrograms) == "":
		t.Skip("`make remote` runs this test")
	case os.Geteuid() != 0:
		t.Skip("only root can create the namespaces")
	}
	program := built.Dragoman(t)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for way := range ways {
		t.Run(way, func(t *testing.T) {
			t.Parallel()
			cmd := exec.CommandContext(t.Context(), self, "-test.run=^TestRemote$", "-test.v", "-test.timeout=5m")
			cmd.Env = append(os.Environ(), envInside+"="+way, envDragoman+"="+program)
			cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET | syscall.CLONE_NEWNS, Pdeathsig: syscall.SIGKILL}
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Errorf("%v\n%s", err, out)
			}
		})
	}
}

// furnish gives the namespaces of this process a loopback interface, an /etc that can be changed, and
// an empty /run.
func furnish(t *testing.T) {
	t.Helper()
	dir := t.TempDir()
	upper, work := filepath.Join(dir, "upper"), filepath.Join(dir, "work")
	for _, d := range []string{upper, work} {
		if err := os.Mkdir(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	err := errors.Join(
		syscall.Mount("", "/", "", syscall.MS_REC|syscall.MS_PRIVATE, ""),
		syscall.Mount("overlay", "/etc", "overlay", 0, "lowerdir=/etc,upperdir="+upper+",workdir="+work),
		syscall.Mount("tmpfs", "/run", "tmpfs", 0, "mode=755"),
	)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = syscall.Unmount("/etc", 0) })
	if out, err := exec.Command("ip", "link", "set", "lo", "up").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
}

// program returns the path of an installed or unpacked program.
func program(t *testing.T, name string) string {
	t.Helper()
	unpacked := os.Getenv(envPrograms)
	for _, dir := range append(filepath.SplitList(os.Getenv("PATH")), "/usr/sbin", unpacked+"/usr/sbin", unpacked+"/usr/bin") {
		if path, err := exec.LookPath(filepath.Join(dir, name)); err == nil {
			return path
		}
	}
	t.Fatalf("there is no %s: run `make remote`", name)
	return ""
}

// start starts a program and waits until it accepts connections at an address. The program ends before
// the test does.
func start(t *testing.T, address string, cmd *exec.Cmd) {
	t.Helper()
	var said logtest.Buffer
	cmd.Stdout, cmd.Stderr = &said, &said
	if cmd.Env == nil {
		cmd.Env = os.Environ()
	}
	if strings.HasPrefix(cmd.Path, os.Getenv(envPrograms)) {
		libraries, _ := filepath.Glob(os.Getenv(envPrograms) + "/usr/lib/*-linux-gnu")
		cmd.Env = append(cmd.Env, "LD_LIBRARY_PATH="+strings.Join(libraries, ":"))
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		kill := time.AfterFunc(patience, func() { _ = cmd.Process.Kill() })
		defer kill.Stop()
		<-ended
		if t.Failed() {
			t.Logf("%s says:\n%s", filepath.Base(cmd.Path), said.String())
		}
	})
	go func() { // ends with the process
		_ = cmd.Wait()
		close(ended)
	}()
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		if c, err := net.Dial("tcp", address); err == nil {
			_ = c.Close()
			return
		}
		select {
		case <-ended:
			t.Fatalf("%s has ended", cmd)
		default:
		}
	}
	t.Fatalf("%s doesn't listen on %s", cmd, address)
}

// serve starts `dragoman serve` on the default address with a configuration file, and returns a function
// that makes a link to its console.
func serve(t *testing.T, configuration string) (link func() string) {
	t.Helper()
	dir := t.TempDir()
	file := filepath.Join(dir, "dragoman.yaml")
	write(t, file, configuration)
	own := func(args ...string) *exec.Cmd {
		cmd := exec.Command(os.Getenv(envDragoman), args...)
		cmd.Dir, cmd.Env = dir, []string{"HOME=" + dir, "PATH=" + os.Getenv("PATH"), "XDG_RUNTIME_DIR=" + dir}
		return cmd
	}
	start(t, "127.0.0.1:7300", own("serve", "-c", file))
	return func() string { return strings.TrimSpace(run(t, own("console"))) }
}

// run returns what a command prints to stdout.
func run(t *testing.T, cmd *exec.Cmd) string {
	t.Helper()
	var said bytes.Buffer
	cmd.Stderr = &said
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s: %v\n%s%s", cmd, err, out, said.String())
	}
	return string(out)
}

func write(t *testing.T, path, text string) {
	t.Helper()
	err := os.MkdirAll(filepath.Dir(path), 0o755)
	if err == nil {
		err = os.WriteFile(path, []byte(text), 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// soon returns a context that ends when the test has run too long.
func soon(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	return ctx
}

// block returns the only fenced block of a language in docs/deployment.md.
func block(t *testing.T, language string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(root, "docs", "deployment.md"))
	if err != nil {
		t.Fatal(err)
	}
	all := regexp.MustCompile("(?s)\n```"+language+"\n(.*?\n)```\n").FindAllStringSubmatch(string(b), -1)
	if len(all) != 1 {
		t.Fatalf("docs/deployment.md has %d blocks of %s, not one", len(all), language)
	}
	return all[0][1]
}
