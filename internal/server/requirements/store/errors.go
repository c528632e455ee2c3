package store

import (
	"errors"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Code says what kind of failure an Error is.
type Code int

// The codes of errors.
const (
	Invalid   Code = iota // a value is not allowed
	NotFound              // an object does not exist
	Conflict              // somebody else changed the object meanwhile, or it exists already
	Forbidden             // a rule does not allow the change
	Full                  // a bound is reached
	Unusable              // the database cannot be used
)

// Error is a failure that a client or a user can act on.
type Error struct {
	Code Code
	Text string // what is wrong; begins with a small letter or an id, without a full stop
	Next string // what to do, in the same form
}

func (e *Error) Error() string { return e.Text }

// IsCode reports whether an error is an *Error with the code.
func IsCode(err error, c Code) bool {
	var e *Error
	return errors.As(err, &e) && e.Code == c
}

func fail(c Code, next, format string, args ...any) error {
	return &Error{Code: c, Text: fmt.Sprintf(format, args...), Next: next}
}

func invalid(next, format string, args ...any) error { return fail(Invalid, next, format, args...) }

// quote returns a client's value in quotation marks, with at most 80 runes of it.
func quote(s string) string {
	s = strings.ToValidUTF8(s, "\uFFFD")
	if r := []rune(s); len(r) > 80 {
		s = string(r[:80]) + "…"
	}
	return fmt.Sprintf("%q", s)
}

// text checks a text of a client and returns it without white space around it.
func text(s, name string, most int, required bool) (string, error) {
	switch {
	case !utf8.ValidString(s):
		return "", invalid("send it as UTF-8", "the %s is not valid UTF-8", name)
	case strings.ContainsFunc(s, func(r rune) bool { return unicode.IsControl(r) && !strings.ContainsRune("\r\n\t", r) }):
		return "", invalid("remove the character", "the %s has a control character", name)
	}
	s = strings.TrimSpace(s)
	switch {
	case len(s) > most:
		return "", invalid("shorten it, or split it into several objects", "the %s has %d bytes, and at most %d are allowed", name, len(s), most)
	case required && s == "":
		return "", invalid("enter a text", "the %s is empty", name)
	}
	return s, nil
}

// line does the same as text for a text on one line.
func line(s, name string, most int, required bool) (string, error) {
	s, err := text(s, name, most, required)
	if err == nil && strings.ContainsAny(s, "\r\n") {
		return "", invalid("put it on one line", "the %s has several lines", name)
	}
	return s, err
}

// among checks that a value is in a list.
func among[T ~string](v T, name string, all []T) error {
	list := make([]string, len(all))
	for i, one := range all {
		if one == v {
			return nil
		}
		list[i] = string(one)
	}
	return invalid("use one of "+strings.Join(list, ", "), "%s is not a %s", quote(string(v)), name)
}
