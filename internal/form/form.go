package form

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	"github.com/dragoman-mcp/dragoman/internal/excerpt"
	"github.com/dragoman-mcp/dragoman/internal/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/schema"
)

// Limits of a form.
const (
	maxSchema  = 256 << 10 // bytes of a schema that gets fields
	maxNesting = 64        // levels of a schema that gets fields
	maxFields  = 200       // fields, including fields in groups
	maxWork    = 8 << 20   // bytes to search; after that all other fields are JSON text
	maxGroups  = 4         // levels of groups
	maxRefused = 8         // groups with too many members; after that no more groups are tried
	maxChoices = 500       // choices of one field
	maxSeveral = 100       // choices of a field that allows several of them
	maxName    = 200       // bytes of a name
	maxAbout   = 2 << 10   // bytes of a description
	maxType    = 300       // bytes of a type
	maxValue   = 200       // bytes of a default, of an example or of the title of a choice
	exampleOf  = 16 << 10  // bytes of a schema that gets an example
	longText   = 200       // a text that may have at least this many characters gets several lines
)

// Kind is the kind of control of a field.
type Kind string

// The kinds of controls.
const (
	Text   Kind = "text"   // a text of one or more lines
	Long   Kind = "long"   // a text of many lines
	Secret Kind = "secret" // a text that nobody else should read
	Date   Kind = "date"   // a date, as 2026-11-22
	Number Kind = "number" // a JSON number
	Choice Kind = "choice" // one of Field.Options
	Yes    Kind = "yes"    // true or false, in Field.Options
	Many   Kind = "many"   // an array with some of Field.Options
	List   Kind = "list"   // an array of texts or numbers, one on each line
	Group  Kind = "group"  // an object with Field.Fields
	JSON   Kind = "json"   // any JSON value, as text
)

// The values of Field.Empty: what an empty control means.
const (
	NotSent = ""      // the object has no such member
	Blank   = "empty" // an empty text, array or object
	Null    = "null"  // null
)

// Form is a form for a JSON object.
type Form struct {
	// Fields are the fields. The list is empty if Whole is true, or if the object has no known
	// members.
	Fields []*Field
	// Whole says that the object is edited as the JSON text in Text. Why says in one sentence why
	// the schema has no fields. Why is "" if only the user chose the JSON text.
	Whole     bool
	Text, Why string
	// Errors are the faults of the values, in the order of the fields.
	Errors []Error
}

// Error is the fault of a value.
type Error struct {
	ID   string // the Field.ID of the field; "" for the whole object
	Name string // the name of the member; "" for the whole object
	Text string // the rest of a sentence that begins with the name: "must be a number"

	order  int  // Field.order; errors of the whole object come last
	unread bool // Read has found the fault
}

// Field is one member of the object, with its control. Texts of the peer are bounded.
type Field struct {
	ID  string // unique in the form, for example "f12"
	Key string // the path of the member, for the names of the controls

	Name     string // the whole name of the member
	Title    string // "" for none
	Label    string // what a person reads first: Name, or Title if Options.Titles asks for it
	About    string // the description; "" for none
	Type     string // the type with its limits: "integer, 1 to 100"
	Default  string // the default value as JSON; "" for none
	Hint     string // an example of the format; "" for none
	Example  string // JSON: a value of the type, as JSON text; "" for none
	Required bool
	Kind     Kind
	Whole    bool // Number and List: only integers
	Numbers  bool // List: the elements are numbers

	Text    string   // the text of the control
	Options []Option // the options of Choice, Yes and Many
	// Empty is what an empty control means now. Empties lists all possible meanings. If the list is
	// empty, the only meaning is NotSent.
	Empty   string
	Empties []string
	Fields  []*Field // the fields of Group
	Error   string   // the fault of the value; "" for none

	pointer string
	order   int  // counts all fields from 1, in the order of the page
	unread  bool // the value has no valid syntax
}

// Option is one of the choices of a field.
type Option struct {
	Value    string // the JSON value
	Title    string // text for people
	Selected bool
}

// Options are the options of Make.
type Options struct {
	// ID is the beginning of the ids of the fields, so that a page can have several forms. "" means
	// "f".
	ID string
	// Defaults fills in the default values. If it is false, default values are not sent, and the
	// server applies them.
	Defaults bool
	// Titles makes the title of a field its label, as in a question to a user. A field without a
	// title keeps its name as label.
	Titles bool
}

// Chosen reports whether an option is selected.
func (f *Field) Chosen() bool {
	return slices.ContainsFunc(f.Options, func(o Option) bool { return o.Selected })
}

// maker makes the fields of one form.
type maker struct {
	Options
	fields  int
	made    int // fields that were made, the last of which has this number
	refused int // groups that had too many members
	size    int // bytes of the schema
	work    int // bytes that were searched, an estimate

	examples schema.Examples
	types    schema.TypeFinder
}

// Make returns the form of a schema of an object. It never fails: a schema that cannot have fields
// gets a form with JSON text.
func Make(raw []byte, o Options) *Form {
	f := &Form{}
	whole := func(why string) *Form {
		return &Form{Whole: true, Text: "{}", Why: why}
	}
	if len(raw) == 0 {
		return f
	}
	if len(raw) > maxSchema || jsonrpc.Valid(raw, jsonrpc.Limits{Bytes: maxSchema, Depth: maxNesting}) != nil {
		return whole("The schema is too large or too deep for a form.")
	}
	v := plain(schema.Of(raw, jsonrpc.Whole(raw)))
	if v.IsZero() || jsonrpc.ValueOf(v.Raw()).Kind() != '{' {
		return whole("The schema refers to another document or to itself.")
	}
	if t := v.Types(); t != 0 && t&schema.Object == 0 {
		return whole("The schema does not describe an object.")
	}
	m := &maker{Options: o, size: len(raw)}
	var ok bool
	if f.Fields, ok = m.group(v, "", 0); !ok {
		return whole("The schema has more than " + strconv.Itoa(maxFields) + " members.")
	}
	if len(f.Fields) == 0 && open(v) {
		return whole("The schema does not list the members of the object.")
	}
	return f
}

// open reports whether an object can have members that its schema does not list by name.
func open(v schema.View) bool {
	return len(v.Alternatives()) > 0 || len(v.All()) > 0 || jsonrpc.ValueOf(v.JSON("patternProperties")).Kind() != 0 ||
		jsonrpc.ValueOf(v.JSON("additionalProperties")).Kind() == '{' || jsonrpc.ValueOf(v.JSON("additionalProperties")).Kind() == 't'
}

// plain follows references, and each allOf that contains one schema. Generators write such schemas.
func plain(v schema.View) schema.View {
	for range maxGroups {
		v = v.Target()
		all := v.All()
		if len(all) != 1 || v.JSON("properties") != nil || v.JSON("type") != nil {
			break
		}
		v = all[0]
	}
	return v.Target()
}

// group returns the fields of an object. ok is false if there are too many of them.
func (m *maker) group(v schema.View, key string, depth int) (fields []*Field, ok bool) {
	all := v.Properties()
	if m.fields += len(all); m.fields > maxFields {
		return nil, false
	}
	slices.SortStableFunc(all, func(a, b schema.Property) int {
		if a.Required == b.Required {
			return 0
		}
		if a.Required {
			return -1
		}
		return 1
	})
	for i := range all {
		fields = append(fields, m.field(&all[i], key, depth, len(fields)))
	}
	return fields, true
}

// field returns the field of a property. i is the position of the field in its group.
func (m *maker) field(p *schema.Property, key string, depth, i int) *Field {
	f := &Field{Name: p.Name, Required: p.Required, Key: key + "/" + step(p.Name), pointer: key + "/" + pointerStep(p.Name)}
	m.made++
	f.Label, f.order = f.Name, m.made
	f.ID = idOf(cmp.Or(m.ID, "f"), key, i)
	if p.JSON("$ref") != nil || p.JSON("allOf") != nil {
		m.work += 2 * m.size // references lead through the whole schema
	}
	if m.work > maxWork {
		f.Kind, f.Type = JSON, "any JSON value"
		return f
	}
	to := plain(p.View)
	m.work += 30 * len(to.Raw()) // about the number of member lookups in the rest of this function
	text := func(name string, limit int) string {
		s := p.Text(name) // a member beside a reference has precedence
		if s == "" {
			s = to.Text(name)
		}
		return excerpt.Cut(s, limit)
	}
	f.Title, f.About = text("title", maxName), text("description", maxAbout)
	if m.Titles && f.Title != "" {
		f.Label = f.Title
	}
	usual := p.JSON("default")
	if usual == nil {
		usual = to.JSON("default")
	}
	f.Default = excerpt.Cut(string(usual), maxValue)
	nullable := false
	if rest, null := m.unwrapNull(to); null {
		nullable, to = true, plain(rest)
	}
	if m.control(f, to, nullable, depth, i); f.Kind == JSON {
		f.Example = m.example(to, p.Name)
	}
	f.Type = excerpt.Cut(f.Type, maxType)
	switch {
	case m.Defaults && usual != nil:
		f.fill(usual)
	case f.Kind == Choice && f.Required && len(f.Options) == 1:
		f.Options[0].Selected = true // only one value is possible
	}
	return f
}

// example returns a short value for a schema, as a person types it. It returns "" if there is none.
func (m *maker) example(v schema.View, name string) string {
	if len(v.Raw()) > exampleOf || m.types.Types(v) == 0 {
		return ""
	}
	value := excerpt.JSON(m.examples.ExampleShape(v, name))
	if len(value) > maxValue || string(value) == "{}" || string(value) == "null" {
		return ""
	}
	return string(value)
}

// idOf returns the id of a field: its position in each group that contains it.
func idOf(id, key string, i int) string {
	if key != "" {
		// Names of groups can be long or have unusual characters, so an id has a hash of them.
		h := uint64(14695981039346656037)
		for _, c := range []byte(key) {
			h = (h ^ uint64(c)) * 1099511628211
		}
		id += strconv.FormatUint(h, 36) + "-"
	}
	return id + strconv.Itoa(i+1)
}

// step returns a name as a part of the names of controls. The result has no invisible characters,
// and none that a browser would change, such as line ends and invalid UTF-8.
func step(name string) string {
	quoted := excerpt.JSON(jsonrpc.AppendQuote(nil, name))
	return strings.NewReplacer("~", "~0", "/", "~1").Replace(string(quoted[1 : len(quoted)-1]))
}

// shown returns a text with escapes for characters that a person cannot see. A browser shows the
// titles of options as they are.
func shown(text string) string {
	quoted := jsonrpc.AppendQuote(nil, text)
	if safe := excerpt.JSON(quoted); len(safe) != len(quoted) {
		return string(safe)
	}
	return text
}

// pointerStep returns a name as a part of a JSON pointer (RFC 6901).
func pointerStep(name string) string {
	return strings.NewReplacer("~", "~0", "/", "~1").Replace(excerpt.Cut(name, maxName))
}

// unwrapNull returns the other schema and true if v is a choice between null and one other schema.
// Otherwise it returns v and false.
func (m *maker) unwrapNull(v schema.View) (schema.View, bool) {
	alternatives := v.Alternatives()
	if len(alternatives) != 2 {
		return v, false
	}
	for i := range alternatives {
		if m.types.Types(alternatives[i]) == schema.Null && m.types.Types(alternatives[1-i]) != schema.Null {
			return alternatives[1-i], true
		}
	}
	return v, false
}

// control chooses the control of a field.
func (m *maker) control(f *Field, v schema.View, nullable bool, depth, i int) {
	types := m.types.Types(v)
	if types&schema.Null != 0 && types != schema.Null {
		nullable = true
		types &^= schema.Null
	}
	kindText, limits := "any JSON value", []string(nil)
	f.Kind = JSON
	choices := v.Choices()
	switch {
	case v.IsZero():
		kindText = "JSON, because its schema is not in this document"
	case len(choices) > 0 && len(choices) <= maxChoices && scalars(choices):
		f.Kind, f.Options, kindText = Choice, options(choices), "enum"
		if v.JSON("enum") == nil && v.JSON("const") != nil {
			kindText = "constant"
		}
		nullable = nullable && !slices.ContainsFunc(f.Options, func(o Option) bool { return o.Value == "null" })
	case types == schema.String:
		kindText, limits = "string", textLimits(v, f.Required)
		f.Kind = textKind(v)
		f.Hint = hints[v.Text("format")]
		if least, _ := v.Int("minLength"); least <= 0 && v.Text("format") == "" {
			f.Empties = append(f.Empties, Blank)
		}
	case types == schema.Integer, types == schema.Number, types == schema.Integer|schema.Number:
		f.Kind, kindText, f.Whole = Number, "number", types == schema.Integer
		if f.Whole {
			kindText = "integer"
		}
		limits = numberLimits(v)
	case types == schema.Boolean:
		f.Kind, kindText = Yes, "boolean"
		f.Options = []Option{{Value: "true", Title: "true"}, {Value: "false", Title: "false"}}
	case types == schema.Null:
		f.Kind, kindText, f.Options = Choice, "null", []Option{{Value: "null", Title: "null"}}
	case types == schema.Array:
		kindText, limits = m.array(f, v)
	case types == schema.Object:
		kindText = "object"
		if depth+1 >= maxGroups || m.refused >= maxRefused || open(v) && v.JSON("properties") == nil || len(v.Alternatives()) > 0 || len(v.All()) > 0 {
			break
		}
		before := m.fields
		fields, ok := m.group(v, f.Key, depth+1)
		if !ok {
			m.fields = before
			m.refused++ // bounded by maxRefused, because counting the members of a group takes long
			break
		}
		if len(fields) > 0 {
			f.Kind, f.Fields = Group, fields
			if !f.Required {
				f.Empties = append(f.Empties, Blank)
			}
		}
	case types != 0:
		kindText = strings.Join(types.Names(), " or ")
	}
	if nullable {
		switch f.Kind {
		case Choice, Yes:
			f.Options = append(f.Options, Option{Value: "null", Title: "null"})
		case JSON:
		default:
			f.Empties = append(f.Empties, Null)
		}
		kindText += " or null"
	}
	if len(f.Empties) > 0 {
		f.Empties = append([]string{NotSent}, f.Empties...)
	}
	f.Type = strings.Join(append([]string{kindText}, limits...), ", ")
}

// array chooses the control of an array.
func (m *maker) array(f *Field, v schema.View) (kindText string, limits []string) {
	items := plain(v.Items())
	least, _ := v.Int("minItems")
	limits = span(v, "minItems", "maxItems", " element")
	choices := items.Choices()
	switch types := m.types.Types(items); {
	case len(choices) > 0 && len(choices) <= maxSeveral && scalars(choices):
		f.Kind, f.Options, kindText = Many, options(choices), "some of the values"
	case types == schema.String:
		f.Kind, kindText = List, "array of strings"
	case types == schema.Integer:
		f.Kind, f.Whole, f.Numbers, kindText = List, true, true, "array of integers"
	case types == schema.Number, types == schema.Number|schema.Integer:
		f.Kind, f.Numbers, kindText = List, true, "array of numbers"
	case types == schema.Object:
		return "array of objects", limits
	default:
		return "array", limits
	}
	if least <= 0 {
		f.Empties = append(f.Empties, Blank)
	}
	return kindText, limits
}

// scalars reports whether all choices are texts, numbers, booleans or null.
func scalars(all []schema.Choice) bool {
	for _, c := range all {
		if kind := jsonrpc.ValueOf(c.Value).Kind(); kind == '{' || kind == '[' || len(c.Value) > maxAbout {
			return false
		}
	}
	return true
}

func options(all []schema.Choice) (out []Option) {
	for _, c := range all {
		o := Option{Value: string(excerpt.JSON(c.Value)), Title: excerpt.Cut(shown(c.Title), maxValue)}
		if o.Title == "" {
			text, ok := jsonrpc.ValueOf(c.Value).Text()
			if !ok || strings.TrimSpace(text) == "" {
				text = o.Value
			}
			o.Title = excerpt.Cut(shown(jsonrpc.Shown(text)), maxValue)
		}
		if !slices.ContainsFunc(out, func(x Option) bool { return x.Value == o.Value }) {
			out = append(out, o)
		}
	}
	return out
}

// hints are examples of formats that people do not know by heart.
var hints = map[string]string{
	"date-time": "2026-11-22T14:30:00Z", "time": "14:30:00Z", "duration": "PT30M", "email": "name@example.com", "uri": "https://example.com/",
	"ipv4": "192.0.2.1", "uuid": "123e4567-e89b-12d3-a456-426614174000", "hostname": "example.com",
}

// textKind returns the control of a string.
func textKind(v schema.View) Kind {
	switch v.Text("format") {
	case "date":
		return Date
	case "password":
		return Secret
	case "multiline", "textarea", "markdown":
		return Long
	}
	if most, ok := v.Int("maxLength"); ok && most >= longText || v.Text("contentMediaType") != "" {
		return Long
	}
	return Text
}

func textLimits(v schema.View, required bool) []string {
	out := span(v, "minLength", "maxLength", " character")
	if required && len(out) == 1 && out[0] == "at least 1 character" {
		out = nil // the word "required" already has this meaning
	}
	if format := v.Text("format"); format != "" {
		out = append(out, excerpt.Line(format, maxName))
	}
	if pattern := v.Text("pattern"); pattern != "" {
		out = append(out, "pattern "+excerpt.Line(pattern, maxName))
	}
	return out
}

func numberLimits(v schema.View) []string {
	out := span(v, "minimum", "maximum", "")
	for _, x := range [][2]string{{"exclusiveMinimum", "more than "}, {"exclusiveMaximum", "less than "}, {"multipleOf", "a multiple of "}} {
		if n := numberOf(v, x[0]); n != "" {
			out = append(out, x[1]+n)
		}
	}
	return out
}

// numberOf returns a member that is a number, as the schema writes it.
func numberOf(v schema.View, key string) string {
	if n := jsonrpc.ValueOf(v.JSON(key)); n.Kind() == '0' {
		return excerpt.Cut(string(n.Raw()), 40)
	}
	return ""
}

// span describes two limits: "1 to 100", "at least 1 element".
func span(v schema.View, least, most, unit string) []string {
	from, to := numberOf(v, least), numberOf(v, most)
	if unit != "" && from == "0" {
		from = ""
	}
	if unit != "" && to != "1" && (to != "" || from != "1") {
		unit += "s"
	}
	switch {
	case from != "" && from == to:
		return []string{"exactly " + from + unit}
	case from != "" && to != "":
		return []string{from + " to " + to + unit}
	case from != "":
		return []string{"at least " + from + unit}
	case to != "":
		return []string{"at most " + to + unit}
	}
	return nil
}
