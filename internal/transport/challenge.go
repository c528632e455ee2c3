package transport

import "strings"

// Challenges returns the challenges of the response one by one, in their order: those of several
// header fields, and those of one field (RFC 9110 §11.6.1). A field with two challenges looks like one
// with a long list of parameters, so a parser of the joined text stops at the first fault. Here a
// malformed challenge is one element, and the others keep theirs.
func (e *StatusError) Challenges() (all []string) {
	for _, field := range e.Authenticate {
		first := len(all)
		for _, x := range elements(field) {
			if len(all) > first && isParameter(x) {
				all[len(all)-1] += ", " + x
			} else {
				all = append(all, x)
			}
		}
	}
	return all
}

// elements splits a header field at its commas, but not within quoted strings. It leaves out empty
// elements. A quote that never ends is an ordinary character.
func elements(field string) (all []string) {
	add := func(s string) {
		if s = strings.Trim(s, " \t"); s != "" {
			all = append(all, s)
		}
	}
	from := 0
	for i := 0; i < len(field); i++ {
		switch field[i] {
		case '"':
			i += quoted(field[i:])
		case ',':
			add(field[from:i])
			from = i + 1
		}
	}
	add(field[from:])
	return all
}

// quoted returns the position of the quote that ends the quoted string at the beginning of s, or 0 if
// none does.
func quoted(s string) int {
	for i := 1; i < len(s); i++ {
		switch s[i] {
		case '\\':
			i++
		case '"':
			return i
		}
	}
	return 0
}

// isParameter reports whether an element is a parameter of the challenge before it: a name and an
// equals sign, which may have spaces around it. A scheme is followed by a space and something else, or
// by nothing.
func isParameter(element string) bool {
	name, _, ok := strings.Cut(element, "=")
	name = strings.TrimRight(name, " \t")
	return ok && name != "" && !strings.ContainsAny(name, " \t\"(),/:;<>?@[\\]{}")
}
