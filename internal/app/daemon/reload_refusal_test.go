package daemon

import (
	"strings"
	"testing"

	"github.com/dragoman-mcp/dragoman/internal/setup/config"
)

// TestRefusalMasksSecrets checks that the text about a refused configuration shows no secret of the
// file.
func TestRefusalMasksSecrets(t *testing.T) {
	for _, text := range []string{
		"mcpServers: {a: {command: x, args: '--api-key sk-ant-api03-s3cr3ts3cr3ts3cr3t'}}",
		"mcpServers: {a: {command: x, args: 'https://u:s3cr3t@h/?token=s3cr3t'}}",
		"mcpServers: {a: {url: 'http://h', headers: {'Authorization: Bearer s3cr3t': }}}",
		"mcpServers: {a: {command: x, env: {'TOKEN=s3cr3t': a}}}",
		"dragoman: {listen: 'http://u:s3cr3t@h:99999'}",
	} {
		_, problems := config.Parse("f", []byte(text), nil)
		if got := refusalOf(problems.Err()); strings.Contains(got, "s3cr3t") || !strings.Contains(got, "***") {
			t.Errorf("%s: %s", text, got)
		}
	}
}
