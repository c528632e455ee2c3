package store

import (
	"errors"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/dragoman-mcp/dragoman/internal/team/sqldb"
)

// Code is the kind of an Error.
type Code int

// The codes of errors.
const (
	Invalid   Code = iota // a value is not allowed
	NotFound              // an object does not exist
	Conflict              // somebody else has changed the object, or the object exists already
	Forbidden             // a rule does not allow the change
	Full                  // a limit is reached
	Unusable              // the database cannot be used
)

// Error is an error that a client or a user can do something about.
type Error struct {
	Code Code
	Text string // what is wrong: a sentence without a full stop that begins with a small letter or an id
	Next string // what to do: an instruction in the same form as Text
}

func (e *Error) Error() string { return e.Text }

// IsCode reports whether err is an *Error with the code c, or wraps one.
func IsCode(err error, c Code) bool {
	var e *Error
	return errors.As(err, &e) && e.Code == c
}

func fail(c Code, next, format string, args ...any) error {
	return &Error{Code: c, Text: fmt.Sprintf(format, args...), Next: next}
}

// unusable returns an error of the database with the code Unusable, and any other error as it is.
func unusable(err error) error {
	var e *sqldb.Error
	if errors.As(err, &e) {
		return &Error{Code: Unusable, Text: e.Text, Next: e.Next}
	}
	return err
}

func invalid(next, format string, args ...any) error { return fail(Invalid, next, format, args...) }

// quote returns a value from a client in quotation marks, shortened to 80 runes.
func quote(s string) string {
	s = strings.ToValidUTF8(s, "\uFFFD")
	if r := []rune(s); len(r) > 80 {
		s = string(r[:80]) + "…"
	}
	return fmt.Sprintf("%q", s)
}

// text checks a text from a client. It returns the text without leading and trailing white space.
// name is the name of the text in errors.
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

// line does the same as text, but also returns an error for a text with several lines.
func line(s, name string, most int, required bool) (string, error) {
	s, err := text(s, name, most, required)
	if err == nil && strings.ContainsAny(s, "\r\n") {
		return "", invalid("put it on one line", "the %s has several lines", name)
	}
	return s, err
}

// among returns an error unless v is in all. name describes v in the error.
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
