package intake

import (
	"fmt"
	"strings"
)

// commandLine is one command in a pasted text.
type commandLine struct {
	words []string
	env   []assignment // the variables that are set before the command
	dir   string       // DIR if "cd DIR &&" precedes the command; otherwise ""
}

// assignment sets a variable, as NAME=VALUE does.
type assignment struct{ name, value string }

// maxWords bounds the number of words in one text.
const maxWords = 10_000

// splitter reads text with the quoting of a POSIX shell. It never runs anything. A reference to a
// variable becomes ${NAME}, as in Dragoman's configuration file. The splitter refuses most other
// expansions.
type splitter struct {
	text    string
	at      int
	windows bool // a backslash outside of quotes is an ordinary character
	words   int
}

// token is a word, or an operator of a shell.
type token struct {
	text     string
	operator bool
}

// next returns the next token. ok is false at the end of the text.
func (s *splitter) next() (t token, ok bool, err error) {
	for s.at < len(s.text) {
		switch c := s.text[s.at]; {
		case c == ' ' || c == '\t' || c == '\r':
			s.at++
			continue
		case c == '\\' && strings.HasPrefix(strings.TrimPrefix(s.text[s.at+1:], "\r"), "\n"):
			s.at += strings.IndexByte(s.text[s.at:], '\n') + 1
			continue
		case c == '#':
			if n := strings.IndexByte(s.text[s.at:], '\n'); n >= 0 {
				s.at += n
			} else {
				s.at = len(s.text)
			}
			continue
		case strings.IndexByte("\n;&|<>()", c) >= 0:
			n := 1
			if s.at+1 < len(s.text) && s.text[s.at+1] == c && c != '\n' {
				n = 2
			}
			s.at += n
			return token{s.text[s.at-n : s.at], true}, true, nil
		}
		if s.words++; s.words > maxWords {
			return t, false, fmt.Errorf("the text has more than %d words", maxWords)
		}
		t.text, err = s.word()
		return t, err == nil, err
	}
	return t, false, nil
}

// word reads one word.
func (s *splitter) word() (string, error) {
	var b strings.Builder
	if s.text[s.at] == '~' && (s.at+1 == len(s.text) || strings.IndexByte("/ \t\n", s.text[s.at+1]) >= 0) {
		b.WriteString("${HOME}")
		s.at++
	}
	for s.at < len(s.text) {
		c := s.text[s.at]
		switch {
		case strings.IndexByte(" \t\r\n;&|<>()", c) >= 0:
			return b.String(), nil
		case c == '\'':
			end := strings.IndexByte(s.text[s.at+1:], '\'')
			if end < 0 {
				return "", fmt.Errorf("a ' has no closing '")
			}
			b.WriteString(escaped(s.text[s.at+1 : s.at+1+end]))
			s.at += end + 2
		case c == '"':
			if err := s.quoted(&b); err != nil {
				return "", err
			}
		case c == '\\' && (!s.windows || s.at+1 < len(s.text) && strings.IndexByte(`"' `, s.text[s.at+1]) >= 0):
			if s.at++; s.at < len(s.text) {
				n := 1
				if s.text[s.at] == '\r' && strings.HasPrefix(s.text[s.at:], "\r\n") {
					n = 2
				}
				if part := s.text[s.at : s.at+n]; part[n-1] != '\n' {
					b.WriteString(part)
				}
				s.at += n
			}
		case c == '$' || c == '`':
			if err := s.dollar(&b); err != nil {
				return "", err
			}
		default:
			b.WriteByte(c)
			s.at++
		}
	}
	return b.String(), nil
}

// quoted reads the part of a word that is in double quotes.
func (s *splitter) quoted(b *strings.Builder) error {
	for s.at++; s.at < len(s.text); {
		switch c := s.text[s.at]; {
		case c == '"':
			s.at++
			return nil
		case c == '\\' && s.at+1 < len(s.text) && strings.IndexByte("\"\\$`\n", s.text[s.at+1]) >= 0:
			if c := s.text[s.at+1]; c != '\n' {
				b.WriteByte(c)
			}
			s.at += 2
		case c == '$' || c == '`':
			if err := s.dollar(b); err != nil {
				return err
			}
		default:
			b.WriteByte(c)
			s.at++
		}
	}
	return fmt.Errorf(`a " has no closing "`)
}

// dollar reads an expansion, which begins with $ or `.
func (s *splitter) dollar(b *strings.Builder) error {
	rest := s.text[s.at+1:]
	switch {
	case s.text[s.at] == '`', strings.HasPrefix(rest, "("):
		return &shellNeeded{"a command in $( ) or ` `"}
	case strings.HasPrefix(rest, "{"):
		name, _, closed := strings.Cut(rest[1:], "}")
		plain, fallback, has := strings.Cut(name, ":-")
		if !closed || !validVariable.MatchString(plain) || strings.ContainsAny(fallback, "${") {
			return &shellNeeded{"an expansion with ${ }"}
		}
		if b.WriteString("${" + plain); has {
			b.WriteString(":-" + fallback)
		}
		b.WriteByte('}')
		s.at += len(name) + 3
		return nil
	}
	n := 0
	for n < len(rest) && validVariable.MatchString(rest[:n+1]) {
		n++
	}
	if n == 0 {
		b.WriteByte('$')
	} else {
		b.WriteString("${" + rest[:n] + "}")
	}
	s.at += n + 1
	return nil
}

// escaped returns text with each ${ escaped, so that Dragoman does not read it as a reference to a
// variable.
func escaped(text string) string { return strings.ReplaceAll(text, "${", "$${") }

// shellNeeded is the error for a command that works only in a shell.
type shellNeeded struct{ what string }

func (e *shellNeeded) Error() string {
	return "the command has " + e.what + ", which only a shell understands"
}

// commandLines splits a text into commands. A line of the form export NAME=VALUE sets a variable
// for the commands that follow.
func commandLines(text string, windows bool) (all []commandLine, err error) {
	s := &splitter{text: text, windows: windows}
	var exported []assignment
	var words []string
	dir := ""
	end := func() {
		line := commandLine{dir: dir, env: append([]assignment(nil), exported...)}
		if len(words) > 1 && (words[0] == "$" || words[0] == "%" || words[0] == ">") {
			words = words[1:] // the first word is the prompt of a shell
		}
		export := len(words) > 1 && (words[0] == "export" || words[0] == "set")
		if export || len(words) > 2 && words[0] == "env" && assigned(words[1]) {
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
			all = append(all, line)
		case export:
			exported = line.env
		}
		words, dir = nil, ""
	}
	for {
		t, ok, err := s.next()
		switch {
		case err != nil:
			return nil, err
		case !ok:
			end()
			return all, nil
		case !t.operator:
			words = append(words, t.text)
		case t.text == "\n" || t.text == ";" && s.lineEnds():
			end()
		case joins(t.text) && len(words) == 2 && words[0] == "cd":
			dir, words = words[1], nil
		case joins(t.text) && len(words) > 1 && words[0] == "export":
			end()
		default:
			return nil, &shellNeeded{"the operator " + t.text}
		}
	}
}

// joins reports whether an operator joins two commands.
func joins(operator string) bool { return operator == "&&" || operator == ";" }

// lineEnds reports whether the rest of the line is empty.
func (s *splitter) lineEnds() bool {
	line, _, _ := strings.Cut(s.text[s.at:], "\n")
	return strings.Trim(line, " \t\r") == ""
}

// assigned reports whether a word has the form NAME=VALUE.
func assigned(word string) bool {
	name, _, ok := strings.Cut(word, "=")
	return ok && validVariable.MatchString(name)
}
