package handshake

import (
	"errors"
	"net/http"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/transport"
)

// ErrDiedOnProbe says that a pipe ended while server/discover was waited for. The
// caller starts the server again and opens with SkipProbe.
var ErrDiedOnProbe = errors.New("the server ended on the probe")

// ErrTrySSE says that initialize by POST was answered with 400, 404 or 405 and
// with no modern error. The caller dials HTTP+SSE by GET (2026-07-28 §Streamable
// HTTP, "HTTP+SSE Transport (2024-11-05)"); when that fails too, the *Error that
// wraps this one is the better report.
var ErrTrySSE = errors.New("the address may speak HTTP+SSE")

// Cause is one word for why a handshake failed.
type Cause string

// The causes.
const (
	CauseCancelled       Cause = "cancelled"         // the caller's ctx ended
	CauseTimeout         Cause = "timeout"           // no answer in time
	CauseExited          Cause = "exited"            // the pipe ended
	CauseUnreachable     Cause = "unreachable"       // no connection, or it broke
	CauseAuth            Cause = "auth"              // 401, 403, 407
	CauseRateLimited     Cause = "rate_limited"      // 429
	CauseUnavailable     Cause = "unavailable"       // 503
	CauseServerError     Cause = "server_error"      // any other 5xx
	CauseRefused         Cause = "refused"           // an error that says no more than that
	CauseNotReady        Cause = "not_ready"         // still not, after all retries
	CauseNoCommonVersion Cause = "no_common_version" // the server says which ones it speaks
	CausePinned          Cause = "pinned"            // not the revision that the operator chose
	CauseBadAnswer       Cause = "bad_answer"        // unreadable, or not MCP
	CauseDialect         Cause = "dialect"           // JSON-RPC that is not MCP, but known; see Dialect
)

// DialectAppServer is what Codex's app-server speaks, as its answer to initialize
// gives away: no MCP, so that it needs more than other words.
const DialectAppServer = "app-server"

// Error is a handshake that failed. errors.As finds the *transport.StatusError
// behind it where there is one, and with it the challenge of a 401.
type Error struct {
	Step  string // the state in which it failed: "probe", "initialize", "initialized"
	Cause Cause
	// Text is one sentence: what was sent, what came back, what to do. What the
	// server said in it is printable and at most 200 bytes long.
	Text  string
	Trace Trace
	// RetryAfter is how long the server asked to be left alone, 0 if it did not.
	RetryAfter time.Duration
	// Dialect names what the server speaks instead, "" unless Cause is
	// CauseDialect; Answer is then its initialize result, JSON.
	Dialect string
	Answer  []byte
	// Err is ErrDiedOnProbe, ErrTrySSE, what the Link returned, or several of
	// these; nil when the server's own answer is all there is.
	Err error

	healthy bool // it has answered a probe at an earlier connection
}

func (e *Error) Error() string { return e.Text }

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// Remember reports whether the failure is a trait of the server that later
// connections should start from: that it dies on the probe, which one that was
// Known to be modern does not, or speaks a dialect. All others may pass.
func (e *Error) Remember() bool {
	return e.Dialect != "" || errors.Is(e.Err, ErrDiedOnProbe) && !e.healthy
}

// hints say what to do, by cause.
var hints = map[Cause]string{
	CauseCancelled:       "it was called off",
	CauseTimeout:         "check that this is an MCP server and what it is waiting for, or allow it more time",
	CauseExited:          "run its command by hand, or read what it wrote to standard error",
	CauseUnreachable:     "check the address and that the server is running",
	CauseAuth:            "sign in again, or check the credential that is configured for it",
	CauseRateLimited:     "it asks for fewer requests, so try again later",
	CauseUnavailable:     "it is overloaded or down, so try again later",
	CauseServerError:     "look into the server's own log",
	CauseRefused:         "look into the server's own log for what it wants",
	CauseNotReady:        "it is still starting, so try again later",
	CauseNoCommonVersion: "one of the two has to be updated",
	CausePinned:          "remove the pinned revision or choose another",
	CauseBadAnswer:       "check that the address or command is that of an MCP server",
	CauseDialect:         "it has to be configured as such",
}

// fail makes the error of the current state. The last step of the trace says
// what was sent and what came back.
func (o *opening) fail(cause Cause, err error) *Error {
	e := &Error{Step: string(o.state), Cause: cause, Err: err, healthy: o.offer.Known.Modern()}
	var status *transport.StatusError
	if errors.As(err, &status) {
		e.RetryAfter = status.RetryAfter
	}
	hint := hints[cause]
	if cause == CauseRefused && status != nil && status.Msg == nil {
		// A web server that knows nothing of MCP at this place.
		hint = hints[CauseBadAnswer]
	}
	if cause == CauseAuth && status != nil {
		switch status.Status {
		case http.StatusForbidden:
			// Servers that guard against DNS rebinding answer so, too (2025-03-26
			// §Transports, "Security Warning").
			hint = "check what its credential allows, and by which host name it wants to be called"
		case http.StatusProxyAuthRequired:
			hint = "check the credential of the proxy on the way to it"
		}
	}
	if e.RetryAfter > 0 && (cause == CauseRateLimited || cause == CauseUnavailable) {
		hint = "try again in " + e.RetryAfter.String()
	}
	e.Text = o.sentence(hint)
	return e
}

// sentence joins what was sent last, what came back, and what to do.
func (o *opening) sentence(hint string) string {
	if len(o.trace) == 0 {
		return hint
	}
	last := o.trace[len(o.trace)-1]
	sent, got := last.Sent, last.Got
	for i := len(o.trace) - 2; sent == "" && i >= 0; i-- {
		sent = o.trace[i].Sent
	}
	if o.unsent != "" && got == o.unsent {
		return got + "; " + hint
	}
	return "sent " + sent + ", got " + got + ": " + hint
}
