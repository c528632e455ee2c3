package cli

import (
	"context"
	"errors"
	"log/slog"
	"strconv"
	"strings"

	"github.com/dragoman-mcp/dragoman/internal/config"
	"github.com/dragoman-mcp/dragoman/internal/daemon"
)

// showProgress shows the current step on stderr, unless --quiet is set.
func (a *app) showProgress() {
	if !a.quiet {
		a.status.Begin()
	}
}

// signalOr returns the signal that ended ctx instead of err, which followed from it. It
// returns err if no signal ended ctx.
func signalOr(ctx context.Context, err error) error {
	var sig signalError
	if err != nil && errors.As(context.Cause(ctx), &sig) {
		return sig
	}
	return err
}

// connect opens a session. With --verbose it prints the trace of the handshake.
func (a *app) connect(ctx context.Context, s config.Server, answer func(string, []byte) ([]byte, string)) (Session, error) {
	a.showProgress()
	session, err := a.backend.Connect(ctx, daemon.ConnectOptions{
		Server: s, Log: a.log, Progress: a.status.Step, Answer: answer, Version: version(),
	})
	if err != nil {
		a.showTrace(s.Name, traceOf(err))
		return nil, err
	}
	a.showTrace(s.Name, session.Trace())
	return session, nil
}

// tracer returns the function that prints traces, or nil without --verbose.
func (a *app) tracer() func(server, trace string) {
	if !a.verbose {
		return nil
	}
	return a.showTrace
}

// showTrace prints the trace of a handshake, a line for each step.
func (a *app) showTrace(server, trace string) {
	trace = strings.TrimRight(trace, "\n")
	if !a.verbose || trace == "" {
		return
	}
	if a.status.records.Load() == nil {
		_, _ = a.status.Write([]byte("dragoman: handshake with " + clean(server) + ":\n" + cleanLines(trace) + "\n"))
		return
	}
	for line := range strings.Lines(trace) {
		attrs := []slog.Attr{slog.String("code", "handshake_step"), slog.String("server", clean(server))}
		text := clean(strings.TrimSpace(line))
		if at, step, ok := strings.Cut(text, " ms  "); ok {
			if ms, err := strconv.Atoi(at); err == nil {
				attrs, text = append(attrs, slog.Int("at_ms", ms)), step
			}
		}
		a.status.record(slog.LevelDebug, "handshake step", append(attrs, slog.String("step", strings.TrimSpace(text)))...)
	}
}

// withSession opens a session with s, runs body and closes the session.
func (a *app) withSession(ctx context.Context, s config.Server, answer func(string, []byte) ([]byte, string), body func(Session) error) error {
	// The error of the command already says what fails.
	a.startLog(slog.LevelError, nil)
	session, err := a.connect(ctx, s, answer)
	if err != nil {
		return signalOr(ctx, err)
	}
	err = signalOr(ctx, body(session))
	a.status.End()
	if closing := session.Close(); closing != nil && !errors.Is(closing, context.Canceled) {
		a.log.LogAttrs(ctx, slog.LevelDebug, "the session did not close cleanly", slog.Any("error", closing))
	}
	return err
}
