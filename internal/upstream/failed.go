package upstream

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os/exec"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/excerpt"
	"github.com/dragoman-mcp/dragoman/internal/failure"
	"github.com/dragoman-mcp/dragoman/internal/handshake"
	"github.com/dragoman-mcp/dragoman/internal/mcp"
	"github.com/dragoman-mcp/dragoman/internal/transport/stdio"
)

// This file converts every failure of a server to a failure.Failure. The status, the log and
// the clients all get the same Failure.

// stderrLines is the number of the last lines of stderr that are searched for evidence.
const stderrLines = 200

// exitGrace is the time to wait for the exit of a child that has closed its stdout. Most children
// close their stdout because they exit.
const exitGrace = 5 * time.Second

// facts returns the facts about the server that do not depend on a failure.
func (u *Upstream) facts() failure.Facts {
	f := failure.Facts{Server: u.spec.Name, Given: u.spec.Given, ByClient: u.spec.OneClient, Command: u.spec.Command, Args: u.spec.Args, Clean: u.opts.Clean}
	if u.spec.Command == "" {
		f.Address = u.spec.Shown
	}
	for _, h := range u.spec.Header {
		f.Credentials = f.Credentials || excerpt.SecretName(h.Name)
	}
	return f
}

// childError adds the exit status and the output of a child to a failed handshake.
type childError struct {
	err    error
	exit   string   // the exit of the child; "" if it did not exit by itself
	stderr []string // the last lines of stderr
	noise  []string // lines of stdout that are not messages
	// withheld are environment variables that the child did not get and that stderr names; see
	// stdio.Process.Withheld.
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

// withChild ends a child whose handshake has failed, and adds the child's exit status and
// output to the error.
func (u *Upstream) withChild(err error, child *stdio.Process) error {
	e := &childError{err: err}
	var failed *handshake.Error
	if errors.As(err, &failed) && failed.Cause == handshake.CauseExited {
		e.exit = u.exitOf(child)
	}
	_ = child.Stop(context.Background())
	e.stderr, e.noise, e.withheld = child.StderrTail(stderrLines), child.Pipe().Noise(), child.Withheld()
	return e
}

// exitOf returns how a child that has closed its stdout has exited. It returns "" if the child
// does not exit by itself.
func (u *Upstream) exitOf(child *stdio.Process) string {
	late := time.NewTimer(exitGrace)
	defer late.Stop()
	select {
	case <-child.Exited():
		return child.ExitText()
	case <-late.C:
	case <-u.graceful.Done():
	}
	return ""
}

// unavailable returns the error for a call that got no session.
func (u *Upstream) unavailable(cause error, word string) *mcp.Error {
	e := &mcp.Error{
		Origin: mcp.FromGateway, Upstream: u.spec.Name, Outcome: mcp.NotSent, Cause: word,
		Retryable: word != "removed" && word != "stopped", Op: "open " + u.spec.Name, Err: cause,
	}
	switch word {
	case "removed":
		e.Failure, e.Message = u.removed, u.removed.Text()
	case "stopped":
		e.Failure, e.Message = u.stoppedFailure, u.stoppedFailure.Text()
	case "cancelled":
		e.Failure, e.Message = u.cancelled, u.cancelled.Text()
	}
	return e
}

// explain adds the failure to an error for clients, and replaces the error's message.
func (u *Upstream) explain(e *mcp.Error, f *failure.Failure) {
	e.Failure, e.Exposed = f, u.opts.Exposed
	if u.opts.Exposed {
		f = f.Public()
	}
	e.Message = f.Text()
}

// openError returns the error for clients and operators if the server could not be opened. The
// parameter found contains other URLs at which lookAround has found an MCP endpoint.
func (u *Upstream) openError(err error, found []string) *mcp.Error {
	e := u.unavailable(err, "connect")
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
	case u.spec.Command != "":
		e.Cause = "exec"
	}
	f := u.facts()
	f.Cause, f.Found = e.Cause, found
	u.explain(e, failure.Of(err, f))
	return e
}

// CheckCommand reports whether the server's command can be started on this machine. If not, it
// returns the same error as a start. It returns nil if the server has no command. It does not start
// the command or record the error.
func (u *Upstream) CheckCommand() error {
	if u.spec.Command == "" || u.spec.Unusable != nil {
		return nil
	}
	if err := stdio.Check(u.process(nil)); err != nil {
		return u.openError(err, nil)
	}
	return nil
}

// RecordFailure logs an error of CheckCommand and records it like a failed attempt. Calls get
// this error until the next attempt.
func (u *Upstream) RecordFailure(err error) {
	why := u.failureOf(err)
	u.mu.Lock()
	defer u.unlock()
	if !u.closed {
		u.failedLocked(err, why)
	}
}

// failureOf returns the failure of an error from openError or unavailable.
func (u *Upstream) failureOf(err error) *failure.Failure { return failure.Of(err, u.facts()) }

// withRemains returns the error of a call. If the child exited during the call, it adds the
// child's exit status and output. It returns a new error, because err is also the reason for
// the end of the session.
func (u *Upstream) withRemains(s *session, err error) error {
	var e *mcp.Error
	if s.child == nil || !errors.As(err, &e) || e.Cause != "exited" {
		return err
	}
	out := *e
	e = &out
	f := u.facts()
	f.Call, f.Cause = true, e.Cause
	f.Exit, f.Stderr, f.Withheld = u.exitOf(s.child), s.child.StderrTail(stderrLines), s.child.Withheld()
	u.explain(e, failure.Of(e.Err, f))
	return e
}

// ended returns the failure of a server whose session has ended by itself. If the server has a
// child process, this process has been stopped. exit says how the process exited. It is "" if
// Dragoman stopped the process.
func (u *Upstream) ended(s *session, cause error, exit string) *failure.Failure {
	f := u.facts()
	f.Running, f.Class = true, failure.CutOff
	if s.child != nil {
		f.Class, f.Cause = failure.Exited, "exited"
		f.Exit, f.Stderr, f.Withheld = exit, s.child.StderrTail(stderrLines), s.child.Withheld()
	}
	if errors.Is(cause, errUnresponsive) || errors.Is(cause, errStalled) {
		f.Class, f.Sentence = failure.Silent, fmt.Sprintf("server %q was restarted: %v", u.spec.Name, cause)
	}
	// Use only the text of the cause. The cause may be the error of a call, which contains another
	// failure.
	return failure.Of(errors.New(cause.Error()), f)
}
