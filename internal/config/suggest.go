package config

import (
	"strconv"
	"strings"
	"unicode"
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

// printable returns text from the file in a form that a terminal can show safely. It shortens long
// text, and quotes text that has characters that are not printable.
func printable(s string) string {
	const most = 60
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

// join appends a key to a path: mcpServers.gh, mcpServers["a.b"].url.
func join(path, key string) string {
	plain := key != ""
	for _, c := range []byte(key) {
		if !isNameByte(c) || c == '.' {
			plain = false
		}
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
