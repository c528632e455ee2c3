package clientfile

import "testing"

func TestByName(t *testing.T) {
	for name, want := range map[string]string{
		"claude": "claude", "claude-code": "claude-code", "vscode": "vscode", "opencode": "opencode",
		"claude-desktop": "claude", "Claude Desktop": "claude", "claude_code": "claude-code", "ClaudeCode": "claude-code",
		"VS Code": "vscode", "vs-code": "vscode", "code": "vscode", "copilot": "vscode",
		"codex-cli": "codex", "Gemini": "gemini", "gemini-cli": "gemini", "open-code": "opencode", "Cursor": "cursor",
		"windsurf": "", "": "", "claude-": "claude",
	} {
		got := ""
		if c, ok := ByName(name); ok {
			got = c.ID
		}
		if got != want {
			t.Errorf("%q is %q, want %q", name, got, want)
		}
	}
}
