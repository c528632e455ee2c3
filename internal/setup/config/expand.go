package config

import (
	"strings"

	"github.com/dragoman-mcp/dragoman/internal/base/excerpt"
	"github.com/dragoman-mcp/dragoman/internal/relay/event"
)

// Secrets looks up a secret of a project. ok is false if the project has no secret with this name. An error
// says why a secret can't be read.
type Secrets func(project, name string) (value Secret, ok bool, err error)

// Expand replaces the references in a command-line value by the same rules as in a configuration
// file: ${NAME}, ${NAME:-default}, and $${ for a literal ${. Every user of the machine can read a
// command line. With references, the command line does not have to contain credentials.
func Expand(s string, env func(string) (string, bool)) (string, *Problem) {
	e, bad, hint := expand(s, lookups{env: env})
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
	missing Missing  // what has no value and no default
}

// Missing names the variable or the secret that a reference stands for and nobody has set. The zero
// Missing is neither.
type Missing struct{ Variable, Secret string }

// reference returns the text between ${ and }.
func (m Missing) reference() string {
	if m.Secret != "" {
		return "secret:" + m.Secret
	}
	return m.Variable
}

// lookups find the values of references.
type lookups struct {
	env     func(string) (string, bool)
	secrets Secrets           // nil if this program can't read any
	note    func(name string) // if not nil, called for each reference to a secret
	project string            // whose secrets they are
	alone   bool              // the project doesn't see the environment of the process
}

// expand replaces the references in a value: ${NAME}, ${NAME:-default}, ${secret:NAME}, and ${env:NAME},
// which some other clients use. $${ gives a literal ${. A $ without a following { is literal. bad
// describes the first invalid reference, and hint says how to fix it.
func expand(s string, from lookups) (e expansion, bad, hint string) {
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
		value, missing, bad, hint := from.resolve(ref)
		if bad != "" {
			e.missing = missing
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
// says how to fix it. If the reason is a variable or a secret that nobody has set, missing names it.
func (from lookups) resolve(ref string) (value string, missing Missing, bad, hint string) {
	if name, ok := strings.CutPrefix(ref, "secret:"); ok {
		return from.secret(name)
	}
	name, fallback, hasFallback := strings.Cut(ref, ":-")
	if !hasFallback {
		if scheme, of, ok := strings.Cut(ref, ":"); ok {
			switch scheme {
			case "env":
				name = of
			case "input":
				return "", missing, "${input:" + printable(of) + "} is an input prompt of an editor, which Dragoman does not support",
					"put the value in an environment variable and write ${NAME}"
			}
		}
	}
	if !isVariable(name) {
		return "", missing, "${" + printable(ref) + "} is not a valid reference to an environment variable", "write ${NAME} or ${NAME:-default}, or $${ for the two characters ${"
	}
	v, ok := from.env(name)
	switch {
	case !ok && from.alone:
		return "", missing, "${" + printable(ref) + "} is a variable of the machine, and a project in the store reads only its own secrets", "write ${secret:NAME}, or write the project into the configuration file"
	case ok && (v != "" || !hasFallback):
		return v, missing, "", ""
	case hasFallback:
		return fallback, missing, "", ""
	}
	return "", Missing{Variable: name}, "the environment variable " + name + " is not set", "set it, or write ${" + name + ":-default}"
}

// secret does the same as resolve for ${secret:NAME}. A secret has no default, because the default
// would be in the file.
func (from lookups) secret(name string) (value string, missing Missing, bad, hint string) {
	if badName(name) != "" {
		return "", missing, "${secret:" + printable(name) + "} is not a valid reference to a secret", "write ${secret:NAME}, and in NAME only letters, digits, _, - and ."
	}
	if from.note != nil {
		from.note(name)
	}
	missing.Secret = name
	if from.secrets == nil {
		return "", missing, "the secret " + name + " cannot be read, because only dragoman serve reads secrets, from its store",
			"put the value into an environment variable or into the file of dragoman.envFile, and write ${NAME}"
	}
	v, ok, err := from.secrets(from.project, name)
	set, of := "`dragoman secrets set "+name+"`", ""
	if from.project != event.DefaultProject {
		set, of = "`dragoman secrets set "+name+" --project "+from.project+"`", " of the project "+from.project
	}
	switch {
	case err != nil:
		return "", missing, "the secret " + name + of + " cannot be read: " + excerpt.Line(err.Error(), 400), "store it again with " + set
	case !ok:
		return "", missing, "there is no secret " + name + of, "run " + set
	}
	return v.Reveal(), Missing{}, "", ""
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
