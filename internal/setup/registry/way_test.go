package registry

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/dragoman-mcp/dragoman/internal/setup/clientfile"
	"github.com/dragoman-mcp/dragoman/internal/setup/config"
)

// ways returns the ways of a server whose server.json has these members.
func ways(t *testing.T, members string) []Way {
	t.Helper()
	s, err := parseServer([]byte(`{"name":"io.github.a/weather","description":"x","version":"1.0.0",` + members + `}`))
	if err != nil {
		t.Fatal(err)
	}
	return s.Ways()
}

// written returns the server as Dragoman reads it from a configuration file with the entry. Each
// reference ${NAME} becomes <NAME>.
func written(t *testing.T, entry *clientfile.Value) (srv config.Server, asked []string) {
	t.Helper()
	b, err := clientfile.AddServers("d.yaml", nil, []clientfile.Added{{Name: "s", Entry: entry}})
	if err != nil {
		t.Fatal(err)
	}
	snapshot, problems := config.Parse("/d.yaml", b, func(name string) (string, bool) {
		if !strings.HasPrefix(name, "DRAGOMAN_SERVER_") {
			asked = append(asked, name)
		}
		return "<" + name + ">", true
	})
	if snapshot == nil || len(snapshot.Servers) != 1 {
		t.Fatalf("%s\n%v", b, problems)
	}
	return snapshot.Servers[0], asked
}

// line describes an entry on one line, with | between arguments.
func line(t *testing.T, entry *clientfile.Value) string {
	t.Helper()
	s, _ := written(t, entry)
	var out []string
	if s.URL != "" {
		out = append(out, s.Kind.String()+" "+s.URL)
	} else {
		out = append(out, strings.Join(append([]string{s.Command}, s.Args...), "|"))
	}
	for _, name := range slices.Sorted(maps.Keys(s.Env)) {
		out = append(out, name+"="+s.Env[name].Reveal())
	}
	for _, h := range s.Header {
		out = append(out, h.Name+": "+h.Value.Reveal())
	}
	return strings.Join(out, " ; ")
}

func TestEntry(t *testing.T) {
	const stdio = `,"transport":{"type":"stdio"}`
	npm := func(more string) string {
		return `"packages":[{"registryType":"npm","identifier":"@a/weather","version":"1.2.3"` + stdio + more + `}]`
	}
	oci := func(more string) string {
		return `"packages":[{"registryType":"oci","identifier":"ghcr.io/a/weather:1.2.3"` + stdio + more + `}]`
	}
	remote := func(more string) string { return `"remotes":[{"type":"streamable-http",` + more + `}]` }
	type answers = map[string][]string
	for _, c := range []struct {
		name, members string
		answers       answers
		want          string
	}{
		{"npm", npm(""), nil, "npx|-y|@a/weather@1.2.3"},
		{"usual runtime arguments", npm(`,"runtimeHint":"npx","runtimeArguments":[{"type":"positional","value":"-y"},{"type":"named","name":"--yes"}]`), nil, "npx|-y|@a/weather@1.2.3"},
		{"pypi", `"packages":[{"registryType":"pypi","identifier":"weather","version":"0.5.0rc1"` + stdio + `}]`, nil, "uvx|weather@0.5.0rc1"},
		{"nuget", `"packages":[{"registryType":"nuget","identifier":"A.Weather","version":"0.4.0-beta","packageArguments":[{"type":"positional","value":"mcp"},{"type":"positional","value":"start"}]` + stdio + `}]`, nil, "dnx|--yes|A.Weather@0.4.0-beta|--|mcp|start"},
		{"oci", oci(""), nil, "docker|run|-i|--rm|ghcr.io/a/weather:1.2.3"},
		{"oci of the old schema", `"packages":[{"registryType":"oci","registryBaseUrl":"https://docker.io","identifier":"a/weather","version":"1.2.3"}]`, nil, "docker|run|-i|--rm|a/weather:1.2.3"},
		{"oci with runtime arguments", oci(`,"runtimeHint":"docker","runtimeArguments":[{"type":"positional","value":"run"},{"type":"named","name":"-i"},{"type":"named","name":"--rm"},{"type":"named","name":"-e","value":"KIND={kind}","isRepeated":true,"variables":{"kind":{"isRequired":true,"choices":["a","b"]}}}]`),
			answers{"kind": {"a", "b"}}, "docker|run|-i|--rm|-e|KIND=a|-e|KIND=b|ghcr.io/a/weather:1.2.3"},
		{"oci with variables", oci(`,"environmentVariables":[{"name":"USER_NAME","isRequired":true},{"name":"API_KEY","isRequired":true,"isSecret":true},{"name":"MODE","value":"fast"},{"name":"UNSET"},{"name":"OTHER_TOKEN"}]`),
			answers{"USER_NAME": {"me"}}, "docker|run|-i|--rm|-e|USER_NAME=me|-e|API_KEY|-e|MODE=fast|ghcr.io/a/weather:1.2.3 ; API_KEY=<API_KEY>"},
		{"arguments", npm(`,"packageArguments":[{"type":"named","name":"--host","default":"localhost","isRequired":true},{"type":"named","name":"--port","format":"number"},{"type":"named","name":"-v","value":"1"},{"type":"named","name":"--stdio"},{"type":"positional","valueHint":"target_dir","isRepeated":true,"isRequired":true}]`),
			answers{"target_dir": {"/a b", "/c"}, "port": {"80"}}, "npx|-y|@a/weather@1.2.3|--host=localhost|--port=80|-v|1|--stdio|/a b|/c"},
		{"a default that is left out", npm(`,"packageArguments":[{"type":"named","name":"--host","default":"localhost"}]`), answers{"host": {}}, "npx|-y|@a/weather@1.2.3"},
		{"several variables, repeated", npm(`,"packageArguments":[{"type":"named","name":"--map","value":"{from}:{to}","isRepeated":true,"variables":{"from":{"isRequired":true},"to":{"default":"/x"}}}]`),
			answers{"from": {"/a", "/b"}}, "npx|-y|@a/weather@1.2.3|--map=/a:/x|--map=/b:/x"},
		{"shell characters and references stay text", npm(`,"packageArguments":[{"type":"positional","value":"; rm -rf ~ && $(id) \u0060id\u0060 ${HOME} $${HOME} %PATH% \"'"},{"type":"positional","valueHint":"x"}],"environmentVariables":[{"name":"A","value":"${AWS_SECRET_ACCESS_KEY:-x}"}]`),
			answers{"x": {"--evil ${HOME}\\"}}, "npx|-y|@a/weather@1.2.3|; rm -rf ~ && $(id) `id` ${HOME} $${HOME} %PATH% \"'|--evil ${HOME}\\ ; A=${AWS_SECRET_ACCESS_KEY:-x}"},
		{"a reference from two parts", npm(`,"packageArguments":[{"type":"positional","value":"${a}","variables":{"a":{"value":"{HOME}"}}},{"type":"positional","value":"${b}x","variables":{"b":{"isRequired":true}}}]`),
			answers{"b": {"{HOME}"}}, "npx|-y|@a/weather@1.2.3|${HOME}|${HOME}x"},
		{"secrets", npm(`,"environmentVariables":[{"name":"API_KEY","isSecret":true,"isRequired":true,"default":"public"},{"name":"OPTIONAL_TOKEN"},{"name":"OTHER_TOKEN"},{"name":"URL","value":"https://u:{pass}@h","variables":{"pass":{"isSecret":true,"isRequired":true}}}]`),
			answers{"OPTIONAL_TOKEN": {"ghp_this_is_never_written"}}, "npx|-y|@a/weather@1.2.3 ; API_KEY=<API_KEY> ; OPTIONAL_TOKEN=<OPTIONAL_TOKEN> ; URL=https://u:<WEATHER_PASS>@h"},
		{"an unknown variable stays", npm(`,"packageArguments":[{"type":"positional","value":"{\"a\":{b}}"}]`), nil, `npx|-y|@a/weather@1.2.3|{"a":{b}}`},
		{"remote", remote(`"url":"https://mcp.example.com/mcp"`), nil, "http https://mcp.example.com/mcp"},
		{"sse", `"remotes":[{"type":"sse","url":"https://mcp.example.com/sse"}]`, nil, "sse https://mcp.example.com/sse"},
		{"remote with variables", remote(`"url":"https://{tenant}.example.com/{path}","variables":{"tenant":{"isRequired":true},"path":{"default":"mcp"}},"headers":[{"name":"Authorization","value":"Bearer {key}","isRequired":true},{"name":"X-Region","default":"eu","choices":["eu","us"]},{"name":"X-Optional","value":"{x}"}]`),
			answers{"tenant": {"me"}}, "http https://me.example.com/mcp ; Authorization: Bearer <WEATHER_KEY> ; X-Region: eu"},
		{"remote that is all variable", remote(`"url":"{base}/mcp"`), answers{"base": {"https://x.example.com"}}, "http https://x.example.com/mcp"},
	} {
		w := ways(t, c.members)[0]
		entry, err := w.Entry(Answers{Values: c.answers})
		if err != nil {
			t.Errorf("%s: %v (%+v)", c.name, err, w)
			continue
		}
		if got := line(t, entry); got != c.want {
			t.Errorf("%s:\n got %s\nwant %s", c.name, got, c.want)
		}
	}
}

func TestProblems(t *testing.T) {
	pkg := func(kind, id, version string) string {
		return fmt.Sprintf(`"packages":[{"registryType":%q,"identifier":%q,"version":%q,"transport":{"type":"stdio"}}]`, kind, id, version)
	}
	remote := func(url string) string { return fmt.Sprintf(`"remotes":[{"type":"streamable-http","url":%q}]`, url) }
	with := func(more string) string {
		return `"packages":[{"registryType":"npm","identifier":"a","version":"1.0.0",` + more + `}]`
	}
	for _, c := range []struct{ members, want string }{
		{pkg("npm", "-g", "1.0.0"), "not the name of a package"},
		{pkg("npm", "--registry=https://evil", "1.0.0"), "not the name of a package"},
		{pkg("npm", "@a/../b", "1.0.0"), "not the name of a package"},
		{pkg("npm", "https://evil.com/x.tgz", "1.0.0"), "not the name of a package"},
		{pkg("npm", "github:evil/x", "1.0.0"), "not the name of a package"},
		{pkg("npm", "a b", "1.0.0"), "not the name of a package"},
		{pkg("npm", "a", ""), "has no version"},
		{pkg("npm", "a", "latest"), "not one exact version"},
		{pkg("npm", "a", "next"), "not one exact version"},
		{pkg("npm", "a", "^1.2.3"), "not one exact version"},
		{pkg("npm", "a", "1.x"), "not one exact version"},
		{pkg("npm", "a", "npm:evil@1.0.0"), "not one exact version"},
		{pkg("pypi", "-r", "1.0"), "not the name of a package"},
		{pkg("pypi", "a[x]", "1.0"), "not the name of a package"},
		{pkg("pypi", "a", "1.*"), "not one exact version"},
		{pkg("pypi", "a", ">=1"), "not one exact version"},
		{pkg("nuget", "-x", "1.0.0"), "not the name of a package"},
		{pkg("nuget", "A", "[1.0,2.0)"), "not one exact version"},
		{pkg("oci", "--privileged", ""), "not the name of a container image"},
		{pkg("oci", "ghcr.io/A/b:1", ""), "not the name of a container image"},
		{pkg("oci", "a/b:1@sha256:00", ""), "not the name of a container image"},
		{pkg("oci", "a/b", ""), "has no exact version"},
		{pkg("oci", "a/b:latest", ""), "has no exact version"},
		{pkg("cargo", "a", "1.0.0"), "which Dragoman cannot run"},
		{pkg("mcpb", "https://github.com/a/b.mcpb", ""), "has no SHA-256"},
		{pkg("mcpb", "http://github.com/a/b.mcpb", ""), "is not encrypted"},
		{with(`"transport":{"type":"streamable-http","url":"http://localhost:1/mcp"}`), "speaks HTTP"},
		{with(`"registryBaseUrl":"http://evil.com"`), "is not encrypted"},
		{with(`"runtimeHint":"bunx","runtimeArguments":[{"type":"named","name":"-x"}]`), `has arguments for "bunx"`},
		{with(`"environmentVariables":[{"name":"A=B"}]`), "not valid"},
		{with(`"environmentVariables":[{"name":"A"},{"name":"A"}]`), "not unique"},
		{with(`"packageArguments":[{"type":"flag","name":"x"}]`), "neither positional nor named"},
		{with(`"packageArguments":[{"type":"positional","value":"a\u0000b"}]`), "control character"},
		{with(`"packageArguments":[{"type":"positional","value":"` + strings.Repeat("a", maxText+1) + `"}]`), "longer than 4 KiB"},
		{with(`"packageArguments":[` + strings.Repeat(`{"type":"named","name":"-a"},`, maxItems) + `{"type":"named","name":"-a"}]`), "more than 100 arguments"},
		{remote("http://example.com/mcp"), "is not encrypted"},
		{remote("file:///etc/passwd"), "is not an https URL"},
		{remote("https://u:p@example.com"), "contains credentials"},
		{remote("javascript:alert(1)"), "is not an https URL"},
		{remote("https://exa mple.com"), "is not a valid URL"},
		{`"remotes":[{"type":"stdio","url":"https://example.com"}]`, "has the transport"},
		{`"remotes":[{"type":"sse","url":"https://example.com","headers":[{"name":"A\r\nB"}]}]`, "not valid"},
	} {
		w := ways(t, c.members)[0]
		if !strings.Contains(w.Problem, c.want) {
			t.Errorf("%s: %+v", c.members, w)
		}
		if _, err := w.Entry(Answers{Agreed: true}); err == nil {
			t.Errorf("%s: an entry was made", c.members)
		}
	}
	if got := ways(t, `"packages":[`+strings.Repeat(`{},`, 50)+`{}]`); len(got) != maxWays {
		t.Errorf("%d ways", len(got))
	}
}

func TestCautions(t *testing.T) {
	npm := func(more string) string {
		return `"packages":[{"registryType":"npm","identifier":"a","version":"1.0.0",` + more + `}]`
	}
	oci := func(id, more string) string {
		return `"packages":[{"registryType":"oci","identifier":"` + id + `"` + more + `}]`
	}
	for _, c := range []struct{ members, want, line string }{
		{npm(`"registryBaseUrl":"https://npm.example.com"`), "https://npm.example.com, which is not the official", "npx|-y|--registry=https://npm.example.com|a@1.0.0"},
		{npm(`"runtimeHint":"npx","runtimeArguments":[{"type":"positional","value":"evil@1.0.0"}]`), `passes "evil@1.0.0" to npx`, "npx|-y|evil@1.0.0|a@1.0.0"},
		{npm(`"environmentVariables":[{"name":"npm_config_registry","value":"https://evil.com"}]`), "npm_config_registry", "npx|-y|a@1.0.0 ; npm_config_registry=https://evil.com"},
		{npm(`"fileSha256":"` + strings.Repeat("a", 64) + `"`), "npx does not check", "npx|-y|a@1.0.0"},
		{oci("quay.example.com/a/b:1", ""), "takes the image from quay.example.com", "docker|run|-i|--rm|quay.example.com/a/b:1"},
		{oci("ghcr.io.evil.com/a/b:1", ""), "takes the image from ghcr.io.evil.com", "docker|run|-i|--rm|ghcr.io.evil.com/a/b:1"},
		{oci("a/b:1", `,"runtimeArguments":[{"type":"named","name":"-v","value":"/:/host"}]`), `passes "-v /:/host" to docker`, "docker|run|-i|--rm|-v|/:/host|a/b:1"},
		{oci("a/b:1", `,"runtimeArguments":[{"type":"named","name":"--privileged"}]`), `passes "--privileged" to docker`, "docker|run|-i|--rm|--privileged|a/b:1"},
		{oci("a/b:1", `,"runtimeArguments":[{"type":"named","name":"-e","value":"AWS_SECRET_ACCESS_KEY"}]`), `passes "-e AWS_SECRET`, "docker|run|-i|--rm|-e|AWS_SECRET_ACCESS_KEY|a/b:1"},
		{oci("a/b:1", `,"environmentVariables":[{"name":"DOCKER_AUTH_TOKEN","isSecret":true,"isRequired":true}]`), "DOCKER_AUTH_TOKEN", "docker|run|-i|--rm|-e|DOCKER_AUTH_TOKEN|a/b:1 ; DOCKER_AUTH_TOKEN=<DOCKER_AUTH_TOKEN>"},
		{`"remotes":[{"type":"sse","url":"http://localhost:80/sse"}]`, "on your machine", "sse http://localhost:80/sse"},
		{`"remotes":[{"type":"sse","url":"https://169.254.169.254/latest"}]`, "on your network", "sse https://169.254.169.254/latest"},
	} {
		w := ways(t, c.members)[0]
		_, err := w.Entry(Answers{})
		if _, ok := errors.AsType[*Cautioned](err); !ok || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, %+v", c.members, err, w)
		}
		entry, err := w.Entry(Answers{Agreed: true})
		if err != nil {
			t.Errorf("%s: %v", c.members, err)
		} else if got := line(t, entry); got != c.line {
			t.Errorf("%s: got %s, want %s", c.members, got, c.line)
		}
	}
	if w := ways(t, oci("a/b:1", `,"runtimeArguments":[{"type":"named","name":"-e","value":"A=1"}],"environmentVariables":[{"name":"PATH","value":"/x"}]`))[0]; len(w.Cautions) > 0 {
		t.Errorf("a variable within the container: %q", w.Cautions)
	}
}

func TestAnswers(t *testing.T) {
	w := ways(t, `"packages":[{"registryType":"npm","identifier":"a","version":"1.0.0","packageArguments":[
		{"type":"named","name":"--port","format":"number","isRequired":true,"description":"Port\u001b[2J","placeholder":"80"},
		{"type":"named","name":"--mode","choices":["a","b"],"default":"c"},
		{"type":"named","name":"--flag","format":"boolean","isRequired":true},
		{"type":"named","name":"--port","description":"again"}]}]`)[0]
	var keys []string
	for _, x := range w.Wants {
		keys = append(keys, x.Key)
	}
	if want := []string{"port", "mode", "flag", "port-2"}; !slices.Equal(keys, want) || w.Wants[0].About != "Port [2J" || w.Wants[1].Default != nil {
		t.Errorf("%+v", w.Wants)
	}
	_, err := w.Entry(Answers{})
	if m, ok := errors.AsType[*Missing](err); !ok || !slices.Equal(m.Keys, []string{"port", "flag"}) {
		t.Errorf("%v", err)
	}
	for _, c := range []struct{ key, value, want string }{
		{"port", "eighty", "must be a number"}, {"port", "NaN", "must be a number"}, {"mode", "c", "must be one of a, b"}, {"flag", "yes", "true or false"},
		{"port-2", "a\x1bb", "control character"}, {"port-2", "\xff", "not UTF-8"}, {"nothing", "x", "does not want"},
	} {
		answers := map[string][]string{"port": {"1"}, "flag": {"true"}}
		answers[c.key] = []string{c.value}
		if _, err := w.Entry(Answers{Values: answers}); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s=%q: %v", c.key, c.value, err)
		}
	}
	if _, err := w.Entry(Answers{Values: map[string][]string{"port": {"1", "2"}, "flag": {"true"}}}); err == nil || !strings.Contains(err.Error(), "only one value") {
		t.Errorf("%v", err)
	}
	// The URL that the answers make is checked like any other.
	for base, want := range map[string]string{"http://example.com": "is not encrypted", "https://a:b@example.com": "credentials", "x": "is not an https URL", "https://a b": "not a valid URL"} {
		w := ways(t, `"remotes":[{"type":"sse","url":"{base}/mcp"}]`)[0]
		if _, err := w.Entry(Answers{Values: map[string][]string{"base": {base}}}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", base, err)
		}
	}
}

func TestChoose(t *testing.T) {
	all := ways(t, `"packages":[
		{"registryType":"cargo","identifier":"a","version":"1.0.0"},
		{"registryType":"oci","identifier":"a/b:1"},
		{"registryType":"pypi","identifier":"a","version":"1.0.0"},
		{"registryType":"npm","identifier":"a","version":"1.0.0","registryBaseUrl":"https://npm.example.com"},
		{"registryType":"mcpb","identifier":"https://github.com/a/b.mcpb","fileSha256":"`+strings.Repeat("a", 64)+`"}],
		"remotes":[{"type":"sse","url":"https://example.com"}]`)
	for _, c := range []struct {
		path string
		ways []Way
		want int
	}{
		{"docker uvx npx", all, 1}, {"uvx npx", all, 2}, {"npx", all, 4}, {"", all, 4}, {"npx", append(slices.Clone(all[:4]), all[5]), 4}, {"npx", all[:4], 3}, {"", all[:4], -1},
		{"", nil, -1},
	} {
		got, err := Choose(c.ways, func(p string) bool { return slices.Contains(strings.Fields(c.path), p) })
		if got != c.want || (err == nil) != (c.want >= 0) {
			t.Errorf("%q: %d, %v", c.path, got, err)
		}
	}
}

// FuzzServer checks that whatever a registry sends, all that people see is printable, and the entry
// refers only to the variables of secrets.
func FuzzServer(f *testing.F) {
	for _, members := range []string{
		`"packages":[{"registryType":"npm","identifier":"a","version":"1.0.0","packageArguments":[{"type":"positional","value":"${HOME}{x}$","variables":{"x":{"isSecret":true}}}]}]`,
		`"packages":[{"registryType":"oci","identifier":"a/b:1","environmentVariables":[{"name":"A_TOKEN","value":"$${x}{y}","variables":{"y":{}}}]}]`,
		`"remotes":[{"type":"sse","url":"https://{h}.example.com","headers":[{"name":"X","value":"$${HOME} {t}","isSecret":true}]}]`,
	} {
		f.Add([]byte(`{"server":{"name":"io.a/b","description":"\u001b","version":"1",` + members + `}}`))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		s, err := parseResponse(b)
		if err != nil {
			printable(t, err.Error())
			return
		}
		printable(t, s.Name, s.Title, s.Description, s.Version, s.Website, s.Repository, s.StatusNote)
		for _, w := range s.Ways() {
			check(t, w)
		}
	})
}

// check checks one way, whose parts may be anything.
func check(t *testing.T, w Way) {
	t.Helper()
	printable(t, append(w.Cautions, string(w.Kind), w.What, w.Program, w.Problem)...)
	answers := Answers{Agreed: true, Values: map[string][]string{}}
	var secrets []string
	for _, x := range w.Wants {
		printable(t, x.Key, x.About, x.Placeholder, x.Variable)
		answers.Values[x.Key] = []string{"1"}
		if len(x.Choices) > 0 {
			answers.Values[x.Key] = x.Choices[:1]
		}
		if x.Secret {
			secrets = append(secrets, x.Variable)
		}
	}
	entry, err := w.Entry(answers)
	if err != nil {
		printable(t, err.Error())
		return
	}
	if entry.Get("headers") != nil {
		return // the configuration has its own rules for headers
	}
	_, asked := written(t, entry)
	for _, name := range asked {
		if !slices.Contains(secrets, name) {
			t.Errorf("the entry refers to %s", name)
		}
	}
}

func printable(t *testing.T, texts ...string) {
	t.Helper()
	for _, s := range texts {
		if strings.ContainsFunc(s, func(r rune) bool { return r < ' ' || r >= 0x7f && r < 0xa0 || r == '\u202e' }) {
			t.Errorf("%q", s)
		}
	}
}
