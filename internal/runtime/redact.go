package runtime

import (
	"cmp"
	"slices"
	"strings"

	"github.com/dragoman-mcp/dragoman/internal/config"
	"github.com/dragoman-mcp/dragoman/internal/excerpt"
)

// redactor returns a function that masks the configured secrets of a server in text from the server
// or the network. The function also masks text that looks like a secret, because the server may
// have read secrets from its own files. The parameter more contains additional secrets to mask.
func redactor(c config.Server, more ...string) func(text string) string {
	var pairs []string
	if c.URL != "" && c.Describe() != c.URL {
		pairs = append(pairs, c.URL, c.Describe())
	}
	secrets := append(c.Secrets(), more...)
	// Sort the longest secret first, so that a secret is masked completely even if its beginning is
	// another secret.
	slices.SortStableFunc(secrets, func(a, b string) int { return cmp.Compare(len(b), len(a)) })
	for _, s := range secrets {
		pairs = append(pairs, s, excerpt.Mask)
	}
	known := strings.NewReplacer(pairs...)
	return func(text string) string {
		return excerpt.MaskSecrets(known.Replace(text))
	}
}
