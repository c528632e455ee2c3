package clientfile

import (
	"strings"
	"testing"
)

// TestSignIn reads how the clients say how to sign in.
func TestSignIn(t *testing.T) {
	for name, c := range map[string]struct {
		file, text string // of a client
		want       string // lines of the result
	}{
		"Claude Code": {".mcp.json", `{"mcpServers": {"a": {"type": "http", "url": "https://h.example/mcp",
			"oauth": {"clientId": "id", "callbackPort": 8080, "scopes": "read  write", "authServerMetadataUrl": "https://id.example/.well-known/oauth-authorization-server/t/1"}}}}`,
			`clientID: id callback: http://localhost:8080/callback scopes: [read, write] issuer: https://id.example/t/1`},
		"Claude Code with OpenID": {".mcp.json", `{"mcpServers": {"a": {"url": "https://h.example/mcp", "oauth": {"authServerMetadataUrl": "https://id.example/t/.well-known/openid-configuration"}}}}`,
			`issuer: https://id.example/t`},
		"Claude Code with another URL": {".mcp.json", `{"mcpServers": {"a": {"url": "https://h.example/mcp", "oauth": {"authServerMetadataUrl": "https://id.example/meta.json", "xaa": {}}}}}`,
			"! authServerMetadataUrl ! xaa"},
		"Cursor": {".cursor/mcp.json", `{"mcpServers": {"a": {"url": "https://h.example/mcp", "auth": {"CLIENT_ID": "id", "CLIENT_SECRET": "${env:MCP_SECRET}", "scopes": ["read", "write"]}}}}`,
			`clientID: id clientSecret: ${MCP_SECRET} scopes: [read, write]`},
		"VS Code": {".vscode/mcp.json", `{"servers": {"a": {"type": "http", "url": "https://h.example/mcp", "oauth": {"clientId": "id"}}}}`,
			`clientID: id`},
		"Gemini CLI": {".gemini/settings.json", `{"mcpServers": {"a": {"httpUrl": "https://h.example/mcp", "authProviderType": "dynamic_discovery", "oauth": {"enabled": true, "clientId": "id", "clientSecret": "$SECRET",
			"authorizationUrl": "https://id.example/authorize", "tokenUrl": "https://id.example/token", "scopes": ["a b"], "audiences": ["x", "y"],
			"redirectUri": "http://localhost:7777/oauth/callback", "tokenParamName": "access_token"}}}}`,
			`clientID: id clientSecret: ${SECRET} authorizationURL: https://id.example/authorize tokenURL: https://id.example/token scopes: [a, b] params: audience: x y callback: http://localhost:7777/oauth/callback ! tokenParamName`},
		"Codex": {"config.toml", "[mcp_servers.a]\nurl = \"https://h.example/mcp\"\nscopes = [\"read\"]\noauth_resource = \"https://h.example\"\noauth = {client_id = \"id\", callback_port = 5000}\n",
			`scopes: [read] resource: https://h.example clientID: id callback: http://127.0.0.1:5000/callback`},
		"Codex with a callback for all": {"config.toml", "mcp_oauth_callback_port = 4321\n[mcp_servers.a]\nurl = \"https://h.example/mcp\"\noauth = {client_id = \"id\"}\n",
			`clientID: id callback: http://127.0.0.1:4321/callback`},
		"Codex without a client": {"config.toml", "mcp_oauth_callback_url = \"http://127.0.0.1:4321/callback\"\n[mcp_servers.a]\nurl = \"https://h.example/mcp\"\nscopes = [\"read\"]\n",
			`scopes: [read]`},
		"opencode": {"opencode.json", `{"mcp": {"a": {"type": "remote", "url": "https://h.example/mcp", "oauth": {"clientId": "id", "clientSecret": "{env:SECRET}", "scope": "read write"}}}}`,
			`clientID: id clientSecret: ${SECRET} scopes: [read, write]`},
		"opencode without": {"opencode.json", `{"mcp": {"a": {"type": "remote", "url": "https://h.example/mcp", "oauth": false}}}`, `how: headers`},
		"a command":        {".mcp.json", `{"mcpServers": {"a": {"command": "x", "oauth": {"clientId": "id"}}}}`, ""},
		"nothing":          {".mcp.json", `{"mcpServers": {"a": {"url": "https://h.example/mcp", "oauth": {}}}}`, ""},
		"no mapping":       {".mcp.json", `{"mcpServers": {"a": {"url": "https://h.example/mcp", "oauth": ["id"], "auth": "oauth"}}}`, "! oauth"},
	} {
		t.Run(name, func(t *testing.T) {
			root, err := Parse(c.file, []byte(c.text))
			if err != nil {
				t.Fatal(err)
			}
			f := Read(Identify(c.file, root), c.file, root, false, Options{OS: "linux"})
			server, got := f.Servers[0], []string(nil)
			b, err := AddServers("dragoman.yaml", nil, []Added{{Name: "a", Entry: server.Entry, Settings: server.Settings}})
			if err != nil {
				t.Fatal(err)
			}
			_, in, _ := strings.Cut(string(b), "signIn:\n")
			for l := range strings.Lines(in) {
				got = append(got, strings.TrimSpace(l))
			}
			for _, n := range f.Servers[0].Notes {
				got = append(got, "! "+n.Key)
			}
			if text := strings.ReplaceAll(strings.Join(got, " "), `"`, ""); text != c.want {
				t.Errorf("got  %s\nwant %s", text, c.want)
			}
		})
	}
}
