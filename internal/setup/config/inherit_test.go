package config

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestInheritEnv(t *testing.T) {
	s := good(t, `
mcpServers:
  all: {command: x}
  own: {command: x}
  none: {command: x}
  web: {url: "http://h"}
dragoman:
  inheritEnv: [NODE_OPTIONS, "AWS_*"]
  servers:
    own: {inheritEnv: ["*_KEY"]}
    none: {inheritEnv: []}
`)
	for name, want := range map[string][]string{
		"all": {"NODE_OPTIONS", "AWS_", "AWS_REGION", "AWS_KEY"}, "own": {"AWS_KEY"}, "none": nil, "web": nil,
	} {
		srv, _ := s.Server(name)
		var got []string
		for _, variable := range []string{"NODE_OPTIONS", "NODE_OPTIONS2", "AWS_", "AWS_REGION", "AWS_KEY", "aws_region"} {
			if srv.Inherits(variable) {
				got = append(got, variable)
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s inherits %v, want %v", name, got, want)
		}
	}
	if !inherits([]string{"Aws_*"}, "aws_REGION", true) {
		t.Error("names are not case-insensitive on Windows")
	}
	printed, problems := Parse("/dir/dragoman.yaml", s.AppendYAML(nil), nil)
	if d := cmp.Diff(s.Servers, printed.Servers, cmp.AllowUnexported(Server{})); d != "" || len(problems) > 0 {
		t.Errorf("%s%s", listing(problems), d)
	}
	a, _ := s.Server("all")
	b, _ := s.Server("none")
	if a.Fingerprint == b.Fingerprint {
		t.Error("a change of inheritEnv does not restart a server")
	}
}

func TestBadInheritEnv(t *testing.T) {
	_, problems := Parse("f", []byte(`
mcpServers: {a: {url: "http://h"}}
dragoman: {inheritEnv: [A=b, "", "${X}"], servers: {a: {inheritEnv: [B]}}}
`), env("X=two words"))
	text := listing(problems)
	for _, want := range []string{
		`f:3:25: dragoman.inheritEnv[0]: "A=b" is not a valid name of an environment variable; write names`,
		`dragoman.inheritEnv[1]: "" is not a valid name`,
		`dragoman.inheritEnv[2]: "${X}" is not a valid name`,
		`warning: dragoman.servers.a.inheritEnv: is ignored, because the server has a url`,
	} {
		if !strings.Contains(text, want) {
			t.Errorf("no %s in\n%s", want, text)
		}
	}
	if strings.Contains(text, "two words") {
		t.Errorf("a problem shows a value from the environment:\n%s", text)
	}
}

// TestSecretHeaders checks which headers have secret values: those with the name of a credential or with
// a value that looks like one, and what comes from a reference. The other headers are settings.
func TestSecretHeaders(t *testing.T) {
	env := func(name string) (string, bool) { return "from-outside", name == "REGION" }
	s, problems := Parse("dragoman.yaml", []byte(`mcpServers:
  a:
    url: "http://h/mcp"
    headers:
      X-Environment: production
      Accept-Language: engineering
      X-Accept: application/json
      X-Api-Version: "2026-07-28"
      X-Region: "eu ${REGION}"
      Authorization: Bearer first-value
      Proxy-Authorization: second-value
      Cookie: third-value
      x-api-key: fourth-value
      X-Key: fifth-value
      PRIVATE-TOKEN: sixth-value
      X-Client-Secret: seventh-value
      X-Consumer: Custom a8f5f167f44f4964e6c998dee827110c
`), env)
	if s == nil {
		t.Fatal(problems)
	}
	got, want := s.Servers[0].Secrets(), []string{
		"Custom a8f5f167f44f4964e6c998dee827110c", "a8f5f167f44f4964e6c998dee827110c", "Bearer first-value", "seventh-value", "from-outside", "fourth-value", "second-value",
		"fifth-value", "first-value", "sixth-value", "third-value",
	}
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
}

// TestSecretArguments checks that a literal value in the arguments is a secret if the name
// before it is the name of a secret.
func TestSecretArguments(t *testing.T) {
	s := Server{Command: "x", Args: []string{
		"--api-key", "first-value", "--token=second-value", "DB_PASSWORD=third-value", "-H", "Authorization: Bearer fourth-value",
		"--max-tokens", "100000", "--verbose", "--token", "--last-value", "README-file", "--pass", "short",
	}}
	if got, want := s.Secrets(), []string{"Bearer fourth-value", "fourth-value", "second-value", "first-value", "third-value"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestInheritedSecrets(t *testing.T) {
	ours := []string{"GH_TOKEN=inherited-token", "OTHER_TOKEN=withheld-token", "REGION=eu-west-1", "HTTPS_PROXY=http://u:proxy-password@h:1", "no_proxy=localhost"}
	s := Server{Command: "x", InheritEnv: []string{"GH_*", "REGION"}}
	if got, want := s.inheritedSecrets(ours), []string{"inherited-token", "proxy-password"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	if got := (Server{URL: "http://h"}).inheritedSecrets(ours); got != nil {
		t.Errorf("a server with a URL inherits %q", got)
	}
	t.Setenv("DRAGOMAN_TEST_TOKEN", "value of the environment")
	s.InheritEnv = []string{"DRAGOMAN_TEST_*"}
	if !slices.Contains(s.Secrets(), "value of the environment") {
		t.Errorf("Secrets are %q", s.Secrets())
	}
}
