package audit

import (
	"bytes"
	"strings"
	"unicode/utf8"

	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
)

// glance sees from the bytes of a line that a query can't select it, so that a search that finds little needn't decode
// everything. It judges only lines in which texts stand as they are: those in ASCII without escapes, which are most.
// [Query.selects] decides about all others.
type glance struct {
	query   *Query
	words   [][]byte        // lower-case parts of what is looked for, each of which is within one of a line's texts
	project []byte          // as a line has it; nil for any
	known   map[string]bool // whether somebody is whom the query wants, by the name in a line
	low     []byte          // the line, in lower case
}

// mostKnown bounds glance.known.
const mostKnown = 10_000

func glanceOf(q *Query) *glance {
	g := &glance{query: q, known: map[string]bool{}}
	// What is looked for may reach from one text into the next. Between them are only spaces and slashes.
	for _, word := range strings.FieldsFunc(strings.ToLower(q.What), func(r rune) bool { return r == ' ' || r == '/' }) {
		if !strings.Contains(kindCall, word) { // which lines leave out
			g.words = append(g.words, []byte(word))
		}
	}
	if q.Project != "" {
		g.project = jsonrpc.AppendQuote(nil, q.Project)
	}
	return g
}

// lacks reports whether the query selects a line in no case.
func (g *glance) lacks(line []byte) bool {
	if len(g.words) == 0 && g.project == nil && g.query.Who == "" {
		return false
	}
	g.low = append(g.low[:0], line...)
	for i, c := range g.low {
		switch {
		case c == '\\' || c >= utf8.RuneSelf:
			return false
		case 'A' <= c && c <= 'Z':
			g.low[i] = c + 'a' - 'A'
		}
	}
	for _, word := range g.words {
		if !bytes.Contains(g.low, word) {
			return true
		}
	}
	return g.project != nil && !bytes.Contains(line, g.project) || g.query.Who != "" && !g.by(line)
}

// doers are the members of a line that say who has done something, in their order.
var doers = [][]byte{[]byte(`,"who":"`), []byte(`,"name":"`), []byte(`,"seat":"`)}

// by reports whether one of those who have done something may be whom the query wants.
func (g *glance) by(line []byte) bool {
	for _, member := range doers {
		_, rest, found := bytes.Cut(line, member)
		name, _, closed := bytes.Cut(rest, []byte(`"`))
		if !found || !closed {
			continue
		}
		is, known := g.known[string(name)]
		if !known {
			if len(g.known) >= mostKnown {
				clear(g.known)
			}
			is = g.query.is(string(name))
			g.known[string(name)] = is
		}
		if is {
			return true
		}
	}
	return false
}
