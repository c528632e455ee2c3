package excerpt

import (
	"encoding/base64"
	"net/url"
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

func TestReplaceKnown(t *testing.T) {
	for _, tt := range []struct{ secret, text, want string }{
		{"server", `server "s" exited: servers, observer, "server"`, `*** "s" exited: servers, observer, "***"`},
		{"hunter22", "xhunter22x", "x***x"},
		{"secretsecretsecret", "asecretsecretsecretb", "a***b"},
		{"aa", "aaa aa", "aaa ***"},
		{"", "x", "x"},
	} {
		if got := ReplaceKnown(tt.text, tt.secret, func(string) string { return Mask }); got != tt.want {
			t.Errorf("%q in %q: %q, want %q", tt.secret, tt.text, got, tt.want)
		}
	}
}

func TestSpellings(t *testing.T) {
	const secret = "p@ss word/22?"
	mask := func(text string) string {
		for _, s := range Spellings([]string{secret}) {
			text = ReplaceKnown(text, s, func(string) string { return Mask })
		}
		return text
	}
	for _, text := range []string{
		secret, url.QueryEscape(secret), url.PathEscape(secret),
		base64.StdEncoding.EncodeToString([]byte(secret)), base64.RawURLEncoding.EncodeToString([]byte(secret)),
		base64.StdEncoding.EncodeToString([]byte("me:" + secret)), base64.StdEncoding.EncodeToString([]byte("anna:" + secret + "!")),
		base64.URLEncoding.EncodeToString([]byte("user1:" + secret + "\n\n")),
	} {
		if got := mask("<" + text + ">"); !strings.Contains(got, Mask) || len(got) > len(Mask)+14 {
			t.Errorf("%s became %s", text, got)
		}
	}
	if all := Spellings([]string{"short1"}); len(all) != 1 {
		t.Errorf("a short secret has the forms %q", all)
	}
}

// TestSpellingsInJSON checks the escapes that the encoders of common languages write, also in JSON within
// a JSON string. A secret that needs no escapes has no further forms.
func TestSpellingsInJSON(t *testing.T) {
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
	if n := len(Spellings([]string{"hunter2-and-more"})); n > 9 {
		t.Errorf("a plain secret has %d forms", n)
	}
	if n := len(Spellings([]string{secret})); n > 60 {
		t.Errorf("a secret has %d forms", n)
	}
}
