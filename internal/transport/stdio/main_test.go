package stdio

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/testkit/leaktest"
)

// childMode is the environment variable that turns the test binary into the child process of a
// test.
const childMode = "STDIO_TEST_CHILD"

func TestMain(m *testing.M) {
	if mode := os.Getenv(childMode); mode != "" {
		// The child exits after a minute, even if the test leaves it running.
		time.AfterFunc(time.Minute, func() { os.Exit(99) })
		child(mode)
		return
	}
	leaktest.Main(m)
}

// child runs the child process of a test. The mode selects what the process does.
func child(mode string) {
	switch mode {
	case "echo": // writes each line back unchanged, and exits at the end of its input
		_, _ = io.Copy(os.Stdout, os.Stdin)
	case "std": // does the same as echo, but through Std
		p, err := Std(Options{})
		if err != nil {
			panic(err)
		}
		for {
			m, err := p.Read()
			if err != nil {
				_ = p.Close()
				fmt.Fprint(os.Stderr, err)
				return
			}
			if err := p.Write(m.Raw); err != nil {
				fmt.Fprint(os.Stderr, err)
				os.Exit(4)
			}
		}
	case "line": // writes its command line to stderr
		fmt.Fprintln(os.Stderr, commandLine())
	case "exit":
		fmt.Fprintln(os.Stderr, "GITHUB_TOKEN is not set")
		os.Exit(3)
	case "half": // writes half of an answer and exits
		_, _ = bufio.NewReader(os.Stdin).ReadString('\n')
		fmt.Print(pong[:12])
		os.Exit(1)
	case "flood": // writes a line that never ends
		for {
			if _, err := os.Stdout.Write(bytes.Repeat([]byte("x"), 1<<16)); err != nil {
				return
			}
		}
	case "mute": // closes its output and reads its input to the end
		_ = os.Stdout.Close()
		_, _ = io.Copy(io.Discard, os.Stdin)
	case "closed-stdin": // closes its stdin and continues to run
		_ = os.Stdin.Close()
		fmt.Println(hello)
		forever()
	case "idle": // writes one message and never reads its input
		fmt.Println(hello)
		forever()
	case "stubborn": // ignores SIGTERM and the end of its input
		signal.Ignore(syscall.SIGTERM)
		fmt.Println(hello)
		forever()
	case "polite": // exits on SIGTERM
		c := make(chan os.Signal, 1)
		signal.Notify(c, syscall.SIGTERM)
		fmt.Println(hello)
		<-c
		os.Exit(7)
	case "noise": // writes many lines to stderr, and then an answer
		line := []byte(strings.Repeat("n", 99) + "\n")
		for range 1 << 15 {
			_, _ = os.Stderr.Write(line)
		}
		_, _ = os.Stderr.Write(bytes.Repeat([]byte("m"), 4<<20)) // without a newline
		fmt.Println(pong)
		_, _ = io.Copy(io.Discard, os.Stdin)
	case "env":
		fmt.Fprint(os.Stderr, strings.Join(os.Environ(), "\n"))
	case "files":
		entries, _ := os.ReadDir("/proc/self/fd")
		for _, e := range entries {
			where, _ := os.Readlink("/proc/self/fd/" + e.Name())
			fmt.Fprintln(os.Stderr, e.Name(), where)
		}
	case "parent", "parent-detached": // starts a process that keeps the pipes open, and exits at the end of its input
		startKin(mode == "parent-detached")
		fmt.Println(hello)
		_, _ = io.Copy(io.Discard, os.Stdin)
	case "deserter", "deserter-detached":
		startKin(mode == "deserter-detached")
		fmt.Println(hello)
	case "starter": // starts a child through Start, writes the child's pid, and waits until the test kills it
		runtime.GOMAXPROCS(4)
		p, err := Start(context.Background(), specOf("stubborn"))
		if err != nil {
			panic(err)
		}
		if _, err := p.Pipe().Read(); err != nil {
			panic(err)
		}
		// The child must continue to run when threads of this process end.
		for range 50 {
			done := make(chan struct{})
			go func() {
				runtime.LockOSThread() // without unlock, so that the thread ends
				close(done)
			}()
			<-done
		}
		time.Sleep(50 * time.Millisecond)
		fmt.Printf("{\"jsonrpc\":\"2.0\",\"method\":\"pid\",\"params\":{\"pid\":%d}}\n", p.PID())
		forever()
	}
}

func forever() { time.Sleep(time.Hour) }

// startKin starts a child that inherits stdout and stderr, writes its pid, and does not wait for
// its exit.
func startKin(detached bool) {
	cmd := exec.Command(os.Args[0])
	cmd.Env = []string{childMode + "=stubborn"}
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	detach(cmd, detached)
	if err := cmd.Start(); err != nil {
		panic(err)
	}
	fmt.Printf("{\"jsonrpc\":\"2.0\",\"method\":\"pid\",\"params\":{\"pid\":%d}}\n", cmd.Process.Pid)
}

// specOf returns the Spec that starts the test binary as a child.
func specOf(mode string) Spec {
	return Spec{
		Command: os.Args[0], Env: Environ(map[string]string{childMode: mode}, func(name string) bool { return name == leaktest.RaceOptions }),
		DrainDelay: 50 * time.Millisecond, // the time that Stop waits if nobody reads the output
	}
}
