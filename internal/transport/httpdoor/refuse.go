package httpdoor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"runtime/debug"
	"strconv"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
)

// These header values are shared by all responses and must not be modified.
var (
	TypeJSON = []string{"application/json"}

	typeEvents = []string{"text/event-stream"}
	noStore    = []string{"no-cache, no-store"}
	noBuffer   = []string{"no"}
	closing    = []string{"close"}
	nosniff    = []string{"nosniff"}
)

// Denied is an error from an authenticator. It determines how the request is refused. A Status of 0
// means 401.
type Denied struct {
	Status     int
	Challenge  string        // the value of WWW-Authenticate; "" for none
	RetryAfter time.Duration // the value of Retry-After; 0 means none
	Reason     string        // the error message for the client; a constant text

	// Code is the error of RFC 6750 §3.1 if a bearer token is to blame, such as invalid_token, and Scopes are what
	// all of the request needs if it is insufficient_scope. Whoever knows the URL makes the Challenge of them.
	Code   string
	Scopes []string
	// Guessed says that the token was none, or that nobody vouches for it, so that its sender may be guessing.
	Guessed bool
	// Usual says that the token has only expired, as each does, so that nobody needs to hear of it.
	Usual bool
}

func (e *Denied) Error() string {
	if e.Reason == "" {
		return "not authorized"
	}
	return e.Reason
}

// drain is how long a refused request may take to send the rest of its body. net/http reads the
// rest of the body before it sends the response.
const drain = 5 * time.Second

// Refuse answers a request with an HTTP status and a JSON-RPC error. If id is empty, the error has
// no member id.
func Refuse(w http.ResponseWriter, status int, id jsonrpc.ID, e *jsonrpc.Error) {
	refuse(w, time.Now().Add(drain), status, id, e)
}

func refuse(w http.ResponseWriter, until time.Time, status int, id jsonrpc.ID, e *jsonrpc.Error) {
	_ = http.NewResponseController(w).SetReadDeadline(until)
	h := w.Header()
	h["Content-Type"] = TypeJSON
	h["X-Content-Type-Options"] = nosniff
	w.WriteHeader(status)
	_, _ = w.Write(jsonrpc.AppendError(make([]byte, 0, 160+len(e.Data)), id, e))
}

// RefuseAndClose does the same as Refuse, and closes the connection. It is for a request whose body
// was not read completely.
func RefuseAndClose(w http.ResponseWriter, status int, id jsonrpc.ID, e *jsonrpc.Error) {
	w.Header()["Connection"] = closing
	refuse(w, past, status, id, e)
}

// RefuseDenied answers a request that an authenticator has refused with err.
func RefuseDenied(w http.ResponseWriter, err error) {
	status := http.StatusUnauthorized
	out := &jsonrpc.Error{Code: jsonrpc.CodeInvalidRequest, Message: "not authorized"}
	var d *Denied
	if errors.As(err, &d) {
		out.Message = d.Error()
		if d.Status != 0 {
			status = d.Status
		}
		if d.Challenge != "" {
			w.Header()["Www-Authenticate"] = []string{d.Challenge}
		}
		SetRetryAfter(w, d.RetryAfter)
	}
	Refuse(w, status, "", out)
}

// SetRetryAfter sets the Retry-After header to d in whole seconds, rounded up. If d is 0, it sets
// no header.
func SetRetryAfter(w http.ResponseWriter, d time.Duration) {
	if d > 0 {
		s := int64((d + time.Second - 1) / time.Second)
		w.Header()["Retry-After"] = []string{strconv.FormatInt(s, 10)}
	}
}

// NotNow is why a request is refused that the client may send again later.
type NotNow struct {
	Status     int
	Cause, Why string // the cause and the message of the error
	After      time.Duration
}

// Stopping refuses requests while Dragoman stops. Another process may take them.
var Stopping = NotNow{http.StatusServiceUnavailable, "shutdown", "Dragoman is stopping", 5 * time.Second}

// RefuseForNow refuses a request for some time.
func RefuseForNow(w http.ResponseWriter, id jsonrpc.ID, x NotNow) {
	SetRetryAfter(w, x.After)
	Refuse(w, x.Status, id, mcp.Wire(&mcp.Error{
		Message:    x.Why,
		Origin:     mcp.FromGateway,
		Cause:      x.Cause,
		Outcome:    mcp.NotSent,
		Retryable:  true,
		RetryAfter: x.After,
	}))
}

// ErrInternal is the error that clients get when Dragoman fails because of a bug. It must not be
// modified.
var ErrInternal = mcp.Wire(&mcp.Error{
	Message: "internal error",
	Origin:  mcp.FromGateway,
	Cause:   "internal",
	Outcome: mcp.OutcomeUnknown,
})

// LogPanic logs a recovered panic. The text of a panic may contain anything, so clients do not
// get it.
func LogPanic(log *slog.Logger, endpoint string, p any) {
	log.LogAttrs(context.Background(), slog.LevelError, "panic while serving a request",
		slog.String("endpoint", endpoint),
		slog.String("panic", fmt.Sprint(p)),
		slog.String("stack", string(debug.Stack())))
}

// RefuseMethod answers a request with 405. allow lists the methods that the route allows.
func RefuseMethod(w http.ResponseWriter, allow string) {
	w.Header()["Allow"] = []string{allow}
	Refuse(w, http.StatusMethodNotAllowed, "", &jsonrpc.Error{Code: jsonrpc.CodeInvalidRequest, Message: "this HTTP method is not allowed at this path"})
}

// WriteLarge writes a body. Writing the body may take longer than the server's write timeout, but
// each part of 64 KiB, and the last one of at most 68, may take at most stall.
func WriteLarge(w http.ResponseWriter, r *http.Request, b []byte, stall time.Duration) error {
	rc := http.NewResponseController(w)
	for len(b) > 0 {
		_ = rc.SetWriteDeadline(time.Now().Add(stall))
		n := step(b)
		if err := Write(w, r, b[:n]); err != nil {
			return err
		}
		b = b[n:]
		if c, ok := r.Context().Value(connKey{}).(*conn); ok && r.TLS == nil && r.ProtoMajor == 1 && len(b) > 0 {
			c.stall = stall // so that Write takes the steps, and several at once where it can
			_, err := w.Write(b)
			c.stall = 0
			if err != nil {
				return err
			}
			break
		}
	}
	if hasWriteTimeout(r) {
		_ = rc.SetWriteDeadline(time.Now().Add(stall))
	} else {
		_ = rc.SetWriteDeadline(time.Time{})
	}
	return nil
}

// step returns how much of b is written next.
func step(b []byte) int {
	if len(b) > writeStep+headRoom {
		return writeStep
	}
	return len(b)
}

// Write does what w.Write does, but sends the head of the response and a long body in one write.
func Write(w http.ResponseWriter, r *http.Request, b []byte) error {
	c, ok := r.Context().Value(connKey{}).(*conn)
	if !ok {
		_, err := w.Write(b)
		return err
	}
	c.join()
	_, err := w.Write(b)
	return cmp.Or(err, c.joined())
}

// hasWriteTimeout reports whether r's server sets a write deadline for each request. If it does
// not, handlers must remove their own write deadlines, because these would also apply to the next
// request on the connection.
func hasWriteTimeout(r *http.Request) bool {
	server, _ := r.Context().Value(http.ServerContextKey).(*http.Server)
	return server != nil && server.WriteTimeout > 0
}
