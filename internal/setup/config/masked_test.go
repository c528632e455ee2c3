package config

import (
	"strings"
	"testing"
)

// TestProblemsMaskSecrets checks that no part of a problem shows a secret of the file.
func TestProblemsMaskSecrets(t *testing.T) {
	for _, tt := range []struct{ text, want string }{
		{"mcpServers: {a: {command: x, args: '--api-key sk-ant-api03-s3cr3ts3cr3ts3cr3t'}}", "write [--api-key, ***]"},
		{"mcpServers: {a: {command: x, args: '-y --token s3cr3t'}}", "write [-y, --token, ***]"},
		{"mcpServers: {a: {command: x, args: 'https://u:s3cr3t@h/?token=s3cr3t'}}", "@h/?***"},
		{"mcpServers: {a: {url: 'http://h', headers: {'Authorization: Bearer s3cr3t': }}}", `headers["Authorization:***"]: is not a valid header name`},
		{"mcpServers: {a: {command: x, env: {'TOKEN=s3cr3t': a}}}", `env["TOKEN=***"]: is not a valid variable name`},
		{"mcpServers: {a: {command: x, env: {'X=s3cr3t': a}}}", `env["X=***"]: is not a valid variable name`},
		{"dragoman: {listen: 'http://u:s3cr3t@h:99999'}", `"***@h:99999" is not a listen address`},
		{"dragoman: {listen: 'u:s3cr3t@h'}", `"***@h" is not a port`},
		{"dragoman: {log: {level: 'token=s3cr3t'}}", `"token=***" is not a valid value`},
		{"dragoman: {'TOKEN=s3cr3t': 1}", `dragoman["TOKEN=***"]: unknown key`},
	} {
		_, problems := Parse("f", []byte(tt.text), nil)
		for _, p := range problems {
			if all := p.String() + p.Source; strings.Contains(all, "s3cr3t") {
				t.Errorf("%s: a secret is shown: %s", tt.text, all)
			}
		}
		if err := problems.Err(); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s:\n got %v\nwant %s", tt.text, err, tt.want)
		}
	}
}

// TestProblemsQuoteHarmlessText checks that masking keeps text that helps with an ordinary mistake.
func TestProblemsQuoteHarmlessText(t *testing.T) {
	for _, tt := range []struct{ text, want string }{
		{"mcpServers: {a: {command: x, args: '-y  @scope/package@1.2.3 --port 80 --root=/home/me'}}", "write [-y, @scope/package@1.2.3, --port, 80, --root=/home/me]"},
		{"mcpServers: {a: {command: x, args: 'https://example.com/mcp'}}", "write [https://example.com/mcp]"},
		{"mcpServers: {a: {url: 'http://h', headers: {'A B': c}}}", `headers["A B"]: is not a valid header name`},
		{"mcpServers: {a: {command: x, env: {API_TOKEN: }}}", "env.API_TOKEN: has no value"},
		{"dragoman: {listen: 'localhost:99999'}", `"99999" is not a port`},
		{"dragoman: {limits: {call: 5 minutes}}", `"5 minutes" is not a duration`},
	} {
		_, problems := Parse("f", []byte(tt.text), nil)
		if err := problems.Err(); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s:\n got %v\nwant %s", tt.text, err, tt.want)
		}
	}
}
