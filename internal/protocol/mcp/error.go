package mcp

import (
	"context"
	"errors"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/base/failure"
	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
)

// MCP defines these error codes in addition to the codes of JSON-RPC (2026-07-28 §Base, "Error
// Codes").
const (
	CodeHeaderMismatch         = -32020
	CodeMissingCapability      = -32021
	CodeUnsupportedVersion     = -32022
	CodeResourceNotFound       = -32002 // only in legacy revisions
	CodeURLElicitationRequired = -32042 // only in 2025-11-25
)

// IsModernCode reports whether only modern servers send the code. Such a code shows the era of
// its sender.
func IsModernCode(code int64) bool {
	return code == CodeHeaderMismatch || code == CodeMissingCapability || code == CodeUnsupportedVersion
}

// IsReservedCode reports whether the specification reserves the code (2026-07-28 §Base, "Error
// Codes"). A reserved code must have the specified meaning.
func IsReservedCode(code int64) bool { return code <= -32020 && code >= -32099 }

// Origin says who caused an error: the client, Dragoman or the server.
type Origin string

// These are the origins of an error.
const (
	FromClient   Origin = "client"
	FromGateway  Origin = "gateway"
	FromUpstream Origin = "upstream"
)

// Outcome says whether the server may have executed a failed call.
type Outcome string

// These are the outcomes of a failed call.
const (
	NotSent        Outcome = "not_sent" // no byte reached the server
	OutcomeUnknown Outcome = "unknown"  // the server may have executed the call
	Failed         Outcome = "failed"   // the server returned an error
)

// Error is a failed call or connection. It says what the client needs to know: who caused the
// failure, what happened to the call, and whether to retry.
type Error struct {
	Code       int64  // a JSON-RPC code; 0 means -32603
	Message    string // a fixed text for the client, without paths or internal details
	Origin     Origin
	Upstream   string // the configured name of the server; "" for none
	Item       string // the server's own name of the item, if only who has made the error knows it; never sent
	Cause      string // one word: timeout, exited, too_large, bad_response, dns, …
	Outcome    Outcome
	Retryable  bool
	RetryAfter time.Duration
	// TooMany says that the client has exceeded one of its limits. Over HTTP, the response has the
	// status 429, unless another status has already been sent.
	TooMany bool
	Data    []byte // a JSON object whose members are added to the data of the error; nil for none
	// Failure describes the failure for users, logs and clients. The client gets it as
	// data.failure. Nil means none.
	Failure *failure.Failure
	// Exposed says that clients may be on other machines. Such clients get only Failure.Public.
	Exposed bool
	Op      string // the operation, for the log; for example "call github/create_issue"
	Err     error  // the cause; logged, never sent
}

func (e *Error) Error() string {
	s := e.Message
	if e.Op != "" {
		s = e.Op + ": " + s
	}
	if e.Err != nil {
		s += ": " + e.Err.Error()
	}
	return s
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// As lets errors.As find Failure.
func (e *Error) As(target any) bool {
	if f, ok := target.(**failure.Failure); ok && e.Failure != nil {
		*f = e.Failure
		return true
	}
	return false
}

// DescribeFailure implements failure.Source.
func (e *Error) DescribeFailure(f *failure.Facts) {
	if f.Cause == "" {
		f.Cause = e.Cause
	}
	if f.Server == "" {
		f.Server = e.Upstream
	}
	if f.RetryAfter == 0 {
		f.RetryAfter = e.RetryAfter
	}
}

// ErrShutdown is the cause of a context that ends because this process stops. Dragoman also answers
// the requests that are still running with this error.
var ErrShutdown error = &Error{
	Origin: FromGateway, Cause: "shutdown", Outcome: OutcomeUnknown,
	Message: "Dragoman stopped before the server answered",
}

// EndedBy returns the error with which Dragoman ended a context, such as [ErrShutdown]: its cause, if it
// is an *Error. It returns nil while ctx runs, and if the client has ended it.
func EndedBy(ctx context.Context) *Error {
	var e *Error
	if ctx.Err() == nil || !errors.As(context.Cause(ctx), &e) {
		return nil
	}
	return e
}

// Overloaded returns the error for a request that Dragoman refuses because other messages use too
// much memory.
func Overloaded() *Error {
	return &Error{
		Origin: FromGateway, Cause: "overloaded", Outcome: NotSent, Retryable: true, RetryAfter: time.Second,
		Message: "too many large messages are in memory at the same time; try again",
	}
}

// Wire converts any error to the error object for a client. An error that is neither *Error nor
// *jsonrpc.Error becomes -32603 without the text of the error.
func Wire(err error) *jsonrpc.Error {
	var w *jsonrpc.Error
	var e *Error
	switch {
	case errors.As(err, &e):
		// This case precedes the case of *jsonrpc.Error, because the Err of an *Error may be a
		// *jsonrpc.Error from another message.
	case errors.As(err, &w):
		return w
	default:
		return &jsonrpc.Error{Code: jsonrpc.CodeInternal, Message: "internal error"}
	}
	out := &jsonrpc.Error{Code: e.Code, Message: e.Message}
	if out.Code == 0 {
		out.Code = jsonrpc.CodeInternal
	}
	d := []byte{'{'}
	member := func(k, v string) {
		if v == "" {
			return
		}
		if len(d) > 1 {
			d = append(d, ',')
		}
		d = jsonrpc.AppendQuote(d, k)
		d = append(d, ':')
		d = append(d, v...)
	}
	text := func(s string) string {
		if s == "" {
			return ""
		}
		return string(jsonrpc.AppendQuote(nil, s))
	}
	if e.Origin != "" {
		member("origin", text(string(e.Origin)))
		member("upstream", text(e.Upstream))
		member("cause", text(e.Cause))
		member("outcome", text(string(e.Outcome)))
		if e.Retryable {
			member("retryable", "true")
		} else {
			member("retryable", "false")
		}
		if e.RetryAfter > 0 {
			member("retryAfterMs", string(jsonrpc.IntID(e.RetryAfter.Milliseconds())))
		}
	}
	if e.Failure != nil {
		f := e.Failure
		if e.Exposed {
			f = f.Public()
		}
		member("failure", string(f.AppendJSON(nil)))
	}
	if len(e.Data) > 2 {
		if len(d) > 1 {
			d = append(d, ',')
		}
		d = append(d, e.Data[1:len(e.Data)-1]...)
	}
	if len(d) > 1 {
		out.Data = append(d, '}')
	}
	return out
}

// OverLimit reports whether the data of an error response says that one of Dragoman's limits has refused the request,
// and when to send it again. Servers can write that, too, so it's nothing to rely on.
func OverLimit(data []byte) (after time.Duration, ok bool) {
	var at [3]jsonrpc.Span
	jsonrpc.FindAll(data, jsonrpc.Whole(data), []string{"origin", "cause", "retryAfterMs"}, at[:])
	origin, _ := jsonrpc.Text(data, at[0])
	cause, _ := jsonrpc.Text(data, at[1])
	ms, _ := jsonrpc.Int(data, at[2])
	const most = int64(24 * time.Hour / time.Millisecond)
	return time.Duration(min(max(ms, 0), most)) * time.Millisecond, origin == string(FromGateway) && cause == "limit"
}

// ErrCancelled is the cause of a call's context if the client cancelled the call.
var ErrCancelled = errors.New("cancelled by the client")

// MethodNotFound returns the error for an unknown method.
func MethodNotFound(method string) *jsonrpc.Error {
	return &jsonrpc.Error{Code: jsonrpc.CodeMethodNotFound, Message: "Method not found: " + method}
}
