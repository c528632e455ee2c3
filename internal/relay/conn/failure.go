package conn

import (
	"cmp"
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"syscall"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/base/excerpt"
	"github.com/dragoman-mcp/dragoman/internal/base/failure"
	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
	"github.com/dragoman-mcp/dragoman/internal/transport"
	"github.com/dragoman-mcp/dragoman/internal/transport/streamhttp"
)

// ErrSessionLost means that the server refused a call because it no longer knows the session. The
// call was not executed.
var ErrSessionLost = errors.New("the server has lost the session")

// ErrLinkOver means that the pipe ended before or during a call. The pipe accepts no further calls.
var ErrLinkOver = errors.New("the pipe to the server was closed")

// ErrWriteFailed means that no byte of a call was sent, because the pipe accepts no more messages.
// Answers to earlier calls may still arrive.
var ErrWriteFailed = errors.New("cannot write to the pipe to the server")

// ErrRemoved is the cause to pass to Close when the server was removed. The errors of the calls that
// Close ends contain this cause.
var ErrRemoved = errors.New("the server was removed from the configuration")

// ErrStopped and ErrRestarted are the causes to pass to Close when an operator has stopped or
// restarted the server. The errors of the calls that Close ends contain this cause.
var (
	ErrStopped   = errors.New("the server was stopped by an operator")
	ErrRestarted = errors.New("the server was restarted by an operator")
)

// times returns the idle timeout and the total timeout of a call. A negative timeout is
// disabled.
func (c *Conn) times() (idle, hard time.Duration) {
	idle, hard = c.opts.Idle, c.opts.Hard
	if c.opts.Times != nil {
		idle, hard = c.opts.Times()
	}
	return cmp.Or(idle, defaultIdle), cmp.Or(hard, defaultHard)
}

// failure returns the error for a client whose call got no answer.
func (c *Conn) failure(ctx context.Context, a *mcp.Attempt, err error) *mcp.Error {
	e := &mcp.Error{
		Origin: mcp.FromGateway, Upstream: c.opts.Name, Outcome: mcp.OutcomeUnknown,
		Op: "call " + c.opts.Name + " " + excerpt.Name(a.Msg.Method), Err: err,
	}
	readOnly := a.Method != nil && a.Method.ReadOnly
	if errors.Is(err, transport.ErrNotSent) {
		e.Outcome = mcp.NotSent
	}
	var status *transport.StatusError
	cause := context.Cause(ctx)
	if cause == errClosed { // the connection's end, not the client's or the timeout's, ended the call
		ctx, cause = context.Background(), nil
	}
	switch {
	case errors.Is(cause, errIdle), errors.Is(cause, errHard), errors.Is(ctx.Err(), context.DeadlineExceeded):
		e.Cause, e.Message = "timeout", "the server did not answer in time"
	case errors.Is(cause, mcp.ErrCancelled):
		e.Cause, e.Message, e.Origin = "cancelled", "the request was cancelled", mcp.FromClient
	case errors.Is(cause, context.Canceled): // net/http uses this cause if the client disconnects
		e.Cause, e.Message, e.Origin = "cancelled", "the client disconnected before the answer arrived", mcp.FromClient
	case ctx.Err() != nil:
		e.Cause, e.Message = "shutdown", "the request ended before the answer arrived"
		if why := mcp.EndedBy(ctx); why != nil && error(why) != mcp.ErrShutdown {
			e.Cause, e.Message = why.Cause, why.Message
		}
	case errors.Is(context.Cause(c.life), ErrRemoved):
		e.Cause, e.Message = "removed", ErrRemoved.Error()
	case errors.Is(context.Cause(c.life), ErrStopped):
		e.Cause, e.Message = "stopped", ErrStopped.Error()
	case errors.Is(context.Cause(c.life), ErrRestarted):
		e.Cause, e.Message = "restarted", ErrRestarted.Error()
	case errors.Is(err, streamhttp.ErrSessionLost):
		if errors.As(err, &status) {
			c.status(e, status)
		}
		e.Cause, e.Message, e.Outcome = "session_lost", "the server has lost the session", mcp.NotSent
		e.Err = errors.Join(ErrSessionLost, err)
	case errors.Is(err, transport.ErrCredentials):
		e.Cause, e.Message = "auth_required", "no credentials for the server are configured for this client"
	case errors.Is(err, transport.ErrStalled), errors.Is(context.Cause(c.life), transport.ErrStalled):
		e.Cause, e.Message = "stalled", "the server has stopped reading"
	case errors.Is(err, streamhttp.ErrNoAnswer): // before the status, which a GET that resumes the stream may have got
		e.Cause, e.Message = "cut_off", "the server's HTTP response ended without the answer to the request"
	case errors.As(err, &status):
		c.status(e, status)
	case errors.Is(err, transport.ErrTooLarge):
		e.Cause, e.Message = "too_large", "the server's answer is too large"
	case errors.Is(err, transport.ErrEndless):
		e.Cause, e.Message = "too_large", "the server sent a message that is much larger than limits.message, and Dragoman closed the connection"
	case unusable(err) != "":
		e.Cause, e.Message = "bad_response", "the server's answer is not valid: "+unusable(err)
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, errClosed), errors.Is(err, io.ErrClosedPipe):
		e.Cause, e.Message = "exited", "the server exited before it answered"
		if c.opts.Posts { // the end of one connection says nothing about the server, or about the other calls
			e.Cause, e.Message = "cut_off", "the connection to the server ended before the answer"
		}
	default:
		e.Cause, e.Message = networkCause(err)
	}
	e.Retryable = e.Outcome == mcp.NotSent || readOnly
	c.explain(e, cause)
	return e
}

// explain sets e.Failure and replaces e.Message. The parameter timeout is the cause with which the
// context of the call ended.
func (c *Conn) explain(e *mcp.Error, timeout error) {
	f := failure.Facts{
		Server: c.opts.Name, Call: true, Cause: e.Cause, Clean: c.opts.Clean, Given: c.opts.Given,
		Credentials: c.opts.Credentials, Got: unusable(e.Err),
	}
	switch idle, hard := c.times(); {
	case errors.Is(timeout, errIdle):
		f.Waited = idle
	case errors.Is(timeout, errHard):
		f.Waited = hard
	}
	e.Failure = failure.Of(e.Err, f)
	e.Message = e.Failure.Text()
}

// status sets the fields of e for an HTTP response that is not an answer to the call.
func (c *Conn) status(e *mcp.Error, st *transport.StatusError) {
	e.RetryAfter = st.RetryAfter
	e.Outcome = mcp.Failed
	switch {
	case st.Status == 401 || st.Status == 403 || st.Status == 407:
		e.Cause, e.Message, e.Outcome = "auth_required", "the server or a proxy refused access", mcp.NotSent
	case st.Status == 429 || st.Status == 503:
		e.Cause, e.Message, e.Outcome = "overloaded", "the server is overloaded", mcp.NotSent
	case st.Status >= 500:
		e.Cause, e.Message, e.Outcome = "server_error", "the server failed with an HTTP error", mcp.OutcomeUnknown
	case st.Status >= 200 && st.Status < 300:
		e.Cause, e.Message, e.Outcome = "bad_response", "the server's response is not an MCP message", mcp.OutcomeUnknown
	default:
		e.Cause, e.Message = "bad_response", "the server refused the request with an HTTP error"
	}
	e.Data = append(append([]byte(`{"status":`), jsonrpc.IntID(int64(st.Status))...), '}')
}

func networkCause(err error) (cause, message string) {
	var dns *net.DNSError
	var op *net.OpError
	switch {
	case errors.As(err, &dns):
		return "dns", "the server's name could not be resolved"
	case errors.Is(err, syscall.ECONNREFUSED), errors.As(err, &op) && op.Op == "dial":
		return "connect", "the server could not be reached"
	case strings.Contains(err.Error(), "tls:"), strings.Contains(err.Error(), "x509:"):
		return "tls", "the TLS handshake with the server failed"
	}
	return "link", "the connection to the server broke"
}
