package dialect

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"
	"unicode"

	"github.com/dragoman-mcp/dragoman/internal/base/excerpt"
	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/base/trails"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
)

// These constants limit the size of a converted form and of a converted answer.
const (
	maxFormFields  = 1000 // a form with more fields is not converted
	maxFormOptions = 64   // a list with more options becomes one text field instead of one yes-or-no field per option
	maxFormText    = 200  // the maximum length in bytes of a title or name that is repeated for each option
	maxFormTotal   = 1000 // a form is not converted if all its lists together have more options and default options
	maxFormWords   = 1000 // an answer with more entries in one text field is refused
)

// Form records how ConvertForm converted the fields of a form, so that Restore can convert the
// client's answer back. A nil Form means that the form was not converted. A Form does not change
// after ConvertForm has returned it.
type Form struct {
	choices []choice
}

// choice is a field of a form in which the user may select several options.
type choice struct {
	key      string // the name of the field
	required bool
	fields   []string       // the names of the yes-or-no fields, one for each option, or the name of one text field
	options  []option       // no two options have the same value
	comma    string         // the separator in the text field, or "" if there are yes-or-no fields
	byValue  map[string]int // for a text field: the indexes of the options, by value
	byTitle  map[string]int // for a text field: the indexes of the options, by folded title
}

type option struct {
	value []byte // the JSON value
	text  string // the value as text
	title string
}

// ConvertForm converts the form in an elicitation request to a form for a client of the given
// revision. It adds the losses to l. It returns m and nil if no change is needed.
//
// Since 2025-11-25, a form may have options with titles, lists of options, and default values
// (2025-11-25 and 2026-07-28 §Elicitation, "Requested Schema"). 2025-06-18 has only enum with
// enumNames, and default values only for booleans (schema.ts, PrimitiveSchemaDefinition). So a
// list of options becomes one yes-or-no field for each option, or one text field. Default values of
// other fields, and limits on the number of options, become part of a description.
//
// A form that is too large is not converted, and a loss is added. An option that is listed twice
// becomes one option.
func ConvertForm(t *trails.Trail, to mcp.Revision, m *jsonrpc.Message, l *mcp.Losses) (*jsonrpc.Message, *Form) {
	if m.Method != mcp.MethodElicit || to.Can(mcp.RichForms) {
		return m, nil
	}
	schema := m.Param("requestedSchema")
	f := formConverter{raw: m.Raw, taken: map[string]bool{}, next: map[string]int{}, required: map[string]bool{}}
	fields := jsonrpc.Find(m.Raw, schema, "properties")
	count := 0
	for x := range jsonrpc.Members(m.Raw, fields) {
		if count++; count > maxFormFields {
			l.Add("elicitation.size", "the form has more than "+strconv.Itoa(maxFormFields)+" fields, so it is not converted")
			return m, nil
		}
		name, _ := jsonrpc.Text(m.Raw, x.Key)
		f.taken[name] = true
	}
	required := jsonrpc.Find(m.Raw, schema, "required")
	for x := range jsonrpc.Elements(m.Raw, required) {
		name, _ := jsonrpc.Text(m.Raw, x)
		f.required[name] = true
	}
	for x := range jsonrpc.Members(m.Raw, fields) {
		if f.field(x); f.total > maxFormTotal {
			l.Add("elicitation.size", "the form has more than "+strconv.Itoa(maxFormTotal)+" options, so it is not converted")
			return m, nil
		}
	}
	for _, x := range f.losses {
		l.Add(x.What, x.Why)
	}
	f.dropRequired(required)
	if f.edits.Len() == 0 {
		return m, nil
	}
	out, err := mcp.Rewrite(t, m, &f.edits)
	if err != nil {
		return m, nil
	}
	return out, &f.form
}

type formConverter struct {
	raw      []byte
	losses   mcp.Losses
	edits    jsonrpc.Edits
	taken    map[string]bool // the names of all fields
	next     map[string]int  // how many new names were made from each name that a field already had
	total    int             // the number of options and default options that were read
	required map[string]bool
	form     Form
}

func (f *formConverter) find(at jsonrpc.Span, name string) jsonrpc.Span {
	return jsonrpc.Find(f.raw, at, name)
}

func (f *formConverter) text(at jsonrpc.Span, name string) string {
	s, _ := jsonrpc.Text(f.raw, f.find(at, name))
	return s
}

// field converts one field.
func (f *formConverter) field(x jsonrpc.Member) {
	switch f.text(x.Value, "type") {
	case "array":
		f.choice(x)
	case "string", "number", "integer":
		f.scalar(x.Value)
	}
}

// scalar replaces titled options with enum and enumNames, and moves the default value into the
// description.
func (f *formConverter) scalar(at jsonrpc.Span) {
	var drop []string
	var set []jsonrpc.Field
	options := f.options(f.find(at, "oneOf"))
	if len(options) > 0 && f.find(at, "enum").IsZero() {
		values, titles := []byte{'['}, make([]string, len(options))
		for i, o := range options {
			if i > 0 {
				values = append(values, ',')
			}
			values = append(values, o.value...)
			titles[i] = o.title
		}
		drop = append(drop, "oneOf")
		set = append(set, jsonrpc.Field{Key: "enum", Value: append(values, ']')}, jsonrpc.Field{Key: "enumNames", Value: jsonrpc.AppendStrings(nil, titles)})
	}
	if v := f.find(at, "default"); !v.IsZero() {
		drop = append(drop, "default")
		set = append(set, f.description(at, "Default: "+shownDefault(f.raw, v, options)+"."))
		f.losses.Add("elicitation.default", "the revision has default values only for yes-or-no fields, so the default value is in the description")
	}
	if drop == nil {
		return
	}
	f.edits.Object(mcp.WhyForm, f.raw, at, func(key []byte) bool {
		for _, name := range drop {
			if string(key) == name {
				return true
			}
		}
		return false
	}, set...)
}

// shownDefault returns the text that shows a default value to the user: the title of the option if
// the value is an option, and otherwise the value.
func shownDefault(raw []byte, at jsonrpc.Span, options []option) string {
	text, ok := jsonrpc.Text(raw, at)
	if !ok {
		return string(at.Of(raw))
	}
	for _, o := range options {
		if o.text == text {
			return o.title
		}
	}
	return text
}

// description returns the member description of a field, with an added sentence.
func (f *formConverter) description(at jsonrpc.Span, added string) jsonrpc.Field {
	return jsonrpc.Field{Key: "description", Value: jsonrpc.AppendQuote(nil, joinSentences(f.text(at, "description"), added))}
}

// joinSentences appends a sentence to a text.
func joinSentences(text, added string) string {
	text = strings.TrimRight(text, " \n")
	switch {
	case text == "":
		return added
	case added == "":
		return text
	case strings.ContainsAny(text[len(text)-1:], ".!?:"):
		return text + " " + added
	}
	return text + ". " + added
}

// options reads a list of options. An option is a string, or an object with const and title. If two
// options have the same value, only the first is returned. options returns nil if an element is not
// an option, or if the form has too many options.
func (f *formConverter) options(list jsonrpc.Span) (out []option) {
	known := map[string]bool{}
	for x := range jsonrpc.Elements(f.raw, list) {
		if f.total++; f.total > maxFormTotal {
			return nil
		}
		v := x
		if jsonrpc.KindOf(f.raw, x) == '{' {
			v = f.find(x, "const")
		}
		text, ok := jsonrpc.Text(f.raw, v)
		if !ok {
			return nil
		}
		if known[text] {
			continue
		}
		known[text] = true
		o := option{value: v.Of(f.raw), text: text, title: text}
		if title := f.text(x, "title"); title != "" {
			o.title = title
		}
		out = append(out, o)
	}
	return out
}

// choice converts a field in which the user may select several options.
func (f *formConverter) choice(x jsonrpc.Member) {
	items := f.find(x.Value, "items")
	options := f.options(f.find(items, "anyOf"))
	if options == nil {
		options = f.options(f.find(items, "enum"))
	}
	if options == nil {
		return
	}
	key, _ := jsonrpc.Text(f.raw, x.Key)
	c := choice{key: key, options: options, required: f.required[key]}
	defaults := map[string]bool{}
	for _, d := range f.options(f.find(x.Value, "default")) {
		defaults[d.text] = true
	}
	if f.total > maxFormTotal {
		return
	}
	about := joinSentences(f.text(x.Value, "description"), f.limits(x.Value))
	var out []byte
	if len(options) > maxFormOptions {
		out = f.asText(x, &c, about, defaults)
	} else {
		out = f.asBooleans(x, &c, about, defaults)
	}
	f.edits.Replace(mcp.WhyForm, jsonrpc.Span{Start: x.Key.Start, End: x.Value.End}, out)
	f.form.choices = append(f.form.choices, c)
}

// limits returns a sentence about the number of options that may be selected, or "".
func (f *formConverter) limits(at jsonrpc.Span) string {
	least, _ := jsonrpc.Int(f.raw, f.find(at, "minItems"))
	most, bounded := jsonrpc.Int(f.raw, f.find(at, "maxItems"))
	if least <= 0 && !bounded {
		return ""
	}
	f.losses.Add("elicitation.limits", "the revision cannot limit how many options are selected, so the limit is in the description")
	n := func(i int64) string { return strconv.FormatInt(i, 10) }
	switch {
	case !bounded:
		return "Select at least " + n(least) + "."
	case least <= 0:
		return "Select at most " + n(most) + "."
	case least == most:
		return "Select exactly " + n(most) + "."
	}
	return "Select at least " + n(least) + " and at most " + n(most) + "."
}

// unused returns base, or a name made from base if a field already has the name base. It adds the
// name to taken.
func (f *formConverter) unused(base string) string {
	name := base
	for f.taken[name] {
		n := f.next[base] + 1
		f.next[base] = n
		if name = base + "_"; n > 1 {
			name += strconv.Itoa(n)
		}
	}
	f.taken[name] = true
	return name
}

// asBooleans returns one yes-or-no field for each option. defaults has the values of the options
// that are selected by default.
func (f *formConverter) asBooleans(x jsonrpc.Member, c *choice, about string, defaults map[string]bool) (out []byte) {
	base, title := c.key, f.text(x.Value, "title")
	if len(base) > maxFormText {
		base = "choice"
	}
	if title == "" || len(title) > maxFormText {
		title = base
	}
	hasDefault := !f.find(x.Value, "default").IsZero()
	for i, o := range c.options {
		name := f.unused(base + "_" + strconv.Itoa(i+1))
		c.fields = append(c.fields, name)
		if i > 0 {
			out = append(out, ',')
		}
		out = append(jsonrpc.AppendQuote(out, name), `:{"type":"boolean","title":`...)
		out = jsonrpc.AppendQuote(out, title+": "+o.title)
		if i == 0 && about != "" {
			out = jsonrpc.AppendQuote(append(out, `,"description":`...), about)
		}
		if hasDefault {
			out = strconv.AppendBool(append(out, `,"default":`...), defaults[o.text])
		}
		out = append(out, '}')
	}
	return out
}

// asText returns one text field whose description names all options. defaults has the values of the
// options that are selected by default.
func (f *formConverter) asText(x jsonrpc.Member, c *choice, about string, defaults map[string]bool) (out []byte) {
	c.comma, c.fields = ",", []string{c.key}
	c.byValue, c.byTitle = map[string]int{}, map[string]int{}
	var selected []option
	for i, o := range c.options {
		c.byValue[o.text] = i
		if title := folded(o.title); !has(c.byTitle, title) {
			c.byTitle[title] = i
		}
		if defaults[o.text] {
			selected = append(selected, o)
		}
		if strings.Contains(o.text, ",") || strings.Contains(o.title, ",") {
			c.comma = ";"
		}
	}
	separators := map[string]string{",": "commas", ";": "semicolons"}
	join := func(all []option) string {
		var b strings.Builder
		for i, o := range all {
			if i > 0 {
				b.WriteString(c.comma + " ")
			}
			b.WriteString(o.title)
		}
		return b.String()
	}
	about = joinSentences(about, "Enter options, separated by "+separators[c.comma]+". The options are: "+join(c.options)+".")
	if len(selected) > 0 {
		about = joinSentences(about, "Default: "+join(selected)+".")
	}
	f.losses.Add("elicitation.options", "the revision has no lists of options, so the options are in the description of a text field")
	out = append(append(out, x.Key.Of(f.raw)...), `:{"type":"string"`...)
	if title := f.find(x.Value, "title"); !title.IsZero() {
		out = append(append(out, `,"title":`...), title.Of(f.raw)...)
	}
	return append(jsonrpc.AppendQuote(append(out, `,"description":`...), about), '}')
}

// dropRequired removes from the list of required fields those fields that the converted form does
// not have.
func (f *formConverter) dropRequired(required jsonrpc.Span) {
	gone := map[string]bool{}
	for _, c := range f.form.choices {
		if c.comma == "" && c.required {
			gone[c.key] = true
		}
	}
	if len(gone) == 0 {
		return
	}
	out := []byte{'['}
	for x := range jsonrpc.Elements(f.raw, required) {
		if name, ok := jsonrpc.Text(f.raw, x); ok && gone[name] {
			continue
		}
		if len(out) > 1 {
			out = append(out, ',')
		}
		out = append(out, x.Of(f.raw)...)
	}
	f.edits.Replace(mcp.WhyForm, required, append(out, ']'))
}

// Restore converts a client's answer to the converted form into an answer to the form that the
// server sent. It returns m if no change is needed. If the answer cannot be converted, the text of
// the error gives the reason, and can be used within a sentence. The result is not larger than the
// form plus the answer with escaped strings.
func (f *Form) Restore(t *trails.Trail, m *jsonrpc.Message) (*jsonrpc.Message, error) {
	if f == nil || len(f.choices) == 0 || m.Kind != jsonrpc.Result {
		return m, nil
	}
	content := m.ResultMember("content")
	if jsonrpc.KindOf(m.Raw, content) != '{' {
		return m, nil
	}
	given := map[string]jsonrpc.Span{}
	for x := range jsonrpc.Members(m.Raw, content) {
		name, _ := jsonrpc.Text(m.Raw, x.Key)
		given[name] = x.Value
	}
	gone := map[string]bool{}
	var insert []byte
	for _, c := range f.choices {
		list, answered := []byte{'['}, false
		add := func(value []byte) {
			if len(list) > 1 {
				list = append(list, ',')
			}
			list = append(list, value...)
		}
		for i, name := range c.fields {
			at, ok := given[name]
			if !ok {
				continue
			}
			answered, gone[name] = true, true
			if c.comma != "" {
				if err := c.parse(m.Raw, at, add); err != nil {
					return nil, err
				}
			} else if v := bytes.Trim(at.Of(m.Raw), `"`); string(v) == "true" {
				add(c.options[i].value)
			}
		}
		if !answered && !c.required {
			continue
		}
		insert = jsonrpc.AppendQuote(append(insert, ','), c.key)
		insert = append(append(append(insert, ':'), list...), ']')
	}
	if insert == nil && len(gone) == 0 {
		return m, nil
	}
	// Copy the members one by one. Names may contain escapes, so only decoded names can be compared.
	out := []byte{'{'}
	for x := range jsonrpc.Members(m.Raw, content) {
		if name, _ := jsonrpc.Text(m.Raw, x.Key); gone[name] {
			continue
		}
		if len(out) > 1 {
			out = append(out, ',')
		}
		out = append(out, m.Raw[x.Key.Start:x.Value.End]...)
	}
	if len(out) == 1 && insert != nil {
		insert = insert[1:]
	}
	var e jsonrpc.Edits
	e.Replace(mcp.WhyForm, content, append(append(out, insert...), '}'))
	return mcp.RewriteOrKeep(t, m, &e), nil
}

// parse calls add once for each option in the user's text. A word that is not an option is added
// too, so that the server can refuse it.
func (c *choice) parse(raw []byte, at jsonrpc.Span, add func([]byte)) error {
	text, ok := jsonrpc.Text(raw, at)
	if !ok {
		add(at.Of(raw))
		return nil
	}
	used := map[int]bool{}
	words := 0
	for word := range strings.SplitSeq(text, c.comma) {
		word = strings.TrimSpace(word)
		if word == "" {
			continue
		}
		if words++; words > maxFormWords {
			return fmt.Errorf("the list in the field %s has more than %d entries", excerpt.Word(c.key, 100), maxFormWords)
		}
		i, ok := c.find(word)
		switch {
		case !ok:
			add(jsonrpc.AppendQuote(nil, word))
		case !used[i]:
			used[i] = true
			add(c.options[i].value)
		}
	}
	return nil
}

// find returns the index of the first option whose value equals word, or whose title equals word if
// case is ignored.
func (c *choice) find(word string) (int, bool) {
	byTitle, titled := c.byTitle[folded(word)]
	byValue, valued := c.byValue[word]
	if titled && (!valued || byTitle < byValue) {
		return byTitle, true
	}
	return byValue, valued
}

// folded returns a text without differences between upper and lower case. Two folded texts are equal
// if and only if strings.EqualFold returns true for the original texts.
func folded(text string) string {
	return strings.Map(func(r rune) rune {
		least := r
		for x := unicode.SimpleFold(r); x != r; x = unicode.SimpleFold(x) {
			least = min(least, x)
		}
		return least
	}, text)
}

func has(m map[string]int, key string) bool {
	_, ok := m[key]
	return ok
}
