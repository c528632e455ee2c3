package config

import (
	"log/slog"
	"slices"
	"strconv"
	"strings"
)

// Problem is one error or warning about a configuration. It never contains the text of a Secret, and
// text from the file that looks like a secret is masked.
type Problem struct {
	File      string
	Line, Col int    // 1-based, in characters; 0 if there is no position
	Path      string // "mcpServers.gh.url"; "" for the whole file
	Text      string // the problem, without a full stop at the end
	Hint      string // how to fix the problem; "" if there is no hint
	// Source is the line of the file that has the problem. Secrets are masked, and characters that
	// are not safe to print are replaced. If the line is long, Source is only the part around Col.
	// Source is "" if there is no position, or if masking leaves nothing to show. Caret is the
	// position of Col in Source, as a 0-based index in characters.
	Source string
	Caret  int
	// Warning is true if the problem makes neither the file nor a server unusable.
	Warning bool
	// Project is the project of dragoman.projects in which the problem is. The problem doesn't affect any
	// other project. "" means that it's elsewhere in the file.
	Project string
	// Server is set if the problem makes only one server unusable, because an environment variable or a
	// secret is not set, or because default has no such server. Server is the name of this server. `config check` treats the problem as an
	// error, unless it's a secret, which only serve can look up.
	Server string
	// Missing is also set in a warning if it's a secret.
	Missing
	// EnvFile is the path of the file that dragoman.envFile names. The user can set Variable in this
	// file. "" means that the configuration names no such file.
	EnvFile string
}

// String returns the problem on one line: file:line:col: warning: path: text; hint. Parts that the
// problem does not have are left out.
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

// InText does the same as String for a problem of a text that is no file: it begins with the line.
func (p Problem) InText() string {
	if p.Line == 0 {
		return p.String()
	}
	return "line " + strconv.Itoa(p.Line) + ": " + p.String()
}

// Unplaced returns the problem without its place in the file. Two problems are the same if they are
// equal without their places.
func (p Problem) Unplaced() Problem {
	p.Line, p.Col, p.Source, p.Caret = 0, 0, "", 0
	return p
}

// LogValue implements slog.LogValuer: in a log record, a problem is the text of String.
func (p Problem) LogValue() slog.Value { return slog.StringValue(p.String()) }

// Advice calls tell with the parts of the problem, for a log handler that shows what to do on a line of
// its own.
func (p Problem) Advice(tell func(where, text, action string)) {
	place := Problem{File: p.File, Line: p.Line, Col: p.Col}
	text := p.Text
	if p.Path != "" {
		text = p.Path + ": " + text
	}
	tell(strings.TrimSuffix(place.String(), ": "), text, p.Hint)
}

// Problems are the errors and warnings of one configuration. The problems of each file are in file
// order.
type Problems []Problem

// OfServers returns the errors that make only one server unusable.
func (ps Problems) OfServers() Problems {
	return slices.DeleteFunc(slices.Clone(ps), func(p Problem) bool { return p.Warning || p.Server == "" })
}

// OfProjects returns the errors that make a whole project unusable, but nothing else.
func (ps Problems) OfProjects() Problems {
	return slices.DeleteFunc(slices.Clone(ps), func(p Problem) bool { return p.Warning || p.Server != "" || p.Project == "" })
}

// In returns the problems in a project of dragoman.projects, or with "" those elsewhere in the file.
func (ps Problems) In(project string) Problems {
	return slices.DeleteFunc(slices.Clone(ps), func(p Problem) bool { return p.Project != project })
}

// Err returns an error that lists the problems that are not warnings. It returns nil if there are
// only warnings.
func (ps Problems) Err() error {
	bad := ps.only(false)
	if len(bad) == 0 {
		return nil
	}
	return &Error{Problems: bad}
}

// Refusal returns an error that lists why the configuration isn't used. A server or a project that can't be
// used is a reason only if strict is set; else Refusal leaves it out.
func (ps Problems) Refusal(strict bool) error {
	if !strict {
		ps = slices.DeleteFunc(slices.Clone(ps), func(p Problem) bool { return p.Server != "" || p.Project != "" })
	}
	return ps.Err()
}

// Warnings returns the problems that are only warnings.
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

// Error is the error that Problems.Err returns. The field Problems is never empty.
type Error struct{ Problems Problems }

// LogValue implements slog.LogValuer: in a log record, the error is the text of Error.
func (e *Error) LogValue() slog.Value { return slog.StringValue(e.Error()) }

// Advice calls tell with the parts of each problem.
func (e *Error) Advice(tell func(where, text, action string)) {
	for _, p := range e.Problems {
		p.Advice(tell)
	}
}

// Error returns the problems, one per line.
func (e *Error) Error() string {
	lines := make([]string, len(e.Problems))
	for i, p := range e.Problems {
		lines[i] = p.String()
	}
	return strings.Join(lines, "\n")
}
