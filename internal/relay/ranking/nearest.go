package ranking

import (
	"cmp"
	"slices"
	"strings"
	"unicode"
)

// Nearest returns the n names, of the tools that may allows, that are most like name: misspelt, in other
// case, or with other separators. It returns names even if none is near; of equally near names, those that
// sort first.
func Nearest(name string, in []*Index, may func(*Tool) bool, n int) []string {
	type near struct {
		name  string
		share float64
	}
	var all []near
	asked := pairsOf(name)
	for _, x := range in {
		for _, t := range x.tools {
			if may != nil && !may(t) {
				continue
			}
			share := asked.share(t.Name)
			if t.Bare != "" {
				share = max(share, asked.share(t.Bare))
			}
			all = append(all, near{t.Name, share})
		}
	}
	slices.SortFunc(all, func(a, b near) int {
		return cmp.Or(cmp.Compare(b.share, a.share), strings.Compare(a.name, b.name))
	})
	out := make([]string, 0, max(n, 0))
	for _, x := range all[:max(0, min(n, len(all)))] {
		out = append(out, x.name)
	}
	return out
}

// pairs counts the pairs of neighbouring letters and digits of a name, in a table by their hash. Case and
// separators don't count; where the name begins and ends does.
type pairs struct {
	of  [256]uint8
	all int
}

func pairsOf(name string) (p pairs) {
	eachPair(name, func(hash uint8) { p.of[hash]++; p.all++ })
	return p
}

// share returns what share of the pairs of two names is common to both, from 0 to 1 (Dice's coefficient).
func (p pairs) share(name string) float64 {
	common, all := 0, 0
	eachPair(name, func(hash uint8) {
		if all++; p.of[hash] > 0 {
			p.of[hash]--
			common++
		}
	})
	return 2 * float64(common) / float64(p.all+all)
}

// eachPair calls f with the hash of each pair. It reads as much of a name as a name may be long.
func eachPair(name string, f func(hash uint8)) {
	last := uint32('^')
	for _, r := range cut(name, 128) {
		if !unicode.IsLetter(r) && !unicode.IsDigit(r) {
			continue
		}
		c := uint32(unicode.ToLower(r))
		f(uint8((last*31 + c) * 0x9E3779B1 >> 24))
		last = c
	}
	f(uint8((last*31 + '$') * 0x9E3779B1 >> 24))
}
