package doctor

import (
	"regexp"
	"strings"

	"github.com/dragoman-mcp/dragoman/internal/transport/stdio"
)

// shown is how much of one message is evidence, in bytes; what is left out stands
// as an ellipsis.
const shown = 300

// secretive recognises what looks like a secret in what a peer has said.
var secretive = regexp.MustCompile(`(?i)(bearer\s+|"(?:password|passwd|secret|token|api_?key|access_?token|authorization)"\s*:\s*")[^"\s]+|\b(?:sk|pk|ghp|gho|ghs|xox[abp]|AKIA)[-_A-Za-z0-9]{16,}`)

// veil makes bytes of a peer fit to be shown: printable, bounded, without the
// secrets that we were given or that look like one.
func veil(b []byte, secrets []string) string {
	cut := len(b) > shown
	s := string(b[:min(len(b), 4*shown)])
	for _, secret := range secrets {
		if len(secret) >= 4 {
			s = strings.ReplaceAll(s, secret, "***")
		}
	}
	s = secretive.ReplaceAllString(s, "${1}***")
	if len(s) > shown {
		s, cut = s[:shown], true
	}
	s = stdio.Printable([]byte(strings.NewReplacer("\r", " ", "\n", " ").Replace(strings.TrimSpace(s))))
	if cut {
		s += "…"
	}
	return s
}

// evidence joins lines that have their marks already.
func evidence(lines ...string) string {
	var out []string
	for _, l := range lines {
		if l != "" {
			out = append(out, l)
		}
	}
	return strings.Join(out, "\n")
}
