package jsonrpc

import (
	"strings"
	"testing"
	"unicode/utf8"
)

// TestHalfSurrogatePairIsKept checks half of a surrogate pair as an escape, which RFC 8259 §8.2
// allows. JavaScript and Python write such a half when they cut a text within an emoji.
func TestHalfSurrogatePairIsKept(t *testing.T) {
	for _, half := range []string{`\ud83d`, `\uD83D`, `\ude00`, `\udfff`, `\ud83dx`, `\ud83d\ud83d\ude00`, `\ude00\ud83d`, `\ud83d\n`, `\ud83d\u0041`, `x\ud83d`} {
		raw := `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"x","arguments":{"a":"` + half + `","` + half + `":1}}}`
		m := accept(t, raw)
		if string(m.Raw) != raw || m.Method != "tools/call" {
			t.Errorf("%s became %s", raw, m.Raw)
		}
		accept(t, `{"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"text","text":"`+half+`"}]}}`)
	}
}

// TestHalfSurrogatePairInNameIsRefused checks that ids and methods must consist of complete
// characters, because Dragoman routes messages by their id and method.
func TestHalfSurrogatePairInNameIsRefused(t *testing.T) {
	refuse(t,
		hostile{"method", `{"jsonrpc":"2.0","id":1,"method":"a\ud83d"}`, CodeInvalidRequest, "1"},
		hostile{"id", `{"jsonrpc":"2.0","id":"a\ud83d","method":"x"}`, CodeInvalidRequest, ""},
		hostile{"id of an answer", `{"jsonrpc":"2.0","id":"\ude00","result":{}}`, CodeInvalidRequest, ""},
	)
	// Two different halves are two different names. The same half twice is a duplicate.
	accept(t, `{"jsonrpc":"2.0","id":1,"method":"x","params":{"\ud83d":1,"\ud83e":2,"\ufffd":3,"�x":4}}`)
	refuse(t, hostile{"twice", `{"jsonrpc":"2.0","id":1,"method":"x","params":{"\ud83d":1,"\uD83D":2}}`, CodeInvalidRequest, "1"})
}

func TestHalfSurrogatePairIsQuotedUnchanged(t *testing.T) {
	for _, half := range []string{`"\ud83d"`, `"\ude00"`, `"a\udfffz"`, `"\ud83d\ud83d"`, `"\ude00\ud83d"`, `"\ud800\ud7ff"`} {
		text, ok := Text([]byte(half), Span{0, len(half)})
		if !ok || utf8.ValidString(text) {
			t.Errorf("%s: %q %v", half, text, ok)
		}
		want := strings.ReplaceAll(half, `\ud7ff`, "\ud7ff")
		if got := string(AppendQuote(nil, text)); got != want {
			t.Errorf("%s was written as %s", half, got)
		}
		if shown := Shown(text); !utf8.ValidString(shown) || utf8.RuneCountInString(shown)*3 < len(text) {
			t.Errorf("Shown returns %q as %q", text, shown)
		}
	}
	if got := string(AppendQuote(nil, "\xed\x9f\xbf \xed \xed\xa0 \xed\xa0\x80 \xff")); got != "\"\ud7ff � �� \\ud800 �\"" {
		t.Errorf("got %s", got)
	}
}
