package cli

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/term"
)

// The exit codes.
const (
	exitOK      = 0
	exitFailure = 1
	exitUsage   = 2
	exitSignal  = 128 // plus the number of the signal
)

// Main runs the command line of this process and returns its exit code. The
// first SIGINT or SIGTERM ends the command in good order, a second one ends the
// process at once, with 130 or 143.
func Main(b Backend) int {
	a := &app{
		backend: b, stdin: os.Stdin, stdout: os.Stdout, env: os.LookupEnv,
		screen: isTerminal(os.Stdout),
	}
	if a.screen {
		if w, _, err := term.GetSize(int(os.Stdout.Fd())); err == nil {
			a.width = w
		}
	}
	self, _ := os.Executable()
	a.program = programName(os.Args[0], self)
	a.status = newStatus(os.Stderr, isTerminal(os.Stderr), a.env)
	return a.main(os.Args[1:])
}

func isTerminal(f *os.File) bool { return term.IsTerminal(int(f.Fd())) }

// app is one run of the program.
type app struct {
	backend Backend
	stdin   io.Reader
	stdout  io.Writer
	env     func(string) (string, bool)
	screen  bool // stdout is a terminal
	width   int  // of that terminal in columns; 0 when unknown
	status  *status
	program string // how a user starts it

	verbose, quiet bool
	logFormat      string
	log            *slog.Logger
}

// errReported ends a command with exit code 1 after it has said all there is to
// say.
var errReported = errors.New("reported")

func (a *app) main(args []string) int {
	ctx, stop := a.catchSignals()
	defer stop()
	root := a.root()
	root.SetArgs(args)
	err := root.ExecuteContext(ctx)
	a.status.End()
	var sig signalError
	var exit exitError
	switch {
	case err == nil:
		return exitOK
	case errors.Is(err, errReported):
		return exitFailure
	case errors.As(err, &sig):
		return exitSignal + int(sig.signal)
	case errors.As(err, &exit):
		return int(exit)
	}
	a.printError(err)
	var usage *usageError
	if errors.As(err, &usage) {
		return exitUsage
	}
	return exitFailure
}

// signalError is the cause of a context that a signal ended.
type signalError struct{ signal syscall.Signal }

func (e signalError) Error() string { return "stopped by " + e.signal.String() }

// stuckAfter is how long a second signal waits for the terminal to take a last line.
const stuckAfter = 500 * time.Millisecond

// catchSignals returns a context that ends with the first signal. stop gives the
// signals back and waits.
func (a *app) catchSignals() (ctx context.Context, stop func()) {
	ctx, cancel := context.WithCancelCause(context.Background())
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	done := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		for n := 0; ; n++ {
			select {
			case <-done:
				return
			case s := <-signals:
				sig, _ := s.(syscall.Signal)
				if n > 0 {
					// Nobody may be reading the terminal.
					time.AfterFunc(stuckAfter, func() { os.Exit(exitSignal + int(sig)) })
					a.status.End()
					os.Exit(exitSignal + int(sig))
				}
				cancel(signalError{sig})
				if a.status.terminal {
					wg.Go(func() { a.status.Printf("stopping; press Ctrl-C again to stop at once") })
				}
			}
		}
	})
	return ctx, func() {
		signal.Stop(signals)
		close(done)
		wg.Wait()
		cancel(nil)
	}
}

// ended removes the error of a command that runs until it is told to stop, when
// it says no more than that it was told.
func ended(ctx context.Context, err error) error {
	var sig signalError
	if err != nil && ctx.Err() != nil && errors.As(context.Cause(ctx), &sig) &&
		(errors.Is(err, context.Canceled) || errors.As(err, &sig)) {
		return nil
	}
	return err
}

// truthy reports whether an environment variable is set to anything, which is
// how NO_COLOR is read.
func truthy(env func(string) (string, bool), key string) bool {
	v, _ := env(key)
	return strings.TrimSpace(v) != ""
}
