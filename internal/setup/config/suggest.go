package config

import (
	"strconv"
	"strings"
	"unicode"

	"github.com/dragoman-mcp/dragoman/internal/base/excerpt"
)

// Suggest returns the candidate closest to a word with a typo, or "" if no candidate is close.
func Suggest(word string, candidates []string) string {
	best, bestAt := "", max(1, len(word)/3)+1
	for _, c := range candidates {
		if strings.EqualFold(fold(word), fold(c)) {
			return c
		}
		if d := distance(strings.ToLower(word), strings.ToLower(c), bestAt); d < bestAt {
			best, bestAt = c, d
		}
	}
	return best
}

// fold removes _ and -, so that callTimeout, call_timeout and call-timeout differ only in case.
func fold(s string) string { return strings.NewReplacer("_", "", "-", "").Replace(s) }

// distance returns the edit distance of a and b (insert, delete, replace, swap two neighbours), or
// limit if the distance is at least limit.
func distance(a, b string, limit int) int {
	if len(a)-len(b) >= limit || len(b)-len(a) >= limit {
		return limit
	}
	before, last, row := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		before, last, row = last, row, before
		row[0] = i + 1
		for j := range len(b) {
			cost := 1
			if a[i] == b[j] {
				cost = 0
			}
			row[j+1] = min(row[j]+1, last[j+1]+1, last[j]+cost)
			if i > 0 && j > 0 && a[i] == b[j-1] && a[i-1] == b[j] {
				row[j+1] = min(row[j+1], before[j-1]+1)
			}
		}
	}
	return min(row[len(b)], limit)
}

// oneOf joins choices for a message, for example "a, b or c".
func oneOf(choices []string) string {
	if len(choices) < 2 {
		return strings.Join(choices, "")
	}
	last := len(choices) - 1
	return strings.Join(choices[:last], ", ") + " or " + choices[last]
}

// printable returns text from the file in a form that a terminal can show safely. It masks secrets,
// shortens long text, and quotes text that has characters that are not printable.
func printable(s string) string {
	const most = 60
	s = masked(s) // before the text is shortened, because a part of a secret could not be recognised
	if len(s) > most {
		s = strings.ToValidUTF8(s[:most], "") + "…"
	}
	for _, r := range s {
		if !unicode.IsPrint(r) {
			return strconv.QuoteToGraphic(s)
		}
	}
	return s
}

// masked masks the secrets in text from the file: a value with the name of a secret in front of it,
// as in TOKEN=VALUE and --token VALUE, the query of a URL, and text that looks like a secret.
func masked(s string) string {
	if flagged(s) {
		return s[:strings.IndexAny(s, "=:")+1] + mask
	}
	if words := strings.Fields(s); hasSecretArgument(words) {
		s = strings.Join(excerpt.Arguments(words, mask), " ")
	}
	return excerpt.MaskSecrets(query().ReplaceAllString(s, "$1"+mask))
}

// hasSecretArgument reports whether one of the words of a command line is a secret.
func hasSecretArgument(words []string) bool { return len(excerpt.SecretArguments(words)) > 0 }

// nameOnly returns key, the name of a variable or a header, in a form that is safe to show. If key is by
// mistake a name and a value, as in "TOKEN=VALUE" or "Authorization: VALUE", nameOnly masks the value.
func nameOnly(key string) string {
	if i := strings.IndexAny(key, "=:"); i >= 0 && i+1 < len(key) {
		return key[:i+1] + mask
	}
	return key
}

// hasValue reports whether a key is by mistake a name and a value that is long enough for a secret.
func hasValue(key string) bool {
	i := strings.IndexAny(key, "=:")
	return i >= 0 && len(key)-i-1 >= shortestSecret
}

// join appends a key to a path: mcpServers.gh, mcpServers["a.b"].url.
func join(path, key string) string {
	plain := key != ""
	for _, c := range []byte(key) {
		if !isNameByte(c) || c == '.' {
			plain = false
		}
	}
	if shown := masked(key); shown != key {
		key, plain = shown, false
	}
	switch {
	case !plain && len(key) > 60:
		key = printable(key)
		fallthrough
	case !plain:
		return path + "[" + strconv.QuoteToGraphic(key) + "]"
	case path == "":
		return key
	}
	return path + "." + key
}

func isNameByte(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '_' || c == '-' || c == '.'
}
