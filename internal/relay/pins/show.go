package pins

import (
	"crypto/sha256"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/aymanbagabas/go-udiff"

	"github.com/dragoman-mcp/dragoman/internal/base/excerpt"
	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
)

// Row is one value of two definitions: what is at the same place in both, or only in one of them.
type Row struct {
	Path string // where the value is, such as inputSchema.properties.query.type
	// Old and New are the values for people. What could be taken for something else is quoted: the text true. If both
	// would read the same, they're JSON as it was sent. They may have any character, also some that nobody can see.
	Old, New string
	Change   RowChange
}

// RowChange says how the value of a [Row] has changed.
type RowChange uint8

// The changes of a Row.
const (
	Same    RowChange = iota
	Added             // there is no Old
	Removed           // there is no New
	Changed
)

// Compare returns all values of two definitions, in a fixed order. If before is nil, all values of after are Added.
// What has another [Sum] differs in at least one row.
func Compare(before, after []byte) []Row {
	var old []value
	if before != nil {
		old = valuesOf(before)
	}
	now := valuesOf(after)
	all := make([]Row, 0, len(now))
	i, j := 0, 0
	row := func(c RowChange) {
		r := Row{Change: c}
		if c != Added {
			r.Path, r.Old = old[i].path, old[i].text
		}
		if c != Removed {
			r.Path, r.New = now[j].path, now[j].text
		}
		if c == Same && old[i].raw != now[j].raw {
			if r.Change = Changed; r.Old == r.New {
				r.Old, r.New = old[i].raw, now[j].raw
			}
		}
		if c != Added {
			i++
		}
		if c != Removed {
			j++
		}
		all = append(all, r)
	}
	was, is := coded(old, now, func(v value) string { return v.path })
	for _, e := range edits(was, is) {
		for i < e.from {
			row(Same)
		}
		for range e.removed {
			row(Removed)
		}
		for range e.added {
			row(Added)
		}
	}
	for i < len(old) {
		row(Same)
	}
	return all
}

// value is a value without parts, or an empty one.
type value struct {
	path, text string
	raw        string // as it was sent
}

// maxPath bounds what the paths of a hostile definition can take.
const maxPath = 200

// valuesOf returns all values of a definition. The path of each is its own: a second member with the same key has
// another one, and so has the member a.b, which isn't b in a. A long path has a value of its own, and then a short form.
func valuesOf(raw []byte) (all []value) {
	var walk func(path string, at jsonrpc.Span)
	walk = func(path string, at jsonrpc.Span) {
		if len(path) > maxPath {
			short := fmt.Sprintf("…%x", sha256.Sum256([]byte(path)))[:len("…")+12]
			all = append(all, value{short + " is", path, path})
			path = short
		}
		empty := true
		switch jsonrpc.KindOf(raw, at) {
		case '{':
			seen := map[string]int{}
			for _, m := range sorted(raw, at) {
				key := keyOf(raw, m.Key)
				if seen[key]++; seen[key] > 1 {
					key = fmt.Sprintf("%s(%d)", key, seen[key])
				}
				if path != "" {
					key = path + "." + key
				}
				walk(key, m.Value)
				empty = false
			}
		case '[':
			i := 0
			for e := range jsonrpc.Elements(raw, at) {
				walk(fmt.Sprintf("%s[%d]", path, i), e)
				i++
				empty = false
			}
		}
		v := value{path, string(at.Of(raw)), string(at.Of(raw))}
		switch kind := jsonrpc.KindOf(raw, at); {
		case !empty:
			return
		case kind == '{':
			v.text, v.raw = "{}", "{}"
		case kind == '[':
			v.text, v.raw = "[]", "[]"
		case kind == '"':
			if v.text, _ = jsonrpc.Text(raw, at); v.text != "" && (v.text[0] == '"' || v.text == "{}" || v.text == "[]" || isPlain(v.text)) {
				v.text = quote(v.text)
			}
		}
		all = append(all, v)
	}
	walk("", jsonrpc.Whole(raw))
	return all
}

// keyOf returns a key for a path: as it was sent if it was escaped or could be taken for several.
func keyOf(raw []byte, at jsonrpc.Span) string {
	sent := string(at.Of(raw))
	key := strings.Trim(sent, `"`)
	if key == "" || strings.ContainsAny(sent[1:len(sent)-1], `.[]()…: "\`) {
		return sent
	}
	return key
}

// isPlain reports whether a text reads like a JSON value without quotes and parts.
func isPlain(text string) bool {
	return !strings.ContainsAny(text, "\"{[\n") && jsonrpc.Valid([]byte(text), jsonrpc.Limits{Bytes: len(text) + 1}) == nil
}

func quote(text string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(text) + `"`
}

// Lines returns a definition for a terminal: a line for each value, with its path, in a fixed order. A text of several
// lines takes several. Everything that nobody could see, or that would reorder what stands around it, is drawn as its
// code point: <U+200B>. So is the first character of a text that looks like that.
func Lines(raw []byte) string {
	_, now := linesOf(Compare(nil, raw))
	return now
}

// linesOf returns the lines of both definitions.
func linesOf(rows []Row) (old, now string) {
	var was, is strings.Builder
	for _, r := range rows {
		if r.Change != Added {
			appendLines(&was, r.Path, r.Old)
		}
		if r.Change != Removed {
			appendLines(&is, r.Path, r.New)
		}
	}
	return was.String(), is.String()
}

func appendLines(b *strings.Builder, path, text string) {
	for i, line := range strings.Split(text, "\n") {
		if i == 0 {
			line = path + ": " + line
		} else {
			line = "  | " + line
		}
		b.WriteString(draw(line) + "\n")
	}
}

// draw replaces what nobody could see in a line.
func draw(line string) string {
	var b strings.Builder
	before := rune(0)
	for i := 0; i < len(line); {
		r, size := utf8.DecodeRuneInString(line[i:])
		if r == utf8.RuneError && size == 1 && i+3 <= len(line) { // half of a surrogate pair; see jsonrpc.Text
			r, size = rune(line[i]&0xf)<<12|rune(line[i+1]&0x3f)<<6|rune(line[i+2]&0x3f), 3
		}
		if r != '\t' && excerpt.Invisible(r, before) || strings.HasPrefix(line[i:], "<U+") {
			fmt.Fprintf(&b, "<U+%04X>", r)
		} else {
			b.WriteRune(r)
		}
		i, before = i+size, r
	}
	return b.String()
}

// Diff returns what has changed between two definitions as a unified diff of their Lines. If before is nil, Diff
// returns all lines of after as added.
func Diff(before, after []byte) string {
	old, now := linesOf(Compare(before, after))
	text, err := udiff.ToUnified("approved", "now", old, udiff.Lines(old, now), 1)
	if err != nil {
		return now // can't be: the edits come from the same text
	}
	return text
}

// Part is a part of a text.
type Part struct {
	Text    string
	Changed bool // it isn't in the other text, or is elsewhere there
}

// Words returns two texts in parts, of which those that have changed are whole words. What nobody can see is no part of
// a word.
func Words(old, now string) (was, is []Part) {
	a, b := wordsOf(old), wordsOf(now)
	add := func(to *[]Part, words []string, changed bool) {
		if text := strings.Join(words, ""); text != "" {
			*to = append(*to, Part{text, changed})
		}
	}
	i, j := 0, 0
	before, after := coded(a, b, func(w string) string { return w })
	for _, e := range edits(before, after) {
		same := e.from - i
		add(&was, a[i:e.from], false)
		add(&is, b[j:j+same], false)
		add(&was, a[e.from:e.from+e.removed], true)
		add(&is, b[j+same:j+same+e.added], true)
		i, j = e.from+e.removed, j+same+e.added
	}
	add(&was, a[i:], false)
	add(&is, b[j:], false)
	return was, is
}

// wordsOf splits a text into words, equal signs and spaces in a row, and other characters.
func wordsOf(text string) (all []string) {
	kind := func(r, before rune) rune {
		if excerpt.Invisible(r, before) || !unicode.In(r, unicode.L, unicode.M, unicode.N) {
			return r
		}
		return 'w'
	}
	for len(text) > 0 {
		first, n := utf8.DecodeRuneInString(text)
		of, before := kind(first, 0), first
		for n < len(text) {
			r, size := utf8.DecodeRuneInString(text[n:])
			if kind(r, before) != of {
				break
			}
			n, before = n+size, r
		}
		all, text = append(all, text[:n]), text[n:]
	}
	return all
}

// edit replaces elements of one list by those of another.
type edit struct{ from, removed, added int }

// coded returns two lists as texts with one character for each element, the same one for those with the same key.
func coded[T any](a, b []T, key func(T) string) (x, y string) {
	codes := map[string]rune{}
	text := func(all []T) string {
		var out strings.Builder
		for _, e := range all {
			c, known := codes[key(e)]
			if !known {
				if c = rune(len(codes)) + 0x100; c >= 0xd800 {
					c += 0x800 // there are no surrogates in a text
				}
				codes[key(e)] = c
			}
			out.WriteRune(c)
		}
		return out.String()
	}
	x = text(a)
	return x, text(b)
}

// edits returns what makes one text of the other, in characters.
func edits(x, y string) (all []edit) {
	at, n := 0, 0
	for _, e := range udiff.Strings(x, y) {
		n += utf8.RuneCountInString(x[at:e.Start])
		removed := utf8.RuneCountInString(x[e.Start:e.End])
		all = append(all, edit{n, removed, utf8.RuneCountInString(e.New)})
		n, at = n+removed, e.End
	}
	return all
}
