package cli

import (
	"context"
	"errors"
	"os"
	"os/signal"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/term"

	"github.com/dragoman-mcp/dragoman/internal/transport/stdio"
)

// The exit codes.
const (
	exitOK      = 0
	exitFailure = 1
	exitUsage   = 2
	exitSignal  = 128 // plus the number of the signal
)

// Main runs the command line of this process and returns its exit code. The first SIGINT or SIGTERM
// shuts the command down gracefully. The second signal ends the process immediately, with the exit
// code 130 or 143.
func Main(b Backend) int {
	a := &app{world: world{
		backend: b, stdin: os.Stdin, stdout: os.Stdout, env: os.LookupEnv,
		screen: isTerminal(os.Stdout),
	}}
	if a.screen {
		if w, _, err := term.GetSize(int(os.Stdout.Fd())); err == nil {
			a.width = w
		}
	}
	self, _ := os.Executable()
	a.program = programName(os.Args[0], self)
	a.status = newStatus(os.Stderr, isTerminal(os.Stderr), a.env)
	a.keyboard = isTerminal(os.Stdin)
	a.interactive = a.keyboard && isTerminal(os.Stderr)
	a.openInput, a.rawInput = stdio.Input, rawInput
	return a.main(os.Args[1:])
}

func isTerminal(f *os.File) bool { return term.IsTerminal(int(f.Fd())) }

func rawInput() (show func(), err error) {
	fd := int(os.Stdin.Fd())
	before, err := term.MakeRaw(fd)
	if err != nil {
		return nil, err
	}
	return func() { _ = term.Restore(fd, before) }, nil
}

// app is one run of the program: it reads the command line, runs the command and turns what comes
// of it into messages and an exit code.
type app struct {
	world
	given  commandLine // the command and its arguments; set when the command has ended
	noHelp error       // the error if help is requested for an unknown command; otherwise nil
}

// errReported ends a command with exit code 1. It prints no message, because the command has
// already printed a message.
var errReported = errors.New("reported")

func (a *app) main(args []string) int {
	ctx, stop := a.catchSignals()
	defer stop()
	if wantsRecords(args) {
		a.status.recordsOnly()
	}
	root := a.root()
	root.SetArgs(args)
	command, err := root.ExecuteContextC(ctx)
	if command != nil {
		a.given = commandLine{command.Name(), args}
	}
	if err == nil {
		err = a.noHelp
	}
	a.status.End()
	if a.people != nil {
		a.people.Close()
	}
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
	var coded withCode
	switch {
	case errors.As(err, &usage):
		return exitUsage
	case errors.As(err, &coded):
		return coded.code
	}
	return exitFailure
}

// signalError is the cause of a context that a signal ended. It contains this signal.
type signalError struct{ signal syscall.Signal }

func (e signalError) Error() string { return "stopped by " + e.signal.String() }

// stuckAfter is how long the process waits for stderr after the second signal.
const stuckAfter = 500 * time.Millisecond

// catchSignals returns a context that ends when the first signal arrives. stop restores the default
// handling of signals and waits for the goroutine that receives the signals.
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
					// Set a timer first, because End writes to stderr, and this write may block
					// forever.
					time.AfterFunc(stuckAfter, func() { os.Exit(exitSignal + int(sig)) })
					a.status.End()
					os.Exit(exitSignal + int(sig))
				}
				cancel(signalError{sig})
				if a.status.terminal {
					wg.Go(func() {
						if sig == syscall.SIGINT {
							_, _ = a.status.Write([]byte("\n")) // start a new line, because the terminal has shown ^C on the current line
						}
						a.status.Printf("stopping; press Ctrl-C again to stop at once")
					})
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

// withoutStop returns nil if err means only that a signal stopped the command. Otherwise, it
// returns err. It is for commands that run until they get a signal.
func withoutStop(ctx context.Context, err error) error {
	var sig signalError
	if err != nil && ctx.Err() != nil && errors.As(context.Cause(ctx), &sig) &&
		(errors.Is(err, context.Canceled) || errors.As(err, &sig)) {
		return nil
	}
	return err
}

// interrupted does the same as withoutStop, except that it returns a signalError if the signal was
// SIGINT. The exit code of this error shows scripts that the command did not finish.
func interrupted(ctx context.Context, err error) error {
	var sig signalError
	if err = withoutStop(ctx, err); err == nil && errors.As(context.Cause(ctx), &sig) && sig.signal == syscall.SIGINT {
		return sig
	}
	return err
}

// truthy reports whether an environment variable, such as NO_COLOR, is set and not blank.
func truthy(env func(string) (string, bool), key string) bool {
	v, _ := env(key)
	return strings.TrimSpace(v) != ""
}
