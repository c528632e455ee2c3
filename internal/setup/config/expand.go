package config

import "strings"

// Expand replaces the references in a command-line value by the same rules as in a configuration
// file: ${NAME}, ${NAME:-default}, and $${ for a literal ${. Every user of the machine can read a
// command line. With references, the command line does not have to contain credentials.
func Expand(s string, env func(string) (string, bool)) (string, *Problem) {
	e, bad, hint := expand(s, env)
	if bad != "" {
		return "", &Problem{Text: bad, Hint: hint}
	}
	return e.text, nil
}

// expansion is a value with its references replaced.
type expansion struct {
	text  string // the value to use
	shown string // the value with *** in place of each reference
	from  bool   // whether the value had references

	outside []Secret // the values that replaced the references, in order
	unset   string   // the variable that is not set and has no default; "" for none
}

// expand replaces the references in a value: ${NAME}, ${NAME:-default} and ${env:NAME}, which some
// other clients use. $${ gives a literal ${. A $ without a following { is literal. bad describes the
// first invalid reference, and hint says how to fix it.
func expand(s string, env func(string) (string, bool)) (e expansion, bad, hint string) {
	var text, shown strings.Builder
	both := func(s string) { text.WriteString(s); shown.WriteString(s) }
	for {
		i := strings.Index(s, "${")
		if i < 0 {
			both(s)
			break
		}
		if i > 0 && s[i-1] == '$' {
			both(s[:i-1] + "${")
			s = s[i+2:]
			continue
		}
		both(s[:i])
		ref, rest, closed := strings.Cut(s[i+2:], "}")
		if !closed {
			return e, "${ has no closing }", "write ${NAME} for a variable, or $${ for the two characters ${"
		}
		s = rest
		value, unset, bad, hint := resolve(ref, env)
		if bad != "" {
			e.unset = unset
			return e, bad, hint
		}
		text.WriteString(value)
		shown.WriteString(mask)
		e.from = true
		e.outside = append(e.outside, NewSecret(value))
	}
	e.text, e.shown = text.String(), shown.String()
	return e, "", ""
}

// resolve returns the value of a reference. If there is no value, bad describes the problem and hint
// says how to fix it. If the reason is a variable that is not set, unset is the name of the variable.
func resolve(ref string, env func(string) (string, bool)) (value, unset, bad, hint string) {
	name, fallback, hasFallback := strings.Cut(ref, ":-")
	if !hasFallback {
		if scheme, of, ok := strings.Cut(ref, ":"); ok {
			switch scheme {
			case "env":
				name = of
			case "secret":
				return "", "", "${secret:" + printable(of) + "} cannot be resolved, because Dragoman does not support secret stores yet",
					"put the value in an environment variable and write ${NAME}"
			case "input":
				return "", "", "${input:" + printable(of) + "} is an input prompt of an editor, which Dragoman does not support",
					"put the value in an environment variable and write ${NAME}"
			}
		}
	}
	if !isVariable(name) {
		return "", "", "${" + printable(ref) + "} is not a valid reference to an environment variable", "write ${NAME} or ${NAME:-default}, or $${ for the two characters ${"
	}
	v, ok := env(name)
	switch {
	case ok && (v != "" || !hasFallback):
		return v, "", "", ""
	case hasFallback:
		return fallback, "", "", ""
	}
	return "", name, "the environment variable " + name + " is not set", "set it, or write ${" + name + ":-default}"
}

func isVariable(s string) bool {
	for i, c := range []byte(s) {
		letter := c == '_' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
		if !letter && (i == 0 || c < '0' || c > '9') {
			return false
		}
	}
	return s != ""
}
