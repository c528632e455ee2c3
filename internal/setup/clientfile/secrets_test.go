package clientfile

import (
	"strings"
	"testing"
)

// TestSecretsOfDiff uses texts with "canary" as the secrets of another server. No line of a diff
// may show such a secret, even if the line alone does not look secret.
func TestSecretsOfDiff(t *testing.T) {
	for _, tt := range []struct{ file, text, kept string }{
		{"c.json", `{"mcpServers":{"a":{"command":"npx","args":["--api-key","canary12345","ok-word"]}}}`, "ok-word"},
		{"c.json", "{\n  \"mcpServers\": {\n    \"a\": {\n      \"command\": \"npx\",\n      \"env\": {\n        \"FOO\":\n          \"canary5\"\n      }\n    }\n  }\n}\n", `"FOO":`},
		{"c.json", `{"mcpServers":{"a":{"command":"npx","args":["--token=canary \"\u00e9\"", "-y"],"env":{"A":"x\\canary\"y","N":1234567}}}}`, "-y"},
		{"c.json", `{"mcpServers":{"a":{"url":"http://h","headers":{"X-One":"canary one"},"envFile":"/canary/.env","evn":{"T":["canary2"]}}}}`, "http://h"},
		{"c.json", "// note\n{\"servers\":{\"a\":{\"type\":\"stdio\",\"command\":\"npx\",\"env\":{\"A\":\"cana\",\"B\":\"canary\"}}}}", "npx"},
		{"c.json", "{\"projects\":{\"/p\":{\"mcpServers\":{\"a\":{\"command\":\"npx\",\"evn\":{\"A\":\"canary\"}}}}}}", "npx"},
		{"opencode.json", `{"mcp":{"a":{"type":"local","command":["npx","--api-key","canary9"],"environment":{"A":"canary8"}}}}`, "--api-key"},
		{"config.toml", "[mcp_servers.a]\ncommand = \"npx\"\nargs = [\n  \"--api-key\",\n  'canary1',\n]\n[mcp_servers.a.env]\nLONG = \"\"\"\nfirst canary\nsecond canary\"\"\"\n[mcp_servers.b.http_headers]\nX = \"canary3\"\n", "npx"},
		{"dragoman.yaml", "mcpServers:\n  a: {command: x, env: {KEY: canary22, N: 1234567, OF: \"${HOME}/kept\"}}\n", "${HOME}"},
		{"dragoman.yaml", "dragoman:\n  projects:\n    shop:\n      mcpServers:\n        a:\n          url: http://h\n          headers: {X: Bearer canary33, Authorization: \"Bearer ${TOKEN}\"}\n", "Bearer ${TOKEN}"},
		{"dragoman.yaml", "mcpServers:\n  a:\n    command: x\n    args: [--api-key, canary12345, ok-word]\n    env:\n      A: |\n        first canary\n        second canary\n", "ok-word"},
	} {
		b := []byte(tt.text)
		if _, err := Parse(tt.file, b); err != nil && tt.file != "dragoman.yaml" {
			t.Fatal(err)
		}
		secrets := Secrets(tt.file, b)
		show := func(l string) string { return Mask(l, secrets, "***") }
		got := Diff(tt.file, b, nil, show)
		if strings.Contains(got, "cana") || strings.Contains(got, "1234567") || !strings.Contains(got, "***") || !strings.Contains(got, tt.kept) {
			t.Errorf("%s is shown as\n%s", tt.text, got)
		}
	}
	if got := Secrets("c.json", []byte("{")); got != nil {
		t.Errorf("secrets of a broken file: %q", got)
	}
}

func TestMask(t *testing.T) {
	for _, tt := range []struct{ line, want string }{
		{`"type": "http", "url": "http://127.0.0.1:7300/mcp"`, `"type": "***", "url": "http://127.0.0.1:7300/mcp"`},
		{`"--k=http", "xhttp", "Bearer http", http`, `"--k=***", "xhttp", "Bearer ***", ***`},
		{`httphttp "a canary of them"`, `httphttp "a *** of them"`},
	} {
		if got := Mask(tt.line, []string{"canary", "7300", "http"}, "***"); got != tt.want {
			t.Errorf("%s is shown as %s, want %s", tt.line, got, tt.want)
		}
	}
}

// TestServerKeys checks that readServer knows every key in ServerKeys.
func TestServerKeys(t *testing.T) {
	for _, key := range ServerKeys() {
		s := readServer(generic, &Member{Key: "a", Value: Mapping(key, Text("x"))}, "", nil, Options{})
		for _, n := range s.Notes {
			if strings.Contains(n.Text, "key is unknown") {
				t.Errorf("%s: %s", key, n)
			}
		}
	}
}
