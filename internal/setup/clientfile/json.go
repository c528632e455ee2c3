package clientfile

import (
	"bytes"
	"io"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/dragoman-mcp/dragoman/internal/base/pattern"

	"github.com/tailscale/hujson"
)

// LooksLikeJSON reports whether a file begins with an opening brace, after optional comments.
func LooksLikeJSON(b []byte) bool {
	b = bytes.TrimPrefix(b, bom)
	for {
		b = bytes.TrimLeft(b, " \t\r\n")
		switch {
		case bytes.HasPrefix(b, []byte("//")):
			_, b, _ = bytes.Cut(b, []byte("\n"))
		case bytes.HasPrefix(b, []byte("/*")):
			_, b, _ = bytes.Cut(b[2:], []byte("*/"))
		default:
			return len(b) > 0 && b[0] == '{'
		}
	}
}

// Standardize converts JSON with comments and trailing commas to plain JSON. It replaces comments
// and extra commas with spaces, so that every offset stays the same. It does not change b. Each
// error is a *SyntaxError.
func Standardize(name string, b []byte) ([]byte, error) {
	v, err := parseJSON(name, b)
	if err != nil {
		return nil, err
	}
	v.Standardize()
	out := v.Pack()
	if n := len(b) - len(out); n > 0 { // parseJSON removed a byte order mark
		out = append(bytes.Repeat([]byte(" "), n), out...)
	}
	return out, nil
}

var atLine = pattern.Later(`^hujson: line (\d+), column (\d+): (?:parsing value: )?(.*)$`)

func parseJSON(name string, b []byte) (hujson.Value, error) {
	src := bytes.TrimPrefix(b, bom)
	if at, ok := tooDeep(src); ok {
		line, col := position(src, at)
		return hujson.Value{}, &SyntaxError{name, line, col, "the file is nested too deeply"}
	}
	v, err := hujson.Parse(bytes.Clone(src))
	if err != nil && !bytes.HasSuffix(src, []byte("\n")) {
		// hujson requires a newline after a comment, even at the end of the file.
		if ended, again := hujson.Parse(append(bytes.Clone(src), '\n')); again == nil {
			return ended, nil
		}
	}
	if err == nil {
		return v, nil
	}
	e, text := &SyntaxError{File: name}, strings.TrimPrefix(err.Error(), "hujson: ")
	if m := atLine().FindStringSubmatch(err.Error()); m != nil {
		e.Line, _ = strconv.Atoi(m[1])
		e.Col, _ = strconv.Atoi(m[2])
		text = m[3]
	}
	switch {
	case strings.HasSuffix(text, io.ErrUnexpectedEOF.Error()):
		text = "the text ends too early"
	case strings.HasPrefix(text, "invalid literal: \""):
		text = "a string with an invalid escape or character" // hujson quotes the string, which may be a secret
	case strings.HasPrefix(text, "invalid literal: "):
		text = "a word without quotes that is neither a number nor true, false or null"
	}
	e.Text = "this is not JSON: " + text
	return hujson.Value{}, e
}

// tooDeep returns the offset at which b is nested deeper than maxDepth. Brackets in strings and
// comments do not count.
func tooDeep(b []byte) (at int, deep bool) {
	depth := 0
	for i := 0; i < len(b); i++ {
		switch b[i] {
		case '"':
			for i++; i < len(b) && b[i] != '"'; i++ {
				if b[i] == '\\' {
					i++
				}
			}
		case '/':
			var end string
			switch {
			case bytes.HasPrefix(b[i:], []byte("//")):
				end = "\n"
			case bytes.HasPrefix(b[i:], []byte("/*")):
				end = "*/"
			default:
				continue
			}
			n := bytes.Index(b[i+2:], []byte(end))
			if n < 0 {
				return 0, false
			}
			i += 2 + n + len(end) - 1
		case '{', '[':
			if depth++; depth > maxDepth {
				return i, true
			}
		case '}', ']':
			depth--
		}
	}
	return 0, false
}

// fromJSON converts a parsed JSON file to a Value. The offsets in v refer to src.
func fromJSON(src []byte, v *hujson.Value) *Value {
	lines := lineIndex(src)
	var walk func(v *hujson.Value) *Value
	walk = func(v *hujson.Value) *Value {
		out := &Value{}
		out.Line, out.Col = lines.position(v.StartOffset)
		switch t := v.Value.(type) {
		case hujson.Literal:
			out.Text = t.String()
			switch t.Kind() {
			case 't', 'f':
				out.Kind = Bool
			case '0':
				out.Kind = Number
			case '"':
				out.Kind = String
			default:
				out.Text = ""
			}
		case *hujson.Array:
			out.Kind = List
			for i := range t.Elements {
				out.Items = append(out.Items, walk(&t.Elements[i]))
			}
		case *hujson.Object:
			out.Kind = Map
			for i := range t.Members {
				m := &t.Members[i]
				name, _ := m.Name.Value.(hujson.Literal)
				line, col := lines.position(m.Name.StartOffset)
				out.Members = append(out.Members, Member{Key: name.String(), Value: walk(&m.Value), Line: line, Col: col})
			}
		}
		return out
	}
	return walk(v)
}

// index has the offsets at which the lines of a file begin.
type index []int

func lineIndex(b []byte) index {
	at := index{0}
	for i, c := range b {
		if c == '\n' {
			at = append(at, i+1)
		}
	}
	return at
}

func (x index) position(offset int) (line, col int) {
	low, high := 0, len(x)
	for high-low > 1 {
		if mid := (low + high) / 2; x[mid] <= offset {
			low = mid
		} else {
			high = mid
		}
	}
	return low + 1, offset - x[low] + 1
}

// jsonStyle is the layout of a JSON file.
type jsonStyle struct {
	line string // line end
	unit string // one level of indentation
}

func styleOf(src []byte) jsonStyle {
	s := jsonStyle{line: "\n", unit: "  "}
	if bytes.Contains(src, []byte("\r\n")) {
		s.line = "\r\n"
	}
	// Assume that the first indented line with a key is indented by one level.
	for l := range bytes.Lines(src) {
		if rest := bytes.TrimLeft(l, " \t"); len(rest) > 0 && rest[0] == '"' && len(rest) < len(l) {
			s.unit = string(l[:len(l)-len(rest)])
			break
		}
	}
	return s
}

// setJSON returns b with the member at path set to value. It creates missing objects on the path.
// All other bytes stay the same. It fails if a value on the path is neither an object nor null.
func setJSON(name string, b []byte, path []string, value *Value) ([]byte, error) {
	mark := b[:len(b)-len(bytes.TrimPrefix(b, bom))]
	if len(bytes.TrimSpace(b)) == len(bytes.TrimSpace(mark)) {
		style := jsonStyle{line: "\n", unit: "  "}
		for i := len(path) - 1; i >= 0; i-- {
			value = Mapping(path[i], value)
		}
		return append(appendJSON(bytes.Clone(mark), value, "", style, false), '\n'), nil
	}
	root, err := parseJSON(name, b)
	if err != nil {
		return nil, err
	}
	src := b[len(mark):]
	style := styleOf(src)
	at := &root
	for i, key := range path {
		if l, ok := at.Value.(hujson.Literal); ok && l.Kind() == 'n' {
			at.Value = &hujson.Object{}
		}
		obj, ok := at.Value.(*hujson.Object)
		if !ok {
			line, col := position(src, at.StartOffset)
			return nil, &SyntaxError{name, line, col, quoted(path[:i]) + " is not an object"}
		}
		if m := member(obj, key); m != nil {
			at = &m.Value
			continue
		}
		for j := len(path) - 1; j > i; j-- {
			value = Mapping(path[j], value)
		}
		insertJSON(src, at, key, value, style)
		return append(bytes.Clone(mark), root.Pack()...), nil
	}
	indent, compact := indentAt(src, at.StartOffset), oneLine(at)
	at.Value = raw(appendJSON(nil, value, indent, style, compact))
	return append(bytes.Clone(mark), root.Pack()...), nil
}

func quoted(path []string) string {
	if len(path) == 0 {
		return "the file"
	}
	return strconv.Quote(strings.Join(path, "."))
}

// raw returns a literal that hujson writes without changes.
func raw(b []byte) hujson.Literal { return hujson.Literal(b) }

// oneLine reports whether an object or a list is on one line and not empty.
func oneLine(v *hujson.Value) bool {
	packed := v.Pack()
	packed = packed[len(v.BeforeExtra) : len(packed)-len(v.AfterExtra)]
	return len(packed) > 2 && !bytes.ContainsRune(packed, '\n')
}

func member(obj *hujson.Object, key string) *hujson.ObjectMember {
	var found *hujson.ObjectMember
	for i := range obj.Members {
		if l, ok := obj.Members[i].Name.Value.(hujson.Literal); ok && l.String() == key {
			found = &obj.Members[i]
		}
	}
	return found
}

// insertJSON adds a member at the end of the object at.
func insertJSON(src []byte, at *hujson.Value, key string, value *Value, style jsonStyle) {
	obj, start := at.Value.(*hujson.Object), at.StartOffset
	comments, closing := splitExtra(obj.AfterExtra)
	before, indent, compact := "", "", false
	n := len(obj.Members)
	switch {
	case n > 0 && !bytes.ContainsRune(obj.Members[n-1].Name.BeforeExtra, '\n'):
		// The last member is on the same line as the previous member, or as the opening brace.
		compact = closing == ""
		before = string(blank(obj.Members[n-1].Value.BeforeExtra)) // use the same space as after the colon, as in {"a": 1}
		if n > 1 {
			before = string(blank(obj.Members[n-1].Name.BeforeExtra))
		}
		if !compact {
			indent = indentAt(src, start) + style.unit
			before = style.line + indent
		}
	case n > 0:
		_, last := splitExtra(obj.Members[n-1].Name.BeforeExtra)
		indent = strings.TrimLeft(last, "\r\n")
		before = style.line + indent
	default:
		own := indentAt(src, start)
		compact = !bytes.ContainsRune(bytes.TrimSpace(src), '\n') && len(bytes.TrimSpace(src)) > 2
		if !compact {
			indent = own + style.unit
			before = style.line + indent
			if closing == "" {
				closing = style.line + own
			}
		}
	}
	if closing == "" && !compact {
		closing = style.line + indentAt(src, start)
	}
	colon := []byte(" ")
	if compact && n > 0 {
		colon = blank(obj.Members[n-1].Value.BeforeExtra)
	}
	m := hujson.ObjectMember{
		Name:  hujson.Value{BeforeExtra: hujson.Extra(comments + before), Value: hujson.String(key)},
		Value: hujson.Value{BeforeExtra: colon, Value: raw(appendJSON(nil, value, indent, style, compact))},
	}
	if n > 0 && obj.Members[n-1].Value.AfterExtra != nil { // the object has a trailing comma
		m.Value.AfterExtra = hujson.Extra{}
	}
	obj.Members = append(obj.Members, m)
	if compact {
		obj.AfterExtra = nil
		if n > 0 {
			obj.AfterExtra = hujson.Extra(closing)
		}
		return
	}
	obj.AfterExtra = hujson.Extra(closing)
}

// blank returns extra if it has only spaces and tabs. Otherwise, it returns one space.
func blank(extra hujson.Extra) []byte {
	if len(bytes.Trim(extra, " \t")) > 0 {
		return []byte(" ")
	}
	return extra
}

// splitExtra splits white space and comments at the last newline. comments is the text before the
// newline, and last is the newline with the indentation after it. last is empty if there is no
// newline, or if a comment follows the newline.
func splitExtra(e hujson.Extra) (comments, last string) {
	s := string(e)
	i := strings.LastIndexByte(s, '\n')
	if i < 0 {
		if strings.TrimLeft(s, " \t") == "" {
			return "", ""
		}
		return s, ""
	}
	if strings.TrimLeft(s[i+1:], " \t") != "" { // a block comment is between the newline and the bracket
		return s, ""
	}
	if i > 0 && s[i-1] == '\r' {
		i--
	}
	return s[:i], s[i:]
}

// indentAt returns the spaces and tabs at the beginning of the line that contains offset.
func indentAt(src []byte, offset int) string {
	line := src[bytes.LastIndexByte(src[:offset], '\n')+1 : offset]
	return string(line[:len(line)-len(bytes.TrimLeft(line, " \t"))])
}

// removeJSON returns b without the member at path. All other bytes stay the same. If there is no
// such member, removeJSON returns b itself.
func removeJSON(name string, b []byte, path []string) ([]byte, error) {
	mark := b[:len(b)-len(bytes.TrimPrefix(b, bom))]
	root, err := parseJSON(name, b)
	if err != nil {
		return nil, err
	}
	at := jsonAt(&root, path[:len(path)-1])
	if at == nil {
		return b, nil
	}
	obj, _ := at.Value.(*hujson.Object)
	if obj == nil {
		return b, nil
	}
	gone := member(obj, path[len(path)-1])
	if gone == nil {
		return b, nil
	}
	i := 0
	for &obj.Members[i] != gone {
		i++
	}
	before, end := splitExtra(gone.Name.BeforeExtra)
	// join puts before in front of the white space and comments after the member. A comment with // needs
	// its line end.
	join := func(after hujson.Extra) hujson.Extra {
		if rest := bytes.TrimLeft(after, " \t\r"); before != "" && (len(rest) == 0 || rest[0] != '\n') {
			before += end
		}
		return append(hujson.Extra(before), after...)
	}
	trailing := gone.Value.AfterExtra != nil
	last := i == len(obj.Members)-1
	obj.Members = append(obj.Members[:i:i], obj.Members[i+1:]...)
	switch {
	case !last:
		next := &obj.Members[i].Name
		if next.BeforeExtra = join(next.BeforeExtra); i == 0 && before == "" && len(obj.Members) > 0 {
			next.BeforeExtra = trimFirst(next.BeforeExtra)
		}
	case i > 0:
		prev := &obj.Members[i-1].Value
		if !trailing {
			before = string(prev.AfterExtra) + before
			prev.AfterExtra = nil
		} else if prev.AfterExtra == nil {
			prev.AfterExtra = hujson.Extra{}
		}
		obj.AfterExtra = join(obj.AfterExtra)
	default:
		if obj.AfterExtra = join(obj.AfterExtra); len(bytes.TrimSpace(obj.AfterExtra)) == 0 {
			obj.AfterExtra = nil
		}
	}
	return append(bytes.Clone(mark), root.Pack()...), nil
}

// rewriteJSON returns b with the entry at path changed from old to now. It edits only the members that
// differ, so the comments and the order of the others stay.
func rewriteJSON(name string, b []byte, path []string, old, now *Value) (out []byte, err error) {
	var edit func(b []byte, path []string, old, now *Value) ([]byte, bool)
	edit = func(b []byte, path []string, old, now *Value) ([]byte, bool) {
		switch {
		case now == nil:
			b, err = removeJSON(name, b, path)
		case isMap(old) && isMap(now):
			return editMembers(old, now, b, func(b []byte, key string, old, now *Value) ([]byte, bool) {
				return edit(b, append(slices.Clone(path), key), old, now)
			})
		default:
			b, err = setJSON(name, b, path, now)
		}
		return b, err == nil
	}
	out, _ = edit(b, path, old, now)
	return out, err
}

// verbatimJSON returns the value at path as it is written in the file, and whether there is one.
func verbatimJSON(name string, b []byte, path []string) (text string, ok bool) {
	root, err := parseJSON(name, b)
	if err != nil {
		return "", false
	}
	at := jsonAt(&root, path)
	if at == nil {
		return "", false
	}
	at.BeforeExtra, at.AfterExtra = nil, nil
	return string(at.Pack()), true
}

// jsonAt returns the value at path, or nil.
func jsonAt(at *hujson.Value, path []string) *hujson.Value {
	for _, key := range path {
		obj, _ := at.Value.(*hujson.Object)
		if obj == nil {
			return nil
		}
		m := member(obj, key)
		if m == nil {
			return nil
		}
		at = &m.Value
	}
	return at
}

// trimFirst removes the spaces that separated a member from the previous member on the same line.
func trimFirst(e hujson.Extra) hujson.Extra {
	if bytes.ContainsRune(e, '\n') {
		return e
	}
	return bytes.TrimLeft(e, " ")
}

// appendJSON appends the value v to b. indent is the indentation of the line on which v begins. If
// compact is true, v is written on one line.
func appendJSON(b []byte, v *Value, indent string, s jsonStyle, compact bool) []byte {
	comma, deeper, end := s.line+indent+s.unit, indent+s.unit, s.line+indent
	first := comma
	if compact {
		comma, deeper, end, first = " ", "", "", ""
	}
	switch {
	case v.verbatim != "":
		return append(b, v.verbatim...)
	case v.Kind == Map && len(v.Members) > 0:
		b = append(b, '{')
		for i, m := range v.Members {
			if i > 0 {
				b = append(append(b, ','), comma...)
			} else {
				b = append(b, first...)
			}
			b = append(append(b, hujson.String(m.Key)...), ": "...)
			b = appendJSON(b, m.Value, deeper, s, compact)
		}
		return append(append(b, end...), '}')
	case v.Kind == Map:
		return append(b, "{}"...)
	case v.Kind == List:
		// Lists of arguments are short, so they stay on one line.
		b = append(b, '[')
		for i, item := range v.Items {
			if i > 0 {
				b = append(b, ", "...)
			}
			b = appendJSON(b, item, deeper, s, true)
		}
		return append(b, ']')
	case v.Kind == String:
		return append(b, hujson.String(v.Text)...)
	case v.Kind == Null:
		return append(b, "null"...)
	}
	return append(b, v.Text...)
}

func isYAML(name string) bool {
	name = strings.ToLower(name)
	return strings.HasSuffix(name, ".yaml") || strings.HasSuffix(name, ".yml")
}

// Parse reads a file in JSON, JSON with comments, or TOML. name selects the format and appears
// in errors. Each error is a *SyntaxError.
func Parse(name string, b []byte) (*Value, error) {
	switch {
	case len(b) > MaxFile:
		return nil, &SyntaxError{File: name, Text: "the file is larger than " + strconv.Itoa(MaxFile>>20) + " MiB"}
	case !utf8.Valid(b):
		return nil, &SyntaxError{File: name, Text: "the file is not UTF-8"}
	case IsTOML(name):
		return parseTOML(name, b)
	case isYAML(name) && !LooksLikeJSON(b):
		return nil, &SyntaxError{File: name, Text: "this command does not read YAML files; a configuration file of Dragoman does not need an import"}
	case len(bytes.TrimSpace(bytes.TrimPrefix(b, bom))) == 0:
		return &Value{Kind: Map, Line: 1, Col: 1}, nil
	}
	v, err := parseJSON(name, b)
	if err != nil {
		return nil, err
	}
	return fromJSON(bytes.TrimPrefix(b, bom), &v), nil
}
