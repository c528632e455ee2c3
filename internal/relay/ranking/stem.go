package ranking

import "bytes"

// stem shortens an English word in lower case, so that issues finds issue, and creating create. It's the first
// and the last step of M. F. Porter, "An algorithm for suffix stripping", Program 14/3 (1980), with the names
// of its conditions. The three steps between them, which make one term of generate, general and generous,
// find no more (docs/adr/0050). It works in place: the result is w or a part of it.
func stem(w []byte) []byte {
	if len(w) <= 2 {
		return w
	}
	return step5(step1(w))
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
