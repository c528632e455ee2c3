package cli

import (
	"fmt"
	"io"
	"log/slog"
	"os"

	"github.com/dragoman-mcp/dragoman/internal/base/logscreen"
	"github.com/dragoman-mcp/dragoman/internal/transport/stdio"
)

// world is what every command gets: the streams and the environment of the process, the backend, and
// what the flags of all commands say. Each command embeds it beside its own flags.
type world struct {
	backend Backend
	stdin   io.Reader
	stdout  io.Writer
	env     environment
	screen  bool // stdout is a terminal
	width   int  // the width of stdout in columns; 0 if unknown
	status  *status
	// keyboard is true if stdin is a terminal.
	keyboard bool
	// interactive is true if stdin and stderr are terminals, so that commands can ask the user.
	// openInput opens stdin for one question. Closing the returned input ends a pending read.
	interactive bool
	openInput   func() (io.ReadCloser, error)
	// rawInput makes the terminal at stdin pass on what is typed, without showing it, until show is called.
	rawInput func() (show func(), err error)
	program  string // the command that starts this program; used in hints

	verbose, quiet, plain bool
	traceBytes            bool
	logFormat             string
	log                   *slog.Logger
	people                *logscreen.Handler // the handler of log if it's for people; else nil
}

// environment looks up an environment variable. Its methods find what depends on nothing else: the
// configuration file, its servers and addresses, and the user's folders.
type environment func(string) (string, bool)

// streams returns stdin and stdout for a command that speaks MCP on them.
func (w *world) streams() (io.ReadCloser, io.WriteCloser, error) {
	if w.stdin != os.Stdin || w.stdout != os.Stdout {
		return io.NopCloser(w.stdin), unclosed{w.stdout}, nil
	}
	in, out, err := stdio.Streams()
	if err != nil {
		return nil, nil, fmt.Errorf("cannot open stdin and stdout: %w", err)
	}
	return in, out, nil
}

type unclosed struct{ io.Writer }

func (unclosed) Close() error { return nil }
