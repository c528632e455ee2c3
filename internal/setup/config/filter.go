package config

import (
	"slices"
	"strings"

	"github.com/dragoman-mcp/dragoman/internal/base/pattern"
)

func matchesAny(patterns []string, name string) bool {
	return slices.ContainsFunc(patterns, func(p string) bool { return pattern.Glob(p, name) })
}

// Hides reports whether the filter hides a name. If a pattern of Deny matches the name, Hides
// returns that pattern. If the name is hidden because no pattern of Allow matches it, by is "".
func (f Filter) Hides(name string) (by string, hidden bool) {
	for _, p := range f.Deny {
		if pattern.Glob(p, name) {
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
