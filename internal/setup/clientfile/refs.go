package clientfile

import (
	"regexp"
	"strings"

	"github.com/dragoman-mcp/dragoman/internal/base/pattern"
)

// refs says how a client writes references to variables in its file.
type refs uint8

const (
	refsAny      refs = iota // ${NAME}, as in Dragoman's own file; these references stay unchanged
	refsNone                 // no references: ${NAME} is ordinary text
	refsBraces               // ${NAME} and ${NAME:-default}
	refsEditor               // ${env:NAME}, ${input:ID}, ${workspaceFolder} and others
	refsDollar               // $NAME, ${NAME} and ${NAME:-default}
	refsOpencode             // {env:NAME} and {file:PATH}
)

var patterns = map[refs]func() *regexp.Regexp{
	refsBraces:   pattern.Later(`\$\{([^}]+)\}`),
	refsEditor:   pattern.Later(`\$\{([^}]+)\}`),
	refsDollar:   pattern.Later(`\$(?:([A-Z_][A-Z0-9_]*)\b|\{([^}]+)\})`),
	refsOpencode: pattern.Later(`\{((?:env|file):[^}]+)\}`),
}

// own matches a reference in the form that Dragoman uses. The first group is the name of the
// variable. The second group is ":-" and the default, if there is one.
var own = pattern.Later(`\$\{(?:env:)?([A-Za-z_][A-Za-z0-9_]*)(:-[^}]*)?\}`)

var variable = pattern.Later(`^[A-Za-z_][A-Za-z0-9_]*$`)

// IsVariable reports whether s is a valid name of an environment variable.
func IsVariable(s string) bool { return variable().MatchString(s) }

// expander converts references to variables from the form of one client to the form of Dragoman.
type expander struct {
	refs    refs
	os      string
	project string            // the workspace folder; "" if unknown
	inputs  map[string]*Value // the inputs in a file of VS Code, by ID
	found   func(Variable)    // the expander calls found for each reference to a variable
	note    func(text string) // the expander calls note for each text that has another meaning in Dragoman
}

// Variable is an environment variable that an imported server needs.
type Variable struct {
	Name string
	// If Dragoman chose the name of the variable, About describes its value, for example "the input
	// github-token: GitHub token". Otherwise, About is "".
	About string
	// Optional means that every reference to the variable has a default.
	Optional bool
}

// Literal escapes text so that Dragoman does not treat any part of it as a reference.
func Literal(s string) string { return strings.ReplaceAll(s, "${", "$${") }

// expand returns s with its references converted to the form of Dragoman.
func (x *expander) expand(s string) string {
	reference := patterns[x.refs]
	switch {
	case x.refs == refsAny:
		for _, m := range own().FindAllStringSubmatch(strings.ReplaceAll(s, "$${", ""), -1) {
			x.found(Variable{Name: m[1], Optional: m[2] != ""})
		}
		return s
	case reference == nil:
		return Literal(s)
	}
	var b strings.Builder
	at := 0
	for _, m := range reference().FindAllStringSubmatchIndex(s, -1) {
		ref := s[m[0]:m[1]]
		for g := 2; g < len(m); g += 2 {
			if m[g] >= 0 {
				ref = s[m[g]:m[g+1]]
			}
		}
		to, ok := x.reference(ref)
		if !ok {
			continue
		}
		before := s[at:m[0]]
		if strings.HasSuffix(before, "$") && strings.HasPrefix(to, "${") {
			x.note("Dragoman does not support $ before a reference, so the $ is removed")
			before = strings.TrimRight(before, "$")
		}
		b.WriteString(Literal(before) + to)
		at = m[1]
	}
	return b.String() + Literal(s[at:])
}

// reference converts one reference to the form of Dragoman. ref is the text between the delimiters
// of the reference. ok is false if the client treats the reference as ordinary text.
func (x *expander) reference(ref string) (to string, ok bool) {
	switch x.refs {
	case refsOpencode:
		if name, ok := strings.CutPrefix(ref, "env:"); ok {
			return x.use(name, "")
		}
		path := strings.TrimPrefix(ref, "file:")
		base := path[strings.LastIndexAny(path, `/\`)+1:]
		return x.use(VariableName(base), "the content of "+path)
	case refsEditor:
		return x.editor(ref)
	}
	name, fallback, has := strings.Cut(ref, ":-")
	if !variable().MatchString(name) {
		return "", false
	}
	if has {
		x.found(Variable{Name: name, Optional: true})
		return "${" + name + ":-" + fallback + "}", true
	}
	return x.use(name, "")
}

// use returns a reference to the environment variable called name, and records the variable. It
// returns false if the name is not valid.
func (x *expander) use(name, about string) (string, bool) {
	if !variable().MatchString(name) {
		return "", false
	}
	x.found(Variable{Name: name, About: about})
	return "${" + name + "}", true
}

// editor converts a reference of VS Code, or of an editor that is based on VS Code.
func (x *expander) editor(ref string) (string, bool) {
	kind, rest, _ := strings.Cut(ref, ":")
	separator := "/"
	if x.os == "windows" {
		separator = `\`
	}
	switch kind {
	case "env":
		return x.use(rest, "")
	case "input":
		return x.input(rest)
	case "userHome":
		if x.os == "windows" {
			return x.use("USERPROFILE", "")
		}
		return x.use("HOME", "")
	case "pathSeparator", "/":
		return separator, true
	case "workspaceFolder", "workspaceRoot", "cwd":
		if x.project != "" {
			return Literal(x.project), true
		}
		return x.use("WORKSPACE_FOLDER", "the folder of the project")
	case "workspaceFolderBasename":
		if x.project != "" {
			return Literal(x.project[strings.LastIndexAny(x.project, `/\`)+1:]), true
		}
		return x.use("WORKSPACE_NAME", "the name of the project's folder")
	case "config", "command":
		return x.use(VariableName(rest), "the value of ${"+ref+"} in the editor")
	}
	return "", false // the editor keeps this text unchanged
}

func (x *expander) input(id string) (string, bool) {
	about, name := "the input "+id, VariableName(id)
	in := x.inputs[id]
	if d := in.Get("description").text(); d != "" {
		about += ": " + d
	}
	if d := in.Get("default").text(); d != "" && !strings.ContainsAny(d, "{}$") && in.Get("password").text() != "true" {
		x.found(Variable{Name: name, About: about, Optional: true})
		return "${" + name + ":-" + d + "}", true
	}
	return x.use(name, about)
}

// VariableName converts text to the name of an environment variable: github-token becomes
// GITHUB_TOKEN.
func VariableName(s string) string {
	s = strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z':
			return r - 'a' + 'A'
		case r >= 'A' && r <= 'Z', r >= '0' && r <= '9':
			return r
		}
		return '_'
	}, s)
	if s = strings.Trim(s, "_"); s == "" || s[0] >= '0' && s[0] <= '9' {
		s = "VALUE_" + s
	}
	return strings.TrimSuffix(s, "_")
}
