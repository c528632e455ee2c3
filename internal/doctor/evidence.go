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

// shown is how much of one message is evidence, in bytes; what is left out stands
// as an ellipsis.
const shown = 300

// veiled stands for a secret.
func veiled(string) string { return "***" }

// veil makes bytes of a peer fit to be shown: printable, bounded, without the
// secrets that we were given or that look like one.
func veil(b []byte, secrets []string) string {
	cut := len(b) > shown
	s := string(b[:min(len(b), 4*shown)])
	for _, secret := range secrets {
		if len(secret) >= 4 {
			s = strings.ReplaceAll(s, secret, veiled(secret))
		}
	}
	if len(b) > 4*shown {
		s = withoutHalf(s, secrets)
	}
	s = excerpt.Secrets(s, veiled)
	if len(s) > shown {
		s, cut = s[:shown], true
	}
	s = stdio.Printable([]byte(strings.NewReplacer("\r", " ", "\n", " ").Replace(strings.TrimSpace(s))))
	if cut {
		s += "…"
	}
	return s
}

// withoutHalf takes from the end of a text the beginning of a secret that the cut
// has parted.
func withoutHalf(s string, secrets []string) string {
	for _, secret := range secrets {
		for n := min(len(secret), len(s)); n >= 4; n-- {
			if strings.HasSuffix(s, secret[:n]) {
				return s[:len(s)-n] + "***"
			}
		}
	}
	return s
}

// spellings returns secrets in the spellings in which a peer may repeat them, the
// longest first: of "Bearer XYZ" the XYZ alone too, and each as it stands in JSON and
// in a URL.
func spellings(secrets []string) []string {
	var all []string
	add := func(s string) {
		quoted := string(jsonrpc.AppendQuote(nil, s))
		quoted = quoted[1 : len(quoted)-1]
		// Some JSON writers put a backslash before each slash.
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
