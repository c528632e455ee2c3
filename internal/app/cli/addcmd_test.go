package cli

import (
	"archive/zip"
	"bytes"
	"crypto/sha256"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// adder runs `dragoman add` for a user who has only npx.
type adder struct {
	*user
	registry string
	config   string
}

func newAdder(t *testing.T, servers map[string]string) *adder {
	u := newUser(t)
	for _, name := range []string{"npx", "npx.exe"} {
		if err := os.Chmod(u.write("bin/"+name, "#!/bin/sh\n"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("PATH", filepath.Join(u.home, "bin"))
	t.Setenv("XDG_DATA_HOME", filepath.Join(u.home, "data"))
	return &adder{u, playRegistry(t, servers), u.write("dragoman.yaml", "mcpServers:\n  old: {command: old-mcp, env: {TOKEN: hunter22222}} # mine\n")}
}

// env is the user's environment, in which one secret is set.
func (a *adder) env(name string) (string, bool) {
	if name == "MORE_TOKEN" {
		return "hunter33333", true
	}
	return a.user.env(name)
}

// try runs the command. typed is what the user types at the terminal; "" means that there is none.
func (a *adder) try(typed string, args ...string) (code int, out, said string) {
	var stdout, stderr syncBuffer
	w := world{stdin: strings.NewReader(""), stdout: &stdout, env: a.env, status: newStatus(&stderr, false, noEnv), interactive: typed != "", keyboard: typed != ""}
	in := io.NopCloser(strings.NewReader(typed)) // the questions of one command read one after another
	w.openInput = func() (io.ReadCloser, error) { return in, nil }
	code = (&app{world: w}).main(append([]string{"add", "--registry", a.registry}, args...))
	return code, stdout.take(), stderr.take()
}

// file returns the configuration file, and whether it has changed.
func (a *adder) file() string {
	a.Helper()
	b, err := os.ReadFile(a.config)
	if err != nil {
		a.Fatal(err)
	}
	return string(b)
}

const weatherServer = `"description":"Rain","repository":{"url":"https://github.com/a/weather"},"packages":[
	{"registryType":"oci","identifier":"a/weather:1.2.3","transport":{"type":"stdio"}},
	{"registryType":"npm","identifier":"@a/weather","version":"1.2.3","transport":{"type":"stdio"},
	 "packageArguments":[{"type":"named","name":"--units","choices":["metric","us"],"isRequired":true,"description":"Units"},{"type":"named","name":"--limit","format":"number","default":"5"},
		{"type":"positional","valueHint":"place","value":"; rm -rf ${HOME}"}],
	 "environmentVariables":[{"name":"API_KEY","isSecret":true,"isRequired":true,"description":"\u001b[31mThe key"},{"name":"MORE_TOKEN","description":"More"}]}],
	"remotes":[{"type":"streamable-http","url":"https://weather.example.com/mcp"}]`

func TestAddFromRegistry(t *testing.T) {
	a := newAdder(t, map[string]string{
		"io.github.a/weather": weatherServer,
		"io.github.a/odd":     `"description":"x","packages":[{"registryType":"npm","identifier":"odd","version":"1.0.0","registryBaseUrl":"https://npm.example.com"}]`,
		"io.github.a/bad":     `"description":"x","packages":[{"registryType":"npm","identifier":"--x","version":"1.0.0"}]`,
		"io.github.a/old":     `"description":"x","remotes":[{"type":"sse","url":"https://old.example.com"}]`,
	})
	before := a.file()
	// unchanged runs a command that writes nothing.
	unchanged := func(want int, text, typed string, args ...string) {
		t.Helper()
		code, out, said := a.try(typed, args...)
		if code != want || !strings.Contains(out+said, text) || a.file() != before || strings.Contains(out+said, "hunter") || strings.Contains(out+said, "\x1b") {
			t.Errorf("%q: %d\n%s%s\n%s", args, code, out, said, a.file())
		}
	}
	unchanged(exitUsage, "add --set units=…", "", "io.github.a/weather")
	unchanged(exitUsage, "must be one of metric, us", "", "io.github.a/weather", "--set", "units=x")
	unchanged(exitUsage, "add --yes", "", "io.github.a/weather", "--set", "units=us")
	unchanged(exitOK, "+    args: [-y, \"@a/weather@1.2.3\"", "", "io.github.a/weather", "--set", "units=us", "--dry-run")
	unchanged(exitOK, "wants API_KEY (a secret, from the variable API_KEY): [31mThe key", "", "io.github.a/weather", "--set", "units=us", "--dry-run")
	unchanged(exitOK, "wants MORE_TOKEN (a secret, from the variable MORE_TOKEN, which is set here, optional)", "", "io.github.a/weather", "--set", "units=us", "--dry-run")
	unchanged(exitOK, "url: https://weather.example.com/mcp", "", "io.github.a/weather", "--use", "remote", "--dry-run")
	unchanged(exitUsage, "use one of oci, npm, remote", "", "io.github.a/weather", "--use", "pypi")
	unchanged(exitFailure, "because you did not agree", "1\n\n\nn\n", "io.github.a/weather")
	unchanged(exitFailure, "because you stopped", ":cancel\n", "io.github.a/weather")
	unchanged(exitFailure, "is not the name of a package", "", "io.github.a/bad", "--yes")
	unchanged(exitFailure, "dragoman search nothing", "", "io.github.a/nothing", "--yes")
	unchanged(exitUsage, "has another server named \"old\"", "", "io.github.a/old", "--yes")
	unchanged(exitUsage, "add --trust", "", "io.github.a/odd", "--yes")
	unchanged(exitFailure, "because you did not agree", "n\n", "io.github.a/odd")
	unchanged(exitUsage, "dragoman search weather", "", "weather", "--yes")
	unchanged(exitUsage, "only a server of a registry", "", "https://example.com", "--set", "a=b")

	code, _, said := a.try("1\n\ny\ny\n", "io.github.a/weather")
	want := strings.TrimSuffix(before, "\n") + `
  # io.github.a/weather 1.0.0, from ` + a.registry + `
  weather:
    command: npx
    args: [-y, "@a/weather@1.2.3", "--units=metric", "--limit=5", "; rm -rf $${HOME}"]
    env:
      API_KEY: "${API_KEY}"
      MORE_TOKEN: "${MORE_TOKEN}"
`
	if code != exitOK || a.file() != want || !strings.Contains(said, "set API_KEY for the server weather") || !strings.Contains(said, "the old file is") || strings.Contains(said, "hunter") {
		t.Errorf("%d\n%s\n%s", code, said, a.file())
	}
	code, _, said = a.try("", "io.github.a/odd", "--yes", "--trust", "--name", "o")
	if code != exitOK || !strings.Contains(a.file(), `args: [-y, "--registry=https://npm.example.com", "odd@1.0.0"]`) || !strings.Contains(said, "which is not the official registry") {
		t.Errorf("%d\n%s\n%s", code, said, a.file())
	}
}

func TestAddURLAndCommand(t *testing.T) {
	a := newAdder(t, nil)
	for _, c := range []struct {
		args []string
		code int
		file string // what the file has then
		said string
	}{
		{[]string{"https://mcp.example.com/mcp", "--header", "Authorization: Bearer ghp_EXAMPLEexampleEXAMPLEexample1234", "--yes"}, exitOK, "Authorization: \"Bearer ${EXAMPLE_TOKEN}\"", "set EXAMPLE_TOKEN"},
		{[]string{"https://mcp.example.com/mcp", "--header", "Authorization: Bearer ${EXAMPLE_TOKEN}", "--yes"}, exitOK, "", `has this server already, as "example"`},
		{[]string{"https://mcp.example.com/other", "--yes"}, exitUsage, "", "choose another name with --name"},
		{[]string{"--name", "files", "--yes", "--env", "ROOT=/srv", "--env", "FILES_KEY", "npx", "-y", "files@1.0.0", "--yes-it-is-mine"}, exitOK, `args: [-y, "files@1.0.0", "--yes-it-is-mine"]`, "set FILES_KEY for the server files"},
		{[]string{"--yes", "--", "no-such-program", "--flag"}, exitOK, "command: no-such-program", "added no-such-program"},
		{[]string{"--yes", "npx", "--header", "x"}, exitOK, "args: [\"--header\", x]", "added x to"},
		{[]string{"--yes", "--env", "NOTES=/srv", "npx", "--", "python3", "notes.py", "--fast"}, exitOK, `args: [notes.py, "--fast"]`, "added npx to"},
		{[]string{"no notes", "--", "python3", "notes.py"}, exitUsage, "", "the name contains a character"},
		{[]string{"--header", "A: b", "npx"}, exitUsage, "", "--header works only with a URL"},
		{[]string{"--env", "A=b", "https://example.com"}, exitUsage, "", "work only with a command"},
		{[]string{"--name", "a b", "npx"}, exitUsage, "", "--name: the name contains a character"},
		{nil, exitUsage, "", "no server given"},
	} {
		code, out, said := a.try("", c.args...)
		if code != c.code || !strings.Contains(a.file(), c.file) || !strings.Contains(out+said, c.said) || strings.Contains(a.file()+out+said, "ghp_") {
			t.Errorf("%q: %d\n%s%s\n%s", c.args, code, out, said, a.file())
		}
	}
	code, out, _ := a.try("", "https://json.example.org/mcp", "--name", "j", "--json", "--yes")
	if code != exitOK || !strings.Contains(out, `{"status":"new","name":"j","file":"dragoman.yaml","what":"https://json.example.org/mcp","variables":[],"written":true,"backup":`) {
		t.Errorf("%d\n%s", code, out)
	}
	if err := os.Remove(a.config); err != nil {
		t.Fatal(err)
	}
	a.config = filepath.Join(a.home, "new.yaml")
	if code, _, said := a.try("", "npx", "--into"); code != exitUsage {
		t.Errorf("%d %s", code, said)
	}
	if code, _, said := a.try("", "--into", "new.yaml", "--yes", "npx", "x@1.0.0"); code != exitOK || !strings.HasPrefix(a.file(), "# Dragoman's configuration.") {
		t.Errorf("%d %s", code, said)
	}
}

func TestAddBundle(t *testing.T) {
	var b bytes.Buffer
	z := zip.NewWriter(&b)
	w, err := z.Create("manifest.json")
	if err == nil {
		_, err = io.WriteString(w, `{"name":"b","version":"1","server":{"type":"node","entry_point":"i.js","mcp_config":{"command":"npx","args":["${__dirname}/i.js","${user_config.dir}"]}},"user_config":{"dir":{"type":"directory","title":"Folder","description":"","required":true}}}`)
	}
	if err == nil {
		err = z.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
	files := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(b.Bytes()) }))
	t.Cleanup(files.Close)
	sum := sha256.Sum256(b.Bytes())
	a := newAdder(t, map[string]string{
		"io.github.a/bundle": fmt.Sprintf(`"description":"x","packages":[{"registryType":"mcpb","identifier":"%s/b.mcpb","fileSha256":"%x"}]`, files.URL, sum),
	})
	if code, _, said := a.try("", "io.github.a/bundle", "--dry-run"); code != exitOK || !strings.Contains(said, "nothing was downloaded") {
		t.Errorf("%d\n%s", code, said)
	}
	if _, err := os.Stat(filepath.Join(a.home, "data")); err == nil {
		t.Error("the dry run has made a folder")
	}
	code, _, said := a.try("y\n/srv\ny\n", "io.github.a/bundle")
	dir := filepath.Join(a.home, "data", "dragoman", "bundles", fmt.Sprintf("b-%x", sum[:8]))
	if code != exitOK || !strings.Contains(a.file(), "cwd: "+dir) || !strings.Contains(a.file(), "/i.js, /srv]") {
		t.Errorf("%d\n%s\n%s", code, said, a.file())
	}
	if _, err := os.Stat(filepath.Join(dir, "manifest.json")); err != nil {
		t.Error(err)
	}
}
