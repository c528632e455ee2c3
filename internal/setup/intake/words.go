package intake

import (
	"errors"
	"fmt"
	"strings"

	"github.com/dragoman-mcp/dragoman/internal/base/pattern"

	"mvdan.cc/sh/v3/syntax"
)

// commandLine is one command in a pasted text.
type commandLine struct {
	words []string
	env   []assignment // the variables that are set before the command
	dir   string       // DIR if "cd DIR &&" precedes the command; otherwise ""
}

// assignment sets a variable, as NAME=VALUE does.
type assignment struct{ name, value string }

// maxCommands bounds the length of a text with commands in bytes. The parser is recursive, so this
// also bounds its stack.
const maxCommands = 64 << 10

// shellNeeded is the error for a command that works only in a shell.
type shellNeeded struct{ what string }

func (e *shellNeeded) Error() string {
	return "the command has " + e.what + ", which only a shell understands"
}

// commandLines reads the commands of a text in the language of a POSIX shell, and runs nothing. A
// line of the form export NAME=VALUE sets a variable for the commands that follow.
func commandLines(text string, windows bool) ([]commandLine, error) {
	if len(text) > maxCommands {
		return nil, fmt.Errorf("the commands are longer than %d KiB", maxCommands>>10)
	}
	f, err := syntax.NewParser(syntax.Variant(syntax.LangPOSIX)).Parse(strings.NewReader(text), "")
	if err != nil {
		var at syntax.ParseError
		errors.As(err, &at)
		return nil, &PasteError{Text: "a shell cannot read this command", Line: int(at.Pos.Line()), Hint: "close each quote, and put words with characters such as < > ( ) ; in quotes"}
	}
	r := reader{text: text}
	if windows {
		r.special = `"' `
	}
	for i, s := range f.Stmts {
		// A ; may end a line. Otherwise, only a cd or an export may precede it.
		joined := s.Semicolon.IsValid() && i+1 < len(f.Stmts) && f.Stmts[i+1].Pos().Line() == s.Semicolon.Line()
		if err := r.statement(s, joined, ";"); err != nil {
			return nil, err
		}
	}
	return r.all, nil
}

// reader collects the commands of a text.
type reader struct {
	text     string
	special  string // the characters that a backslash quotes outside of quotes; "" means all
	all      []commandLine
	exported []assignment
	dir      string // the directory from "cd DIR &&"
}

// statement reads one statement. joined means that operator joins it with the next command.
func (r *reader) statement(s *syntax.Stmt, joined bool, operator string) error {
	switch {
	case s.Background:
		return &shellNeeded{"the operator &"}
	case len(s.Redirs) > 0:
		return &shellNeeded{"the operator " + s.Redirs[0].Op.String()}
	case s.Negated:
		return &shellNeeded{"the operator !"}
	}
	switch c := s.Cmd.(type) {
	case *syntax.CallExpr:
		return r.call(c, joined, operator)
	case *syntax.BinaryCmd:
		if c.Op != syntax.AndStmt {
			return &shellNeeded{"the operator " + c.Op.String()}
		}
		if err := r.statement(c.X, true, "&&"); err != nil {
			return err
		}
		return r.statement(c.Y, joined, operator)
	}
	return &shellNeeded{"a control structure"}
}

// call reads one command.
func (r *reader) call(c *syntax.CallExpr, joined bool, operator string) error {
	line := commandLine{dir: r.dir, env: append([]assignment(nil), r.exported...)}
	for _, a := range c.Assigns {
		value := ""
		if a.Value != nil {
			var err error
			if value, err = r.word(a.Value.Parts, r.special); err != nil {
				return err
			}
		}
		line.env = append(line.env, assignment{a.Name.Value, value})
	}
	var words []string
	for _, w := range c.Args {
		text, err := r.word(w.Parts, r.special)
		if err != nil {
			return err
		}
		words = append(words, text)
	}
	if len(words) > 1 && (words[0] == "$" || words[0] == "%") {
		words = words[1:] // the first word is the prompt of a shell
	}
	cd := len(words) == 2 && words[0] == "cd"
	export := len(words) > 1 && (words[0] == "export" || words[0] == "set")
	switch {
	case joined && cd:
		r.dir = words[1]
		return nil
	case joined && !export:
		return &shellNeeded{"the operator " + operator}
	}
	if r.dir = ""; export || len(words) > 2 && words[0] == "env" && assigned(words[1]) {
		words = words[1:]
	}
	for len(words) > 0 && assigned(words[0]) {
		name, value, _ := strings.Cut(words[0], "=")
		line.env = append(line.env, assignment{name, value})
		words = words[1:]
	}
	switch {
	case len(words) > 0:
		line.words = words
		r.all = append(r.all, line)
	case export:
		r.exported = line.env
	}
	return nil
}

// assigned reports whether a word has the form NAME=VALUE.
func assigned(word string) bool {
	name, _, ok := strings.Cut(word, "=")
	return ok && validVariable().MatchString(name)
}

// variable matches a reference to a variable, which may have a default value.
var variable = pattern.Later(`^\$\{?([A-Za-z_][A-Za-z0-9_]*)(:-[^${}"'` + "`" + `\\]*)?\}?$`)

// quotable are the characters that a backslash quotes within double quotes.
const quotable = "\"\\$`"

// word returns the text of a word. A backslash quotes the characters in special, or any character if
// special is "". A reference to a variable becomes ${NAME}, as in Dragoman's configuration file.
// Most other expansions are refused.
func (r *reader) word(parts []syntax.WordPart, special string) (string, error) {
	var b strings.Builder
	for i, p := range parts {
		switch p := p.(type) {
		case *syntax.Lit:
			text := p.Value
			if i == 0 && special != quotable && (text == "~" && len(parts) == 1 || strings.HasPrefix(text, "~/")) {
				b.WriteString("${HOME}")
				text = text[1:]
			}
			b.WriteString(unquoted(text, special))
		case *syntax.SglQuoted:
			b.WriteString(escaped(p.Value))
		case *syntax.DblQuoted:
			text, err := r.word(p.Parts, quotable)
			if err != nil {
				return "", err
			}
			b.WriteString(text)
		case *syntax.ParamExp:
			m := variable().FindStringSubmatch(r.text[p.Pos().Offset():p.End().Offset()])
			if m == nil {
				return "", &shellNeeded{"an expansion with ${ }"}
			}
			b.WriteString("${" + m[1] + m[2] + "}")
		default:
			return "", &shellNeeded{"a command in $( ) or ` `"}
		}
	}
	return b.String(), nil
}

// unquoted returns the text of a literal without the backslashes that quote one of the special
// characters, or any character if special is "".
func unquoted(text, special string) string {
	var b strings.Builder
	for i := 0; i < len(text); i++ {
		if text[i] == '\\' && i+1 < len(text) && (special == "" || strings.IndexByte(special, text[i+1]) >= 0) {
			i++
		}
		b.WriteByte(text[i])
	}
	return b.String()
}

// escaped returns text with each ${ escaped, so that Dragoman does not read it as a reference to a
// variable.
func escaped(text string) string { return strings.ReplaceAll(text, "${", "$${") }
