package transport

import (
	"strings"
	"testing"
	"unicode/utf8"
)

func TestE11_ExcerptIsSafeToShow(t *testing.T) {
	for _, tt := range []struct{ body, want string }{
		{"", ""},
		{"<html>\r\n\t<b>Bad Gateway</b>\n", "<html> <b>Bad Gateway</b> "},
		{"a\x1b[31mred\x00\xff\u202e", "a?[31mred???"},
		{"grün 世界", "grün 世界"},
	} {
		e := &StatusError{Body: []byte(tt.body)}
		if got := e.Excerpt(); got != tt.want {
			t.Errorf("%q: %q, want %q", tt.body, got, tt.want)
		}
	}
	long := (&StatusError{Body: []byte(strings.Repeat("ü", 1000))}).Excerpt()
	if len(long) > 200 || !utf8.ValidString(long) {
		t.Errorf("%d bytes: %q", len(long), long)
	}
	if s := (&StatusError{Status: 200}).Error(); s != "HTTP status 200 with a body that is not an MCP message" {
		t.Error(s)
	}
}
