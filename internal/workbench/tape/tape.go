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

	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
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

// Entry is one recorded item: a line of a pipe, or a part of an HTTP exchange.
type Entry struct {
	section  string
	exchange int      // the number of the HTTP exchange, starting at 1; 0 on a pipe
	head     []string // the request line or the status, and the header fields
	body     []byte   // the content; a line does not include its newline
}

// fromClient reports whether the client sent the entry.
func (e *Entry) fromClient() bool { return strings.HasPrefix(e.section, clientLine) }

// waits reports whether later entries must wait for this entry. No entry waits for the end of a
// stream, or for an event without data, which only keeps a stream open.
func (e *Entry) waits() bool {
	return !e.isEnd() && (e.section != event || len(payload(e)) > 0)
}

// isEnd reports whether the entry records an end: one side closed its end of a pipe, a client
// disconnected, or an exchange ended.
func (e *Entry) isEnd() bool {
	switch e.section {
	case clientClose, serverClose, gone, end:
		return true
	}
	return false
}

// Tape is a parsed recording. It is immutable.
type Tape struct {
	entries []Entry
	http    bool

	call     bool // true if the tape is one wire of a recorded call, without a handshake
	revision mcp.Revision
}

// HTTP reports whether the conversation was recorded over HTTP instead of a pipe.
func (t *Tape) HTTP() bool { return t.http }

// Parse parses a tape. If a section is invalid, the error names it.
func Parse(b []byte) (*Tape, error) { return ParseWire(b, "") }

func parse(a *txtar.Archive) (*Tape, error) {
	t := &Tape{}
	kinds := map[bool]bool{}
	for _, f := range a.Files {
		section, number, numbered := strings.Cut(f.Name, " ")
		overHTTP := false
		switch section {
		case clientLine, serverLine, clientClose, serverClose:
		case request, gone, response, event, end:
			overHTTP = true
		default:
			return nil, fmt.Errorf("section %q does not belong to a recording", f.Name)
		}
		kinds[overHTTP] = true
		if numbered != overHTTP {
			return nil, fmt.Errorf("section %q: sections of HTTP must have a number, and sections of stdio must not", f.Name)
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
			return nil, fmt.Errorf("section %q has no valid number", f.Name)
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
		return nil, errors.New("the recording contains no messages")
	}
	if len(kinds) > 1 {
		return nil, errors.New("the recording has both stdio and HTTP sections")
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

// quoteLine appends a line in a form that txtar can store and a terminal can show. If the line
// begins with a backslash or looks like the header of a section, quoteLine puts a backslash before
// it. If the line has unprintable characters, quoteLine writes a backslash and a quoted Go string.
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
				return nil, fmt.Errorf("line %d is not a Go string: %s", i+1, rest)
			}
			rest = []byte(s)
		}
		lines[i] = rest
	}
	return lines, nil
}
