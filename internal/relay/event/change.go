package event

import (
	"fmt"
	"strings"
)

// ListChange describes how a list of a server differs from the list that the server sent before. All
// names are short. Changed, Added and Removed contain only the first few of the items that Changes,
// Additions and Removals count.
type ListChange struct {
	Changed                      []ItemChange
	Added, Removed               []string
	Changes, Additions, Removals int
}

// ItemChange describes an item that has changed. Before and After are hashes of the whole item, such
// as sha256:…, and Parts are the members that differ.
type ItemChange struct {
	Name          string
	Parts         []string
	Before, After string
}

// String describes the change in words, with the numbers first.
func (c *ListChange) String() string {
	var counts, names []string
	say := func(n int, what string, items []string) {
		if n == 0 {
			return
		}
		counts = append(counts, fmt.Sprintf("%d %s", n, what))
		text := what + ": " + strings.Join(items, ", ")
		if n > len(items) {
			text += fmt.Sprintf(" and %d more", n-len(items))
		}
		names = append(names, text)
	}
	changed := make([]string, len(c.Changed))
	for i, x := range c.Changed {
		changed[i] = fmt.Sprintf("%q (%s) from %s to %s", x.Name, strings.Join(x.Parts, ", "), x.Before, x.After)
	}
	say(c.Changes, "changed", changed)
	say(c.Additions, "added", quoted(c.Added))
	say(c.Removals, "removed", quoted(c.Removed))
	return strings.Join(counts, ", ") + "; " + strings.Join(names, "; ")
}

func quoted(names []string) []string {
	out := make([]string, len(names))
	for i, name := range names {
		out[i] = fmt.Sprintf("%q", name)
	}
	return out
}
