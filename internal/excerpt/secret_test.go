package excerpt

import "testing"

func TestSecrets(t *testing.T) {
	for in, want := range map[string]string{
		"nothing of the kind": "nothing of the kind",
		"ghp_abcdefghijklmnopqrstuvwx and sk-abcdefghijklmnop0": "*** and ***",
		"Bearer abcdefgh1234":                  "Bearer ***",
		"the bearer of news":                   "the bearer of news",
		"https://me:pw@h.example/x":            "https://***@h.example/x",
		"me@h.example":                         "me@h.example",
		"eyJhbGciOiJub25l.eyJzdWIiOiIx.sig":    "***",
		"-----BEGIN PRIVATE KEY-----\nabc\nde": "***",
		"task-0123456789abcdef":                "task-0123456789abcdef",
		`{"token":"abc","a":"b","c`:            `{"token":"***","a":"b","c`,
		`{\"api_key\": \"abc\"}`:               `{\"api_key\": \"***\"}`,
		"DEEP_KEY=abcdef progressToken=abcdef": "DEEP_KEY=*** progressToken=abcdef",
	} {
		if got := Secrets(in, func(string) string { return "***" }); got != want {
			t.Errorf("%q became %q, want %q", in, got, want)
		}
	}
}

func TestSecretName(t *testing.T) {
	for name, want := range map[string]bool{
		"password": true, "API-Key": true, "access_token": true, "Authorization": true,
		"": false, "progressToken": false, "passwords": false, "keys": false,
	} {
		if got := SecretName(name); got != want {
			t.Errorf("%q: %t", name, got)
		}
	}
}
