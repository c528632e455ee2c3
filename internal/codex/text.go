package codex

import (
	"strings"
	"unicode"

	"github.com/dragoman-mcp/dragoman/internal/jsonrpc"
)

// maxSaid bounds what is repeated of a worker's error, in bytes. Its longest name
// all methods that it knows.
const maxSaid = 600

// clip makes a worker's words fit for one line of a log or a trace, at most limit
// bytes of it.
func clip(s string, limit int) string { return tidy(s, limit, false) }

// tidy takes what is not printable out of s and cuts it after limit bytes; lines
// says that line ends and tabs stay.
func tidy(s string, limit int, lines bool) string {
	const dots = "…"
	var b strings.Builder
	space := false
	for _, r := range s {
		keep := lines && (r == '\n' || r == '\t')
		if !keep && (!lines && unicode.IsSpace(r) || !unicode.IsPrint(r)) {
			space = b.Len() > 0
			continue
		}
		if b.Len()+5 > limit-len(dots) {
			return b.String() + dots
		}
		if space {
			b.WriteByte(' ')
			space = false
		}
		b.WriteRune(r)
	}
	return b.String()
}

// text returns the text of a member of obj, "" when there is none.
func text(raw []byte, obj jsonrpc.Span, key string) string {
	s, _ := jsonrpc.Text(raw, jsonrpc.Find(raw, obj, key))
	return s
}

// object builds a JSON object, member by member.
type object struct{ b []byte }

func (o *object) member(key string, value []byte) *object {
	if o.b == nil {
		o.b = append(o.b, '{')
	} else {
		o.b = append(o.b, ',')
	}
	o.b = append(append(jsonrpc.AppendQuote(o.b, key), ':'), value...)
	return o
}

func (o *object) text(key, value string) *object {
	return o.member(key, jsonrpc.AppendQuote(nil, value))
}

// json returns the object.
func (o *object) json() []byte {
	if o.b == nil {
		return []byte("{}")
	}
	return append(o.b, '}')
}
