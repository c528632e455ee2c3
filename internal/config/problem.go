package config

import (
	"slices"
	"strconv"
	"strings"
)

// Problem is one thing about a configuration that somebody has to know. It never
// holds the text of a Secret.
type Problem struct {
	File      string
	Line, Col int    // from 1, in characters; 0 when it has no place in the file
	Path      string // "mcpServers.gh.url"; "" for the file as a whole
	Text      string // what is wrong, lower case, without a full stop
	Hint      string // what to do; "" when Text says it
	// Warning says that the file can be used as it is.
	Warning bool
}

// String returns the problem on one line: file:line:col: path: text; hint.
func (p Problem) String() string {
	var b strings.Builder
	if p.File != "" {
		b.WriteString(p.File)
		if p.Line > 0 {
			b.WriteString(":" + strconv.Itoa(p.Line) + ":" + strconv.Itoa(p.Col))
		}
		b.WriteString(": ")
	}
	if p.Warning {
		b.WriteString("warning: ")
	}
	if p.Path != "" {
		b.WriteString(p.Path + ": ")
	}
	b.WriteString(p.Text)
	if p.Hint != "" {
		b.WriteString("; " + p.Hint)
	}
	return b.String()
}

// Problems are what Parse found, in the order of the file.
type Problems []Problem

// Err returns an error that lists the problems which are not mere warnings, nil
// when there are none.
func (ps Problems) Err() error {
	bad := ps.only(false)
	if len(bad) == 0 {
		return nil
	}
	return &Error{Problems: bad}
}

// Warnings returns the problems in spite of which the file can be used.
func (ps Problems) Warnings() Problems { return ps.only(true) }

func (ps Problems) only(warning bool) Problems {
	var out Problems
	for _, p := range ps {
		if p.Warning == warning {
			out = append(out, p)
		}
	}
	return out
}

func (ps Problems) sort() {
	slices.SortStableFunc(ps, func(a, b Problem) int {
		if a.Line != b.Line {
			return a.Line - b.Line
		}
		return a.Col - b.Col
	})
}

// Error is a configuration that cannot be used. Problems is never empty.
type Error struct{ Problems Problems }

// Error returns the problems, one per line.
func (e *Error) Error() string {
	lines := make([]string, len(e.Problems))
	for i, p := range e.Problems {
		lines[i] = p.String()
	}
	return strings.Join(lines, "\n")
}
