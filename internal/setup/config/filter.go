package config

import (
	"slices"
	"strings"
)

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

// With returns the filter with one name shown or hidden. All other names stay as they are, also those
// that nobody knows yet. ok is false if that cannot be written, because a pattern hides the name
// together with others, or because the name would be a pattern itself.
func (f Filter) With(name string, shown bool) (out Filter, ok bool) {
	if name == "" || strings.Contains(name, "*") || strings.Contains(name, "${") {
		return f, false
	}
	out = f
	_, hidden := f.Hides(name)
	is := func(p string) bool { return p == name }
	switch {
	case hidden == !shown:
		return f, true
	case shown:
		out.Deny = slices.DeleteFunc(slices.Clone(f.Deny), is)
		if len(f.Allow) > 0 && !matchesAny(f.Allow, name) {
			out.Allow = append(slices.Clone(f.Allow), name)
		}
	default:
		if less := slices.DeleteFunc(slices.Clone(f.Allow), is); len(less) > 0 && !matchesAny(less, name) {
			out.Allow = less // an empty list would allow everything
		} else {
			out.Deny = append(slices.Clone(f.Deny), name)
		}
	}
	_, hidden = out.Hides(name)
	return out, hidden == !shown
}
