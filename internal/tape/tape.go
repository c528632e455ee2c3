package tape

import (
	"bytes"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/rogpeppe/go-internal/txtar"
)

// The names of sections.
const (
	clientLine  = "client"
	serverLine  = "server"
	clientClose = "client.close"
	serverClose = "server.close"

	request  = "client.request"
	gone     = "client.gone"
	response = "server.response"
	event    = "server.event"
	end      = "server.end"
)

// Entry is one thing that was said: a line of a pipe, or a part of an exchange
// over HTTP.
type Entry struct {
	section  string
	exchange int      // over HTTP, from 1
	head     []string // request line or status, then the fields of the header
	body     []byte   // without the newline that ends a line
}

// fromClient reports whether the client has said it.
func (e *Entry) fromClient() bool { return strings.HasPrefix(e.section, clientLine) }

// waits reports whether what comes later has to wait for the entry: it was said by
// a party, and is no event without content that keeps a stream open.
func (e *Entry) waits() bool {
	return !e.isEnd() && (e.section != event || len(payload(e)) > 0)
}

// isEnd reports whether the entry says how something ended, which nothing waits
// for: that is not what was said.
func (e *Entry) isEnd() bool {
	switch e.section {
	case clientClose, serverClose, gone, end:
		return true
	}
	return false
}

// Tape is a recording that was read. It is immutable.
type Tape struct {
	About   string // the prose that it begins with
	entries []Entry
	http    bool
}

// HTTP reports whether the conversation went over HTTP, and not over a pipe.
func (t *Tape) HTTP() bool { return t.http }

// Parse reads a tape. The error names the section that it cannot read.
func Parse(b []byte) (*Tape, error) {
	a := txtar.Parse(b)
	t := &Tape{About: strings.TrimSpace(string(a.Comment))}
	kinds := map[bool]bool{}
	for _, f := range a.Files {
		section, number, numbered := strings.Cut(f.Name, " ")
		overHTTP := false
		switch section {
		case clientLine, serverLine, clientClose, serverClose:
		case request, gone, response, event, end:
			overHTTP = true
		default:
			return nil, fmt.Errorf("section %q is none of a tape", f.Name)
		}
		kinds[overHTTP] = true
		if numbered != overHTTP {
			return nil, fmt.Errorf("section %q: exchanges over HTTP have numbers, and nothing else has", f.Name)
		}
		lines, err := unquoteLines(f.Data)
		if err != nil {
			return nil, fmt.Errorf("section %q: %w", f.Name, err)
		}
		if !overHTTP {
			t.addLines(section, lines)
			continue
		}
		e := Entry{section: section}
		if e.exchange, err = strconv.Atoi(number); err != nil || e.exchange < 1 {
			return nil, fmt.Errorf("section %q has no number", f.Name)
		}
		if section == request || section == response {
			at := 0
			for at < len(lines) && len(lines[at]) > 0 {
				e.head = append(e.head, string(lines[at]))
				at++
			}
			if len(e.head) == 0 {
				return nil, fmt.Errorf("section %q is empty", f.Name)
			}
			lines = lines[min(at+1, len(lines)):]
		}
		e.body = bytes.Join(lines, []byte("\n"))
		t.entries = append(t.entries, e)
	}
	if len(t.entries) == 0 {
		return nil, errors.New("there is no conversation in it")
	}
	if len(kinds) > 1 {
		return nil, errors.New("it mixes a pipe with HTTP")
	}
	t.http = kinds[true]
	return t, nil
}

func (t *Tape) addLines(section string, lines [][]byte) {
	if section == clientClose || section == serverClose {
		t.entries = append(t.entries, Entry{section: section, body: bytes.Join(lines, []byte("\n"))})
		return
	}
	for _, l := range lines {
		t.entries = append(t.entries, Entry{section: section, body: l})
	}
}

// quoteLine appends a line such that txtar can hold it and a terminal can show it:
// as it is, or behind a backslash where it begins with one or would begin a
// section, or behind a backslash as a Go string where it holds what cannot be
// shown.
func quoteLine(dst, line []byte) []byte {
	s := string(line)
	plain := utf8.ValidString(s) && strings.IndexFunc(s, func(r rune) bool { return r != '\t' && !unicode.IsPrint(r) }) < 0
	switch {
	case !plain:
		dst = append(dst, '\\')
		dst = strconv.AppendQuote(dst, s)
	case strings.HasPrefix(s, `\`), strings.HasPrefix(s, "-- "):
		dst = append(append(dst, '\\'), line...)
	default:
		dst = append(dst, line...)
	}
	return append(dst, '\n')
}

func unquoteLines(b []byte) ([][]byte, error) {
	text, _ := bytes.CutSuffix(b, []byte("\n"))
	if len(b) == 0 {
		return nil, nil
	}
	lines := bytes.Split(text, []byte("\n"))
	for i, l := range lines {
		rest, quoted := bytes.CutPrefix(l, []byte(`\`))
		if !quoted {
			continue
		}
		if bytes.HasPrefix(rest, []byte(`"`)) {
			s, err := strconv.Unquote(string(rest))
			if err != nil {
				return nil, fmt.Errorf("line %d is no Go string: %s", i+1, rest)
			}
			rest = []byte(s)
		}
		lines[i] = rest
	}
	return lines, nil
}
