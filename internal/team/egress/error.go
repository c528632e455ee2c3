package egress

import (
	"github.com/dragoman-mcp/dragoman/internal/base/excerpt"
)

// Reason is the kind of an Error.
type Reason string

// The reasons for which there is no answer.
const (
	BadURL      Reason = "bad_url"     // not a URL that can be asked for
	NotHTTPS    Reason = "not_https"   // http, where https is required
	Nearer      Reason = "nearer"      // nearer than the server that named it
	Forbidden   Reason = "forbidden"   // an address that is never reached
	Redirected  Reason = "redirected"  // to another origin, too often, or at all
	TooLarge    Reason = "too_large"   // the answer has more bytes than Bounds.Size
	TooSlow     Reason = "too_slow"    // no whole answer within Bounds.Time
	Unreachable Reason = "unreachable" // no such name, no connection, no TLS, no HTTP
)

// Error says why a request got no answer.
type Error struct {
	Reason Reason
	// URL is the address without its query, safe to show.
	URL string

	sentence, action string
	err              error
}

func (e *Error) Error() string { return e.sentence }

// NextStep returns what to do about it, without a full stop.
func (e *Error) NextStep() string { return e.action }

// Unwrap returns the error of the network, if there is one.
func (e *Error) Unwrap() error { return e.err }

// Weather reports whether the same request may well succeed later. It is false for whatever was
// refused by a rule.
func (e *Error) Weather() bool { return e.Reason == TooSlow || e.Reason == Unreachable }

func (t *trip) fail(r Reason, sentence, action string, err error) *Error {
	return &Error{Reason: r, URL: t.shown(), sentence: sentence, action: action, err: err}
}

func (t *trip) shown() string {
	u := *t.url
	u.User, u.RawQuery, u.ForceQuery, u.Fragment, u.RawFragment = nil, "", false, "", ""
	return excerpt.Line(u.String(), 300)
}

// host is the host of the address, with its port if that is not the usual one, as allow takes it.
func (t *trip) host() string { return excerpt.Word(t.url.Host, 200) }

func (t *trip) allowHint() string {
	return "if you trust it, add " + t.host() + " to dragoman.egress.allow"
}

func (t *trip) nearer(n Nearness) *Error {
	return t.fail(Nearer, t.shown()+" lies "+n.phrase()+", but what named it lies "+t.near.phrase()+", so it is not asked", t.allowHint(), nil)
}

func (t *trip) never(address string) *Error {
	return t.fail(Forbidden, t.shown()+" leads to "+address+", an address that Dragoman never asks", "correct the address where it is published", nil)
}
