package doctor

import (
	"slices"
	"strings"

	"github.com/dragoman-mcp/dragoman/internal/base/excerpt"
	"github.com/dragoman-mcp/dragoman/internal/transport/stdio"
)

// shown is the maximum number of bytes of one message in the evidence. An ellipsis replaces the
// other bytes.
const shown = 300

// redact returns bytes from a peer as printable text of limited length. It masks the known secrets,
// and text that looks like a secret.
func redact(b []byte, known *excerpt.Known) string {
	cut := len(b) > shown
	s := string(b[:min(len(b), 4*shown)])
	s = maskAll(s, known)
	if len(b) > 4*shown {
		if at := known.Cut(s, leastSecret); at < len(s) {
			s = s[:at] + excerpt.Mask
		}
	}
	s = excerpt.MaskSecrets(s)
	if len(s) > shown {
		s, cut = s[:shown], true
	}
	s = stdio.Printable([]byte(strings.NewReplacer("\r", " ", "\n", " ").Replace(strings.TrimSpace(s))))
	if cut {
		s += "…"
	}
	return s
}

// maskAll masks known secrets in a text.
func maskAll(s string, known *excerpt.Known) string {
	return known.Replace(s, func(string) string { return excerpt.Mask })
}

// leastSecret is the length of the shortest secret that is masked, and of the shortest beginning of one at
// the end of a text that was cut.
const leastSecret = 4

// knownOf returns the secrets to mask. For "Bearer XYZ", XYZ is one as well.
func knownOf(secrets []string) *excerpt.Known {
	all := slices.Clone(secrets)
	for _, s := range secrets {
		if fields := strings.Fields(s); len(fields) > 1 {
			all = append(all, slices.DeleteFunc(fields, func(f string) bool { return len(f) <= len("Bearer") })...)
		}
	}
	return excerpt.NewKnown(slices.DeleteFunc(all, func(s string) bool { return len(s) < leastSecret }))
}

// evidence joins lines to the text of Finding.Evidence, without the empty lines.
func evidence(lines ...string) string {
	var out []string
	for _, l := range lines {
		if l != "" {
			out = append(out, l)
		}
	}
	return strings.Join(out, "\n")
}
