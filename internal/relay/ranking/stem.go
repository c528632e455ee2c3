package ranking

import "bytes"

// stem shortens an English word in lower case to its stem, so that "issues" finds "issue" and "searching"
// "search". It is the algorithm of M. F. Porter, "An algorithm for suffix stripping", Program 14/3 (1980),
// with the two departures of his own implementation (rule logi and bli for abli). The names of the steps and
// of the conditions are the paper's. It works in place: the result is w or a part of it.
func stem(w []byte) []byte {
	if len(w) <= 2 {
		return w
	}
	w = step1(w)
	w = replace(w, 0, step2)
	w = replace(w, 0, step3)
	w = step4(w)
	return step5(w)
}

// rule replaces the end of a word.
type rule struct{ from, to string }

// The longest ending that fits decides, so of two endings of which one ends with the other, the longer one
// comes first.
var (
	step2 = []rule{
		{"ational", "ate"}, {"tional", "tion"}, {"enci", "ence"}, {"anci", "ance"}, {"izer", "ize"}, {"bli", "ble"},
		{"alli", "al"}, {"entli", "ent"}, {"eli", "e"}, {"ousli", "ous"}, {"ization", "ize"}, {"ation", "ate"},
		{"ator", "ate"}, {"alism", "al"}, {"iveness", "ive"}, {"fulness", "ful"}, {"ousness", "ous"}, {"aliti", "al"},
		{"iviti", "ive"}, {"biliti", "ble"}, {"logi", "log"},
	}
	step3 = []rule{
		{"icate", "ic"}, {"ative", ""}, {"alize", "al"}, {"iciti", "ic"}, {"ical", "ic"}, {"ful", ""}, {"ness", ""},
	}
	step4Ends = []string{
		"al", "ance", "ence", "er", "ic", "able", "ible", "ant", "ement", "ment", "ent", "ion", "ou", "ism", "ate", "iti",
		"ous", "ive", "ize",
	}
)

// replace applies the rule whose ending fits, if what is before the ending has a measure above least.
func replace(w []byte, least int, rules []rule) []byte {
	for _, r := range rules {
		if front, ok := cutEnd(w, r.from); ok {
			if measure(front) > least {
				return append(front, r.to...)
			}
			return w
		}
	}
	return w
}

// step1 removes plurals, -ed and -ing.
func step1(w []byte) []byte {
	switch {
	case hasEnd(w, "sses"), hasEnd(w, "ies"):
		w = w[:len(w)-2]
	case hasEnd(w, "ss"):
	case hasEnd(w, "s"):
		w = w[:len(w)-1]
	}
	if front, ok := cutEnd(w, "eed"); ok {
		if measure(front) > 0 {
			w = w[:len(w)-1]
		}
	} else if front, ok := cutEnd(w, "ed"); ok && hasVowel(front) {
		w = mend(front)
	} else if front, ok := cutEnd(w, "ing"); ok && hasVowel(front) {
		w = mend(front)
	}
	if front, ok := cutEnd(w, "y"); ok && hasVowel(front) {
		w[len(w)-1] = 'i'
	}
	return w
}

// mend restores the end of a word that has lost -ed or -ing.
func mend(w []byte) []byte {
	switch {
	case hasEnd(w, "at"), hasEnd(w, "bl"), hasEnd(w, "iz"):
		return append(w, 'e')
	case doubled(w) && !hasEnd(w, "l") && !hasEnd(w, "s") && !hasEnd(w, "z"):
		return w[:len(w)-1]
	case measure(w) == 1 && closed(w):
		return append(w, 'e')
	}
	return w
}

func step4(w []byte) []byte {
	best := ""
	for _, end := range step4Ends {
		if len(end) > len(best) && hasEnd(w, end) {
			best = end
		}
	}
	front := w[:len(w)-len(best)]
	if measure(front) <= 1 || best == "ion" && !hasEnd(front, "s") && !hasEnd(front, "t") {
		return w
	}
	return front
}

// step5 removes a last e, and one of two l.
func step5(w []byte) []byte {
	if front, ok := cutEnd(w, "e"); ok {
		if m := measure(front); m > 1 || m == 1 && !closed(front) {
			w = front
		}
	}
	if hasEnd(w, "ll") && measure(w) > 1 {
		w = w[:len(w)-1]
	}
	return w
}

func hasEnd(w []byte, end string) bool {
	return len(w) >= len(end) && string(w[len(w)-len(end):]) == end
}

func cutEnd(w []byte, end string) (front []byte, ok bool) {
	if !hasEnd(w, end) {
		return w, false
	}
	return w[:len(w)-len(end)], true
}

// consonant reports whether the letter at i is one: not a vowel, and no y after a consonant.
func consonant(w []byte, i int) bool {
	if w[i] == 'y' {
		return i == 0 || !consonant(w, i-1)
	}
	return bytes.IndexByte([]byte("aeiou"), w[i]) < 0
}

// measure counts the vowels that a consonant follows, runs of either counting as one. It's the paper's m.
func measure(w []byte) (m int) {
	vowel := false
	for i := range w {
		c := consonant(w, i)
		if c && vowel {
			m++
		}
		vowel = !c
	}
	return m
}

// hasVowel is the paper's *v*.
func hasVowel(w []byte) bool {
	for i := range w {
		if !consonant(w, i) {
			return true
		}
	}
	return false
}

// doubled is the paper's *d: the word ends with two equal consonants.
func doubled(w []byte) bool {
	n := len(w)
	return n >= 2 && w[n-1] == w[n-2] && consonant(w, n-1)
}

// closed is the paper's *o: the word ends with consonant, vowel, consonant, and the last is not w, x or y.
func closed(w []byte) bool {
	n := len(w)
	return n >= 3 && consonant(w, n-1) && !consonant(w, n-2) && consonant(w, n-3) && bytes.IndexByte([]byte("wxy"), w[n-1]) < 0
}
