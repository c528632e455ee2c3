package form

import (
	"bytes"
	"slices"
	"strings"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/base/excerpt"
	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
)

// Fill puts a JSON object into the form. If the control of a field cannot express its member, the
// field becomes JSON text. If the fields cannot hold the object, for example because the object has
// members that the schema does not list, Fill changes the form to the JSON text of the object and
// returns false. The value must be valid JSON.
func (f *Form) Fill(value []byte) bool {
	if !f.Whole && fillGroup(f.Fields, jsonrpc.ValueOf(value)) {
		return true
	}
	whole := f.Whole
	*f = Form{Whole: true, Why: f.Why, Text: visible(value)}
	return whole
}

// AsJSON changes the form to the JSON text of the object.
func (f *Form) AsJSON(value []byte) { *f = Form{Whole: true, Text: visible(value)} }

// visible returns a JSON value in which all characters that a person cannot see are escaped.
func visible(value []byte) string { return string(excerpt.JSON(bytes.TrimSpace(value))) }

// fillGroup fills the fields of an object. ok is false if v is not an object, or if v has a member
// without a field.
func fillGroup(fields []*Field, v jsonrpc.Value) (ok bool) {
	if v.Kind() != '{' {
		return false
	}
	byName := make(map[string]*Field, len(fields))
	for _, f := range fields {
		byName[f.Name] = f
	}
	for key := range v.Members() {
		name, _ := key.Text()
		if byName[name] == nil {
			return false
		}
	}
	for key, value := range v.Members() {
		name, _ := key.Text()
		byName[name].fill(value.Raw())
	}
	return true
}

// fill puts a JSON value into the control of the field. If the control cannot express the value,
// the field becomes JSON text.
func (f *Field) fill(value []byte) {
	if v := jsonrpc.ValueOf(value); f.Kind != JSON && !f.express(v) {
		f.Kind, f.Fields, f.Options, f.Empties, f.Empty = JSON, nil, nil, nil, NotSent
	}
	if f.Kind == JSON {
		f.Text = visible(value)
	}
}

// express puts a value into the control, and reports whether the control can express it.
func (f *Field) express(v jsonrpc.Value) bool {
	if v.Kind() == 'n' && slices.Contains(f.Empties, Null) {
		f.Empty = Null
		return true
	}
	switch f.Kind {
	case Text, Long, Secret, Date:
		text, ok := v.Text()
		if text == "" && ok && slices.Contains(f.Empties, Blank) {
			f.Empty = Blank
			return true
		}
		if !ok || text == "" || !plainText(v) || f.Kind == Secret && strings.Contains(text, "\n") {
			return false
		}
		if _, err := time.Parse(time.DateOnly, text); f.Kind == Date && err != nil {
			return false
		}
		f.Text = text
		return true
	case Number:
		if v.Kind() != '0' {
			return false
		}
		f.Text = string(v.Raw())
		return true
	case Choice, Yes:
		return f.choose(v)
	case Many:
		return f.elements(v, f.choose)
	case List:
		var lines []string
		ok := f.elements(v, func(e jsonrpc.Value) bool {
			text, ok := e.Text()
			if f.Numbers {
				text, ok = string(e.Raw()), e.Kind() == '0'
			} else if ok {
				ok = plainText(e) && text != "" && strings.TrimSpace(text) == text && !strings.Contains(text, "\n")
			}
			lines = append(lines, text)
			return ok
		})
		f.Text = strings.Join(lines, "\n")
		return ok
	case Group:
		if v.Kind() != '{' {
			return false
		}
		empty := true
		for range v.Members() {
			empty = false
		}
		if empty && len(f.Empties) > 0 {
			f.Empty = Blank
			return true
		}
		return fillGroup(f.Fields, v)
	}
	return false
}

// plainText reports whether a text field can hold a JSON string unchanged, and shows all of its
// characters.
func plainText(v jsonrpc.Value) bool {
	text, _ := v.Text()
	raw := jsonrpc.AppendQuote(nil, text)
	return jsonrpc.Shown(text) == text && bytes.Equal(excerpt.JSON(raw), raw) && !strings.ContainsFunc(text, func(r rune) bool { return r < ' ' && r != '\n' && r != '\t' })
}

// choose selects the option with the value v. It returns false if there is no such option, or if the
// option of a Many field is already selected.
func (f *Field) choose(v jsonrpc.Value) bool {
	for i := range f.Options {
		if o := &f.Options[i]; same(jsonrpc.ValueOf([]byte(o.Value)), v) && (f.Kind != Many || !o.Selected) {
			o.Selected = true
			return true
		}
	}
	return false
}

// same reports whether two scalars are equal. Two numbers are equal only if their bytes are the
// same.
func same(a, b jsonrpc.Value) bool {
	x, ok := a.Text()
	y, also := b.Text()
	return ok && also && x == y || !ok && !also && bytes.Equal(a.Raw(), b.Raw())
}

// elements calls the function each for every element of an array. It returns false if v is not an
// array, if the function returns false for an element, or if v is empty and the field cannot
// express an empty array.
func (f *Field) elements(v jsonrpc.Value, each func(jsonrpc.Value) bool) bool {
	if v.Kind() != '[' {
		return false
	}
	n := 0
	for e := range v.Elements() {
		if n++; !each(e) {
			return false
		}
	}
	if n == 0 {
		f.Empty = Blank
		return slices.Contains(f.Empties, Blank)
	}
	return true
}
