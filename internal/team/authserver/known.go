package authserver

// knownDocuments are documents of widespread clients, by their URLs, as their vendors publish them. Several vendors
// refuse requests from data centres. So we use an entry when its document can't be fetched, and only then: a
// document that is gone or has changed is how a vendor takes a client back.
var knownDocuments = map[string]Client{
	"https://claude.ai/oauth/mcp-oauth-client-metadata": {
		Name: "Claude", Redirects: []string{"https://claude.ai/api/mcp/auth_callback"},
	},
	"https://claude.ai/oauth/claude-code-client-metadata": {
		Name: "Claude Code", Redirects: []string{"http://localhost/callback", "http://127.0.0.1/callback"},
	},
	"https://chatgpt.com/oauth/client.json": {
		Name: "ChatGPT", Redirects: []string{"https://chatgpt.com/connector_platform_oauth_redirect"},
	},
	"https://chatgpt.com/oauth/codex/client.json": {
		Name: "Codex", Redirects: []string{"http://127.0.0.1/callback", "http://localhost/callback"},
	},
	"https://vscode.dev/oauth/client-metadata.json": {
		Name: "Visual Studio Code", Redirects: []string{"http://127.0.0.1/", "http://localhost/", "https://vscode.dev/redirect"},
	},
}

// known returns the client of a built-in document, or nil.
func known(id string) *Client {
	x, ok := knownDocuments[id]
	if !ok {
		return nil
	}
	x.ID, x.Host, x.Proof, x.BuiltIn = id, hostOf(id), proofNone, true
	return &x
}
