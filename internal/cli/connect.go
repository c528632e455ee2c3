package cli

import (
	"context"
	"errors"
	"log/slog"
	"strings"

	"github.com/dragoman-mcp/dragoman/internal/config"
	"github.com/dragoman-mcp/dragoman/internal/daemon"
)

// begin shows what is being waited for, unless nobody wants to know.
func (a *app) begin() {
	if !a.quiet {
		a.status.Begin()
	}
}

// interrupted returns the signal in place of whatever error followed from it.
func interrupted(ctx context.Context, err error) error {
	var sig signalError
	if err != nil && errors.As(context.Cause(ctx), &sig) {
		return sig
	}
	return err
}

// connect opens a conversation and, where the user wants to see it, shows how.
func (a *app) connect(ctx context.Context, s config.Server, answer func(string, []byte) ([]byte, string)) (Session, error) {
	a.begin()
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

// tracer returns what shows traces, nil when the user does not want to see them.
func (a *app) tracer() func(server, trace string) {
	if !a.verbose {
		return nil
	}
	return a.showTrace
}

func (a *app) showTrace(server, trace string) {
	if trace = strings.TrimRight(trace, "\n"); a.verbose && trace != "" {
		_, _ = a.status.Write([]byte("dragoman: handshake with " + clean(server) + ":\n" + cleanLines(trace) + "\n"))
	}
}

// talk runs body in a conversation with s.
func (a *app) talk(ctx context.Context, s config.Server, answer func(string, []byte) ([]byte, string), body func(Session) error) error {
	// What goes wrong is in the error that the command ends with.
	a.startLog(slog.LevelError, nil)
	session, err := a.connect(ctx, s, answer)
	if err != nil {
		return interrupted(ctx, err)
	}
	err = interrupted(ctx, body(session))
	a.status.End()
	if closing := session.Close(); closing != nil && !errors.Is(closing, context.Canceled) {
		a.log.LogAttrs(ctx, slog.LevelDebug, "the session did not close cleanly", slog.Any("error", closing))
	}
	return err
}
