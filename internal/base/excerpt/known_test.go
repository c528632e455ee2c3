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
