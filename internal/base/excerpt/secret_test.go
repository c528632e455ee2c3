package excerpt

import (
	"strings"
	"testing"
)

func TestSecrets(t *testing.T) {
	for in, want := range map[string]string{
		"nothing of the kind": "nothing of the kind",
		"use drgk_INQgQEROjTpy_c3VjaCBhIHNlY3JldCBpcyBzZWNyZXQgYW5kIGxvbmc_0AbCdE, says ci": "use ***, says ci",
		"ghp_abcdefghijklmnopqrstuvwx and sk-abcdefghijklmnop0":                             "*** and ***",
		"Bearer abcdefgh1234":                   "Bearer ***",
		"the bearer of news":                    "the bearer of news",
		"https://me:pw@h.example/x":             "https://***@h.example/x",
		"me@h.example":                          "me@h.example",
		"eyJhbGciOiJub25l.eyJzdWIiOiIx.sig":     "***",
		"-----BEGIN PRIVATE KEY-----\nabc\nde":  "***",
		"task-0123456789abcdef":                 "task-0123456789abcdef",
		`{"token":"abc","a":"b","c`:             `{"token":"***","a":"b","c`,
		`{\"api_key\": \"abc\"}`:                `{\"api_key\": \"***\"}`,
		"DEEP_KEY=abcdef progressToken=abcdef":  "DEEP_KEY=*** progressToken=abcdef",
		"password: hunter22":                    "password: ***",
		"Password: required":                    "Password: required",
		"token: a1":                             "token: a1",
		"pw=hunter22 PWD=/home/me pwd=/home/me": "pw=*** PWD=/home/me pwd=/home/me",
		"--max-tokens=100000":                   "--max-tokens=100000",
		`{"pw":"x","max_tokens":"100"}`:         `{"pw":"***","max_tokens":"100"}`,
	} {
		if got := Secrets(in, func(string) string { return "***" }); got != want {
			t.Errorf("%q became %q, want %q", in, got, want)
		}
	}
}

func TestSecretName(t *testing.T) {
	for want, names := range map[bool]string{
		true: "password passwd pwd pw passphrase passcode pass PW Password password2 db_pass dbPass SMTP_PASS smtpPassword userpassword confirmPassword " +
			"secret client_secret clientSecret CLIENT_SECRET webhook-secret appsecret secret_value " +
			"token access_token accessToken accesstoken refreshToken id_token reset_token GITHUB_TOKEN github_personal_access_token x-auth-token TOKEN_GITHUB TOKEN_1 csrf_token " +
			"api_key apiKey apikey API-Key X-Api-Key x_api_key openai_api_key OPENAI_API_KEY APIKey DEEP_KEY secret_key private_key privateKey AWS_SECRET_ACCESS_KEY " +
			"service_role_key AccountKey sshKey signing_key " +
			"authorization Authorization Proxy-Authorization cookie Set-Cookie credential credentials jwt otp code_verifier connectionString sig --password --api-token auth basicAuth HTTP_AUTH pin cardPin PIN passwort DB_PASSWORT kennwort",
		false: "tokens max_tokens maxTokens MAX_TOKENS max-tokens total_tokens token_count tokenCount tokenType token_type tokenizer token_endpoint TOKEN_LIMIT TOKEN_URL " +
			"eos_token stop_token next_token nextPageToken next_page_token progressToken progresstoken continuation_token cancellationToken idempotencyToken --max-tokens " +
			"key keys keyboard keyword monkey hotkey primaryKey publicKey PUBLIC_KEY PRIMARY_KEY submitKey KEY KEY_NAME " +
			"nextCursor cursor author authors authority authenticated oauth auth_type auth_mode pinned spin passage passenger passed compass bypass first_pass passwords password_policy passwordPolicy " +
			"forgotPassword has_token is_secret secretary secretName secrets PASSWORD_FILE PWD OLDPWD signature sessionId name value id _meta uri",
	} {
		for name := range strings.FieldsSeq(names) {
			if got := SecretName(name); got != want {
				t.Errorf("%q: %t", name, got)
			}
		}
	}
	for name, want := range map[string]bool{
		"": false, "two words": false, "db password": true, "_": false, "123": false,
		strings.Repeat("x", 500) + "_password": true, strings.Repeat("x", 500): false, "\xff": false,
	} {
		if got := SecretName(name); got != want {
			t.Errorf("%q: %t", name, got)
		}
	}
}

func TestSecretNumber(t *testing.T) {
	for name, want := range map[string]bool{"password": true, "db_pw": true, "otp": true, "token": false, "pass": false, "max_tokens": false, "": false} {
		if got := SecretNumber(name); got != want {
			t.Errorf("%q: %t", name, got)
		}
	}
}

func TestSecretText(t *testing.T) {
	for in, want := range map[[2]string]bool{
		{"pwd", "hunter2"}: true, {"PWD", "hunter2"}: true, {"PWD", "/home/me"}: false, {"pwd", "/home/me"}: false, {"pwd", "~/x"}: false, {"Pwd", `C:\Users`}: false,
		{"password", "/home/me"}: true, {"password", ""}: false, {"name", "x"}: false,
	} {
		if got := SecretText(in[0], in[1]); got != want {
			t.Errorf("%q: %t", in, got)
		}
	}
}
