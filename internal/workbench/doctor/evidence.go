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

// redact returns bytes from a peer as printable text of limited length. It masks the given secrets,
// and text that looks like a secret.
func redact(b []byte, secrets []string) string {
	cut := len(b) > shown
	s := string(b[:min(len(b), 4*shown)])
	s = maskAll(s, secrets)
	if len(b) > 4*shown {
		s = maskCutSecret(s, secrets)
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

// maskAll masks the given secrets in a text, except secrets of less than four bytes.
func maskAll(s string, secrets []string) string {
	for _, secret := range secrets {
		if len(secret) >= 4 {
			s = excerpt.ReplaceKnown(s, secret, func(string) string { return excerpt.Mask })
		}
	}
	return s
}

// maskCutSecret masks the beginning of a secret at the end of s, because the text may have been cut
// in the middle of a secret.
func maskCutSecret(s string, secrets []string) string {
	for _, secret := range secrets {
		for n := min(len(secret), len(s)); n >= 4; n-- {
			if strings.HasSuffix(s, secret[:n]) {
				return s[:len(s)-n] + excerpt.Mask
			}
		}
	}
	return s
}

// spellings returns the secrets in every form in which a peer may repeat them, longest first. For
// "Bearer XYZ", the result also has XYZ.
func spellings(secrets []string) []string {
	all := slices.Clone(secrets)
	for _, s := range secrets {
		if fields := strings.Fields(s); len(fields) > 1 {
			all = append(all, slices.DeleteFunc(fields, func(f string) bool { return len(f) <= len("Bearer") })...)
		}
	}
	return excerpt.Spellings(all)
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
