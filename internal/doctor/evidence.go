package doctor

import (
	"cmp"
	"net/url"
	"slices"
	"strings"

	"github.com/dragoman-mcp/dragoman/internal/excerpt"
	"github.com/dragoman-mcp/dragoman/internal/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/transport/stdio"
)

// shown is the number of bytes of one message that evidence shows. An ellipsis marks the
// rest.
const shown = 300

// redact makes bytes of a peer safe to show: printable and bounded. It masks the given
// secrets, and text that looks like a secret.
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

// maskAll masks the known secrets in a text.
func maskAll(s string, secrets []string) string {
	for _, secret := range secrets {
		if len(secret) >= 4 {
			s = strings.ReplaceAll(s, secret, excerpt.Mask)
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

// spellings returns the secrets in every form in which a peer may repeat them, longest first.
// For "Bearer XYZ" this includes XYZ alone. Each secret is also included as written in JSON
// and in URLs.
func spellings(secrets []string) []string {
	var all []string
	add := func(s string) {
		quoted := string(jsonrpc.AppendQuote(nil, s))
		quoted = quoted[1 : len(quoted)-1]
		// Some JSON encoders escape slashes.
		all = append(all, s, quoted, strings.ReplaceAll(quoted, "/", `\/`), url.QueryEscape(s), url.PathEscape(s))
	}
	for _, s := range secrets {
		add(s)
		if fields := strings.Fields(s); len(fields) > 1 {
			for _, f := range fields {
				if len(f) > len("Bearer") {
					add(f)
				}
			}
		}
	}
	slices.SortFunc(all, func(a, b string) int { return cmp.Or(len(b)-len(a), cmp.Compare(a, b)) })
	return slices.Compact(all)
}

// evidence joins the lines of an Evidence.
func evidence(lines ...string) string {
	var out []string
	for _, l := range lines {
		if l != "" {
			out = append(out, l)
		}
	}
	return strings.Join(out, "\n")
}
