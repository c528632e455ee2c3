package config

import "strings"

func matchesAny(patterns []string, name string) bool {
	for _, p := range patterns {
		if matches(p, name) {
			return true
		}
	}
	return false
}

// matches reports whether name matches a pattern. A * in the pattern matches any text. matches takes
// at most O(len(pattern)*len(name)) time.
func matches(pattern, name string) bool {
	parts := strings.Split(pattern, "*")
	if len(parts) == 1 {
		return pattern == name
	}
	first, last := parts[0], parts[len(parts)-1]
	if len(name) < len(first)+len(last) || !strings.HasPrefix(name, first) || !strings.HasSuffix(name, last) {
		return false
	}
	name = name[len(first) : len(name)-len(last)]
	for _, p := range parts[1 : len(parts)-1] {
		i := strings.Index(name, p)
		if i < 0 {
			return false
		}
		name = name[i+len(p):]
	}
	return true
}

// Hides reports whether the filter hides a name. If a pattern of Deny matches the name, Hides
// returns that pattern. If the name is hidden because no pattern of Allow matches it, pattern is
// "".
func (f Filter) Hides(name string) (pattern string, hidden bool) {
	for _, p := range f.Deny {
		if matches(p, name) {
			return p, true
		}
	}
	return "", len(f.Allow) > 0 && !matchesAny(f.Allow, name)
}
