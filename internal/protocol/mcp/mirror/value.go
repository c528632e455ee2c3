package mirror

import (
	"encoding/base64"
	"errors"
	"strings"
	"unicode/utf8"
)

const (
	sentinel    = "=?base64?"
	sentinelEnd = "?="
)

// Header is one mirrored header with its encoded value.
type Header struct{ Name, Value string }

// ErrValue means that a header value is not a valid encoding of a text.
var ErrValue = errors.New("invalid header value")

// EncodeValue returns the header value for a text. If plain(s) is true and s does not look like an
// encoded value, EncodeValue returns s unchanged. Otherwise it returns the Base64 form of s between
// sentinel and sentinelEnd (2026-07-28 §Streamable HTTP, "Value Encoding"). The result never
// contains a line break.
func EncodeValue(s string) string {
	if plain(s) && !(strings.HasPrefix(s, sentinel) && strings.HasSuffix(s, sentinelEnd)) {
		return s
	}
	b := make([]byte, 0, len(sentinel)+base64.StdEncoding.EncodedLen(len(s))+len(sentinelEnd))
	b = append(b, sentinel...)
	b = base64.StdEncoding.AppendEncode(b, []byte(s))
	return string(append(b, sentinelEnd...))
}

// DecodeValue returns the text that a header value encodes. It first removes leading and trailing
// spaces and tabs, which HTTP allows (RFC 9110 §5.5). It returns ErrValue if the value is not
// allowed in a header, if the Base64 is invalid, or if the decoded bytes are not UTF-8.
func DecodeValue(h string) (string, error) {
	h = strings.Trim(h, " \t")
	if !plain(h) {
		return "", ErrValue
	}
	// The sentinels must match exactly and must not overlap. The sentinels overlap in "=?base64?=",
	// so this value is plain text.
	if len(h) < len(sentinel)+len(sentinelEnd) || !strings.HasPrefix(h, sentinel) || !strings.HasSuffix(h, sentinelEnd) {
		return h, nil
	}
	b, err := base64.StdEncoding.Strict().DecodeString(h[len(sentinel) : len(h)-len(sentinelEnd)])
	if err != nil || !utf8.Valid(b) {
		return "", ErrValue
	}
	return string(b), nil
}

// plain reports whether s can be a header value without encoding (RFC 9110 §5.5).
func plain(s string) bool {
	for i := range len(s) {
		if c := s[i]; (c < ' ' || c > '~') && c != '\t' {
			return false
		}
	}
	if s == "" {
		return true
	}
	first, last := s[0], s[len(s)-1]
	return first != ' ' && first != '\t' && last != ' ' && last != '\t'
}
