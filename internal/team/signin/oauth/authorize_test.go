package oauth

import (
	"crypto/sha256"
	"encoding/base64"
	"net/url"
	"strings"
	"testing"

	"github.com/dragoman-mcp/dragoman/internal/base/secret"
)

func issuer() *Issuer {
	return &Issuer{Issuer: "https://i", Authorize: "https://i/auth?tenant=t", Token: "https://i/token", Register: "https://i/reg", Challenges: []string{"S256"}, At: "https://i/x"}
}

func request() Request {
	return Request{State: "STATE", Verifier: secret.New("VERIFIER"), Redirect: "http://127.0.0.1:1234/callback", Resource: "https://h/mcp", Scopes: []string{"a", "b"}}
}

func TestAuthorizeURL(t *testing.T) {
	r := request()
	r.Params, r.Thumb = map[string]string{"access_type": "offline"}, "THUMB"
	at, err := issuer().AuthorizeURL(Client{ID: "me & you", Secret: secret.New("HIDDEN")}, r)
	if err != nil {
		t.Fatal(err)
	}
	u, err := url.Parse(at)
	if err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256([]byte("VERIFIER"))
	want := url.Values{
		"tenant": {"t"}, "response_type": {"code"}, "client_id": {"me & you"}, "redirect_uri": {r.Redirect}, "state": {"STATE"},
		"code_challenge": {base64.RawURLEncoding.EncodeToString(sum[:])}, "code_challenge_method": {"S256"},
		"resource": {"https://h/mcp"}, "scope": {"a b"}, "access_type": {"offline"}, "dpop_jkt": {"THUMB"},
	}
	if u.Scheme+"://"+u.Host+u.Path != "https://i/auth" || u.Query().Encode() != want.Encode() {
		t.Errorf("got  %s\nwant %s", u, want.Encode())
	}
	for _, hidden := range []string{"VERIFIER", "HIDDEN"} {
		if strings.Contains(at, hidden) {
			t.Errorf("the URL shows %s", hidden)
		}
	}
	r = request()
	r.Scopes, r.Resource = []string{"a", "offline_access"}, ""
	if at, err = issuer().AuthorizeURL(Client{ID: "x"}, r); err != nil || !strings.Contains(at, "prompt=consent") || strings.Contains(at, "resource") {
		t.Error(at, err)
	}
}

// TestTA28AuthorizeURL has endpoints, states and parameters that would be a command, an option or a script.
// Each is refused, or harmless in the URL: one that a shell would leave in one piece.
func TestTA28AuthorizeURL(t *testing.T) {
	for _, endpoint := range []string{
		"https://i/$(touch /tmp/x)", "https://i/$(id)", "https://i/`id`", "--flag", "-x https://i/a", "javascript:alert(1)", "data:text/html,x", "file:///etc/passwd",
		"https://i/a\nb", "https://i/a\r\nX: y", "https://i/a b", "https://i/a;id", "https://i/a|id", "https://i/'a'", `https://i/"a"`, `https://i/a\b`, "https://i/<a>",
		"https://i/a#b", "https://u:p@i/a", "vbscript:x", "ms-settings:x", "//i/a", "/a", "", "https://i/\u202e", "https://i/a?state=theirs", "https://i/a?client_id=x",
		"https://i/a?request_uri=x", "https://i/a?x=1&x=2", "https://i/a?%zz", "intent://x", "https://i/a?redirect_uri=https://evil.example", "HTTPS:/\\/i",
	} {
		is := issuer()
		is.Authorize = endpoint
		at, err := is.AuthorizeURL(Client{ID: "x"}, request())
		if err == nil {
			t.Errorf("the endpoint %q gave %q", endpoint, at)
		}
		clean(t, err)
	}
	for _, text := range []string{"$(id)", "`id`", "--flag", "a\nb", "a b", `"`, "'", "\x00", "é", "a&code_challenge=x", "a#b", ";|<>"} {
		r := request()
		r.State, r.Scopes, r.Resource, r.Params = text, []string{text}, "https://h/"+text, map[string]string{"x" + text: text}
		at, err := issuer().AuthorizeURL(Client{ID: text}, r)
		if err != nil {
			t.Errorf("%q: %v", text, err)
		}
		if !strings.HasPrefix(at, "https://i/auth?") || strings.ContainsFunc(at, func(r rune) bool {
			return r <= ' ' || r >= 0x7f || strings.ContainsRune("$`'\"();|<>#\\{}^*", r)
		}) {
			t.Errorf("%q is in %q", text, at)
		}
		if u, _ := url.Parse(at); u.Query().Get("state") != text || len(u.Query()["code_challenge"]) != 1 {
			t.Errorf("%q came out as %q", text, at)
		}
	}
	for _, name := range []string{"state", "client_id", "redirect_uri", "code_challenge", "response_type", "resource", "scope", "request", "response_mode"} {
		r := request()
		r.Resource, r.Scopes, r.Params = "", nil, map[string]string{name: "x"}
		if _, err := issuer().AuthorizeURL(Client{ID: "x"}, r); codeOf(err) != "request_invalid" {
			t.Errorf("signIn.params may set %s: %v", name, err)
		}
	}
}

// TestTA29Callback has the four rows of AU §Authorization Response Validation, for a code and for an error,
// and what comes before them: a state of nobody or of another flow.
func TestTA29Callback(t *testing.T) {
	const mine, text = "https://i.example", "EVIL-TEXT"
	for _, c := range []struct {
		name, query string
		says        bool
		want        string
	}{
		{"row 1", "state=S&code=C&iss=https://i.example", true, "code C"},
		{"row 2", "state=S&code=C", true, "iss_missing"},
		{"row 3", "state=S&code=C&iss=https://i.example", false, "code C"},
		{"row 3, another", "state=S&code=C&iss=https://evil.example", false, "iss_mismatch"},
		{"row 4", "state=S&code=C", false, "code C"},
		{"row 1, an error", "state=S&error=access_denied&iss=https://i.example", true, "refused access_denied"},
		{"row 1, another's error", "state=S&error=access_denied&error_description=" + text + "&iss=https://evil.example", true, "iss_mismatch"},
		{"row 2, an error", "state=S&error=access_denied&error_description=" + text, true, "iss_missing"},
		{"row 3, another's error", "state=S&error=" + text + "&iss=x", false, "iss_mismatch"},
		{"row 4, an error", "state=S&error=access_denied", false, "refused access_denied"},
		{"a slash", "state=S&code=C&iss=https://i.example/", true, "iss_mismatch"},
		{"a default port", "state=S&code=C&iss=https://i.example:443", true, "iss_mismatch"},
		{"another case", "state=S&code=C&iss=https://I.example", true, "iss_mismatch"},
		{"an escape that means the same", "state=S&code=C&iss=https://i.exampl%2565", true, "iss_mismatch"},
		{"an escape of the form, which is undone", "state=S&code=C&iss=https%3A%2F%2Fi.exampl%65", true, "code C"},
		{"an empty iss", "state=S&code=C&iss=", false, "iss_mismatch"},
		{"iss twice", "state=S&code=C&iss=https://i.example&iss=https://evil.example", false, "iss_mismatch"},
		{"no state", "code=C&iss=https://i.example", true, ErrNotOurs.Error()},
		{"another state, another's error", "state=T&error=" + text, true, ErrNotOurs.Error()},
		{"state twice", "state=S&state=S&code=C", false, ErrNotOurs.Error()},
		{"state in another case", "state=s&code=C", false, ErrNotOurs.Error()},
		{"code twice", "state=S&code=C&code=D", false, "callback_invalid"},
		{"both", "state=S&code=C&error=access_denied", false, "callback_invalid"},
		{"neither", "state=S", false, "callback_invalid"},
		{"a code with a line feed", "state=S&code=C%0aD", false, "callback_invalid"},
		{"a long code", "state=S&code=" + strings.Repeat("c", maxCode+1), false, "callback_invalid"},
		{"an error with a line feed", "state=S&error=a%0ab", false, "callback_invalid"},
	} {
		t.Run(c.name, func(t *testing.T) {
			q, _ := url.ParseQuery(c.query)
			code, err := ReadCallback(q, Expected{State: "S", Issuer: mine, SaysIss: c.says})
			got := codeOf(err)
			if err == nil {
				got = "code " + code.Reveal()
			}
			if got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
			clean(t, err, text, "=C")
		})
	}
	if _, err := ReadCallback(url.Values{"state": {""}, "code": {"C"}}, Expected{}); err != ErrNotOurs {
		t.Error("an empty state is accepted:", err)
	}
}

func TestReadPasted(t *testing.T) {
	for text, want := range map[string]string{
		" http://127.0.0.1:1/callback?code=C&state=S&iss=x#y \n": "C S x", "?code=C&state=S": "C S ", "state=S&code=C": "C S ",
		"https://h/callback?error=e&state=S": " S ", "": "", "CODE": "", "code=C": "", "https://h/callback": "", "code=%zz&state=S": "",
		"code=C&state=S&x=" + strings.Repeat("x", maxPasted): "",
	} {
		q, err := ReadPasted(text)
		if got := q.Get("code") + " " + q.Get("state") + " " + q.Get("iss"); err == nil && got != want || err != nil && (want != "" || codeOf(err) != "callback_invalid") {
			t.Errorf("%q: %q, %v", text, got, err)
		}
		clean(t, err, "CODE")
	}
}

func TestRandom(t *testing.T) {
	a, b := Random(), Random()
	if len(a) != 43 || a == b {
		t.Error(a, b)
	}
}
