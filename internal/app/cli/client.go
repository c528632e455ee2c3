package cli

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/spf13/cobra"

	"github.com/dragoman-mcp/dragoman/internal/app/daemon"
	"github.com/dragoman-mcp/dragoman/internal/app/runtime"
	"github.com/dragoman-mcp/dragoman/internal/base/failure"
	"github.com/dragoman-mcp/dragoman/internal/relay/event"
	"github.com/dragoman-mcp/dragoman/internal/setup/config"
	"github.com/dragoman-mcp/dragoman/internal/team/signin"
)

// showProgress shows the current step on stderr, unless --quiet is set.
func (w *world) showProgress() {
	if !w.quiet {
		w.status.Begin()
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

// client is what the commands share that act as a client of one server.
type client struct {
	*world
	t       targetFlags
	file    string
	project string
	direct  bool
	timeout time.Duration

	where   where            // the server that the command line names
	atURL   bool             // where is the endpoint of a project at foundAt, which the command has looked up
	through bool             // the server is reached through a serve
	rules   *config.Snapshot // the file that has the server, if Dragoman opens it itself; see runtime.ConnectOptions
	foundAt string           // the base URL of the serve process that has the server or the endpoint; see findElsewhere
	secrets []string         // the secrets in the settings of the server; see remember
}

// addFlags adds the flags of a client. A command that acts as a client calls it after it has added its
// own flags.
func (c *client) addFlags(cmd *cobra.Command) {
	cmd.Flags().DurationVar(&c.timeout, "timeout", 0, "give up after `TIME`, such as 30s, the server's start included (default: the configured limits)")
	cmd.Flags().BoolVar(&c.direct, "direct", false, "start a configured server even if \"dragoman serve\" already runs it")
	addProjectFlag(cmd.Flags(), &c.project)
	addConfigFlag(cmd, &c.file)
	c.t.add(cmd.Flags())
	cmd.Flags().Lookup("revision").Usage = "be a client of the protocol revision `DATE`; a configured server needs a running \"dragoman serve\" for that"
}

// endTime is how long a command waits for a handshake longer than --timeout says. The start timeout of the
// server ends the handshake in time, and then the server's process has two seconds to end. Only after that
// we know all that it printed, and so why it wasn't ready.
const endTime = 3 * time.Second

// startWithin limits the start timeout of a server.
func startWithin(s *config.Server, limit time.Duration) {
	if s.StartTimeout == 0 || s.StartTimeout > limit {
		s.StartTimeout = limit
	}
}

// onServer opens a session with the server that the command line names, runs body, and closes the session.
func (c *client) onServer(ctx context.Context, ask *asker, body func(context.Context, Session, config.Server) error) error {
	if c.timeout < 0 {
		return usagef("use a duration such as 30s", "--timeout must not be negative")
	}
	c.where.file = c.file
	whole := ctx // for the handshake; see endTime
	server, file, through, err := c.find(ctx)
	if err != nil {
		return err
	}
	if server.Disabled {
		return disabledServer(server.Name, file.File, c.where.file)
	}
	c.secrets = server.Secrets()
	// Log no warnings, because the error of the command already describes the problem.
	c.startLog(slog.LevelError, nil)
	if c.timeout > 0 {
		server.CallTimeout, server.CallMax = max(server.CallTimeout, c.timeout), max(server.CallMax, c.timeout)
		startWithin(&server, c.timeout)
		limited, cancel := context.WithTimeoutCause(ctx, c.timeout, timeoutError{c.timeout})
		defer cancel()
		opening, stop := context.WithTimeoutCause(ctx, c.timeout+endTime, timeoutError{c.timeout})
		defer stop()
		ctx, whole = limited, opening
	}
	if c.where.configured() && !through {
		if server, through, err = c.throughServe(ctx, server, file); err != nil {
			return err
		}
	}
	// Check the variables of the server only after throughServe, because a running serve process
	// may have a variable that is not set here.
	if err := usable(server); err != nil {
		return err
	}
	if through {
		if server.Revision, err = c.t.pin(); err != nil {
			return err
		}
	}
	opened := false
	c.through = through
	if file != nil && !through {
		c.rules = file.Snapshot
	}
	err = c.withSession(whole, server, ask, func(s Session) error {
		opened = true
		return body(ctx, s, server)
	})
	if f := failureIn(err); !opened && c.timeout > 0 && f != nil && f.Class == failure.Silent {
		return withHint(err, "%s; or allow more time with --timeout", f.Action)
	}
	var late timeoutError
	if err != nil && errors.As(context.Cause(ctx), &late) && (opened || failureIn(err) == nil) {
		if said, ok := errors.AsType[unansweredError](err); ok {
			return said
		}
		return late
	}
	if f := c.servedFailure(ctx, err, server.Name, through); f != nil {
		return f
	}
	return err
}

// find returns the configuration of the server that the command line names. through says that it reaches the
// server through a running serve; otherwise file may be the configuration file that has it.
func (c *client) find(ctx context.Context) (server config.Server, file *opened, through bool, err error) {
	if c.project != "" && !c.atURL {
		server, err = c.inProject(ctx)
		return server, nil, true, err
	}
	t := c.t
	if c.where.configured() {
		t.revision = "" // it's for the endpoint of a serve; see throughServe
	}
	server, file, err = t.target(c.env, c.where.target, c.where.command, c.where.file)
	if err != nil {
		server, err = c.findElsewhere(ctx, err)
		return server, nil, true, err
	}
	if c.atURL && c.t.special() == "" {
		server = locator{c.env}.withKey(ctx, server, c.foundAt)
	}
	return server, file, false, nil
}

// connect opens a session. If ask is nil, the session declines all requests of the server for
// input. It still declares support for these requests, because some servers do not list a tool that
// asks for input if the client does not support such requests.
//
// If the server wants a sign-in, connect signs the user in first, unless the server is reached through a serve, whose
// business that is.
func (c *client) connect(ctx context.Context, s config.Server, ask *asker) (Session, error) {
	c.showProgress()
	o := daemon.ConnectOptions{Server: s, Log: c.log, Progress: c.status.Step, Rules: c.rules, Version: version()}
	if s.URL != "" && !c.through {
		house := c.houseConfig(c.where.file)
		o.Server = likeConfigured(s, house)
		o.Desk = c.openDesk(house, false)
	}
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
	session, err := c.backend.Connect(ctx, o)
	var needed *signin.Needed
	if o.Desk != nil && errors.As(err, &needed) {
		if err = c.signIn(ctx, o.Desk.At(event.DefaultProject, o.Server), s.Name, needed.Of, signInWays{}); err == nil {
			session, err = c.backend.Connect(ctx, o)
		}
	}
	switch {
	case err == nil && o.Desk == nil:
		return session, nil
	case err == nil:
		return &signedSession{session, o.Desk}, nil
	case o.Desk != nil:
		o.Desk.Close()
	}
	return nil, err
}

// signedSession is a session for which the user may have signed in.
type signedSession struct {
	Session
	desk *daemon.Desk
}

// Close closes the session, and what signs its requests.
func (s *signedSession) Close() error {
	defer s.desk.Close()
	return s.Session.Close()
}

// withSession opens a session with s, runs body and closes the session.
func (c *client) withSession(ctx context.Context, s config.Server, ask *asker, body func(Session) error) error {
	session, err := c.connect(ctx, s, ask)
	if err != nil {
		return signalOr(ctx, err)
	}
	err = signalOr(ctx, body(session))
	c.status.End()
	if closing := session.Close(); closing != nil && !errors.Is(closing, context.Canceled) {
		c.log.LogAttrs(ctx, slog.LevelDebug, "the session did not close cleanly", slog.Any("error", closing))
	}
	return err
}
