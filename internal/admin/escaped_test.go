package admin

import (
	"strings"
	"testing"
)

// TestEscapedSecrets uses servers that repeat a secret with JSON escapes. The secret is masked in
// the messages of a handshake, in definitions and in JSON within JSON. The rest of the text does
// not change.
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
	if got := string(cleanJSON(clean, []byte(`{"default":"p\/s\"<é>😀9"}`))); got != `{"default":"***"}` {
		t.Errorf("a definition: %s", got)
	}
	if got := beginning([]byte(`{"instructions":"use p\/s\"<é>😀9"}`), 0, clean); got != `{"instructions":"use ***"}` {
		t.Errorf("a handshake: %s", got)
	}
	deep := strings.Repeat(`"\`, 1<<16)
	if got := cleanEscaped(clean, deep, maxNested); got != deep {
		t.Errorf("%d bytes became %d", len(deep), len(got))
	}
}
