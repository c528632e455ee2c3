package handshake

import (
	"errors"
	"net/http"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/base/failure"
	"github.com/dragoman-mcp/dragoman/internal/protocol/dialect"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
	"github.com/dragoman-mcp/dragoman/internal/transport"
)

// ErrDiedOnProbe says that a server on a pipe exited before it answered server/discover. The caller
// must restart the server and open it with Offer.SkipProbe.
var ErrDiedOnProbe = errors.New("the server exited when it received server/discover")

// ErrRefusedAfterProbe says that a server on a pipe refused initialize after it had received
// server/discover. A bridge may open its own session with the first message that it gets, and then
// refuse initialize because that session exists. The caller should restart the server and open it
// with Offer.SkipProbe.
var ErrRefusedAfterProbe = errors.New("the server refused initialize after it received server/discover")

// ErrTrySSE says that initialize by POST was answered with 400, 404 or 405, and that the answer was
// not a modern error. The caller should connect to HTTP+SSE by GET (2026-07-28 §Streamable HTTP,
// "HTTP+SSE Transport (2024-11-05)"). If HTTP+SSE fails too, the caller should report the *Error
// that wraps ErrTrySSE.
var ErrTrySSE = errors.New("the server may use HTTP+SSE")

// Cause is a one-word reason for a failed handshake.
type Cause string

// These are the causes of failed handshakes.
const (
	CauseCancelled       Cause = "cancelled"         // the caller's ctx was cancelled
	CauseTimeout         Cause = "timeout"           // no answer before the timeout
	CauseExited          Cause = "exited"            // the pipe ended
	CauseUnreachable     Cause = "unreachable"       // Dragoman could not connect, or the connection broke
	CauseAuth            Cause = "auth"              // status 401, 403 or 407
	CauseRateLimited     Cause = "rate_limited"      // status 429
	CauseUnavailable     Cause = "unavailable"       // status 503
	CauseServerError     Cause = "server_error"      // any other status 5xx
	CauseRefused         Cause = "refused"           // an error without further information
	CauseNotReady        Cause = "not_ready"         // the server was not ready after all retries
	CauseNoCommonVersion Cause = "no_common_version" // the server lists only versions that Dragoman does not support
	CausePinned          Cause = "pinned"            // the server does not support the pinned revision
	CauseBadAnswer       Cause = "bad_answer"        // the answer is unreadable, or not MCP
	CauseEcho            Cause = "echo"              // the server sends Dragoman's own messages back
	CauseDialect         Cause = "dialect"           // the server speaks a known protocol that is not MCP; see Error.Dialect
)

// DialectAppServer is the protocol of Codex's app-server, under the name that the configuration and
// --dialect use. The handshake detects this protocol by the answer to initialize, or by a status line
// (see StatusLines). The protocol is not MCP, so Dragoman needs an adapter for it.
const DialectAppServer = dialect.CodexAppServer

// Error is a failed handshake. If the cause is a *transport.StatusError, errors.As finds it. The
// *transport.StatusError contains the challenge of a 401.
type Error struct {
	Step  string // the state in which the handshake failed: "probe", "initialize", "initialized"
	Cause Cause
	// Text is one sentence that says what was sent, what was answered, and what to do. The parts of
	// Text that come from the server are printable and at most 200 bytes long.
	Text  string
	Trace Trace
	// RetryAfter is the delay that the server asked for, or 0 if it asked for none.
	RetryAfter time.Duration
	// Dialect and Answer are set only if Cause is CauseDialect. Dialect is the protocol that the
	// server speaks instead of MCP, and Answer is the server's initialize result, as JSON. Answer is
	// nil if a status line has shown the dialect.
	Dialect string
	Answer  []byte
	// Err is ErrDiedOnProbe, ErrRefusedAfterProbe, ErrTrySSE, the error of the Link, or several of
	// these errors joined.
	// Err is nil if the server's answer is the only reason for the failure.
	Err error

	healthy bool // true if the server was modern on an earlier connection

	// The following fields are for DescribeFailure.
	sent, got    string        // what was sent last, and what was answered
	unsent       bool          // the message could not even be sent; got says why
	answer       string        // the message of an error answer, at most 200 bytes
	waited       time.Duration // the timeout of the handshake, if it has expired
	theirs, ours []string      // the versions of the server and of Dragoman; if a version is pinned, ours contains only that version
}

// DescribeFailure implements failure.Source.
func (e *Error) DescribeFailure(f *failure.Facts) {
	if f.Cause == "" {
		f.Cause = string(e.Cause)
	}
	if f.Sent == "" {
		f.Sent, f.Got, f.Answer, f.Unsent = e.sent, e.got, e.answer, e.unsent
	}
	if f.Waited == 0 {
		f.Waited = e.waited
	}
	if f.Theirs == nil && f.Ours == nil {
		f.Theirs, f.Ours = e.theirs, e.ours
	}
	if f.Dialect == "" {
		f.Dialect = e.Dialect
	}
	if f.RetryAfter == 0 {
		f.RetryAfter = e.RetryAfter
	}
}

func (e *Error) Error() string { return e.Text }

// Unwrap returns Err.
func (e *Error) Unwrap() error { return e.Err }

// Remember reports whether the failure should be stored for later connections to the server. It
// returns true if Dialect is set, or if the server exited when it received the probe and
// Offer.Known was not a modern revision. All other failures may be temporary.
func (e *Error) Remember() bool {
	return e.Dialect != "" || errors.Is(e.Err, ErrDiedOnProbe) && !e.healthy
}

// hints contains, for each cause, what happened or what the user can do.
var hints = map[Cause]string{
	CauseCancelled:       "the handshake was cancelled",
	CauseTimeout:         "check that the command or URL is an MCP server, or raise the timeout",
	CauseExited:          "run the command by hand and read its stderr",
	CauseUnreachable:     "check the address, and check that the server is running",
	CauseAuth:            "check the credentials that are configured for the server",
	CauseRateLimited:     "the server limits the rate of requests; try again later",
	CauseUnavailable:     "the server is overloaded or down; try again later",
	CauseServerError:     "check the server's log",
	CauseRefused:         "check the server's log for the reason",
	CauseNotReady:        "the server is still starting; try again later",
	CauseNoCommonVersion: "update the server or Dragoman",
	CausePinned:          "remove the configured revision, or choose another revision",
	CauseBadAnswer:       "check that the command or URL is an MCP server",
	CauseEcho:            "the server sends Dragoman's own messages back; check that the command or URL is an MCP server",
	CauseDialect:         "set the dialect of the server in the configuration",
}

// fail returns an error for the current state. It takes what was sent and what was answered from
// the last step of the trace.
func (o *opening) fail(cause Cause, err error) *Error {
	e := &Error{Step: string(o.state), Cause: cause, Err: err, healthy: o.offer.Known.Modern()}
	var status *transport.StatusError
	if errors.As(err, &status) {
		e.RetryAfter = status.RetryAfter
	}
	hint := hints[cause]
	if cause == CauseRefused && status != nil && status.Msg == nil {
		// The server is probably a web server without an MCP endpoint at this path.
		hint = hints[CauseBadAnswer]
	}
	if cause == CauseAuth && status != nil {
		switch status.Status {
		case http.StatusForbidden:
			// Servers that protect against DNS rebinding also answer with 403 (2025-03-26
			// §Transports, "Security Warning").
			hint = "check the permissions of the credentials, and which host name the server expects"
		case http.StatusProxyAuthRequired:
			hint = "check the credentials for the proxy"
		}
	}
	if e.RetryAfter > 0 && (cause == CauseRateLimited || cause == CauseUnavailable) {
		hint = "try again in " + e.RetryAfter.String()
	}
	e.Text = o.sentence(hint)
	e.sent, e.got = o.last()
	e.unsent = o.unsent != "" && e.got == o.unsent
	e.answer, e.theirs = o.answer, o.theirs
	if o.timedUp {
		e.waited = o.whole
	}
	if e.ours = mcp.Dates(mcp.Revisions()); o.offer.Pin != mcp.Unknown {
		e.ours = []string{o.offer.Pin.String()}
	}
	return e
}

// last returns what was sent last, and what was answered.
func (o *opening) last() (sent, got string) {
	if len(o.trace) == 0 {
		return "", ""
	}
	last := o.trace[len(o.trace)-1]
	sent, got = last.Sent, last.Got
	for i := len(o.trace) - 2; sent == "" && i >= 0; i-- {
		sent = o.trace[i].Sent
	}
	return sent, got
}

// sentence returns one sentence that says what was sent last, what was answered, and what to do.
func (o *opening) sentence(hint string) string {
	if len(o.trace) == 0 {
		return hint
	}
	sent, got := o.last()
	if o.unsent != "" && got == o.unsent {
		return got + "; " + hint
	}
	return "sent " + sent + ", got " + got + ": " + hint
}
