package main

import (
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/clipperhouse/displaywidth"
)

// style is the appearance of a cell.
type style struct {
	color int // the colour: 30 to 37 or 90 to 97; 0 is the default
	bold  bool
	dim   bool
}

// cell is one character of the screen. The second cell of a wide character is empty.
type cell struct {
	text  string
	style style
}

// screen is the content of a terminal, as a growing list of lines. It supports the control
// sequences that command-line programs use: colours, carriage return, erasing a line and moving
// up.
type screen struct {
	lines    [][]cell
	row, col int
	style    style
}

// write adds the output of a program to the screen.
func (s *screen) write(out string) {
	for out != "" {
		switch {
		case strings.HasPrefix(out, "\x1b["):
			out = s.control(out[2:])
			continue
		case out[0] == '\x1b': // any other sequence: also skip its next byte
			out = out[min(2, len(out)):]
			continue
		case out[0] == '\n':
			s.row++
		case out[0] == '\r':
			s.col = 0
		case out[0] == '\t':
			s.col = (s.col/8 + 1) * 8
		case out[0] >= ' ':
			r, n := utf8.DecodeRuneInString(out)
			s.put(r)
			out = out[n:]
			continue
		}
		out = out[1:]
	}
}

func (s *screen) line() *[]cell {
	for len(s.lines) <= s.row {
		s.lines = append(s.lines, nil)
	}
	return &s.lines[s.row]
}

func (s *screen) put(r rune) {
	width := displaywidth.Rune(r)
	if s.col+width > columns {
		s.row, s.col = s.row+1, 0
	}
	l := s.line()
	if width == 0 {
		if s.col > 0 && s.col <= len(*l) {
			(*l)[s.col-1].text += string(r)
		}
		return
	}
	for len(*l) < s.col+width {
		*l = append(*l, cell{text: " "})
	}
	(*l)[s.col] = cell{string(r), s.style}
	if width == 2 {
		(*l)[s.col+1] = cell{}
	}
	s.col += width
}

// control applies the control sequence at the beginning of out and returns the rest.
func (s *screen) control(out string) string {
	end := strings.IndexFunc(out, func(r rune) bool { return r >= '@' && r <= '~' })
	if end < 0 {
		return ""
	}
	args, rest := out[:end], out[end+1:]
	n, _ := strconv.Atoi(args)
	switch out[end] {
	case 'm':
		for _, a := range strings.Split(args, ";") {
			s.attribute(a)
		}
	case 'K':
		if l := s.line(); n == 2 {
			*l = nil
		} else if s.col < len(*l) {
			*l = (*l)[:s.col]
		}
	case 'J':
		if s.row < len(s.lines) {
			s.lines = s.lines[:s.row]
		}
	case 'A':
		s.row = max(0, s.row-max(n, 1))
	case 'G':
		s.col = max(0, n-1)
	}
	return rest
}

func (s *screen) attribute(a string) {
	n, _ := strconv.Atoi(a)
	switch {
	case n == 0:
		s.style = style{}
	case n == 1:
		s.style.bold = true
	case n == 2:
		s.style.dim = true
	case n == 22:
		s.style.bold, s.style.dim = false, false
	case n == 39:
		s.style.color = 0
	case n >= 30 && n <= 37, n >= 90 && n <= 97:
		s.style.color = n
	}
}

// trim removes empty lines at both ends and spaces at the end of lines.
func (s *screen) trim() {
	for i, l := range s.lines {
		for len(l) > 0 && strings.TrimSpace(l[len(l)-1].text) == "" {
			l = l[:len(l)-1]
		}
		s.lines[i] = l
	}
	for len(s.lines) > 0 && len(s.lines[len(s.lines)-1]) == 0 {
		s.lines = s.lines[:len(s.lines)-1]
	}
	for len(s.lines) > 0 && len(s.lines[0]) == 0 {
		s.lines = s.lines[1:]
	}
}
