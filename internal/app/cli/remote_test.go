package cli

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/base/failure"
	"github.com/dragoman-mcp/dragoman/internal/testkit/certtest"
)

// certificate writes a certificate that is valid for a time, and its key, into the user's folder.
func (u *user) certificate(life time.Duration) (cert, key string) {
	u.Helper()
	certtest.Write(u.T, u.write("cert.pem", ""), u.write("key.pem", ""), 48*time.Hour, life)
	return "cert.pem", "key.pem"
}

// with returns an environment with one more variable.
func (u *user) with(name, value string) environment {
	return func(n string) (string, bool) {
		if n == name {
			return value, true
		}
		return u.env(n)
	}
}

// TestRemoteCommands uses a serve with TLS as another machine would: with --url and a key, in each role. The commands
// of the user who started it change its database as before, because it doesn't know them over the network.
func TestRemoteCommands(t *testing.T) {
	u := newUser(t)
	cert, key := u.certificate(time.Hour)
	u.write("dragoman.yaml", "mcpServers: {}\ndragoman: {listen: \"0.0.0.0:0\", database: team.db, tls: {cert: "+cert+", key: "+key+"}}\n")
	keys := map[string]string{}
	for _, role := range []string{"caller", "viewer", "operator", "admin"} {
		code, text, said := u.run("keys", "add", role, "--role", role)
		if code != exitOK {
			t.Fatalf("%d %s", code, said)
		}
		keys[role] = strings.TrimSpace(text)
	}
	_, port, _ := net.SplitHostPort(u.serve())
	base := "https://127.0.0.1:" + port
	if code, _, said := u.run("keys", "revoke", "caller"); code != exitOK { // finds the serve, which doesn't know us
		t.Errorf("keys without --url: %d %s", code, said)
	}
	if code, _, said := u.run("status"); code != exitFailure || !strings.Contains(said, "speaks TLS, and needs an API key") || !strings.Contains(said, "--url") {
		t.Errorf("status without --url: %d %s", code, said)
	}
	if code, _, said := u.run("console"); code != exitFailure || !strings.Contains(said, "dragoman people invite NAME") {
		t.Errorf("console: %d %s", code, said)
	}
	if code, _, said := u.run("healthcheck"); code != exitOK {
		t.Errorf("healthcheck: %d %s", code, said)
	}
	run := func(key, stdin string, args ...string) (int, string, string) {
		var out, said syncBuffer
		env := u.with(keyVariable, key)
		a := &app{world: world{backend: Daemon(), stdin: strings.NewReader(stdin), stdout: &out, env: env, program: "dragoman", status: newStatus(&said, false, noEnv)}}
		code := a.main(append(args, "--url", base+"/mcp"))
		return code, out.take(), said.take()
	}
	if !soon(func() bool { code, _, _ := run(keys["caller"], "", "status"); return code != exitOK }) {
		t.Error("the caller's key is still accepted")
	}
	const small = "the role of the key in DRAGOMAN_KEY does not suffice: this needs the role admin in the project default, which you don't have\n"
	for _, c := range []struct {
		key, stdin string
		args       []string
		out, said  string // "" for said means success
	}{
		{"viewer", "", []string{"status"}, "at " + base + "/mcp", ""},
		{"viewer", "", []string{"calls"}, "", ""},
		{"viewer", "", []string{"logs"}, "", ""},
		{"operator", "", []string{"keys"}, "operator", ""},
		{"viewer", "", []string{"secrets"}, "", "operator"},
		{"operator", "", []string{"reload"}, "", small},
		{"admin", "", []string{"keys"}, "operator", ""},
		{"admin", "canary", []string{"secrets", "set", "github"}, "", ""},
		{"admin", "", []string{"secrets"}, "github", ""},
		{"admin", "", []string{"keys", "add", "more"}, "drgk_", ""},
		{"admin", "", []string{"keys", "--project", "shop"}, "", "a key works only in its own project"},
		{"operator", "", []string{"projects", "add", "lab"}, "", "Only an admin of the project default may add projects"},
		{"admin", "title: Lab\n", []string{"projects", "add", "lab", "--file", "-"}, "", ""},
		{"admin", "", []string{"projects", "export", "lab"}, "title: Lab", ""},
		{"viewer", "", []string{"projects"}, "default", ""},
		{"operator", "", []string{"projects", "export", "lab"}, "", "no project is named"},
		{"admin", "", []string{"projects", "remove", "lab", "--yes"}, "", ""},
		{"caller", "", []string{"status"}, "", "127.0.0.1:" + port + " does not accept the key in DRAGOMAN_KEY: this API key is unknown, expired or revoked"},
	} {
		code, out, said := run(keys[c.key], c.stdin, c.args...)
		if (code == exitOK) != (c.said == "") || !strings.Contains(out, c.out) || !strings.Contains(said, c.said) {
			t.Errorf("%v as %s: %d %s%s", c.args, c.key, code, out, said)
		}
		if strings.Contains(c.said, "its own project") && code != exitUsage { // as for the serve on this machine
			t.Errorf("%v: %d", c.args, code)
		}
		if strings.Contains(said, keys[c.key][20:40]) || strings.Contains(out, "canary") {
			t.Errorf("%v shows a secret: %s%s", c.args, out, said)
		}
	}
	if code, out, _ := run(keys["admin"], "", "keys", "--json"); code != exitOK || !strings.Contains(out, `"by": "k:`+keys["admin"][5:17]) {
		t.Errorf("the admin's key is not named as who made a key: %s", out)
	}
}

// TestBadURLs checks what people are told who use --url wrongly. No program gets the key that isn't asked for it.
func TestBadURLs(t *testing.T) {
	u := newUser(t)
	u.certificate(time.Hour)
	u.write("dragoman.yaml", "mcpServers: {}\ndragoman: {listen: 127.0.0.1:1, database: team.db}\n")
	_, key, _ := u.run("-q", "keys", "add", "x")
	key = strings.TrimSpace(key)
	typo := key[:30] + "A" + key[31:]
	if typo == key {
		typo = key[:30] + "B" + key[31:]
	}
	var got []string
	other := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.URL.Path, "/elsewhere") {
			got = append(got, r.Header.Get("Authorization"))
		}
		http.Redirect(w, r, "/elsewhere", http.StatusFound)
	}))
	defer other.Close()
	plain := strings.Replace(other.URL, "http:", "https:", 1)
	_, refused := net.Dial("tcp", "127.0.0.1:1")
	if refused == nil {
		t.Fatal("something listens on port 1")
	}
	for _, c := range []struct {
		name, key string
		args      []string
		code      int
		text      string
	}{
		{"no TLS", key, []string{"--url", "http://mcp.example.com"}, exitUsage, `"http://mcp.example.com" has no TLS` + "\nhint: use https://"},
		{"no key", "", []string{"--url", other.URL}, exitUsage, "--url needs the environment variable DRAGOMAN_KEY"},
		{"another text", "secret-text", []string{"--url", other.URL}, exitUsage, "the text in DRAGOMAN_KEY is not an API key"},
		{"a typing error", typo, []string{"--url", other.URL}, exitUsage, "the text in DRAGOMAN_KEY is not an API key"},
		{"no URL", key, []string{"--url", "mcp.example.com"}, exitUsage, `"mcp.example.com" is not the URL of a`},
		{"with a password", key, []string{"--url", "ftp://me:secret-text@mcp.example.com"}, exitUsage, `"ftp://mcp.example.com" is not the URL of a`},
		{"and --listen", key, []string{"--url", other.URL, "--listen", "127.0.0.1:1"}, exitUsage, "use --url alone"},
		{"and -c", key, []string{"--url", other.URL, "-c", "dragoman.yaml"}, exitUsage, "use --url alone"},
		{"another program", key, []string{"--url", other.URL}, exitFailure, "is not `dragoman serve`\nhint: check the URL; it is what clients use, without /mcp"},
		{"a program without TLS", key, []string{"--url", plain}, exitFailure, "does not speak TLS\nhint: use http:// in the URL"},
		{"nobody", key, []string{"--url", "https://127.0.0.1:1"}, exitFailure, "no `dragoman serve` answers at 127.0.0.1:1: " + failure.Reason(refused) + "\n"},
	} {
		for _, command := range []string{"status", "keys"} {
			var said syncBuffer
			a := &app{world: world{backend: Daemon(), stdin: strings.NewReader(""), stdout: io.Discard, env: u.with(keyVariable, c.key), program: "dragoman", status: newStatus(&said, false, noEnv)}}
			code, text := a.main(append([]string{command}, c.args...)), ""
			if text = strings.ReplaceAll(said.take(), "dragoman: hint", "hint"); code != c.code || !strings.Contains(text, c.text) || strings.Contains(text, "secret-text") {
				t.Errorf("%s: %s: %d %s", command, c.name, code, text)
			}
		}
	}
	if len(got) > 0 {
		t.Errorf("a redirect got the key: %q", got)
	}
	s := &running{address: "mcp.example.com:443", key: key}
	for text, err := range map[string]error{
		"nobody whom this machine trusts has issued the certificate of mcp.example.com:443": &tls.CertificateVerificationError{Err: x509.UnknownAuthorityError{}},
		"the certificate of mcp.example.com:443 is for another name":                        &tls.CertificateVerificationError{Err: x509.HostnameError{Certificate: &x509.Certificate{}, Host: "x"}},
		"the certificate of mcp.example.com:443 has expired or is not valid yet":            &tls.CertificateVerificationError{Err: x509.CertificateInvalidError{Reason: x509.Expired}},
		"there is no host mcp.example.com":                                                  &net.OpError{Err: &net.DNSError{Name: "mcp.example.com", IsNotFound: true}},
	} {
		var hinted interface{ Hint() string }
		if got := s.unreachable(&url.Error{Op: "Get", URL: "https://x", Err: err}); got.Error() != text || !errors.As(got, &hinted) || hinted.Hint() == "" {
			t.Errorf("%v: %v", err, got)
		}
	}
}

// TestHugeAnswers gives --url answers that never end: in one text, in many objects, in many items and in many pages.
// The command says what is wrong, and takes little memory.
func TestHugeAnswers(t *testing.T) {
	u := newUser(t)
	u.write("dragoman.yaml", "mcpServers: {}\ndragoman: {listen: 127.0.0.1:1, database: team.db}\n")
	_, key, _ := u.run("-q", "keys", "add", "x")
	var pages atomic.Int32
	for name, c := range map[string]struct{ begin, again, want string }{
		"a text":     {`{"keys":[{"name":"`, strings.Repeat("x", 1<<20), "is too large"},
		"a list":     {`{"keys":[{}`, strings.Repeat(",{}", 1<<18), "is too large"},
		"nested":     {`{"keys":[`, strings.Repeat("[", 1<<18), "is too large"},
		"many items": {`{"keys":[{}` + strings.Repeat(",{}", 500) + `]}`, "", "is not `dragoman serve`"},
		"many pages": {`{"keys":[{"id":"x"}],"next":"x"}`, "", "is too large"},
		"no JSON":    {`{"keys":["}`, "", "is not `dragoman serve`"},
	} {
		other := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			_, _ = io.WriteString(w, c.begin)
			for sent := 0; c.again != "" && sent < 1<<30; sent += len(c.again) {
				if _, err := io.WriteString(w, c.again); err != nil {
					return
				}
			}
			pages.Add(1)
		}))
		var said syncBuffer
		a := &app{world: world{backend: Daemon(), stdin: strings.NewReader(""), stdout: io.Discard, env: u.with(keyVariable, strings.TrimSpace(key)), program: "dragoman", status: newStatus(&said, false, noEnv)}}
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		code := a.main([]string{"keys", "--url", other.URL})
		runtime.ReadMemStats(&after)
		if text := said.take(); code != exitFailure || !strings.Contains(text, c.want) {
			t.Errorf("%s: %d %s", name, code, text)
		}
		if all := (after.TotalAlloc - before.TotalAlloc) >> 20; all > 160 { // all that was ever allocated; the most at a time is far less
			t.Errorf("%s: %d MiB were allocated", name, all)
		}
		other.Close()
	}
	if pages.Load() > 210 {
		t.Errorf("%d pages were read", pages.Load())
	}
}

// TestCheckCertificate checks that config check reports what is wrong with a certificate.
func TestCheckCertificate(t *testing.T) {
	u := newUser(t)
	u.write("dragoman.yaml", "mcpServers: {a: {url: \"https://x.example/mcp\"}}\ndragoman: {tls: {cert: cert.pem, key: key.pem}}\n")
	check := func(want int, text string) {
		t.Helper()
		if code, out, said := u.run("config", "check"); code != want || !strings.Contains(out, text) {
			t.Errorf("%d, want %d and %s: %s%s", code, want, text, out, said)
		}
	}
	check(exitFailure, `dragoman.tls.cert: the file "`)
	u.certificate(-24 * time.Hour)
	check(exitFailure, `cert.pem" expired on `)
	u.certificate(time.Hour)
	check(exitOK, "ok")
	u.write("key.pem", "-----BEGIN PRIVATE KEY-----\naGVsbG8=\n-----END PRIVATE KEY-----\n")
	check(exitFailure, "dragoman.tls.key: the key in ")
}

// TestCheckSealKeys checks that config check reports what is wrong with the file of sealing keys.
func TestCheckSealKeys(t *testing.T) {
	u := newUser(t)
	u.write("dragoman.yaml", "mcpServers: {a: {url: \"https://x.example/mcp\"}}\ndragoman: {sealKeys: seal.keys}\n")
	for _, c := range []struct {
		keys, want string
		code       int
	}{
		{"", "seal.keys does not exist; make it with `(umask 077; openssl rand -base64 32 > ", exitFailure},
		{"c2hvcnQ=\n", "is malformed: line 1 has a key of 5 bytes, and a key has 32; write one line of ", exitFailure},
		{"q83vEjRWeJCrze8SNFZ4kKvN7xI0VniQq83vEjRWeJA=\n", "ok", exitOK},
	} {
		if c.keys != "" {
			u.write("seal.keys", c.keys)
		}
		if code, out, said := u.run("config", "check"); code != c.code || !strings.Contains(out, c.want) || c.keys != "" && strings.Contains(out, c.keys) {
			t.Errorf("%d, want %d and %s: %s%s", code, c.code, c.want, out, said)
		}
	}
}
