package pattern

import "strings"

// Glob reports whether name matches a pattern as people write them in settings. A * in it matches any
// text, and every other character itself. Glob takes at most O(len(glob)*len(name)) time.
func Glob(glob, name string) bool {
	first, rest, found := strings.Cut(glob, "*")
	if !found {
		return glob == name
	}
	name, ok := strings.CutPrefix(name, first)
	for {
		part, more, found := strings.Cut(rest, "*")
		if !found {
			return ok && strings.HasSuffix(name, part)
		}
		i := strings.Index(name, part)
		if i < 0 {
			return false
		}
		name, rest = name[i+len(part):], more
	}
}
