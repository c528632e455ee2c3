package config

import (
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/base/secret"
	"github.com/google/go-cmp/cmp"
)

const (
	testSecret = "hunter2hunter2"
	testKey    = "-----BEGIN PRIVATE KEY-----\nMIGHAgEAMBMGByqGSM49\n-----END PRIVATE KEY-----\n"
)

// signInFile parses a file with one server. Its entry has a URL unless entry says otherwise.
func signInFile(entry, signIn, ours string) (*Snapshot, Problems) {
	if !strings.Contains(entry, "url:") && !strings.Contains(entry, "command:") {
		entry = strings.Trim("url: https://h.example/mcp, "+entry, ", ")
	}
	text := "{mcpServers: {a: {" + entry + "}}, dragoman: {" + ours + " servers: {a: {signIn: " + signIn + "}}}}"
	secrets := func(_, name string) (Secret, bool, error) {
		switch name {
		case "idp":
			return NewSecret(testSecret), true, nil
		case "key":
			return NewSecret(testKey), true, nil
		}
		return Secret{}, false, nil
	}
	return ParseWith("/dir/dragoman.yaml", []byte(text), env("IDP="+testSecret, "CLIENT=id"), secrets)
}

func TestSignIn(t *testing.T) {
	const networked = `listen: "0.0.0.0:7300", allowUnauthenticatedNetworkAccess: true,`
	idp := NewSecret(testSecret)
	for _, c := range []struct {
		entry, signIn, ours string
		want                SignIn
		warns               string // a part of the only warning
	}{
		{"", "{}", "", SignIn{}, ""},
		{"", "", "", SignIn{}, ""},
		{"", `{how: auto, per: person, scopes: [repo, "read:user"], clientID: "${CLIENT}", clientSecret: "${secret:idp}", hold: 50s}`, "",
			SignIn{Scopes: []string{"repo", "read:user"}, ClientID: "id", ClientSecret: idp, Hold: 50 * time.Second}, ""},
		{"", `{scopes: "a b", per: shared, issuer: "https://id.example/", resource: auto}`, "", SignIn{Scopes: []string{"a", "b"}, Shared: true, Issuer: "https://id.example/"}, ""},
		{"", `{scopes: []}`, "", SignIn{}, ""},
		{"", `{resource: omit, callback: "http://localhost:3118/callback"}`, "", SignIn{Resource: ResourceOmit, Callback: "http://localhost:3118/callback"}, ""},
		{"", `{resource: "https://h.example/", callback: "https://h.example/back"}`, "", SignIn{Resource: "https://h.example/", Callback: "https://h.example/back"}, ""},
		{"", `{resource: "urn:x:y", callback: "http://[::1]:1/"}`, "", SignIn{Resource: "urn:x:y", Callback: "http://[::1]:1/"}, ""},
		{"", `{params: {access_type: offline, prompt: consent}}`, "", SignIn{Params: map[string]string{"access_type": "offline", "prompt": "consent"}}, ""},
		{"", `{authorizationURL: "https://id.example/a", tokenURL: "http://localhost:9/t", clientMetadataURL: "https://h.example/c.json"}`, "",
			SignIn{AuthorizationURL: "https://id.example/a", TokenURL: "http://localhost:9/t", ClientMetadataURL: "https://h.example/c.json"}, ""},
		{"", `{how: client-credentials, clientID: id, privateKey: "${secret:key}", tokenURL: "https://id.example/t"}`, "",
			SignIn{How: HowClient, ClientID: "id", PrivateKey: NewSecret(testKey), TokenURL: "https://id.example/t"}, ""},
		{"", `{how: workload, assertion: token.jwt}`, "", SignIn{How: HowWorkload, Assertion: "/dir/token.jwt"}, ""},
		{"", `{how: workload, assertion: "http://169.254.169.254/token"}`, "", SignIn{How: HowWorkload, Assertion: "http://169.254.169.254/token"}, ""},
		{"", `{how: enterprise, clientID: id, assertion: id.jwt, provider: {issuer: "https://idp.example", clientID: us, clientSecret: "${secret:idp}"}}`, "",
			SignIn{How: HowEnterprise, ClientID: "id", Assertion: "/dir/id.jwt", Provider: Provider{Issuer: "https://idp.example", ClientID: "us", ClientSecret: idp}}, ""},
		{"", `{provider: {issuer: "https://idp.example", clientID: us}}`, "", SignIn{Provider: Provider{Issuer: "https://idp.example", ClientID: "us"}}, "has a provider, which has no effect"},
		{"", `{how: none}`, "", SignIn{How: HowNone}, ""},
		{"", `{how: none, clientID: x}`, "", SignIn{How: HowNone, ClientID: "x"}, "has keys that have no effect beside how: none: clientID"},
		{"", `{how: headers, scopes: [a], per: shared}`, "", SignIn{How: HowHeaders, Scopes: []string{"a"}, Shared: true}, "no effect beside how: headers: scopes, per"},
		{`headers: {authorization: "Bearer x"}`, `{how: headers, issuer: "https://id.example/"}`, "", SignIn{How: HowHeaders, Issuer: "https://id.example/"}, "no effect beside how: headers: issuer"},
		// An Authorization header, or a password in the URL, means that nobody signs in.
		{`headers: {authorization: "Bearer x"}`, `{}`, "", SignIn{How: HowHeaders}, ""},
		{`headers: {X-Other: x}`, `{}`, "", SignIn{}, ""},
		{`url: "https://u:p@h.example/mcp"`, ``, "", SignIn{How: HowHeaders}, ""},
		{`headers: {Authorization: "Bearer x"}`, `{how: headers}`, "", SignIn{How: HowHeaders}, ""},
		{`headers: {Authorization: "Bearer x"}`, `{scopes: [a]}`, "", SignIn{How: HowHeaders, Scopes: []string{"a"}}, "is ignored, because the server has an Authorization header"},
		{`headers: {Authorization: "Bearer x"}, oauth: {clientId: id}`, `{}`, "", SignIn{How: HowHeaders, ClientID: "id"}, ""},
		// The keys of other clients are read, and ours win one by one.
		{`oauth: {clientId: id, callbackPort: 8080, scopes: "a b"}`, `{scopes: [c]}`, "", SignIn{ClientID: "id", Callback: "http://localhost:8080/callback", Scopes: []string{"c"}}, ""},
		{`auth: {CLIENT_ID: id, CLIENT_SECRET: "${IDP}"}`, ``, "", SignIn{ClientID: "id", ClientSecret: idp}, ""},
		{`oauth: {tokenParamName: x}`, ``, "", SignIn{}, "tokenParamName"},
		{"command: x", `{clientID: id}`, "", SignIn{}, "is ignored, because the server has a command"},
		{"command: x", ``, "", SignIn{}, ""},
		{"command: x, oauth: {clientId: id}", ``, "", SignIn{}, ""},
		{"", `{per: shared}`, networked, SignIn{Shared: true, Anonymous: true}, ""},
		{"", `{}`, networked, SignIn{Anonymous: true}, ""},
		{"", `{per: person}`, `allowUnauthenticatedNetworkAccess: true,`, SignIn{}, ""}, // on loopback
	} {
		s, problems := signInFile(c.entry, c.signIn, c.ours)
		if s == nil {
			t.Errorf("%s %s: %s", c.entry, c.signIn, listing(problems))
			continue
		}
		if d := cmp.Diff(c.want, s.Servers[0].SignIn, cmp.Comparer(secret.Text.Equal)); d != "" {
			t.Errorf("%s %s: %s", c.entry, c.signIn, d)
		}
		if c.warns == "" && len(problems) > 0 || c.warns != "" && (len(problems) != 1 || !strings.Contains(listing(problems), c.warns)) {
			t.Errorf("%s %s: %s", c.entry, c.signIn, listing(problems))
		}
		printed := s.AppendYAML(nil)
		if strings.Contains(string(printed), testSecret) || strings.Contains(string(printed), "MIGH") {
			t.Errorf("a secret in\n%s", printed)
		}
		again, problems := Parse("/dir/dragoman.yaml", printed, nil)
		if again == nil {
			t.Errorf("%s %s is printed as\n%s%s", c.entry, c.signIn, printed, listing(problems))
			continue
		}
		masked := func(x, y secret.Text) bool { return (x.Reveal() == "") == (y.Reveal() == "") }
		if d := cmp.Diff(c.want, again.Servers[0].SignIn, cmp.Comparer(masked)); d != "" && !strings.Contains(c.entry, "u:p@") {
			t.Errorf("%s %s is printed as\n%s%s", c.entry, c.signIn, printed, d)
		}
	}
}

func TestSignInProblems(t *testing.T) {
	for _, c := range []struct{ entry, signIn, ours, bad string }{
		{"", `{how: browser}`, "", `signIn.how: "browser" is not a valid value`},
		{"", `{per: user}`, "", `signIn.per: "user" is not a valid value`},
		{"", `{per: person}`, `listen: "0.0.0.0:7300", allowUnauthenticatedNetworkAccess: true,`, "signIn.per: nobody on the network has a name"},
		{"", `{scope: [a]}`, "", "unknown key; did you mean scopes?"},
		{"", `{scopes: ['a"b']}`, "", "is not a scope"},
		{"", `{clientID: ""}`, "", "is not the id of a client"},
		{"", `{clientSecret: hunter2hunter2}`, "", "has a clientSecret, but no clientID; add clientID"},
		{"", `{clientID: id, clientSecret: ""}`, "", "signIn.clientSecret: is empty"},
		{"", `{clientID: id, privateKey: hunter2hunter2}`, "", "is not a key in PEM"},
		{"", `{clientID: id, privateKey: "${secret:key}", clientSecret: "${secret:idp}"}`, "", "has both clientSecret and privateKey"},
		{"", `{clientID: id, clientSecret: "${secret:none}"}`, "", "there is no secret none"},
		{"", `{clientID: "${secret:idp}"}`, "", "must not contain ${secret:idp}"},
		{"", `{issuer: id.example}`, "", "issuer: is not an https URL"},
		{"", `{issuer: "https://u:hunter2hunter2@id.example"}`, "", "issuer: must not have a user name"},
		{"", `{authorizationURL: "javascript:alert(1)", tokenURL: "https://id.example/t"}`, "", "authorizationURL: is not an https URL"},
		{"", `{authorizationURL: "https://id.example/a"}`, "", "has an authorizationURL, but no tokenURL"},
		{"", `{tokenURL: "https://id.example/t"}`, "", "has a tokenURL, but no authorizationURL"},
		{"", `{clientMetadataURL: "http://h.example/c.json"}`, "", "is not the URL of a client's document"},
		{"", `{clientMetadataURL: "https://h.example/"}`, "", "is not the URL of a client's document"},
		{"", `{callback: "http://h.example:1/"}`, "", "is http on another machine"},
		{"", `{callback: "http://localhost/callback"}`, "", "callback: has no port"},
		{"", `{callback: "cursor://x/y"}`, "", "is not a redirect URI"},
		{"", `{callback: "http://localhost:1/#x"}`, "", "must not have a user name or a fragment"},
		{"", `{resource: none}`, "", `"none" is not a resource`},
		{"", `{resource: "https://h.example/#"}`, "", "is not a resource"},
		{"", `{params: {state: x}}`, "", "params.state: Dragoman sets this parameter itself; remove it"},
		{"", `{params: {scope: x}}`, "", "params.scope: Dragoman sets this parameter itself; write signIn.scopes"},
		{"", `{params: {"a b": x}}`, "", "has a name that is not a parameter"},
		{"", `{hold: 1h}`, "", "hold: must be between 1s and 10m"},
		{"", `{how: client-credentials, clientID: id}`, "", "client-credentials needs a clientID, and a clientSecret or a privateKey"},
		{"", `{how: workload}`, "", "workload needs an assertion"},
		{"", `{how: exchange}`, "", "exchange needs an assertion"},
		{"", `{how: enterprise, assertion: f}`, "", "enterprise needs a provider"},
		{"", `{how: enterprise, assertion: f, provider: {issuer: "https://idp.example"}}`, "", "provider: needs an issuer and a clientID"},
		{"", `{how: enterprise, assertion: f, provider: {issuer: idp, clientID: us}}`, "", "provider.issuer: is not an https URL"},
		{"", `{how: workload, assertion: ey.hunter2hunter2.x}`, "", "assertion: is not a path"},
		{`headers: {Authorization: x}`, `{how: auto}`, "", "the server has an Authorization header, so how: auto cannot work; remove the header, or write how: headers"},
		{`headers: {Authorization: x}`, `{how: workload, assertion: f}`, "", "so how: workload cannot work"},
		{`oauth: {callbackPort: x}`, ``, "", "oauth.callback: is not a redirect URI"},
	} {
		_, problems := signInFile(c.entry, c.signIn, c.ours)
		text := listing(problems)
		for _, p := range problems {
			text += p.Source
		}
		if problems.Err() == nil || !strings.Contains(text, c.bad) || strings.Contains(text, testSecret) {
			t.Errorf("%s %s:\n got %s\nwant %s", c.entry, c.signIn, text, c.bad)
		}
	}
	_, problems := ParseProject("p", []byte(`{mcpServers: {a: {url: "https://h.example/mcp"}}, servers: {a: {signIn: {how: workload, assertion: /etc/shadow}}}}`), Default(), nil)
	if !strings.Contains(listing(problems), "works only in the configuration file") {
		t.Errorf("a project of the store reads a file: %s", listing(problems))
	}
	_, problems = ParseProject("p", []byte(`{mcpServers: {a: {url: "https://h.example/mcp"}}, servers: {a: {signIn: {how: exchange, assertion: "http://127.0.0.1:9/"}}}}`), Default(), nil)
	if !strings.Contains(listing(problems), "works only in the configuration file") {
		t.Errorf("a project of the store asks this machine: %s", listing(problems))
	}
}

// TestSignInChanges checks that a changed way to sign in restarts the server, except for hold, and that the
// secrets are masked in what the server says.
func TestSignInChanges(t *testing.T) {
	before, _ := signInFile("", `{clientID: id, clientSecret: "${secret:idp}", params: {a: b}}`, "")
	for signIn, restart := range map[string]bool{
		`{clientID: id, clientSecret: "${secret:idp}", params: {a: b}, hold: 5s}`:     false,
		`{clientID: id, clientSecret: "x", params: {a: b}}`:                           true,
		`{clientID: id, clientSecret: "${secret:idp}", params: {a: c}}`:               true,
		`{clientID: id, clientSecret: "${secret:idp}", params: {a: b}, scopes: [a]}`:  true,
		`{clientID: id, clientSecret: "${secret:idp}", params: {a: b}, per: shared}`:  true,
		`{clientID: id, clientSecret: "${secret:idp}", params: {a: b}, how: headers}`: true,
	} {
		after, problems := signInFile("", signIn, "")
		if after == nil {
			t.Fatal(listing(problems))
		}
		got := after.Since(before)
		if want := []ServerChange{{"a", []string{"signIn"}, restart}}; !reflect.DeepEqual(got.Changed, want) {
			t.Errorf("%s: %+v", signIn, got)
		}
	}
	if got := before.Servers[0].Secrets(); len(got) == 0 || got[0] != testSecret {
		t.Errorf("%q", got)
	}
}

func TestEgress(t *testing.T) {
	for text, want := range map[string]string{
		`[id.internal]`: "id.internal", `["*.Corp.example", "10.0.0.1:8443", "::1"]`: "*.corp.example 10.0.0.1:8443 ::1",
		`[]`: "",
		`id`: "! must be a list", `["*"]`: "! contains *", `["*.com"]`: "! contains *", `["https://x"]`: "! is not a host", `[""]`: "! is empty", `["a/b"]`: "! is not a host",
	} {
		s, problems := Parse("f", []byte(`{mcpServers: {a: {command: x}}, dragoman: {egress: {allow: `+text+`}}}`), nil)
		bad, isBad := strings.CutPrefix(want, "! ")
		switch {
		case isBad && (s != nil || !strings.Contains(listing(problems), bad)), !isBad && (s == nil || strings.Join(s.Egress.Allow, " ") != want):
			t.Errorf("%s: %s, want %s", text, listing(problems), want)
		case isBad:
		default:
			if again, problems := Parse("f", s.AppendYAML(nil), nil); again == nil || strings.Join(again.Egress.Allow, " ") != want {
				t.Errorf("%s is printed as\n%s%s", text, s.AppendYAML(nil), listing(problems))
			}
		}
	}
}
