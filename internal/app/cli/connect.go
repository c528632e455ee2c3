package cli

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/spf13/cobra"

	"github.com/dragoman-mcp/dragoman/internal/app/daemon"
	"github.com/dragoman-mcp/dragoman/internal/app/runtime"
	"github.com/dragoman-mcp/dragoman/internal/setup/config"
)

// showProgress shows the current step on stderr, unless --quiet is set.
func (a *app) showProgress() {
	if !a.quiet {
		a.status.Begin()
	}
}

// signalOr returns the signal that ended ctx, because err is only a consequence of this signal. If
// no signal ended ctx, or if err is nil, it returns err.
func signalOr(ctx context.Context, err error) error {
	var sig signalError
	if err != nil && errors.As(context.Cause(ctx), &sig) {
		return sig
	}
	return err
}

// clientFlags are the flags of the commands that act as a client of one server.
type clientFlags struct {
	t       targetFlags
	file    string
	direct  bool
	timeout time.Duration
}

func (f *clientFlags) add(c *cobra.Command) {
	c.Flags().DurationVar(&f.timeout, "timeout", 0, "give up after this `TIME`, such as 30s, including the start of the server (default: the configured limits)")
	c.Flags().BoolVar(&f.direct, "direct", false, "start a configured server even if \"dragoman serve\" already runs it")
	addConfigFlag(c, &f.file)
	f.t.add(c.Flags())
}

// onServer opens a session with the server that w describes, runs body, and closes the session.
func (a *app) onServer(ctx context.Context, w where, f *clientFlags, ask *asker, body func(context.Context, Session, config.Server) error) error {
	if f.timeout < 0 {
		return usagef("use a duration such as 30s", "--timeout must not be negative")
	}
	server, file, err := a.target(&f.t, w.target, w.command, w.file)
	if err != nil {
		return err
	}
	a.secrets = server.Secrets()
	// Log no warnings, because the error of the command already describes the problem.
	a.startLog(slog.LevelError, nil)
	if f.timeout > 0 {
		server.CallTimeout, server.CallMax = max(server.CallTimeout, f.timeout), max(server.CallMax, f.timeout)
		limited, cancel := context.WithTimeoutCause(ctx, f.timeout, timeoutError{f.timeout})
		defer cancel()
		ctx = limited
	}
	through := false
	if w.configured() && !f.direct {
		server, through = a.throughServe(ctx, server, w.file)
	}
	if w.configured() && !through {
		if err := a.consent(ctx, w.file, file); err != nil {
			return err
		}
	}
	// Check the variables of the server only after throughServe, because a running serve process
	// may have a variable that is not set here.
	if err := usable(server); err != nil {
		return err
	}
	err = a.withSession(ctx, server, ask, func(s Session) error { return body(ctx, s, server) })
	var late timeoutError
	if err != nil && errors.As(context.Cause(ctx), &late) {
		if said, ok := errors.AsType[unansweredError](err); ok {
			return said
		}
		return late
	}
	if f := a.servedFailure(ctx, err, server.Name, w.file, through); f != nil {
		return f
	}
	return err
}

// connect opens a session. If ask is nil, the session declines all requests of the server for
// input. It still declares support for these requests, because some servers do not list a tool that
// asks for input if the client does not support such requests.
func (a *app) connect(ctx context.Context, s config.Server, ask *asker) (Session, error) {
	a.showProgress()
	o := daemon.ConnectOptions{Server: s, Log: a.log, Progress: a.status.Step, Version: version()}
	if ask == nil {
		o.Pages = true
		o.Answer = func(context.Context, runtime.Question) runtime.Answer { return runtime.Answer{Action: "decline"} }
	} else {
		ask.server = s.Name
		o.Roots, o.Refused = ask.roots, ask.refused
		if ask.answers() {
			o.Answer, o.Pages = ask.answer, ask.canAsk() || ask.decline
		}
	}
	session, err := a.backend.Connect(ctx, o)
	if err != nil {
		return nil, err
	}
	return session, nil
}

// withSession opens a session with s, runs body and closes the session.
func (a *app) withSession(ctx context.Context, s config.Server, ask *asker, body func(Session) error) error {
	session, err := a.connect(ctx, s, ask)
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
