package runtime

import (
	"strings"

	"github.com/dragoman-mcp/dragoman/internal/config"
	"github.com/dragoman-mcp/dragoman/internal/excerpt"
)

// redactor returns a function that masks the configured secrets of a server in text from the
// server or the network. It also masks text that looks like a secret, because the server may
// have read secrets from its own files.
func redactor(c config.Server) func(text string) string {
	var pairs []string
	if c.URL != "" && c.Describe() != c.URL {
		pairs = append(pairs, c.URL, c.Describe())
	}
	for _, s := range c.Secrets() { // longest first, because several secrets may have the same beginning
		pairs = append(pairs, s, excerpt.Mask)
	}
	known := strings.NewReplacer(pairs...)
	return func(text string) string {
		return excerpt.MaskSecrets(known.Replace(text))
	}
}
