package cli

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"github.com/dragoman-mcp/dragoman/internal/base/failure"
	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
)

type selfHinting struct{}

func (selfHinting) Error() string { return "locked" }
func (selfHinting) Hint() string  { return "unlock it" }

func TestErrors(t *testing.T) {
	in := func(op string, errno syscall.Errno) error {
		return fmt.Errorf("serve: %w", &net.OpError{Op: op, Err: errno})
	}
	for _, tt := range []struct {
		err  error
		want string
	}{
		{errors.New("broken"), "error: broken"},
		{errors.New("broken\nhint: x\n\n  and y"), "error: broken hint: x and y"},
		{errors.Join(errors.New("broken"), errors.New("the tape is not whole")), "error: broken|error: the tape is not whole"},
		{fmt.Errorf("%w, and %w", errors.New("a"), errors.New("b")), "error: a, and b"},
		{withHint(errors.New("broken"), "mend %s", "it"), "error: broken|hint: mend it"},
		{fmt.Errorf("open: %w", selfHinting{}), "error: open: locked|hint: unlock it"},
		{usagef("write x", "no x"), "error: no x|hint: write x"},
		{&jsonrpc.Error{Code: -32602, Message: "bad\x1b[0m"}, `error: the server answered "bad [0m" (-32602)`},
		{&mcp.Error{Op: "open gh", Message: "short", Failure: failure.Of(exec.ErrNotFound, failure.Facts{Server: "gh", Command: "foo", PATH: "/bin"})},
			`error: server "gh" cannot start: the command foo was not found in PATH|system: PATH=/bin|hint: check the spelling, or use the full path of the program`},
		{&mcp.Error{Message: "short", Failure: failure.Of(nil, failure.Facts{Server: "gh", Cause: "exited", Exit: "exit status 2", Stderr: []string{"Error: no\x1b[2J", "  at x"}})},
			`error: server "gh" exited with status 2 before it was ready: "Error: no [2J"|stderr: Error: no [2J|stderr: at x|hint: run the command by hand to see its complete output`},
		{&mcp.Error{Message: "short", Failure: failure.Of(nil, failure.Facts{Server: "gh", Cause: "exited", Exit: "exit status 2", Stderr: []string{"Error: no"}})},
			`error: server "gh" exited with status 2 before it was ready: "Error: no"|hint: run the command by hand to see its complete output`},
		{withHint(failure.Of(exec.ErrNotFound, failure.Facts{Server: "gh", Command: "foo"}), "mend %s", "it"),
			`error: server "gh" cannot start: the command foo was not found in PATH|hint: mend it`},
		{&mcp.Error{Op: "open gh", Message: "not opened", Err: errors.New("got the end")}, "error: not opened: got the end"},
		{&mcp.Error{Op: "call gh/x", Message: "it timed out"}, "error: it timed out"},
		{in("listen", syscall.EADDRINUSE), "error: the address is already in use|hint: stop the program that uses the address, or choose another address with --listen"},
		{in("listen", syscall.EACCES), "error: no permission to listen on the address|hint: choose a port above 1023 with --listen"},
		{in("listen", syscall.EADDRNOTAVAIL), "hint: choose another address with --listen, for example 127.0.0.1:7300"},
		{in("dial", syscall.ECONNREFUSED), "error: serve: dial: connection refused"},
	} {
		var out bytes.Buffer
		a := &app{world: world{status: newStatus(&out, false, noEnv)}}
		a.printError(tt.err)
		got := strings.TrimSuffix(strings.ReplaceAll(strings.ReplaceAll(out.String(), "dragoman: ", ""), "\n", "|"), "|")
		if got != tt.want && !strings.HasPrefix(tt.want, "hint") || !strings.HasSuffix(got, tt.want) {
			t.Errorf("%v:\n got %s\nwant %s", tt.err, got, tt.want)
		}
	}
}
