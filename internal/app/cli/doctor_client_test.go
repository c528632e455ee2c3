package cli

import (
	"bufio"
	"bytes"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"
)

// TestClientStartsPrintedCommand runs doctor --client, and starts the command that it prints, as a
// client would. Then doctor --client must print its report.
func TestClientStartsPrintedCommand(t *testing.T) {
	t.Parallel()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	program := func(args ...string) *exec.Cmd {
		c := exec.CommandContext(t.Context(), self)
		c.Args = append([]string{"dragoman"}, args...)
		return c
	}
	waiting := program("doctor", "--client")
	stderr, err := waiting.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	var stdout bytes.Buffer
	waiting.Stdout = &stdout
	if err := waiting.Start(); err != nil {
		t.Fatal(err)
	}
	command := regexp.MustCompile("doctor --client --stdio -o ([^`]+)")
	var told []string
	for s := bufio.NewScanner(stderr); s.Scan(); {
		told = append(told, s.Text())
		m := command.FindStringSubmatch(s.Text())
		if m == nil {
			continue
		}
		copied := program("doctor", "--client", "--stdio", "-o", m[1])
		copied.Stdin = strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"initialize"}` + "\n")
		if out, err := copied.Output(); err != nil || !strings.Contains(string(out), `"serverInfo"`) {
			t.Errorf("%v: %s", err, out)
			_ = waiting.Process.Kill()
		}
	}
	_ = waiting.Wait()
	if code := waiting.ProcessState.ExitCode(); code != exitFailure || !strings.Contains(stdout.String(), "error DRG-CLIENT-BARE-INITIALIZE: ") {
		t.Errorf("exit code %d:\n%s", code, stdout.String())
	}
	for _, want := range []string{"a client has come: a client without a name opens with initialize", "DRG-CLIENT-BARE-INITIALIZE: "} {
		if !strings.Contains(strings.Join(told, "\n"), want) {
			t.Errorf("it did not tell %q while it waited: %q", want, told)
		}
	}
}
