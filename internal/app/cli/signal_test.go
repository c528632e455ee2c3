//go:build unix

package cli

import (
	"bufio"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// TestSignals runs this test binary as the program (see TestMain). It sends a signal after the
// program has printed that it is waiting, and checks the exit code.
func TestSignals(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name, args, wait string
		// lines are lines on stderr. The test sends a signal after each of these lines.
		lines  []string
		signal syscall.Signal
		code   int
	}{
		{"a command is waiting", "list http://h", "1", []string{"waiting"}, syscall.SIGINT, 130},
		{"terminated", "call http://h t", "1", []string{"waiting"}, syscall.SIGTERM, 143},
		{"a command that runs until a signal", "run --listen 127.0.0.1:1 http://h", "1", []string{"h is at"}, syscall.SIGTERM, 0},
		{"a fake over HTTP", "fake --listen 127.0.0.1:0 strict-2025-06-18", "1", []string{"strict-2025-06-18 is at http://127.0.0.1:"}, syscall.SIGTERM, 0},
		{"a fake over HTTP, interrupted", "fake --listen 127.0.0.1:0 strict-2025-06-18", "1", []string{"strict-2025-06-18 is at http://127.0.0.1:"}, syscall.SIGINT, 130},
		{"a recording, interrupted", "record -o " + filepath.Join(t.TempDir(), "tape") + " http://h", "1", []string{"connect the client to"}, syscall.SIGINT, 130},
		{"doctor without a client", "doctor --client", "1", []string{"press Ctrl-C to get the report"}, syscall.SIGTERM, exitUnreachable},
		{"a command that does not stop", "list http://h", "stubborn", []string{"waiting", "still here"}, syscall.SIGTERM, 143},
		{"a command that does not stop, interrupted", "list http://h", "stubborn", []string{"waiting", "still here"}, syscall.SIGINT, 130},
	} {
		t.Run(tt.name, func(t *testing.T) {
			cmd := exec.CommandContext(t.Context(), self)
			cmd.Args = append([]string{"dragoman", "--log-format", "json"}, strings.Fields(tt.args)...)
			cmd.Env = append(os.Environ(), "FAKE_WAIT="+tt.wait)
			stderr, err := cmd.StderrPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			lines := tt.lines
			for s := bufio.NewScanner(stderr); s.Scan(); {
				if strings.Contains(s.Text(), "error") {
					t.Errorf("unexpected line on stderr: %s", s.Text())
				}
				if len(lines) > 0 && strings.Contains(s.Text(), lines[0]) {
					lines = lines[1:]
					if err := cmd.Process.Signal(tt.signal); err != nil {
						t.Error(err)
					}
				}
			}
			_ = cmd.Wait()
			if code := cmd.ProcessState.ExitCode(); code != tt.code {
				t.Errorf("%v, want exit code %d", cmd.ProcessState, tt.code)
			}
		})
	}
}

// TestSignalsWithStuckStderr checks that signals end a process that is blocked on a full
// stderr pipe.
func TestSignalsWithStuckStderr(t *testing.T) {
	t.Parallel()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), self)
	cmd.Args = []string{"dragoman", "-v", "list", "http://h"}
	cmd.Env = append(os.Environ(), "FAKE_WAIT=loud")
	stderr, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if line, err := bufio.NewReaderSize(stderr, 16).ReadString('\n'); err != nil {
		t.Fatal(line, err)
	}
	ended := make(chan struct{})
	var waiting sync.WaitGroup
	waiting.Go(func() {
		_ = cmd.Wait()
		close(ended)
	})
	defer waiting.Wait()
	for range 200 {
		_ = cmd.Process.Signal(syscall.SIGTERM) // the second signal ends the process
		select {
		case <-ended:
			if code := cmd.ProcessState.ExitCode(); code != 143 {
				t.Errorf("%v, want exit code 143", cmd.ProcessState)
			}
			return
		case <-time.After(100 * time.Millisecond):
		}
	}
	_ = cmd.Process.Kill()
	t.Error("the process did not stop")
}
