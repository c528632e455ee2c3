package runtime

import (
	"strings"

	"github.com/dragoman-mcp/dragoman/internal/config"
	"github.com/dragoman-mcp/dragoman/internal/excerpt"
)

// redactor returns a function that masks the configured secrets of a server in a text from
// the server or the network. It also masks anything that looks like a secret, because the
// server may have read others from a file of its own.
func redactor(c config.Server) func(text string) string {
	var pairs []string
	if c.URL != "" && c.Describe() != c.URL {
		pairs = append(pairs, c.URL, c.Describe())
	}
	for _, s := range c.Secrets() { // if several have the same beginning, the longest is replaced
		pairs = append(pairs, s, excerpt.Mask)
	}
	known := strings.NewReplacer(pairs...)
	return func(text string) string {
		return excerpt.MaskSecrets(known.Replace(text))
	}
}
