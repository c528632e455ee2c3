package oauth

import (
	"slices"
	"strings"
)

// Challenge is one challenge of a WWW-Authenticate header (RFC 9110 §11.6.1) whose scheme is Bearer (RFC
// 6750 §3) or DPoP (RFC 9449 §7.1). Parameters that we don't know are left out.
type Challenge struct {
	Scheme           string   // "Bearer" or "DPoP", spelled so
	ResourceMetadata string   // RFC 9728 §5.1; "" if there is none
	Scopes           []string // what the request needed; nil if the challenge doesn't say
	Error            string   // such as invalid_token, insufficient_scope or use_dpop_nonce
	Description      string   // for people; the server's words, not yet safe to print
}

// maxChallenge bounds a challenge in bytes. Longer ones are left out.
const maxChallenge = 16 << 10

// Challenges reads the challenges of an answer, one per element as transport.StatusError.Challenges gives
// them. Other schemes and malformed challenges are left out, and never take others with them.
func Challenges(all []string) (read []Challenge) {
	for _, text := range all {
		if c, ok := readChallenge(text); ok {
			read = append(read, c)
		}
	}
	return read
}

// Best returns the challenge to follow: the first that names its metadata, else the first with an error,
// else the first. ok is false if there is none.
func Best(all []Challenge) (c Challenge, ok bool) {
	for _, fits := range []func(Challenge) bool{
		func(c Challenge) bool { return c.ResourceMetadata != "" },
		func(c Challenge) bool { return c.Error != "" },
		func(Challenge) bool { return true },
	} {
		if i := slices.IndexFunc(all, fits); i >= 0 {
			return all[i], true
		}
	}
	return Challenge{}, false
}

func readChallenge(text string) (c Challenge, ok bool) {
	scheme, rest, _ := strings.Cut(text, " ")
	switch {
	case len(text) > maxChallenge:
		return c, false
	case strings.EqualFold(scheme, "Bearer"):
		c.Scheme = "Bearer"
	case strings.EqualFold(scheme, "DPoP"):
		c.Scheme = "DPoP"
	default:
		return c, false
	}
	params, ok := parameters(rest)
	if !ok {
		return c, false
	}
	c.ResourceMetadata = params["resource_metadata"]
	c.Error, c.Description = params["error"], params["error_description"]
	// An empty scope asks for nothing, which is what no scope does too.
	c.Scopes = words(params["scope"])
	return c, true
}

// parameters reads the parameters of a challenge. Their names, which it makes lower case, must differ (RFC
// 9110 §11.2).
func parameters(s string) (map[string]string, bool) {
	all := map[string]string{}
	for s = strings.TrimLeft(s, " \t,"); s != ""; s = strings.TrimLeft(s, " \t,") {
		name, rest, ok := strings.Cut(s, "=")
		name = strings.ToLower(strings.TrimRight(name, " \t"))
		value, rest, closed := parameter(strings.TrimLeft(rest, " \t"))
		if _, twice := all[name]; !ok || !closed || twice || !isToken(name) {
			return nil, false
		}
		all[name] = value
		if s = strings.TrimLeft(rest, " \t"); s != "" && s[0] != ',' {
			return nil, false
		}
	}
	return all, true
}

// parameter reads the value at the beginning of s and returns what follows it. A value without quotes should
// be a token, but there are servers that forget the quotes of URLs, so it ends at a space or a comma.
func parameter(s string) (value, rest string, ok bool) {
	if !strings.HasPrefix(s, `"`) {
		end := strings.IndexAny(s, " \t,")
		if end < 0 {
			end = len(s)
		}
		value = s[:end]
		return value, s[end:], value != "" && !strings.ContainsFunc(value, func(r rune) bool { return r <= ' ' || r >= 0x7f || r == '"' })
	}
	var b strings.Builder
	for i := 1; i < len(s); i++ {
		switch c := s[i]; {
		case c == '"':
			return b.String(), s[i+1:], true
		case c == '\\' && i+1 < len(s):
			i++
			b.WriteByte(s[i])
		case c < ' ' && c != '\t', c == 0x7f:
			return "", "", false
		default:
			b.WriteByte(c)
		}
	}
	return "", "", false
}

// isToken reports whether s is a token of RFC 9110 §5.6.2.
func isToken(s string) bool {
	return s != "" && !strings.ContainsFunc(s, func(r rune) bool {
		return r <= ' ' || r >= 0x7f || strings.ContainsRune("\"(),/:;<=>?@[\\]{}", r)
	})
}

// words splits a list at its spaces, as scopes are written (RFC 6749 §3.3). It returns nil for none, and
// drops repetitions.
func words(s string) (all []string) {
	for _, w := range strings.Fields(s) {
		if !slices.Contains(all, w) {
			all = append(all, w)
		}
	}
	return all
}
