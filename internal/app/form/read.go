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

	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
)

// The name of each control of a field is one of these letters, followed by Field.Key.
const (
	valueKey = "v" // the control for the text or the options
	emptyKey = "e" // the control that says what an empty value means
	jsonKey  = "j" // the control for JSON text
)

// WholeKey is the name of the control of Form.Text.
const WholeKey = "json"

// maxValueDepth is the maximum nesting of JSON text that a person enters.
const maxValueDepth = 100

// ValueName returns the name of the control for the value of the field.
func (f *Field) ValueName() string {
	if f.Kind == JSON {
		return jsonKey + f.Key
	}
	return valueKey + f.Key
}

// EmptyName returns the name of the control that says what an empty value of the field means.
func (f *Field) EmptyName() string { return emptyKey + f.Key }

// Read reads the values that a browser has sent, puts them into the form, and returns the JSON
// object. If the syntax of a value is invalid, ok is false, Form.Errors has the fault, and the
// object lacks this value. If the JSON text of the whole object is invalid, value is nil. The sent
// names and values can be hostile. The work is proportional to their size.
func (f *Form) Read(sent url.Values) (value []byte, ok bool) {
	if f.Whole || sent.Has(WholeKey) {
		*f = Form{Whole: true, Why: f.Why, Text: lines(sent.Get(WholeKey))}
		value = []byte(strings.TrimSpace(f.Text))
		if len(value) == 0 {
			value = []byte("{}")
		}
		if err := jsonrpc.Valid(value, jsonrpc.Limits{Depth: maxValueDepth}); err != nil {
			f.Errors = append(f.Errors, Error{Text: "The text is not valid JSON: " + FaultOfJSON(f.Text, err)})
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

// object appends the JSON object of the fields of a form or a group. path has the names of the
// group and of the groups around it.
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

// value appends the JSON value of a field. It appends nothing if the value has a fault, or if the
// object must not have this member.
func (f *Form) value(dst []byte, x *Field, sent url.Values, path []string) []byte {
	wrong := func(text string) []byte {
		f.reject(x, path, text)
		return dst
	}
	if sent.Has(jsonKey + x.Key) { // the page had JSON text here, because the control could not express the value
		x.Kind, x.Fields, x.Options, x.Empties = JSON, nil, nil, nil
	}
	if empty := sent.Get(x.EmptyName()); slices.Contains(x.Empties, empty) {
		x.Empty = empty
	}
	all := sent[x.ValueName()]
	if slices.ContainsFunc(all, func(text string) bool { return !utf8.ValidString(text) }) {
		return wrong("is not valid UTF-8")
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
				return wrong("is not valid JSON: " + FaultOfJSON(text, err))
			}
			return append(dst, trimmed...)
		}
		return dst
	case Choice, Yes, Many:
		switch chosen := x.chosen(all); {
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
	return x.appendEmpty(dst)
}

// reject reports that what was sent for a field cannot be read.
func (f *Form) reject(x *Field, path []string, text string) {
	x.Error, x.unread = text, true
	f.Errors = append(f.Errors, Error{ID: x.ID, Name: strings.Join(append(slices.Clone(path), x.Name), "/"), Text: text, order: x.order, unread: true})
}

// appendEmpty appends what the user chose to send for a field without a value, which may be nothing.
func (f *Field) appendEmpty(dst []byte) []byte {
	switch {
	case f.Empty == Null:
		return append(dst, "null"...)
	case f.Empty != Blank:
		return dst
	case f.Kind == List, f.Kind == Many:
		return append(dst, "[]"...)
	case f.Kind == Group:
		return append(dst, "{}"...)
	case isText(f.Kind):
		return append(dst, `""`...)
	}
	return dst
}

func isText(k Kind) bool { return k == Text || k == Long || k == Secret || k == Date }

// list appends the array of a List field. Each line of the text is one element, except empty lines.
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

// chosen returns the values of the options that the browser has sent, in the order of the options.
// It returns at most one value if the kind is not Many.
func (f *Field) chosen(sent []string) (out []string) {
	for i := range f.Options {
		o := &f.Options[i]
		if o.Selected = slices.Contains(sent, o.Value); o.Selected && (f.Kind == Many || len(out) == 0) {
			out = append(out, o.Value)
		}
	}
	return out
}

// number reports whether a text is a JSON number. If whole is true, fractions such as 1.5 are not
// allowed. Numbers such as 1.0 and 1e3 are allowed, because only the check against the schema can
// decide whether they are valid.
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

// lineFault describes the fault of a list with a line that is not a number, or not an integer if
// whole is true.
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

// jsonFaults describes the faults of JSON text, except for an unexpected character.
var jsonFaults = map[jsonrpc.Fault]string{
	jsonrpc.FaultEnd:       "unexpected end",
	jsonrpc.FaultString:    "string without a closing quote",
	jsonrpc.FaultEscape:    "invalid escape",
	jsonrpc.FaultUTF8:      "invalid UTF-8",
	jsonrpc.FaultDuplicate: "duplicate member name",
}

// FaultOfJSON returns why the JSON text of a person is not valid, and where. text is the text that
// the person typed. err is the error of jsonrpc.Valid for text without the white space around it.
func FaultOfJSON(text string, err error) string {
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
// could not read a value, the checked object lacks this value. So Report then adds no second fault
// of this value and no fault of the whole object.
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

// add inserts an error into Errors, in the order of the fields.
func (f *Form) add(e Error) {
	i := len(f.Errors)
	for i > 0 && f.Errors[i-1].order > e.order {
		i--
	}
	f.Errors = slices.Insert(f.Errors, i, e)
}
