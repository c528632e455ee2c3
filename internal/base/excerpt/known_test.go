package excerpt

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"html"
	"net/url"
	"slices"
	"strings"
	"testing"
)

func TestCredential(t *testing.T) {
	for value, want := range map[string]bool{
		"production": false, "legacy": false, "server": false, "": false, "x": false, "eu-central-1": false,
		"gpt-4o-mini-2024-07-18": false, "/usr/local/share/dir12345": false, `C:\Users\me\data12345678`: false, "https://host1234567.example/x": false,
		"node-12.example.com": false, "a long sentence with 12345678": false, "1234567890123456789": false, "--max-old-space-size=4096": false,
		"a8f5f167f44f4964e6c998dee827110c": true, "550e8400-e29b-41d4-a716-446655440000": true,
		"ghp_abcdefghijklmnopqrstuvwx": true, "postgres://me:hunter22@db/x": true, "Zm9vYmFyMTIzNDU2Nzg5": true,
	} {
		if got := Credential(value); got != want {
			t.Errorf("Credential(%q) is %t", value, got)
		}
	}
}

func TestMaskKnown(t *testing.T) {
	for _, tt := range []struct{ secret, text, want string }{
		{"server", `server "s" exited: servers, observer, "server"`, `*** "s" exited: servers, observer, "***"`},
		{"hunter22", "xhunter22x", "x***x"},
		{"secretsecretsecret", "asecretsecretsecretb", "a***b"},
		{"aa", "aaa aa", "aaa ***"},
		{"", "x", "x"},
	} {
		if got := MaskKnown([]string{tt.secret})(tt.text); got != tt.want {
			t.Errorf("%q in %q: %q, want %q", tt.secret, tt.text, got, tt.want)
		}
	}
}

// TestFormsOfSecrets checks that a secret is masked in each form in which a peer may repeat it, and
// nothing else is.
func TestFormsOfSecrets(t *testing.T) {
	const secret = "p@ss word/22?"
	every := func(format string) (out string) {
		for _, b := range []byte(secret) {
			out += fmt.Sprintf(format, b)
		}
		return out
	}
	b64 := base64.StdEncoding.EncodeToString
	clean := MaskKnown([]string{secret})
	for _, text := range []string{
		secret, url.QueryEscape(secret), url.PathEscape(secret), strings.ToLower(url.QueryEscape(secret)),
		every("%%%02X"), every("%%%02x"), every("%%25%02x"), url.QueryEscape(url.QueryEscape(secret)), url.PathEscape(url.QueryEscape(secret)),
		every(`\u%04x`), every(`\u%04X`), every(`\\u%04x`), every(`\x%02x`), every("%%5Cu%04x"),
		every("&#%d;"), every("&#x%x;"), every("&#X%02X;"), every("&#%06d;"), every("&amp;#%d;"), html.EscapeString(secret),
	} {
		for _, around := range []string{"<%s>", "%% and \\ and &: %s %%", `{"a":"\n%s\"&lt;"}`} {
			if got, want := clean(fmt.Sprintf(around, text)), fmt.Sprintf(around, Mask); got != want {
				t.Errorf("%s became %s, want %s", text, got, want)
			}
		}
	}
	for _, text := range []string{
		b64([]byte(secret)), base64.RawURLEncoding.EncodeToString([]byte(secret)),
		b64([]byte("me:" + secret)), b64([]byte("anna:" + secret + "!")), base64.URLEncoding.EncodeToString([]byte("user1:" + secret + "\n\n")),
		url.QueryEscape(b64([]byte(secret))),
		b64([]byte(b64([]byte(secret)))), b64([]byte("x" + b64([]byte("xy"+secret+"z")))), b64([]byte("Basic " + b64([]byte("user:"+secret)))),
	} {
		if got := clean("<" + text + ">"); !strings.Contains(got, Mask) || len(got) > len(Mask)+26 {
			t.Errorf("%s became %s", text, got)
		}
	}
	if all := NewKnown([]string{"short1"}).forms; len(all) != 1 {
		t.Errorf("a short secret has the forms %q", all)
	}
	for _, text := range []string{"p%40ss", `p@ss\u0020word`, `100% of &c; in C:\users\xy`, "%", `\`, "&", `\u12`, "&#", strings.Repeat(`%25\\&#38;`, 1000)} {
		if got := clean(text); got != text {
			t.Errorf("%s became %s", text, got)
		}
	}
}

// TestSecretsWithEscapes checks secrets that have something that looks like an escape.
func TestSecretsWithEscapes(t *testing.T) {
	for _, secret := range []string{`pass\new%41word`, `a&amp;b&lt;c12345`, `%70%61%73%73word`, `\\\\server`} {
		clean := MaskKnown([]string{secret})
		quoted, _ := json.Marshal(secret)
		twice, _ := json.Marshal(string(quoted))
		for _, text := range []string{secret, string(quoted), string(twice), url.QueryEscape(secret), html.EscapeString(secret)} {
			if got := clean(text); strings.Trim(got, `"\`) != Mask {
				t.Errorf("%s in %s became %s", secret, text, got)
			}
		}
	}
}

// TestCutSecret checks that the beginning of a secret at the end of a text is found, whatever its form.
func TestCutSecret(t *testing.T) {
	k := NewKnown([]string{"p@ss word/22?"})
	for text, want := range map[string]string{
		"the p@ss wor": "the ", "the p%40ss%20w": "the ", "the p%40ss%20%7": "the ", `the p\u0040ss\u00`: "the ", "the p&#64;ss&#3": "the ",
		"the p@s": "the p@s", "the end": "the end", "": "", "the cEBzcyB3b3": "the ",
	} {
		if got := text[:k.Cut(text, 4)]; got != want {
			t.Errorf("%q is left of %q, want %q", got, text, want)
		}
	}
}

// TestFormsInJSON checks the escapes that the encoders of common languages write, also in JSON within
// a JSON string. A secret that needs no escapes has no further forms.
func TestFormsInJSON(t *testing.T) {
	const secret = `p/s"<é>😀&'9`
	clean := MaskKnown([]string{secret})
	for encoder, text := range map[string]string{
		"JavaScript":       `p/s\"<é>😀&'9`,
		"with slashes":     `p\/s\"<é>😀&'9`,
		"Go":               `p/s\"\u003cé\u003e😀\u0026'9`,
		"Go in Go":         `p/s\\\"\\u003cé\\u003e😀\\u0026'9`,
		"Gson":             `p/s\"\u003cé\u003e😀\u0026\u00279`,
		"Python":           `p/s\"<\u00e9>\ud83d\ude00&'9`,
		"Python in Python": `p/s\\\"<\\u00e9>\\ud83d\\ude00&'9`,
		"PHP":              `p\/s\"<\u00e9>\ud83d\ude00&'9`,
		"Jackson":          `p/s\"<\u00E9>\uD83D\uDE00&'9`,
		".NET":             `p/s\u0022\u003C\u00E9\u003E\uD83D\uDE00\u0026\u00279`,
	} {
		if got, want := clean(`level=INFO {"msg":"use `+text+` now"}`), `level=INFO {"msg":"use *** now"}`; got != want {
			t.Errorf("%s: %s", encoder, got)
		}
	}
	// The base64 form of this secret has a slash and a plus sign.
	const binary = "\xfb\xff\xbf\xfb\xff\xbf\xfb\xff\xbf"
	if got := MaskKnown([]string{binary})(`+\/+\/+\/+\/+\/+\/`); got != Mask {
		t.Errorf("base64: %s", got)
	}
	for _, secret := range []string{"hunter2-and-more", secret} {
		if n := len(NewKnown([]string{secret}).forms); n > 40 {
			t.Errorf("a secret has %d forms", n)
		}
	}
}

// FuzzDecoded checks that each byte of a decoded text has a place in the text, that JSON stays JSON when
// secrets are masked, and that what is masked is not there any more.
func FuzzDecoded(f *testing.F) {
	for _, s := range []string{"", "%41", `\u00`, `\ud83d\ude00`, "&amp;#38;", `{"a":"p%40ss%20word/22?"}`, `{"p@ss word\/22?":"\\u0070@ss word/22?"}`, "&#x1F600;%", `\x`} {
		f.Add(s)
	}
	const secret = "p@ss word/22?"
	clean := MaskKnown([]string{secret})
	f.Fuzz(func(t *testing.T, text string) {
		plain, at := decoded(text, offsets(text))
		if again, _ := decoded(text, nil); again != plain || len(at) != len(plain)+1 || at[len(plain)] != len(text) || !slices.IsSorted(at) {
			t.Errorf("%q became %q, at %d", text, plain, at)
		}
		got := clean(text)
		if json.Valid([]byte(text)) && !json.Valid([]byte(got)) {
			t.Errorf("%s became %s", text, got)
		}
		if left, _ := decoded(got, nil); strings.Contains(left, secret) {
			t.Errorf("%q became %q", text, got)
		}
	})
}
