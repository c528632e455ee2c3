package config

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"unicode/utf8"

	"github.com/dragoman-mcp/dragoman/internal/setup/clientfile"
)

// MaxEnvFile is the maximum size, in bytes, of the file that dragoman.envFile names.
const MaxEnvFile = 1 << 20

// Variable is one line of a file with environment variables.
type Variable struct {
	Name  string
	Value Secret
	Line  int // 1-based
}

// ParseEnv reads the content b of a file with environment variables. Each line is NAME=VALUE, a
// comment that begins with #, or empty. The word export before a name is ignored. A value in
// single quotes has no escapes. In double quotes, \n, \r, \t, \", \\, \$ and \` have their usual
// meaning. A value in quotes may have several lines. A value without quotes ends at a # that is at
// the start of the value or follows a space or tab. References such as ${NAME} in values are not
// replaced. If a name is set twice, ParseEnv uses the last value and reports a warning.
//
// The returned Problems have no File and never contain a value.
func ParseEnv(b []byte) ([]Variable, Problems) {
	p := envParser{rest: strings.ReplaceAll(string(bytes.TrimPrefix(b, []byte("\ufeff"))), "\r\n", "\n"), line: 1}
	switch {
	case len(b) > MaxEnvFile:
		return nil, Problems{{Text: "the file is larger than 1 MiB"}}
	case !utf8.Valid(b):
		return nil, Problems{{Text: "the file is not UTF-8", Hint: "save the file as UTF-8"}}
	case bytes.IndexByte(b, 0) >= 0:
		return nil, Problems{{Text: "the file has a NUL character"}}
	}
	for p.rest != "" {
		p.read()
	}
	return p.all, p.problems
}

// envParser is the state of ParseEnv. It reads the file line by line, but reads all lines of a
// quoted value at once.
type envParser struct {
	rest     string
	line     int
	all      []Variable
	problems Problems
}

func (p *envParser) problem(text, hint string, warning bool) {
	const most = 50 // a longer list would not help the user
	if len(p.problems) < most {
		p.problems = append(p.problems, Problem{Line: p.line, Col: 1, Text: text, Hint: hint, Warning: warning})
	}
}

// read reads the next line. If a quoted value begins on that line, read reads all lines of the value.
func (p *envParser) read() {
	line, rest, _ := strings.Cut(p.rest, "\n")
	at := p.line
	p.rest = rest
	defer func() { p.line++ }()
	text := strings.TrimSpace(line)
	if text == "" || text[0] == '#' {
		return
	}
	if after, ok := strings.CutPrefix(text, "export "); ok {
		text = strings.TrimLeft(after, " \t")
	}
	name, value, ok := strings.Cut(text, "=")
	name = strings.TrimRight(name, " \t")
	switch {
	case !ok:
		p.problem("the line has no =", "write NAME=VALUE", false)
		return
	case !isVariable(name):
		p.problem("the text before = is not the name of an environment variable", "use letters, digits and _; the first character is not a digit", false)
		return
	}
	value = strings.TrimLeft(value, " \t")
	if value != "" && (value[0] == '"' || value[0] == '\'') {
		var closed bool
		if value, closed = p.quoted(value[1:], value[0]); !closed {
			return
		}
	} else {
		value = unquoted(value)
	}
	for i := range p.all {
		if p.all[i].Name == name {
			p.all = append(p.all[:i], p.all[i+1:]...)
			p.problem(name+" is set twice; the last value counts", "remove one of the lines", true)
			break
		}
	}
	p.all = append(p.all, Variable{name, NewSecret(value), at})
}

// unquoted returns the part of an unquoted value before the comment, without spaces at the end.
func unquoted(value string) string {
	for i := range len(value) {
		if value[i] == '#' && (i == 0 || value[i-1] == ' ' || value[i-1] == '\t') {
			value = value[:i]
			break
		}
	}
	return strings.TrimRight(value, " \t")
}

// quoted reads a value in quotes, and returns the value without the quotes. The parameter text is
// the part of the line after the opening quote. If the closing quote is missing, or if anything
// except a comment follows it, quoted reports a problem and closed is false.
func (p *envParser) quoted(text string, quote byte) (value string, closed bool) {
	first := p.line
	var b strings.Builder
	for {
		end := -1
		for i := 0; i < len(text) && end < 0; i++ {
			switch {
			case text[i] == quote:
				end = i
			case text[i] == '\\' && quote == '"' && i+1 < len(text):
				i++
				b.WriteString(unescape(text[i]))
			default:
				b.WriteByte(text[i])
			}
		}
		if end >= 0 {
			if after := strings.TrimSpace(text[end+1:]); after != "" && after[0] != '#' {
				p.problem("text follows the closing quote", "put the whole value into the quotes", false)
				return "", false
			}
			return b.String(), true
		}
		if p.rest == "" {
			last := p.line
			p.line = first
			p.problem("the value has no closing quote", "add the closing quote; in double quotes, write \\\" for a quote within the value", false)
			p.line = last
			return "", false
		}
		b.WriteByte('\n')
		text, p.rest, _ = strings.Cut(p.rest, "\n")
		p.line++
	}
}

// unescape returns the text for a backslash and the character c in double quotes.
func unescape(c byte) string {
	switch c {
	case 'n':
		return "\n"
	case 'r':
		return "\r"
	case 't':
		return "\t"
	case '"', '\\', '$', '`':
		return string(c)
	}
	return `\` + string(c)
}

// AppendEnv returns the content b of a file with a variable added at the end. The other bytes stay
// the same. If name is a valid name of a variable, and value is UTF-8 without NUL characters, then
// ParseEnv returns exactly this value.
func AppendEnv(b []byte, name, value string) []byte {
	out, end := bytes.Clone(b), "\n"
	if bytes.Contains(b, []byte("\r\n")) {
		end = "\r\n"
	}
	if len(out) > 0 && out[len(out)-1] != '\n' {
		out = append(out, end...)
	}
	return append(append(out, name+"="+quoteEnv(value)...), end...)
}

// quoteEnv returns a value in the form that ParseEnv reads. It puts a value into quotes only if the
// value contains special characters.
func quoteEnv(value string) string {
	simple := !strings.ContainsFunc(value, func(r rune) bool {
		return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("_-./:@%+=,~", r))
	})
	switch {
	case simple:
		return value
	case !strings.ContainsAny(value, "'\n\r\t"):
		return "'" + value + "'"
	}
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`, "$", `\$`, "`", "\\`", "\n", `\n`, "\r", `\r`, "\t", `\t`).Replace(value) + `"`
}

// ReadEnv reads the file that dragoman.envFile names. It refuses a file that other users of the
// machine can read or write. On Windows, ReadEnv does not check this, because Windows does not have
// Unix file modes. The returned Problems have the path as their File. A missing file is a problem.
func ReadEnv(path string) ([]Variable, Problems) {
	b, mode, err := read(path, MaxEnvFile+1)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, Problems{{File: path, Text: "file not found", Hint: "create it with mode 0600, or remove dragoman.envFile from the configuration"}}
	case err != nil:
		return nil, Problems{unreadable(path, err)}
	case runtime.GOOS != "windows" && mode.Perm()&0o077 != 0:
		return nil, Problems{{File: path, Text: "other users of this machine can read the file, so Dragoman does not use it", Hint: "run `chmod 600 " + path + "`"}}
	}
	all, problems := ParseEnv(b)
	for i := range problems {
		problems[i].File = path
	}
	if problems.Err() != nil {
		return nil, problems
	}
	return all, problems
}

// EnvFileOf returns the value of dragoman.envFile in the configuration file at the given path, even
// if the file has problems elsewhere. EnvFileOf returns "" if the file does not set
// dragoman.envFile, or if the file cannot be read.
func EnvFileOf(path string) string {
	b, _, err := read(path, clientfile.MaxFile+1)
	if err != nil {
		return ""
	}
	c := &compiler{file: path, process: os.LookupEnv, env: os.LookupEnv}
	root := c.readFile(b)
	if root == nil || root.kind != mappingKind {
		return ""
	}
	ours := c.object(root, "").object("dragoman")
	if ours == nil {
		return ""
	}
	return c.readEnvFile(ours)
}

// readEnvFile reads the setting dragoman.envFile and returns the path. If c.variables is not nil,
// readEnvFile also reads the variables from the file at this path, so that references can use them.
func (c *compiler) readEnvFile(o *object) string {
	var path string
	n := o.text("envFile", &path)
	if n == nil {
		return ""
	}
	path = c.relative(n, o.at("envFile"), path)
	c.envPath = path
	if path == "" || c.variables == nil {
		return path
	}
	all, problems := c.variables(path)
	for _, p := range problems {
		c.fatal = c.fatal || !p.Warning
		if p.Line == 0 { // the problem is not about one line, so show the line of the setting
			p.File, p.Line, p.Col, p.Path, p.Text = c.file, n.line, n.col, o.at("envFile"), filepath.ToSlash(path)+": "+p.Text
		}
		c.inEnv = append(c.inEnv, p)
	}
	c.fromEnv = make(map[string]string, len(all))
	for _, v := range all {
		c.fromEnv[v.Name] = v.Value.Reveal()
		if len(v.Value.Reveal()) >= shortestSecret {
			c.source.secrets = append(c.source.secrets, v.Value.Reveal())
		}
	}
	return path
}

// outer looks up a variable in the environment of the process. If the variable is empty or missing
// there, outer looks it up in the file of dragoman.envFile.
func (c *compiler) outer(name string) (string, bool) {
	v, ok := c.process(name)
	if !ok || v == "" {
		if mine, found := c.fromEnv[name]; found {
			return mine, true
		}
	}
	return v, ok
}
