package excerpt

import (
	"strings"
	"testing"
)

// TestEscapedSecrets checks that a secret is masked even if a text has it with JSON escapes, also
// in JSON within a JSON string. The rest of the text does not change.
func TestEscapedSecrets(t *testing.T) {
	t.Parallel()
	const secret = `p/s"<é>😀9`
	clean := func(s string) string { return strings.ReplaceAll(s, secret, "***") }
	for raw, want := range map[string]string{
		`{"a":"p\/s\"<é>😀9","b":"x\u003cy\/"}`:              `{"a":"***","b":"x\u003cy\/"}`,
		`{"a":"see \u0070/s\"\u003c\u00e9>\ud83d\ude009!"}`: `{"a":"see ***!"}`,
		`{"p/s\"<é>😀9":1}`:                                  `{"***":1}`,
		`{"text":"{\"a\":\"p/s\\\"<é>😀9\"}","ok":"\n"}`:     `{"text":"{\"a\":\"***\"}","ok":"\n"}`,
		`["\\","a\"b","plain"]`:                             `["\\","a\"b","plain"]`,
		`{"cut":"p/s\"<é>😀9 and \ud8`:                       `{"cut":"*** and `,
		`{"bad":"\q p/s","x":"p/s\"<é>😀9"}`:                 `{"bad":"\q p/s","x":"***"}`,
		``:                                                  ``,
		`"`:                                                 `"`,
		`"\`:                                                `"\`,
	} {
		if got := cleanEscaped(clean, raw, maxNested); got != want {
			t.Errorf("%s\n got %s\nwant %s", raw, got, want)
		}
	}
	if got := MaskHead([]byte(`{"instructions":"use p\/s\"<é>😀9"}`), 0, clean); got != `{"instructions":"use ***"}` {
		t.Errorf("a handshake: %s", got)
	}
	// If a secret is cut off at the end of a message, no part of it may be shown.
	long := `{"instructions":"` + strings.Repeat("x", 4000) + " " + secret[:5]
	if got := MaskHead([]byte(long), len(long)+100, clean); strings.Contains(got, "p/s") || len(got) < 3000 {
		t.Errorf("a message that is cut: %s", got)
	}
	if got := MaskHead([]byte(`{"a":"sk-live_0123456789abcdef"}`), 0, clean); got != `{"a":"***"}` {
		t.Errorf("what looks like a secret: %s", got)
	}
	deep := strings.Repeat(`"\`, 1<<16)
	if got := cleanEscaped(clean, deep, maxNested); got != deep {
		t.Errorf("%d bytes became %d", len(deep), len(got))
	}
}
