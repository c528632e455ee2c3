package upstream

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/base/excerpt"
	"github.com/dragoman-mcp/dragoman/internal/base/failure"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
	"github.com/dragoman-mcp/dragoman/internal/relay/handshake"
	"github.com/dragoman-mcp/dragoman/internal/transport/stdio"
)

// The functions in this file convert server failures to failure.Failure. The status, the log and
// the errors for clients use the same Failure.

// stderrLines is how many of the last lines of stderr are searched for the cause of a failure.
const stderrLines = 200

// exitGrace is how long Dragoman waits for a child to exit after the child has closed its stdout.
// Most children close their stdout because they exit.
const exitGrace = 5 * time.Second

// callGrace is the same for the callers that wait for an answer. Nobody can send this answer any
// more, so the callers get their errors soon, if necessary without the exit status.
const callGrace = 500 * time.Millisecond

// facts returns the facts about the server that are the same for every failure.
func (c *core) facts() failure.Facts {
	f := failure.Facts{Server: c.spec.Name, Given: c.spec.Given, ByClient: c.spec.OneClient, Command: c.spec.Command, Args: c.spec.Args, Runner: c.spec.Runner, Clean: c.opts.Clean}
	if c.spec.Command == "" {
		f.Address = c.spec.Shown
	}
	for _, h := range c.spec.Header {
		f.Credentials = f.Credentials || excerpt.SecretName(h.Name)
	}
	return f
}

// childError is the error of a failed handshake, with the exit status and the output of the child
// process.
type childError struct {
	err    error
	exit   string   // how the child exited; "" if it did not exit by itself
	stderr []string // the last lines of stderr
	noise  []string // lines of stdout that are not messages
	// withheld are the environment variables that stderr mentions but that the child did not get;
	// see stdio.Process.Withheld.
	withheld []string
}

func (e *childError) Error() string { return e.err.Error() }
func (e *childError) Unwrap() error { return e.err }

// DescribeFailure implements failure.Source.
func (e *childError) DescribeFailure(f *failure.Facts) {
	if f.Exit == "" && f.Stderr == nil {
		f.Exit, f.Stderr, f.Stdout, f.Withheld = e.exit, e.stderr, e.noise, e.withheld
	}
}

// withChild stops a child whose handshake has failed, and returns err with the child's exit status
// and output.
func (c *core) withChild(err error, child *stdio.Process) error {
	e := &childError{err: err}
	var failed *handshake.Error
	if errors.As(err, &failed) && failed.Cause == handshake.CauseExited {
		e.exit = c.exitOf(child, exitGrace)
	}
	_ = child.Stop(context.Background())
	e.stderr, e.noise, e.withheld = child.StderrTail(stderrLines), child.Pipe().Noise(), child.Withheld()
	if e.exit == "" {
		e.stderr = slices.DeleteFunc(e.stderr, brokenPipe)
	}
	return e
}

// brokenPipe reports whether a line on stderr only says that the pipe of the process is broken. If
// Dragoman has closed the pipe, because it ends a child that did not answer, the line is not the cause.
func brokenPipe(line string) bool {
	return strings.Contains(line, "EPIPE") || strings.Contains(strings.ToLower(line), "broken pipe") || strings.Contains(line, "BrokenPipeError")
}

// exitOf waits until a child that has closed its stdout exits, and describes the exit. If the child
// does not exit by itself within grace, exitOf returns "".
func (c *core) exitOf(child *stdio.Process, grace time.Duration) string {
	late := time.NewTimer(grace)
	defer late.Stop()
	select {
	case <-child.Exited():
		return child.ExitText()
	case <-late.C:
	case <-c.graceful.Done():
	}
	return ""
}

// unavailable returns the error for a call that gets no session. The parameter word becomes the
// Cause of the error.
func (c *core) unavailable(cause error, word string) *mcp.Error {
	e := &mcp.Error{
		Origin: mcp.FromGateway, Upstream: c.spec.Name, Outcome: mcp.NotSent, Cause: word,
		Retryable: word != "removed" && word != "stopped", Op: "open " + c.spec.Name, Err: cause,
	}
	switch word {
	case "removed":
		e.Failure, e.Message = c.removed, c.removed.Text()
	case "stopped":
		e.Failure, e.Message = c.stoppedFailure, c.stoppedFailure.Text()
	case "cancelled":
		e.Failure, e.Message = c.cancelled, c.cancelled.Text()
	}
	return e
}

// explain adds the failure f to the error e, and replaces the message of e with the text of f.
func (c *core) explain(e *mcp.Error, f *failure.Failure) {
	e.Failure, e.Exposed = f, c.opts.Exposed
	if c.opts.Exposed {
		f = f.Public()
	}
	e.Message = f.Text()
}

// openError converts err, the reason why the server could not be opened, to an error for clients
// and operators. The parameter seen has what lookAround has found, such as an MCP
// endpoint.
func (c *core) openError(err error, seen around) *mcp.Error {
	e := c.unavailable(err, "connect")
	var he *handshake.Error
	var start *stdio.StartError
	var refused *notAdmitted
	switch {
	case errors.As(err, &refused):
		e.Cause = "not_admitted"
	case errors.As(err, &he):
		e.Cause = string(he.Cause)
		e.RetryAfter = he.RetryAfter
	case errors.As(err, &start):
		e.Cause = "exec"
		e.Retryable = !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, exec.ErrNotFound)
	case c.spec.Command != "":
		e.Cause = "exec"
	}
	f := c.facts()
	f.Cause, f.Found = e.Cause, seen.endpoints
	if seen.tls {
		f.Class = failure.WrongScheme
	}
	f.Unready = e.Cause == string(handshake.CauseCancelled) && c.life.Err() != nil
	c.explain(e, failure.Of(err, f))
	return e
}

// gaveUp returns the error for a caller that waited for a session until its context ended. starting
// says that the server was being opened. A client that cancels its request gets no answer, so whoever
// reads this error wants to know what the server was doing.
func (b *broker) gaveUp(cause error, starting bool) *mcp.Error {
	e := b.unavailable(cause, "cancelled")
	if !starting {
		return e
	}
	f := b.facts()
	f.Cause, f.Unready = "cancelled", true
	if errors.Is(cause, context.DeadlineExceeded) {
		f.Sentence, f.Action = "server "+strconv.Quote(b.spec.Name)+" is still starting", "try again later"
		if b.spec.Runner != "" {
			f.Action += "; " + b.spec.downloading()
		}
	}
	b.update(func(st *state) {
		if before := st.health.fault.Failure; before != nil && st.health.backoff.Failures() > 0 {
			f.Stderr = []string{before.Sentence}
		}
	})
	b.explain(e, failure.Of(cause, f))
	return e
}

// CheckCommand checks whether the server's command can be started on this machine. If not, it
// returns the error that starting the server would return. If the server has no command, it returns
// nil. CheckCommand neither starts the command nor records the error.
func (u *Upstream) CheckCommand() error {
	if u.spec.Command == "" || u.spec.Unusable != nil {
		return nil
	}
	if err := stdio.Check(u.process(nil)); err != nil {
		return u.openError(err, around{})
	}
	return nil
}

// RecordFailure logs an error from CheckCommand, and records it like the error of a failed attempt
// to open the server. Calls get this error until the next attempt.
func (u *Upstream) RecordFailure(err error) {
	why := u.failureOf(err)
	u.update(func(st *state) {
		if !st.ops.closed && !st.ops.stopped {
			u.healer.openFailed(st, err, why)
		}
	})
}

// failureOf converts an error from openError or unavailable to a failure.
func (c *core) failureOf(err error) *failure.Failure { return failure.Of(err, c.facts()) }

// withRemains returns the error of a call. If the child exited during the call, the result is a
// copy of err with the child's exit status and output. withRemains does not change err itself,
// because err is also the cause of the session's end.
func (c *core) withRemains(s *session, err error) error {
	var e *mcp.Error
	if s.child == nil || !errors.As(err, &e) || e.Cause != "exited" {
		return err
	}
	out := *e
	e = &out
	f := c.facts()
	f.Call, f.Cause = true, e.Cause
	f.Exit, f.Stderr, f.Withheld = c.exitOf(s.child, callGrace), s.child.StderrTail(stderrLines), s.child.Withheld()
	c.explain(e, failure.Of(e.Err, f))
	return e
}

// endFailure returns the failure for a session that has endFailure by itself. The parameter exit describes
// how the child process exited. It is "" if there is no child process, or if the child did not exit
// by itself.
func (c *core) endFailure(s *session, cause error, exit string) *failure.Failure {
	f := c.facts()
	f.Running, f.Class = true, failure.CutOff
	if s.child != nil {
		f.Class, f.Cause = failure.Exited, "exited"
		f.Exit, f.Stderr, f.Withheld = exit, s.child.StderrTail(stderrLines), s.child.Withheld()
	}
	if errors.Is(cause, errUnresponsive) || errors.Is(cause, errStalled) {
		f.Class, f.Sentence = failure.Silent, fmt.Sprintf("server %q was restarted: %v", c.spec.Name, cause)
	}
	// Pass only the text of cause. If cause is the error of a call, it already contains another
	// failure.
	return failure.Of(errors.New(cause.Error()), f)
}
