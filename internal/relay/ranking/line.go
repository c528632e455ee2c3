package ranking

import (
	"strconv"
	"strings"

	"github.com/dragoman-mcp/dragoman/internal/base/excerpt"
	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/base/screen"
)

// Bounds of a line, in bytes.
const (
	maxShown  = 128 // of a tool's name, before it is quoted
	maxListed = 16  // parameters, not bytes
	maxParam  = 40
	maxFirst  = 200 // of the first sentence
)

// Line describes the tool in one line, as in
//
//	files__read(path, head?, tail?) [read] Reads a file as text.
//
// A parameter that may be left out has a question mark. [read] is there only if read is true. The line is
// bounded. Characters that control a terminal or that nobody sees are escaped, and the server's text can't
// imitate what we say: it has no square brackets, and names with other characters than usual are quoted.
func (t *Tool) Line(read bool) string {
	var b strings.Builder
	b.WriteString(shown(t.Name, maxShown))
	b.WriteByte('(')
	b.WriteString(strings.Join(t.parameters(), ", "))
	b.WriteByte(')')
	if read {
		b.WriteString(" [read]")
	}
	about, _ := jsonrpc.ValueOf(t.Definition).Get("description").Text()
	first, _ := sentence(cut(about, maxAbout))
	first = strings.Join(strings.Fields(cut(first, 2*maxFirst)), " ")
	if first = excerpt.Cut(screen.Safe(brackets.Replace(first)), maxFirst); first != "" {
		b.WriteString(" " + first)
	}
	return b.String()
}

var brackets = strings.NewReplacer("[", "(", "]", ")")

// parameters returns the names of the first parameters, as a line has them: those that a call must have come
// first, and else they are in the schema's order.
func (t *Tool) parameters() (out []string) {
	schema := jsonrpc.ValueOf(t.Definition).Get("inputSchema")
	required := map[string]bool{}
	for v := range schema.Get("required").Elements() {
		if name, ok := v.Text(); ok && len(required) < maxNodes {
			required[name] = true
		}
	}
	var optional []string
	n := 0
	for name := range schema.Get("properties").Members() {
		if n++; n > maxNodes {
			break
		}
		switch s, _ := name.Text(); {
		case required[s]:
			out = append(out, shown(s, maxParam))
		case len(optional) <= maxListed:
			optional = append(optional, shown(s, maxParam)+"?")
		}
		if len(out) > maxListed {
			break
		}
	}
	out = append(out, optional...)
	if len(out) > maxListed {
		out = append(out[:maxListed], "…")
	}
	return out
}

// shown returns a name as a line has it.
func shown(name string, most int) string {
	name = excerpt.Cut(name, most)
	if strings.IndexFunc(name, func(r rune) bool { return !inNames(r) && !strings.ContainsRune("./:$@…", r) }) >= 0 {
		return strconv.Quote(name)
	}
	return name
}
