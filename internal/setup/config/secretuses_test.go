package config

import (
	"slices"
	"testing"
)

// TestSecretUses asks what refers to secrets: servers, also through a variable of their own and if the secret isn't
// set or the server is disabled, and the servers of projects only for the secrets of those.
func TestSecretUses(t *testing.T) {
	t.Parallel()
	const text = `
mcpServers:
  a: {command: x, env: {KEY: "${secret:one}", OTHER: "${KEY}-${secret:two}"}}
  b: {url: "http://127.0.0.1:1/mcp", headers: {Authorization: "Bearer ${secret:one}"}}
  off: {command: x, args: ["${secret:two}"], disabled: true}
  none: {command: x, args: ["$${secret:one}"]}
dragoman:
  projects:
    shop:
      mcpServers: {c: {command: x, env: {KEY: "${secret:one}"}}}
      use: [b]
`
	s, problems := ParseWith("x.yaml", []byte(text), nil, func(_, name string) (Secret, bool, error) { return NewSecret("v"), name == "one", nil })
	if s == nil || len(s.Projects) != 1 || s.Projects[0].Config == nil {
		t.Fatal(problems)
	}
	for _, tt := range []struct {
		of   *Snapshot
		name string
		want []string
	}{
		{s, "one", []string{"a", "b"}}, {s, "two", []string{"a", "off"}}, {s, "three", nil}, {s.Projects[0].Config.Bind(s), "one", []string{"c"}},
	} {
		if servers, settings := tt.of.SecretUses(tt.name); !slices.Equal(servers, tt.want) || settings != nil {
			t.Errorf("%s is used by %q and %q, want %q", tt.name, servers, settings, tt.want)
		}
	}
}
