package runtime

import (
	"strings"

	"github.com/dragoman-mcp/dragoman/internal/base/excerpt"
	"github.com/dragoman-mcp/dragoman/internal/setup/config"
)

// Cleaner returns a function that masks the secrets of a server that belongs to no project.
func Cleaner(c config.Server) func(text string) string { return redactor(c) }

// redactor returns a function that masks the configured secrets of a server in text from the server
// or the network. The function also masks text that looks like a secret, because the server may
// have read secrets from its own files. The parameter more contains additional secrets to mask.
func redactor(c config.Server, more ...string) func(text string) string {
	var pairs []string
	if c.URL != "" && c.Describe() != c.URL {
		pairs = append(pairs, c.URL, c.Describe())
	}
	address := strings.NewReplacer(pairs...)
	known := excerpt.MaskKnown(append(c.Secrets(), more...))
	return func(text string) string { return excerpt.MaskSecrets(known(address.Replace(text))) }
}
