package oauth

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/base/excerpt"
	"github.com/dragoman-mcp/dragoman/internal/base/failure"
	"github.com/dragoman-mcp/dragoman/internal/team/egress"
)

// Code names a kind of Fault; dragoman doctor makes findings of them.
type Code string

// The codes.
const (
	ResourceMissing     Code = "resource_missing"     // the challenge names metadata that isn't there
	ResourceMismatch    Code = "resource_mismatch"    // the metadata is for another server
	ResourceNoIssuer    Code = "resource_no_issuer"   // the metadata names no issuer, or not the configured one
	DocumentNotJSON     Code = "document_not_json"    // metadata is a web page
	DocumentMoved       Code = "document_moved"       // a redirect that we don't follow
	AddressRefused      Code = "address_refused"      // an address that must not be asked: nearer than what named it, http, link-local
	DocumentInvalid     Code = "document_invalid"     // metadata is too large, has a name twice, a wrong type, or lacks what it must have
	IssuerInvalid       Code = "issuer_invalid"       // an issuer's identifier is no https URL, or has a query
	IssuerMissing       Code = "issuer_missing"       // the issuer publishes nothing
	IssuerMismatch      Code = "issuer_mismatch"      // the document is of another issuer
	EndpointInvalid     Code = "endpoint_invalid"     // an endpoint can't or must not be used
	EndpointMissing     Code = "endpoint_missing"     // the issuer lacks what this needs
	PKCEMissing         Code = "pkce_missing"         // no S256
	RegistrationMissing Code = "registration_missing" // no way to register by ourselves
	RegistrationRefused Code = "registration_refused"
	AnswerInvalid       Code = "answer_invalid"   // an answer that can't be used; nothing of it is shown
	ClientMismatch      Code = "client_mismatch"  // the client is another issuer's, or lacks what its method needs
	IssMissing          Code = "iss_missing"      // a callback without the iss that was promised
	IssMismatch         Code = "iss_mismatch"     // a callback of another issuer
	CallbackInvalid     Code = "callback_invalid" // a callback that can't be read
	RequestInvalid      Code = "request_invalid"  // what the operator has configured can't be sent
)

// Fault is something that a server or an issuer has published or answered and that we can't use, or that
// must not be used. It is a failure.Source of the class needs_sign_in.
type Fault struct {
	Code Code
	Says string // one sentence, without a full stop, safe to print
	Next string // what to do, without a full stop; "" if nobody knows
	URL  string // which document or endpoint
	Err  error  // the cause, if there is one
}

func (f *Fault) Error() string { return f.Says }

// Unwrap returns the cause.
func (f *Fault) Unwrap() error { return f.Err }

// DescribeFailure implements failure.Source.
func (f *Fault) DescribeFailure(facts *failure.Facts) { describe(facts, f.Says, f.Next) }

func fault(code Code, at, says string, args ...any) *Fault {
	return &Fault{Code: code, URL: at, Says: fmt.Sprintf(says, args...)}
}

func (f *Fault) next(what string) *Fault {
	f.Next = what
	return f
}

// Error is a refusal by an issuer, in the form of RFC 6749 §5.2 (or §4.1.2.1, in a callback).
type Error struct {
	By          string // the issuer's host, or ""
	Code        string // such as invalid_grant; safe to print
	Description string // the issuer's words, safe to print; "" for none
	Status      int    // of the HTTP answer; 0 in a callback
}

func (e *Error) Error() string {
	by := e.By
	if by == "" {
		by = "the authorization server"
	}
	if e.Description == "" {
		return fmt.Sprintf("%s refused: %s", by, e.Code)
	}
	return fmt.Sprintf("%s refused: %s (%s)", by, e.Code, strconv.Quote(e.Description))
}

// DescribeFailure implements failure.Source.
func (e *Error) DescribeFailure(facts *failure.Facts) {
	next := ""
	if e.Code == "access_denied" { // by the person, mostly (RFC 6749 §4.1.2.1)
		next = "sign in again, and agree on the page that opens"
	}
	describe(facts, e.Error(), next)
}

func describe(facts *failure.Facts, says, next string) {
	if facts.Class == "" {
		facts.Class = failure.NeedsSignIn
	}
	if facts.Sentence == "" {
		facts.Sentence, facts.Action = says, next
		if facts.Server != "" {
			facts.Sentence = fmt.Sprintf("signing in to server %q failed: %s", facts.Server, says)
		}
	}
}

// Trouble is weather: the issuer couldn't be reached, didn't answer in time, or answered 5xx, 429 or
// something that isn't what it should be. Nobody is signed out by it.
type Trouble struct {
	URL    string
	Status int           // 0 if there was no answer
	Retry  time.Duration // what Retry-After says; 0 if it doesn't
	Err    error         // why there was no answer
}

func (t *Trouble) Error() string {
	if e, ok := errors.AsType[*egress.Error](t.Err); ok {
		return e.Error() // it names the address
	}
	where := show(t.URL)
	if u, err := url.Parse(t.URL); err == nil && u.Host != "" {
		where = show(u.Host + u.Path)
	}
	var whole interface{ NextStep() string } // it names the address, too
	switch {
	case errors.As(t.Err, &whole):
		return t.Err.Error()
	case t.Err != nil:
		return fmt.Sprintf("%s gave no answer: %v", where, t.Err)
	}
	return fmt.Sprintf("%s answered with HTTP %d", where, t.Status)
}

// Unwrap returns the cause.
func (t *Trouble) Unwrap() error { return t.Err }

// undone returns the error of a request to at that got no answer because of err. What a rule of egress refused
// stays refused tomorrow, so it is a Fault; code is for answers that are too large.
func undone(at string, code Code, err error) error {
	e, ok := errors.AsType[*egress.Error](err)
	if !ok || e.Weather() {
		return &Trouble{URL: at, Err: err}
	}
	f := &Fault{Code: AddressRefused, Says: e.Error(), Next: e.NextStep(), URL: at, Err: err}
	switch e.Reason {
	case egress.Redirected:
		f.Code = DocumentMoved
	case egress.TooLarge:
		f.Code = code
	}
	return f
}

// isWeather reports whether a status says to come back later.
func isWeather(status int) bool {
	return status >= 500 || status == http.StatusTooManyRequests || status == http.StatusRequestTimeout
}

// longestRetry bounds what we believe of Retry-After.
const longestRetry = time.Hour

func trouble(at string, a *Answer) *Trouble {
	t := &Trouble{URL: at, Status: a.Status}
	after := a.Header.Get("Retry-After")
	if n, err := strconv.Atoi(after); err == nil {
		t.Retry = time.Duration(min(max(n, 0), int(longestRetry/time.Second))) * time.Second
	} else if when, err := http.ParseTime(after); err == nil {
		t.Retry = min(max(time.Until(when), 0), longestRetry)
	}
	return t
}

// Weather reports whether err says nothing about the credential: try again later and keep everything.
func Weather(err error) bool {
	var t *Trouble
	return errors.As(err, &t) || Refused(err, "temporarily_unavailable") || Refused(err, "server_error")
}

// Refused reports whether err is an issuer's refusal with this code, such as invalid_grant.
func Refused(err error, code string) bool {
	var e *Error
	return errors.As(err, &e) && e.Code == code
}

// ErrNotOurs is the error for an authorization response without state, or with that of another flow.
var ErrNotOurs = errors.New("this answer belongs to no sign-in that is under way here")

// refusal returns the error of an answer that isn't a success, which came from at. An issuer that refuses
// says so in JSON (RFC 6749 §5.2). Anything else, a proxy's page above all, is weather.
func refusal(a *Answer, at string) error {
	if isWeather(a.Status) {
		return trouble(at, a)
	}
	if d, err := parse(a.Body); err == nil {
		if e := d.refusal(at, a.Status); e != nil {
			return e
		}
	}
	return trouble(at, a)
}

// refusal returns the error that a document describes, or nil if it describes none.
func (d *document) refusal(at string, status int) *Error {
	code, ok := d.v.Get("error").Text()
	if !ok || !isCode(code) {
		return nil
	}
	description, _ := d.v.Get("error_description").Text()
	return newError(at, code, description, status)
}

func newError(at, code, description string, status int) *Error {
	e := &Error{Code: code, Description: excerpt.Line(excerpt.MaskSecrets(description), 300), Status: status}
	if u, err := url.Parse(at); err == nil {
		e.By = show(u.Host)
	}
	return e
}

// isCode reports whether s can be an error code (RFC 6749 §5.2). Ours are short and have no spaces.
func isCode(s string) bool {
	return s != "" && len(s) <= 100 && !strings.ContainsFunc(s, func(r rune) bool { return r <= ' ' || r >= 0x7f || r == '"' || r == '\\' })
}
