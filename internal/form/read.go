package form

import (
	"errors"
	"fmt"
	"math"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/dragoman-mcp/dragoman/internal/jsonrpc"
)

// The name of each control is one of these letters, followed by Field.Key.
const (
	valueKey = "v" // the text or the selected options
	emptyKey = "e" // what an empty control means
	jsonKey  = "j" // JSON text
)

// WholeKey is the name of the control of Form.Text.
const WholeKey = "json"

// maxValueDepth bounds the levels of a value that a person enters.
const maxValueDepth = 100

// ValueName returns the name of the control for the value. EmptyName returns the name of the
// control that says what an empty value means.
func (f *Field) ValueName() string {
	if f.Kind == JSON {
		return jsonKey + f.Key
	}
	return valueKey + f.Key
}

// EmptyName is described at ValueName.
func (f *Field) EmptyName() string { return emptyKey + f.Key }

// Read reads the values that a browser has sent, and returns the JSON object. The form then shows
// the sent values. ok is false if a value has no valid syntax; the form then has the errors, and
// the object lacks the values with errors. The object is nil if the whole object has no valid
// syntax. The names and values can be hostile. Their size limits the work.
func (f *Form) Read(sent url.Values) (value []byte, ok bool) {
	if f.Whole || sent.Has(WholeKey) {
		*f = Form{Whole: true, Why: f.Why, Text: lines(sent.Get(WholeKey))}
		value = []byte(strings.TrimSpace(f.Text))
		if len(value) == 0 {
			value = []byte("{}")
		}
		if err := jsonrpc.Valid(value, jsonrpc.Limits{Depth: maxValueDepth}); err != nil {
			f.Errors = append(f.Errors, Error{Text: "The text is not valid JSON: " + faultOfJSON(f.Text, err)})
			return nil, false
		}
		if jsonrpc.ValueOf(value).Kind() != '{' {
			f.Errors = append(f.Errors, Error{Text: `The text must be a JSON object, such as {"name": "value"}.`})
			return nil, false
		}
		return value, true
	}
	value = f.object(nil, f.Fields, sent, nil)
	return value, len(f.Errors) == 0
}

// object appends the object of a group.
func (f *Form) object(dst []byte, fields []*Field, sent url.Values, path []string) []byte {
	dst = append(dst, '{')
	empty := len(dst)
	for _, x := range fields {
		before := len(dst)
		if before > empty {
			dst = append(dst, ',')
		}
		dst = append(jsonrpc.AppendQuote(dst, x.Name), ':')
		at := len(dst)
		if dst = f.value(dst, x, sent, path); len(dst) == at {
			dst = dst[:before] // not sent
		}
	}
	return append(dst, '}')
}

// value appends the value of a field. It appends nothing if the value is not sent.
func (f *Form) value(dst []byte, x *Field, sent url.Values, path []string) []byte {
	wrong := func(text string) []byte {
		x.Error, x.unread = text, true
		f.Errors = append(f.Errors, Error{ID: x.ID, Name: strings.Join(append(slices.Clone(path), x.Name), "/"), Text: text, order: x.order, unread: true})
		return dst
	}
	if sent.Has(jsonKey + x.Key) { // the earlier value could only be expressed as JSON text
		x.Kind, x.Fields, x.Options, x.Empties = JSON, nil, nil, nil
	}
	if empty := sent.Get(x.EmptyName()); slices.Contains(x.Empties, empty) {
		x.Empty = empty
	}
	all := sent[x.ValueName()]
	for _, text := range all {
		if !utf8.ValidString(text) {
			return wrong("is not valid UTF-8")
		}
	}
	text := lines(sent.Get(x.ValueName()))
	trimmed := strings.TrimSpace(text)
	switch x.Kind {
	case Text, Long, Secret, Date:
		if x.Text = text; text != "" {
			return jsonrpc.AppendQuote(dst, text)
		}
	case Number:
		if x.Text = text; trimmed != "" {
			if !number(trimmed, x.Whole) {
				return wrong(numberFault(x.Whole))
			}
			return append(dst, trimmed...)
		}
	case JSON:
		if x.Text = text; trimmed != "" {
			if err := jsonrpc.Valid([]byte(trimmed), jsonrpc.Limits{Depth: maxValueDepth}); err != nil {
				return wrong("is not valid JSON: " + faultOfJSON(text, err))
			}
			return append(dst, trimmed...)
		}
		return dst
	case Choice, Yes, Many:
		chosen := x.chosen(all)
		switch {
		case len(chosen) > 0 && x.Kind == Many:
			return append(append(append(dst, '['), strings.Join(chosen, ",")...), ']')
		case len(chosen) > 0:
			return append(dst, chosen[0]...)
		}
	case List:
		if x.Text = text; trimmed != "" {
			return f.list(dst, x, text, wrong)
		}
	case Group:
		at := len(dst)
		if dst = f.object(dst, x.Fields, sent, append(slices.Clone(path), x.Name)); len(dst) > at+len("{}") {
			return dst
		}
		if x.Required && x.Empty == NotSent {
			return dst // an empty object
		}
		dst = dst[:at]
	}
	switch x.Empty {
	case Null:
		return append(dst, "null"...)
	case Blank:
		return append(dst, map[Kind]string{List: "[]", Many: "[]", Group: "{}"}[x.Kind]+map[bool]string{true: `""`}[isText(x.Kind)]...)
	}
	return dst
}

func isText(k Kind) bool { return k == Text || k == Long || k == Secret || k == Date }

// list appends the array of a field with one element on each line. Empty lines do not count.
func (f *Form) list(dst []byte, x *Field, text string, wrong func(string) []byte) []byte {
	before := dst
	dst = append(dst, '[')
	n := 0
	for line := range strings.SplitSeq(text, "\n") {
		if line = strings.TrimSpace(line); line == "" {
			continue
		}
		if n++; n > 1 {
			dst = append(dst, ',')
		}
		switch {
		case !x.Numbers:
			dst = jsonrpc.AppendQuote(dst, line)
		case !number(line, x.Whole):
			wrong(lineFault(x.Whole))
			return before
		default:
			dst = append(dst, line...)
		}
	}
	return append(dst, ']')
}

// chosen returns the values of the options that were sent, in the order of the options.
func (f *Field) chosen(sent []string) (out []string) {
	for i := range f.Options {
		o := &f.Options[i]
		if o.Selected = slices.Contains(sent, o.Value); o.Selected && (f.Kind == Many || len(out) == 0) {
			out = append(out, o.Value)
		}
	}
	return out
}

// number reports whether a text is a JSON number. If whole is true, a fraction like 1.5 is not
// allowed; 1.0 and 1e3 are left to the check against the schema.
func number(text string, whole bool) bool {
	b := []byte(text)
	if jsonrpc.Valid(b, jsonrpc.Limits{}) != nil || jsonrpc.ValueOf(b).Kind() != '0' {
		return false
	}
	if i := strings.IndexByte(text, '.'); whole && i >= 0 && !strings.ContainsAny(text, "eE") {
		return strings.Trim(text[i+1:], "0") == ""
	}
	return true
}

// lineFault returns the fault of a text in which each line must be a number.
func lineFault(whole bool) string {
	if whole {
		return "must have an integer on each line, such as 42"
	}
	return "must have a number on each line, such as 1.5"
}

func numberFault(whole bool) string {
	if whole {
		return "must be an integer, such as 42"
	}
	return "must be a number, such as 1.5"
}

// jsonFaults describes the faults of a JSON text that are not one character.
var jsonFaults = map[jsonrpc.Fault]string{
	jsonrpc.FaultEnd:       "unexpected end",
	jsonrpc.FaultString:    "string without a closing quote",
	jsonrpc.FaultEscape:    "invalid escape",
	jsonrpc.FaultUTF8:      "invalid UTF-8",
	jsonrpc.FaultDuplicate: "duplicate member name",
}

// faultOfJSON returns why a person's JSON text is not valid, and where. text is the text as typed,
// and err is the error of jsonrpc.Valid for its part without space around it.
func faultOfJSON(text string, err error) string {
	var wrong *jsonrpc.Error
	if !errors.As(err, &wrong) {
		return err.Error()
	}
	at := min(wrong.Offset+len(text)-len(strings.TrimLeftFunc(text, unicode.IsSpace)), len(text))
	fault := jsonFaults[wrong.Fault]
	switch wrong.Fault {
	case 0: // the text exceeds a limit
		return wrong.Message
	case jsonrpc.FaultByte:
		r, size := utf8.DecodeRuneInString(text[at:])
		if fault = "unexpected character " + strconv.QuoteRune(r); r == utf8.RuneError && size == 1 {
			fault = jsonFaults[jsonrpc.FaultUTF8]
		}
	}
	before := text[:at]
	line, start := strings.Count(before, "\n")+1, strings.LastIndexByte(before, '\n')+1
	return fmt.Sprintf("%s (line %d, character %d)", fault, line, utf8.RuneCountInString(before[start:])+1)
}

// lines changes the line ends that a browser writes (CRLF) back to LF.
func lines(text string) string { return strings.ReplaceAll(text, "\r\n", "\n") }

// Report adds a fault that a check of the object against the schema has found. pointer is the place
// of the value as a JSON pointer (RFC 6901) within the object, as package admin writes it. If Read
// could not read a value, Report adds no second fault of this value and no fault of the whole
// object, because the check has not seen the value.
func (f *Form) Report(pointer, text string) {
	fields, found := f.Fields, (*Field)(nil)
	var path []string
	for fields != nil {
		var next *Field
		for _, x := range fields {
			if pointer == x.pointer || strings.HasPrefix(pointer, x.pointer+"/") {
				next = x
				break
			}
		}
		if next == nil {
			break
		}
		found, fields = next, next.Fields
		path = append(path, next.Name)
	}
	if found == nil && slices.ContainsFunc(f.Errors, func(e Error) bool { return e.unread }) || found != nil && found.unread {
		return
	}
	if found == nil {
		f.add(Error{order: math.MaxInt, Name: strings.NewReplacer("~1", "/", "~0", "~").Replace(strings.TrimPrefix(pointer, "/")), Text: text})
		return
	}
	if rest := strings.TrimPrefix(pointer[len(found.pointer):], "/"); rest != "" {
		text = rest + " " + text
	}
	if found.Error == "" {
		found.Error = text
	}
	f.add(Error{ID: found.ID, Name: strings.Join(path, "/"), Text: text, order: found.order})
}

// add adds an error at the position of its field.
func (f *Form) add(e Error) {
	i := len(f.Errors)
	for i > 0 && f.Errors[i-1].order > e.order {
		i--
	}
	f.Errors = slices.Insert(f.Errors, i, e)
}
