package stdio

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/transport"
)

// start starts the test binary as a child process, and stops the process when the test ends.
func start(t *testing.T, spec Spec) *Process {
	t.Helper()
	p, err := Start(t.Context(), spec)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.Stop(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return p
}

func read(t *testing.T, p *Process) *jsonrpc.Message {
	t.Helper()
	m, err := p.Pipe().Read()
	if err != nil {
		t.Fatalf("read: %v; its stderr: %q", err, p.StderrTail(5))
	}
	return m
}

// readPID reads the message in which a child writes the pid of another process. It skips messages
// that the other process writes to the same pipe.
func readPID(t *testing.T, p *Process) int {
	t.Helper()
	for {
		m := read(t, p)
		if pid, ok := jsonrpc.Int(m.Raw, m.Param("pid")); ok && m.Method == "pid" {
			return int(pid)
		}
	}
}

func wantEOF(t *testing.T, p *Process) {
	t.Helper()
	if _, err := p.Pipe().Read(); err != io.EOF {
		t.Errorf("got %v, want EOF", err)
	}
}

func wantExit(t *testing.T, p *Process, text string) {
	t.Helper()
	<-p.Exited()
	if got := p.ExitText(); got != text && runtime.GOOS != "windows" {
		t.Errorf("the child ended with %q, want %q", got, text)
	}
}

// gone waits until a process no longer exists or is a zombie.
func gone(t *testing.T, pid int) {
	t.Helper()
	for end := time.Now().Add(30 * time.Second); ; time.Sleep(5 * time.Millisecond) {
		b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		if err != nil || strings.Contains(string(b), ") Z ") {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("process %d is still alive: %s", pid, b)
		}
	}
}

func needProc(t *testing.T) {
	t.Helper()
	if runtime.GOOS != "linux" {
		t.Skip("this test needs /proc")
	}
}

func TestEcho(t *testing.T) {
	t.Parallel()
	p := start(t, specOf("echo"))
	if err := p.Pipe().Write([]byte(ping)); err != nil {
		t.Fatal(err)
	}
	if m := read(t, p); string(m.Raw) != ping {
		t.Errorf("the answer is %s", m.Raw)
	}
	if p.ExitText() != "" || p.ExitStatus() != 0 || p.PID() == 0 {
		t.Errorf("the child seems to have exited: %s", p.ExitText())
	}
	var reader sync.WaitGroup
	reader.Go(func() { wantEOF(t, p) })
	if err := p.Stop(t.Context()); err != nil {
		t.Error(err)
	}
	reader.Wait()
	wantExit(t, p, "exit status 0")
	if err := p.Pipe().Write([]byte(ping)); !errors.Is(err, transport.ErrNotSent) {
		t.Errorf("got %v, want ErrNotSent", err)
	}
}

func TestU01_CommandCannotRun(t *testing.T) {
	dir := t.TempDir()
	file := func(name, content string, mode fs.FileMode) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(content), mode); err != nil {
			t.Fatal(err)
		}
		return path
	}
	path := []string{"PATH=relative" + string(filepath.ListSeparator) + dir}
	plain := file("plain", "text", 0o600)
	cases := []struct {
		name string
		spec Spec
		is   error
		hint string
		unix bool
	}{
		{"empty", Spec{}, nil, "", false},
		{"missing in PATH", Spec{Command: "no-such-command", Env: path}, exec.ErrNotFound, "PATH=", false},
		{"no PATH", Spec{Command: "sh"}, exec.ErrNotFound, "no PATH", false},
		{"missing", Spec{Command: filepath.Join(dir, "none")}, fs.ErrNotExist, "does not exist", true},
		{"not executable", Spec{Command: plain}, fs.ErrPermission, "not executable", true},
		{"not executable in PATH", Spec{Command: "plain", Env: path}, fs.ErrPermission, "is not executable", true},
		{"no interpreter", Spec{Command: file("script", "#!/no/such/thing\n", 0o700)}, fs.ErrNotExist, "interpreter", true},
		{"wrong format", Spec{Command: file("binary", "\x7fELFnonsense", 0o700)}, errExecFormat, "another machine", true},
		{"a folder", Spec{Command: dir}, nil, "", true},
		{"no working folder", Spec{Command: os.Args[0], Dir: filepath.Join(dir, "none")}, fs.ErrNotExist, "directory", false},
		{"file as working folder", Spec{Command: os.Args[0], Dir: plain}, nil, "directory", false},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			if c.unix && runtime.GOOS == "windows" {
				t.Skip("this system has no file modes")
			}
			p, err := Start(t.Context(), c.spec)
			if err == nil {
				_ = p.Stop(t.Context())
				t.Fatal("the command was started")
			}
			var failed *StartError
			if !errors.As(err, &failed) {
				t.Fatalf("got %T %v", err, err)
			}
			if !strings.HasPrefix(err.Error(), "exec: ") || strings.Count(err.Error(), "exec:") != 1 {
				t.Errorf("the error is %q", err)
			}
			if c.is != nil && !errors.Is(err, c.is) {
				t.Errorf("got %v, want %v", err, c.is)
			}
			if !strings.Contains(failed.Hint, c.hint) {
				t.Errorf("the hint is %q, want %q", failed.Hint, c.hint)
			}
		})
	}
}

func TestCommandIsFoundInTheChildsPath(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := os.Symlink(os.Args[0], filepath.Join(dir, "server")); err != nil {
		t.Skip("this system makes no symlinks: ", err)
	}
	for _, spec := range []Spec{
		{Command: "server", Env: []string{childMode + "=exit", "PATH=" + dir}},
		{Command: "./server", Env: []string{childMode + "=exit"}, Dir: dir},
	} {
		wantExit(t, start(t, spec), "exit status 3")
	}
}

func TestU02_ExitIsExplained(t *testing.T) {
	t.Parallel()
	p := start(t, specOf("exit"))
	wantEOF(t, p)
	wantExit(t, p, "exit status 3")
	if p.ExitStatus() != 3 {
		t.Errorf("the exit status is %d", p.ExitStatus())
	}
	wantLines(t, p.StderrTail(20), "GITHUB_TOKEN is not set")
}

func TestU06_HalfALineAndExit(t *testing.T) {
	t.Parallel()
	p := start(t, specOf("half"))
	if err := p.Pipe().Write([]byte(ping)); err != nil {
		t.Fatal(err)
	}
	wantLines(t, transcript(p.Pipe()), "bad -32700 cut")
	wantExit(t, p, "exit status 1")
}

func TestU13_EndlessLine(t *testing.T) {
	t.Parallel()
	spec := specOf("flood")
	spec.Options.Limits.Bytes = 1 << 20
	spec.ExitGrace = time.Millisecond
	p := start(t, spec)
	if _, err := p.Pipe().Read(); !errors.Is(err, transport.ErrTooLarge) {
		t.Errorf("got %v, want transport.ErrTooLarge", err)
	}
	if err := p.Stop(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestU14_OutputClosed(t *testing.T) {
	t.Parallel()
	p := start(t, specOf("mute"))
	wantEOF(t, p)
	select {
	case <-p.Exited():
		t.Error("the child has exited")
	default:
	}
}

func TestU15_InputClosed(t *testing.T) {
	t.Parallel()
	spec := specOf("closed-stdin")
	spec.ExitGrace = time.Millisecond
	p := start(t, spec)
	read(t, p)
	if err := p.Pipe().Write([]byte(ping)); !errors.Is(err, transport.ErrNotSent) {
		t.Errorf("got %v, want ErrNotSent", err)
	}
	if err := p.Stop(t.Context()); err != nil {
		t.Error(err)
	}
	wantExit(t, p, "signal: terminated")
}

func TestU16_InputFull(t *testing.T) {
	t.Parallel()
	spec := specOf("idle")
	spec.ExitGrace = time.Millisecond
	p := start(t, spec)
	var err error
	for err == nil {
		ctx, stop := context.WithTimeout(t.Context(), 50*time.Millisecond)
		err = p.Pipe().Send(ctx, nil, []byte(strings.Repeat("x", 1000)))
		stop()
	}
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v, want a timeout", err)
	}
	if err := p.Pipe().Queue(bytes.Repeat([]byte("x"), 8<<10)); err != nil {
		t.Error(err)
	}
	if d, _ := p.Pipe().Stalled(); d <= 0 {
		t.Error("the pipe says that nothing is waiting")
	}
}

// TestU17_Grandchildren checks that a process that keeps the pipes open does not block Stop. After
// Stop, or after the child has exited by itself, the other processes of its group are dead. Stop
// also kills descendants outside the group, if they existed when Stop began.
func TestU17_Grandchildren(t *testing.T) {
	needProc(t)
	for _, mode := range []string{"parent", "parent-detached", "deserter"} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			spec := specOf(mode)
			p := start(t, spec)
			pid := readPID(t, p)
			if mode == "deserter" {
				// The child exits by itself, without a call of Stop.
				<-p.Exited()
			} else if err := p.Stop(t.Context()); err != nil {
				t.Error(err)
			}
			gone(t, pid)
		})
	}
}

// TestU17_WhoLeftTheGroupHangsNobody checks a descendant that has left the process group and whose
// parent has exited. Stop cannot kill this process, but the process must not block Stop. The test
// kills it at the end.
func TestU17_WhoLeftTheGroupHangsNobody(t *testing.T) {
	needProc(t)
	t.Parallel()
	spec := specOf("deserter-detached")
	p := start(t, spec)
	pid := readPID(t, p)
	read(t, p)
	for {
		if _, err := p.Pipe().Read(); err != nil {
			if err != io.EOF {
				t.Errorf("got %v, want EOF", err)
			}
			break
		}
	}
	wantExit(t, p, "exit status 0")
	if err := p.Stop(t.Context()); err != nil {
		t.Error(err)
	}
	kill(t, pid)
	gone(t, pid)
}

func TestU18_Stubborn(t *testing.T) {
	t.Parallel()
	spec := specOf("stubborn")
	spec.ExitGrace, spec.TermGrace = 10*time.Millisecond, 50*time.Millisecond
	p := start(t, spec)
	read(t, p)
	var wg sync.WaitGroup
	for range 3 {
		wg.Go(func() {
			if err := p.Stop(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	wantExit(t, p, "signal: killed")
}

func TestStopAsksBeforeItKills(t *testing.T) {
	t.Parallel()
	spec := specOf("polite")
	spec.ExitGrace, spec.TermGrace = time.Millisecond, time.Minute
	p := start(t, spec)
	read(t, p)
	if err := p.Stop(t.Context()); err != nil {
		t.Error(err)
	}
	wantExit(t, p, "exit status 7")
}

func TestStopHurriesWhenTheContextEnds(t *testing.T) {
	t.Parallel()
	spec := specOf("stubborn")
	spec.ExitGrace, spec.TermGrace = time.Hour, time.Hour
	p := start(t, spec)
	read(t, p)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := p.Stop(ctx); err != nil {
		t.Error(err)
	}
	if _, err := Start(ctx, spec); err != context.Canceled {
		t.Errorf("got %v", err)
	}
}

func TestS14_NoiseOnStandardError(t *testing.T) {
	t.Parallel()
	spec := specOf("noise")
	spec.StderrBytes = 64 << 10
	var lines, longest int
	spec.OnStderr = func(line []byte) {
		lines++
		longest = max(longest, len(line))
	}
	p := start(t, spec)
	if m := read(t, p); string(m.Raw) != pong {
		t.Errorf("got %s", m.Raw)
	}
	if err := p.Stop(t.Context()); err != nil {
		t.Error(err)
	}
	if lines != 1<<15+1 || longest != maxLine {
		t.Errorf("there are %d lines, and the longest has %d bytes", lines, longest)
	}
	if got := p.stderr.bytes(); len(got) != 64<<10 || strings.Trim(string(got), "m") != "" {
		t.Errorf("%d bytes are kept", len(got))
	}
	if got := p.StderrTail(5); len(got) != 1 || len(got[0]) > maxLine+len("…") {
		t.Errorf("the tail has %d lines", len(got))
	}
}

func TestS19_EnvironmentIsWhatWeGive(t *testing.T) {
	t.Setenv("CANARY_TOKEN", "hunter2")
	t.Setenv("HTTPS_PROXY", "http://user:pass@proxy")
	t.Setenv("LC_TIME", "C")
	spec := specOf("env")
	spec.Env = Environ(map[string]string{childMode: "env", "API_KEY": "given", "LANG": "xx"}, nil)
	p := start(t, spec)
	<-p.Exited()
	got := string(p.stderr.bytes())
	for _, want := range []string{"API_KEY=given", "LANG=xx", "LC_TIME=C", "PATH=", "HTTPS_PROXY=http://user:pass@proxy"} {
		if !strings.Contains(got, want) {
			t.Errorf("%s is missing in\n%s", want, got)
		}
	}
	for _, secret := range []string{"CANARY_TOKEN", "hunter2"} {
		if strings.Contains(got, secret) {
			t.Errorf("%s occurs in\n%s", secret, got)
		}
	}
	spec.Env = []string{childMode + "=env"}
	p = start(t, spec)
	<-p.Exited()
	if got := string(p.stderr.bytes()); got != childMode+"=env" && runtime.GOOS != "windows" {
		t.Errorf("the environment is %q", got)
	}
}

func TestOnlyStandardStreamsAreInherited(t *testing.T) {
	needProc(t)
	f, err := os.Open(os.Args[0])
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	p := start(t, specOf("files"))
	<-p.Exited()
	for _, line := range p.StderrTail(100) {
		fd, where, _ := strings.Cut(line, " ")
		// The child also has descriptors that its Go runtime opened, and one that it opened to
		// list its descriptors.
		if (len(fd) > 1 || fd > "2") && (strings.Contains(where, f.Name()) || strings.HasPrefix(where, "pipe:") || strings.HasPrefix(where, "socket:")) {
			t.Errorf("descriptor %s is %s", fd, where)
		}
	}
}

// TestChildDiesWithUs kills a process that has a child of its own. The child must die together
// with the process, but not when a single thread of the process ends.
func TestChildDiesWithUs(t *testing.T) {
	needProc(t)
	t.Parallel()
	p := start(t, specOf("starter"))
	pid := readPID(t, p)
	if _, err := os.Stat(fmt.Sprintf("/proc/%d", pid)); err != nil {
		t.Fatal("the grandchild has died with a thread")
	}
	kill(t, p.PID())
	wantExit(t, p, "signal: killed")
	gone(t, pid)
}

func kill(t *testing.T, pid int) {
	t.Helper()
	proc, err := os.FindProcess(pid)
	if err == nil {
		err = proc.Kill()
		_ = proc.Release()
	}
	if err != nil {
		t.Error(err)
	}
}

func TestStd(t *testing.T) {
	t.Parallel()
	p := start(t, specOf("std"))
	for range 3 {
		if err := p.Pipe().Write([]byte(ping)); err != nil {
			t.Fatal(err)
		}
		if m := read(t, p); string(m.Raw) != ping {
			t.Errorf("got %s", m.Raw)
		}
	}
	if err := p.Stop(t.Context()); err != nil {
		t.Error(err)
	}
	wantExit(t, p, "exit status 0")
	wantLines(t, p.StderrTail(5), "EOF")
}

// TestStdSurvivesABrokenPipe checks that Write returns an error if the client no longer reads, and
// that the broken pipe does not kill the process.
func TestStdSurvivesABrokenPipe(t *testing.T) {
	// No other test may fork at the same time: until its child executes a program, the child keeps our
	// end of the pipe open, and the write succeeds.
	p := start(t, specOf("std"))
	_ = p.output.Close()
	if err := p.Pipe().Write([]byte(ping)); err != nil {
		t.Fatal(err)
	}
	wantExit(t, p, "exit status 4")
	if tail := p.StderrTail(1); len(tail) != 1 || !strings.HasPrefix(tail[0], transport.ErrNotSent.Error()) {
		t.Errorf("stderr is %q", tail)
	}
}
