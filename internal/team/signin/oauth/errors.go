package oauth

import (
	"errors"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/base/failure"
)

// Code names a kind of Fault; dragoman doctor shows it.
type Code string

// Fault is something that a server or an issuer has published or answered and that we can't use, or that
// must not be used. It is a failure.Source of the class needs_sign_in.
type Fault struct {
	Code Code
	Says string // one sentence, without a full stop
	Next string // what to do, without a full stop; "" if nobody knows
	URL  string // which document or endpoint
	Err  error  // the cause, if there is one
}

func (f *Fault) Error() string { return f.Says }

// Unwrap returns the cause.
func (f *Fault) Unwrap() error { return f.Err }

// DescribeFailure implements failure.Source.
func (f *Fault) DescribeFailure(facts *failure.Facts) {}

// Error is a refusal by an issuer, in the form of RFC 6749 §5.2 (or §4.1.2.1, in a callback).
type Error struct {
	Code        string // such as invalid_grant; safe to print
	Description string // the issuer's words, safe to print
	Status      int    // of the HTTP answer; 0 in a callback
}

func (e *Error) Error() string { return e.Code }

// Trouble is weather: the issuer couldn't be reached, didn't answer in time, or answered 5xx, 429 or
// something that isn't JSON. Nobody is signed out by it.
type Trouble struct {
	URL    string
	Status int           // 0 if there was no answer
	Retry  time.Duration // what Retry-After says; 0 if it doesn't
	Err    error
}

func (t *Trouble) Error() string { return t.URL }

// Unwrap returns the cause.
func (t *Trouble) Unwrap() error { return t.Err }

// Weather reports whether err says nothing about the credential: try again later and keep everything.
func Weather(err error) bool { return false }

// Refused reports whether err is an issuer's refusal with this code, such as invalid_grant.
func Refused(err error, code string) bool {
	var e *Error
	return errors.As(err, &e) && e.Code == code
}

// ErrNotOurs is the error for an authorization response without state, or with that of another flow.
var ErrNotOurs = errors.New("this answer belongs to no sign-in that is under way here")
