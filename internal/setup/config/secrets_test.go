package config

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const vaulted = "v4ult-canary"

// shop has the secrets of one project.
func shop(_, name string) (Secret, bool, error) {
	switch name {
	case "gh", "other.name-1":
		return NewSecret(vaulted), true, nil
	case "broken":
		return Secret{}, false, errors.New("the sealed value \"broken\" of \"shop\" cannot be opened: it was changed")
	case "nul":
		return NewSecret(vaulted + "\x00"), true, nil
	case "lines":
		return NewSecret(vaulted + "\r\nX-Evil: 1"), true, nil
	}
	return Secret{}, false, nil
}

// TestTM19_SecretsStayHidden puts a secret wherever one may be, and looks for it in all that we show.
func TestTM19_SecretsStayHidden(t *testing.T) {
	file := `mcpServers:
  a: {command: x, args: ["--token", "${secret:gh}", "--key=${secret:gh}", "${T}"], env: {T: "${secret:gh}", U: "u-${T}", HOME: "${secret:other.name-1}"}}
  b: {url: "http://u:${secret:gh}@h/${secret:gh}/mcp?k=${secret:gh}", headers: {Authorization: "Bearer ${secret:gh}", X-B: "$${secret:gh}"}}
dragoman:
  telemetry: {traces: {endpoint: "http://127.0.0.1:4318", headers: {X-Key: "${secret:gh}"}}}
`
	s, problems := ParseWith("f", []byte(file), nil, shop)
	if s == nil || len(problems) > 0 {
		t.Fatalf("%v", problems)
	}
	a, _ := s.Server("a")
	b, _ := s.Server("b")
	if got := fmt.Sprint(a.Args, a.Env["T"].Reveal(), a.Env["U"].Reveal(), b.URL, b.Header[0].Value.Reveal(), b.Header[1].Value.Reveal(), s.Traces.Header[0].Value.Reveal()); got != fmt.Sprintf("[--token %[1]s --key=%[1]s %[1]s]%[1]su-%[1]shttp://u:%[1]s@h/%[1]s/mcp?k=%[1]sBearer %[1]s${secret:gh}%[1]s", vaulted) {
		t.Errorf("the values are %s", got)
	}
	marshalled, err := json.Marshal(struct{ Env, Header any }{a.Env, b.Header})
	if err != nil {
		t.Error(err)
	}
	for what, shown := range map[string]string{
		"config": string(s.AppendYAML(nil)), "a": a.Describe(), "b": b.Describe(), "json": string(marshalled), "fmt": fmt.Sprintf("%+v %#v", a.Env, b.Header),
		"fingerprints": a.Fingerprint + b.Fingerprint,
	} {
		if strings.Contains(shown, vaulted) {
			t.Errorf("%s shows the secret: %s", what, shown)
		}
	}
	for _, srv := range []Server{a, b} {
		if !strings.Contains(strings.Join(srv.Secrets(), " "), vaulted) {
			t.Errorf("what %s writes is not masked", srv.Name)
		}
	}
	rotated, _ := ParseWith("f", []byte(file), nil, func(_, _ string) (Secret, bool, error) { return NewSecret("another-value"), true, nil })
	if c := rotated.Since(s); len(c.Changed) != 2 || !c.Changed[0].Restart || !c.Changed[1].Restart || strings.Contains(fmt.Sprint(c), vaulted) {
		t.Errorf("another value: %+v", c)
	}
	if again, _ := ParseWith("f", []byte(file), nil, shop); !again.Equal(s) {
		t.Error("the same file and secrets give another configuration")
	}
}

// TestSecretReferences checks what a reference to a secret may be, and that a secret which isn't there
// concerns its server alone.
func TestSecretReferences(t *testing.T) {
	const none = "put the value into an environment variable or into the file of dragoman.envFile, and write ${NAME}"
	for _, tt := range []struct {
		entry   string // of the server b
		secrets Secrets
		want    string // the problem; "" for none
		file    bool   // whether the whole file is unusable
	}{
		{entry: `{command: x, env: {K: "${secret:gh}"}}`, secrets: shop},
		{entry: `{command: x, env: {K: "${secret:none}"}}`, secrets: shop, want: "env.K: there is no secret none; run `dragoman secrets set none`"},
		{entry: `{command: x, env: {K: "${secret:broken}"}}`, secrets: shop, want: "env.K: the secret broken cannot be read: the sealed value \"broken\" of \"shop\" cannot be opened: it was changed; store it again with `dragoman secrets set broken`"},
		{entry: `{command: x, args: ["${secret:gh}"]}`, want: "args[0]: the secret gh cannot be read, because only dragoman serve reads secrets, from its store; " + none},
		{entry: `{url: "${secret:gh}"}`, want: "url: the secret gh cannot be read, because only dragoman serve reads secrets, from its store; " + none},
		{entry: `{url: "http://h", headers: {A: "x ${secret:none}"}}`, secrets: shop, want: "headers.A: there is no secret none; run `dragoman secrets set none`"},
		{entry: `{command: x, args: ["${T}"], env: {T: "${secret:none}"}}`, secrets: shop, want: "env.T: there is no secret none; run `dragoman secrets set none`"},

		{entry: `{command: x, env: {K: "${secret:}"}}`, secrets: shop, file: true, want: "env.K: ${secret:} is not a valid reference to a secret; write ${secret:NAME}, and in NAME only letters, digits, _, - and ."},
		{entry: `{command: x, env: {K: "${secret:gh:-default}"}}`, secrets: shop, file: true, want: "env.K: ${secret:gh:-default} is not a valid reference to a secret; write ${secret:NAME}, and in NAME only letters, digits, _, - and ."},
		{entry: `{command: x, env: {K: "${secret:../bank/gh}"}}`, secrets: shop, file: true, want: "env.K: ${secret:../bank/gh} is not a valid reference to a secret; write ${secret:NAME}, and in NAME only letters, digits, _, - and ."},
		{entry: `{command: v4ult-canary, env: {K: "${secret:gh}"}, disabled: maybe}`, secrets: shop, file: true, want: "disabled: must be true or false"},
		{entry: `{command: "${secret:gh}"}`, secrets: shop, file: true, want: "command: must not contain ${secret:gh}, because Dragoman shows this value; use the secret in the env, headers, args or url of a server"},
		{entry: `{command: "${secret:gh}"}`, file: true, want: "command: must not contain ${secret:gh}, because Dragoman shows this value; use the secret in the env, headers, args or url of a server"},
		{entry: `{command: x, cwd: "${T}", env: {T: "${secret:gh}"}}`, secrets: shop, file: true, want: "cwd: must not contain ${secret:gh}, because Dragoman shows this value; use the secret in the env, headers, args or url of a server"},
		{entry: `{command: x, env: {K: "${secret:nul}"}}`, secrets: shop, file: true, want: "env.K: must not contain a NUL character"},
		{entry: `{url: "http://h", headers: {A: "${secret:lines}"}}`, secrets: shop, file: true, want: "headers.A: a header's value must be one line without control characters"},
	} {
		file := "mcpServers:\n  a: {command: y}\n  b: " + tt.entry + "\n"
		s, problems := ParseWith("f", []byte(file), nil, tt.secrets)
		got := ""
		for _, p := range problems {
			got += p.String() + "\n"
			if strings.Contains(p.String()+p.Source, vaulted) {
				t.Errorf("a problem shows the secret: %v", p)
			}
		}
		if tt.want == "" && got != "" || strings.Count(got, "\n") > 1 || !strings.Contains(got, tt.want) {
			t.Errorf("%s:\n got %swant %s", tt.entry, got, tt.want)
		}
		if (s == nil) != tt.file {
			t.Errorf("%s: whether the file can be used: %v", tt.entry, s != nil)
		}
		if s == nil {
			continue
		}
		a, _ := s.Server("a")
		if b, _ := s.Server("b"); a.Unusable != nil || (b.Unusable != nil) != (tt.want != "") || tt.want != "" && (b.Unusable.Secret == "" || b.Unusable.Variable != "" || b.Unusable.Server != "b") {
			t.Errorf("%s: %+v", tt.entry, b.Unusable)
		}
	}
	if s, problems := ParseWith("f", []byte(`dragoman: {listen: "${secret:gh}"}`), nil, shop); s != nil || !strings.Contains(fmt.Sprint(problems), "dragoman.listen: must not contain") {
		t.Errorf("%v", problems)
	}
	if s, problems := ParseWith("f", []byte(`dragoman: {server: {allowSecretsInInstructions: true, instructions: {text: "${secret:gh}"}}}`), nil, shop); s != nil || strings.Contains(fmt.Sprint(problems), vaulted) {
		t.Errorf("%v", problems)
	}
	if s, problems := ParseWith("f", []byte(`mcpServers: {a: {command: x, disabled: true, env: {K: "${secret:none}"}}}`), nil, shop); s == nil || problems.Err() != nil || len(problems) != 1 {
		t.Errorf("%v", problems)
	}
	if _, p := Expand("${secret:gh}", os.LookupEnv); p == nil || !strings.Contains(p.Text, "only dragoman serve") {
		t.Errorf("%v", p)
	}
}

// TestSecretsOutsideServers checks that a file can be used although the headers of traces, or a disabled
// server, lack a secret, and that we know whether a file refers to secrets.
func TestSecretsOutsideServers(t *testing.T) {
	const traces = `dragoman: {telemetry: {traces: {endpoint: "http://127.0.0.1:4318", headers: {X-A: a, X-Key: "Bearer ${secret:%s}"}}}}`
	for _, tt := range []struct {
		file, want string // want is a part of the warning; "" for none
		secrets    Secrets
		reads      bool
		headers    int
	}{
		{`mcpServers: {a: {command: x, args: ["$${secret:gh}"]}}`, "", shop, false, 0},
		{`mcpServers: {a: {command: x, env: {K: "${secret:gh}"}}}`, "", shop, true, 0},
		{`mcpServers: {a: {command: x, disabled: true, env: {K: "${secret:none}"}}}`, "there is no secret none", shop, true, 0},
		{fmt.Sprintf(traces, "gh"), "", shop, true, 2},
		{fmt.Sprintf(traces, "none"), "there is no secret none", shop, true, 1},
		{fmt.Sprintf(traces, "gh"), "only dragoman serve reads secrets", nil, true, 1},
	} {
		s, problems := ParseWith("f", []byte(tt.file), nil, tt.secrets)
		if s == nil || s.ReadsSecrets() != tt.reads || len(s.Traces.Header) != tt.headers {
			t.Errorf("%s: %+v %v", tt.file, s, problems)
		}
		if tt.want == "" && len(problems) > 0 || tt.want != "" && (len(problems) != 1 || !problems[0].Warning || problems[0].Secret == "" || !strings.Contains(problems[0].Text, tt.want)) {
			t.Errorf("%s: %v", tt.file, problems)
		}
	}
}

// TestPrintMissingSecrets checks that a setting whose secret can't be read is printed with a note.
func TestPrintMissingSecrets(t *testing.T) {
	s, _ := Parse("f", []byte(`mcpServers: {a: {command: x, args: [b, "${secret:gh}"], env: {K: "${secret:gh}"}}}`), nil)
	if s == nil {
		t.Fatal("the file is refused")
	}
	for _, want := range []string{`args: [b, "${secret:gh}"]`, `K: "***"  # ${secret:gh} cannot be read`} {
		if got := string(s.AppendYAML(nil)); !strings.Contains(got, want) {
			t.Errorf("%s is missing in\n%s", want, got)
		}
	}
}

// TestMissingSecretChanges checks that a server which lacks another secret than before says so.
func TestMissingSecretChanges(t *testing.T) {
	parse := func(secret string) *Snapshot {
		s, _ := ParseWith("f", []byte(`mcpServers: {a: {command: x, env: {K: "${secret:`+secret+`}"}}}`), nil, shop)
		return s
	}
	for before, after := range map[string]string{"none": "neither", "neither": "gh", "gh": "none"} {
		if c := parse(after).Since(parse(before)); len(c.Changed) != 1 || !c.Changed[0].Restart {
			t.Errorf("from %s to %s: %+v", before, after, c)
		}
	}
}

// TestLoadWith loads a file with a secret, and finds its lines again.
func TestLoadWith(t *testing.T) {
	path := filepath.Join(t.TempDir(), "c.yaml")
	if err := os.WriteFile(path, []byte("mcpServers:\n  a:\n    command: x\n    env:\n      K: ${secret:gh}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	s, problems := LoadWith(path, shop)
	if s == nil || len(problems) > 0 {
		t.Fatalf("%v", problems)
	}
	if where := s.Where(); where["mcpServers.a.env.K"] != 5 {
		t.Errorf("%v", where)
	}
	if s, _ := Load(path); s == nil || s.Servers[0].Unusable == nil {
		t.Error("without secrets, the server is usable")
	}
}
