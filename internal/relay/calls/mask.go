package calls

import (
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/dragoman-mcp/dragoman/internal/base/pattern"

	"github.com/dragoman-mcp/dragoman/internal/base/excerpt"
	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/base/trails"
)

// Masker masks secrets in recorded messages. It replaces each byte of a secret with one character.
// So the positions of edits stay correct, and JSON stays valid. Call NewMasker to create a Masker.
// It is safe for concurrent use.
type Masker struct {
	known *excerpt.Known
}

// shortest is the length of the shortest known secret that is masked. A shorter secret could occur
// in any text by chance.
const shortest = 6

// NewMasker returns a Masker that masks the known secrets, and texts that look like secrets; see
// excerpt.Secrets.
func NewMasker(known []string) *Masker {
	var all []string
	for _, k := range known {
		for _, part := range append(strings.Fields(k), k) { // for example the parts of "Bearer XYZ"
			if len(part) > shortest || part == k && len(k) == shortest {
				all = append(all, part)
			}
		}
	}
	return &Masker{excerpt.NewKnown(all)}
}

// mark replaces each byte of a secret during a search. It is a control character, which JSON
// strings may contain only as an escape.
const mark = "\x00"

// find returns the positions of the secrets in a text. name is the name of the variable, member or
// field that has the text as its value. It is "" if there is no name.
func (m *Masker) find(name, text string) (spans []jsonrpc.Span) {
	if excerpt.SecretText(name, text) {
		return []jsonrpc.Span{{End: len(text)}}
	}
	marks := func(secret string) string { return strings.Repeat(mark, len(secret)) }
	out := excerpt.Secrets(m.known.Replace(text, marks), marks)
	if out == text || len(out) != len(text) {
		return nil
	}
	for i := 0; i < len(out); i++ {
		if out[i] != mark[0] {
			continue
		}
		from := i
		for i < len(out) && out[i] == mark[0] {
			i++
		}
		spans = append(spans, jsonrpc.Span{Start: from, End: i})
	}
	return spans
}

// shortestCut is the minimum length of the beginning of a known secret that cutOff finds.
const shortestCut = 4

// cutOff returns the position of the last bytes of a text that was cut off, if a known secret
// begins with these bytes.
func (m *Masker) cutOff(text string) []jsonrpc.Span {
	at := m.known.Cut(text, shortestCut)
	if at == len(text) {
		return nil
	}
	return []jsonrpc.Span{{Start: at, End: len(text)}}
}

// maxNested bounds how deeply JSON within strings of JSON is searched like a message. Below, it is
// searched like any other text, so the time for a message stays proportional to its size.
const maxNested = 8

// search does the same as find, and also searches JSON in the text like a message: tools often return
// JSON as text, and programs log it. depth is how much deeper the text may contain JSON.
func (m *Masker) search(name, text string, depth int) (spans []jsonrpc.Span) {
	if depth == 0 || !hasJSON(text) || excerpt.SecretText(name, text) {
		return m.find(name, text)
	}
	_, spans = m.message([]byte(text), depth-1)
	return spans
}

// hasJSON reports whether a text may contain an object or an array.
func hasJSON(text string) bool { return strings.ContainsAny(text, "{[") }

// Text returns a plain text with its secrets masked. name has the same meaning as in find.
func (m *Masker) Text(name, text string) string {
	b := []byte(text)
	for _, s := range m.search(name, text, maxNested) {
		fill(b, s, '*')
	}
	return string(b)
}

func fill(b []byte, s jsonrpc.Span, with byte) {
	for i := s.Start; i < s.End && i < len(b); i++ {
		b[i] = with
	}
}

// Message returns a copy of a message, or of the beginning of a message, with secrets masked. The
// copy has the same length. spans are the positions of the secrets.
func (m *Masker) Message(raw []byte) (masked []byte, spans []jsonrpc.Span) {
	return m.message(raw, maxNested)
}

func (m *Masker) message(raw []byte, depth int) (masked []byte, spans []jsonrpc.Span) {
	masked = slices.Clone(raw)
	w := maskWalk{masker: m, raw: raw, out: masked, depth: depth}
	if hasJSON(string(raw)) {
		w.walk()
	}
	if jsonrpc.Valid(raw, jsonrpc.Limits{Bytes: len(raw) + 1}) != nil {
		// The message is not JSON, or was cut off. So search text outside of strings as well.
		for _, s := range m.find("", string(masked)) {
			w.mask(s, '*')
		}
	}
	slices.SortFunc(w.spans, func(a, b jsonrpc.Span) int { return a.Start - b.Start })
	return masked, joined(w.spans)
}

// joined joins sorted spans that overlap.
func joined(spans []jsonrpc.Span) (out []jsonrpc.Span) {
	for _, s := range spans {
		if n := len(out); n > 0 && s.Start < out[n-1].End {
			out[n-1].End = max(out[n-1].End, s.End)
			continue
		}
		out = append(out, s)
	}
	return out
}

// maskWalk reads JSON and masks secrets in its strings and numbers. The JSON may be cut off, or be a
// part of a text.
type maskWalk struct {
	masker *Masker
	raw    []byte
	out    []byte
	spans  []jsonrpc.Span
	open   []container
	depth  int // how much deeper strings are searched for JSON
}

// container is an object or an array whose end has not been read yet.
type container struct {
	object bool
	name   string // the name of the next value in an object, or the name of the array itself
	key    bool   // whether the next string in an object is the name of a member
	// An object may describe a variable or a header. Then pair is the text of its member "name" or
	// "key", and value is the position of its member "value".
	pair  string
	value jsonrpc.Span
}

func (w *maskWalk) mask(s jsonrpc.Span, with byte) {
	fill(w.out, s, with)
	w.spans = append(w.spans, s)
}

func (w *maskWalk) walk() {
	for i := 0; i < len(w.raw); {
		switch c := w.raw[i]; {
		case c == '{' || c == '[':
			name := ""
			if top := w.top(); top != nil {
				name = top.name
			}
			w.open = append(w.open, container{object: c == '{', key: c == '{', name: name})
		case c == '}' || c == ']':
			if len(w.open) > 0 {
				w.open = w.open[:len(w.open)-1]
			}
		case c == ',':
			if top := w.top(); top != nil && top.object {
				top.key, top.name = true, ""
			}
		case c == ':':
			if top := w.top(); top != nil {
				top.key = false
			}
		case c == '"':
			i = w.text(i)
			continue
		case c == '-' || c >= '0' && c <= '9':
			i = w.number(i)
			continue
		}
		i++
	}
}

func (w *maskWalk) top() *container {
	if len(w.open) == 0 {
		return nil
	}
	return &w.open[len(w.open)-1]
}

// text masks the secrets in the string at i, and returns the position after the string.
func (w *maskWalk) text(i int) int {
	from := i + 1
	end := from
	for end < len(w.raw) && w.raw[end] != '"' {
		if w.raw[end] == '\\' {
			end++
		}
		end++
	}
	end = min(end, len(w.raw))
	decoded, at := decode(w.raw[from:end])
	if end == len(w.raw) { // the message is cut off within the string
		w.found(from, at, w.masker.cutOff(decoded))
	}
	top := w.top()
	switch {
	case top == nil:
	case top.object && top.key:
		top.name = decoded
		w.found(from, at, w.masker.find("", decoded))
		return end + 1
	case top.object && (top.name == "name" || top.name == "key"):
		if top.pair = decoded; !top.value.IsZero() {
			w.pair(top)
		}
	case top.object && top.name == "value":
		if top.value = (jsonrpc.Span{Start: from, End: end}); top.pair != "" {
			w.pair(top)
		}
	}
	name := ""
	if top != nil {
		name = top.name
	}
	w.found(from, at, w.masker.search(name, decoded, w.depth))
	return end + 1
}

// pair masks the value of an object that describes a variable or a header, if the variable or the
// header is a secret.
func (w *maskWalk) pair(c *container) {
	if text, _ := decode(c.value.Of(w.raw)); excerpt.SecretText(c.pair, text) {
		w.mask(c.value, '*')
	}
}

// found masks spans of a decoded string. The content of the string begins at from in the message.
// The slice at contains the position of each decoded byte in the content. It is nil if the string
// has no escapes.
func (w *maskWalk) found(from int, at []int, spans []jsonrpc.Span) {
	for _, s := range spans {
		if at != nil {
			s = jsonrpc.Span{Start: at[s.Start], End: at[s.End]}
		}
		w.mask(jsonrpc.Span{Start: from + s.Start, End: from + s.End}, '*')
	}
}

// number masks the number at i if the number is a secret, and returns the position after the
// number.
func (w *maskWalk) number(i int) int {
	end := i
	for end < len(w.raw) && strings.IndexByte("+-.0123456789eE", w.raw[end]) >= 0 {
		end++
	}
	if top := w.top(); top != nil && excerpt.SecretNumber(top.name) {
		w.mask(jsonrpc.Span{Start: i, End: end}, '9')
	}
	return end
}

// surrogates matches the two escapes of one character beyond U+FFFF.
var surrogates = pattern.Later(`^\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}$`)

// decode decodes the content of a JSON string, without the quotes. The slice at contains the
// position of each decoded byte in the content, and the position of the end. It is nil if the
// string has no escapes.
func decode(inside []byte) (text string, at []int) {
	if !slices.Contains(inside, '\\') {
		return string(inside), nil
	}
	out := make([]byte, 0, len(inside))
	add := func(from int, bytes ...byte) {
		for range bytes {
			at = append(at, from)
		}
		out = append(out, bytes...)
	}
	for i := 0; i < len(inside); {
		if inside[i] != '\\' {
			add(i, inside[i])
			i++
			continue
		}
		from := i
		if i++; i >= len(inside) {
			break
		}
		c := inside[i]
		i++
		switch c {
		case 'b', 'f', 'n', 'r', 't':
			add(from, map[byte]byte{'b': '\b', 'f': '\f', 'n': '\n', 'r': '\r', 't': '\t'}[c])
		case 'u':
			if i+4 > len(inside) { // the escape is cut off
				i = len(inside)
				continue
			}
			i += 4
			if pair := inside[from:min(from+12, len(inside))]; surrogates().Match(pair) {
				i = from + len(pair)
			}
			r, ok := jsonrpc.Text(append(append([]byte{'"'}, inside[from:i]...), '"'), jsonrpc.Span{End: i - from + 2})
			if !ok || r == "" || !utf8.ValidString(r) {
				r = "?"
			}
			add(from, []byte(r)...)
		default:
			add(from, c)
		}
	}
	return string(out), append(at, len(inside))
}

// harmless lists header fields whose values are shown. The value of a field that is not listed may
// be a credential; see field.
var harmless = map[string]bool{
	"accept": true, "accept-encoding": true, "accept-language": true, "allow": true, "cache-control": true, "connection": true,
	"content-encoding": true, "content-length": true, "content-type": true, "date": true, "host": true, "last-event-id": true,
	"mcp-method": true, "mcp-name": true, "mcp-protocol-version": true, "origin": true, "referer": true, "retry-after": true,
	"sec-fetch-dest": true, "sec-fetch-mode": true, "sec-fetch-site": true, "server": true, "traceparent": true,
	"transfer-encoding": true, "user-agent": true, "vary": true, "x-accel-buffering": true, "x-content-type-options": true,
}

// sessionShown is the maximum number of characters of a session id that are shown.
const sessionShown = 8

// Head returns a copy of a head with its secrets masked. It returns nil if h is nil.
func (m *Masker) Head(h *trails.Head) *trails.Head {
	if h == nil {
		return nil
	}
	masked := map[string][]string{}
	for _, f := range h.Fields() {
		masked[f.Name] = append(masked[f.Name], m.field(f))
	}
	out := h.With(m.Text("", h.Path), masked)
	return &out
}

func (m *Masker) field(f trails.HeadField) string {
	name := strings.ToLower(f.Name)
	switch {
	case name == "mcp-session-id":
		// Show only a part of a session id, because anyone who knows the id can use the session.
		return f.Value[:min(len(f.Value)/2, sessionShown)] + excerpt.Mask
	case harmless[name], strings.HasPrefix(name, "mcp-param-") && !excerpt.SecretName(name[len("mcp-param-"):]), strings.HasPrefix(name, "access-control-"):
		return m.Text("", f.Value)
	}
	return excerpt.Mask
}
