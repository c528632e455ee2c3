package form

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	"github.com/dragoman-mcp/dragoman/internal/base/excerpt"
	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/protocol/schema"
)

// The limits of a form. Each comment says what the limit counts.
const (
	maxSchema  = 256 << 10 // bytes of a schema; a larger schema gets JSON text instead of fields
	maxNesting = 64        // levels of a schema; a deeper schema gets JSON text instead of fields
	maxFields  = 200       // fields of a form, including the fields in groups
	maxWork    = 8 << 20   // bytes of the schema that Make searches, an estimate; after that, fields are JSON text
	maxGroups  = 4         // levels of groups
	maxRefused = 8         // groups that have too many members; after that, objects are JSON text
	maxChoices = 500       // choices of one field
	maxSeveral = 100       // choices of a field of the kind Many
	maxName    = 200       // bytes of a name
	maxAbout   = 2 << 10   // bytes of a description
	maxType    = 300       // bytes of a type
	maxValue   = 200       // bytes of a default value, of an example, or of a choice's title
	exampleOf  = 16 << 10  // bytes of the schema of a field; a field with a larger schema gets no example
	longText   = 200       // characters; a string whose maxLength is at least longText has the kind Long
)

// Kind is the kind of control of a field.
type Kind string

// The kinds of controls.
const (
	Text   Kind = "text"   // a text that usually has one line
	Long   Kind = "long"   // a text of many lines
	Secret Kind = "secret" // a password
	Date   Kind = "date"   // a date, as 2026-11-22
	Number Kind = "number" // a JSON number
	Choice Kind = "choice" // one of Field.Options
	Yes    Kind = "yes"    // a boolean; Field.Options has true and false
	Many   Kind = "many"   // an array of some of Field.Options
	List   Kind = "list"   // an array of texts or numbers, one on each line
	Group  Kind = "group"  // an object with Field.Fields
	JSON   Kind = "json"   // any JSON value, as text
)

// The values of Field.Empty. They say what an empty control means.
const (
	NotSent = ""      // the object does not have the member
	Blank   = "empty" // an empty text, array or object
	Null    = "null"  // null
)

// Form is a form for a JSON object.
type Form struct {
	// Fields lists the fields. It is empty if Whole is true, or if the object has no known members.
	Fields []*Field
	// If Whole is true, the user edits the object as the JSON text in Text. Why says in one sentence
	// why the schema cannot have fields. It is "" if the schema can have fields.
	Whole     bool
	Text, Why string
	// Errors lists the faults of the values, in the order of the fields.
	Errors []Error
}

// Error describes the fault of a value.
type Error struct {
	ID   string // the Field.ID of the field; "" if the fault is in no field
	Name string // the path of the member, such as "address/city"; "" for the whole object
	Text string // the fault, to read after Name: "must be a number"; a sentence if the JSON text in Form.Text is invalid

	order  int  // Field.order of the field; Report uses math.MaxInt for a fault that is in no field
	unread bool // Read has found the fault
}

// Field is one member of the object, with its control. Texts from the peer are shortened, except
// Name.
type Field struct {
	ID  string // unique in the form, for example "f12"
	Key string // the path of the member; part of the names of the controls

	Name     string // the name of the member
	Title    string // "" for none
	Label    string // the label of the control: Title if Options.Titles is true and there is a title, else Name
	About    string // the description; "" for none
	Type     string // the type with its limits: "integer, 1 to 100"
	Default  string // the default value as JSON; "" for none
	Hint     string // an example of the format; "" for none
	Example  string // only for the kind JSON: an example of a value, as JSON text; "" for none
	Required bool
	Kind     Kind
	Whole    bool // only for Number and List: the numbers must be integers
	Numbers  bool // only for List: the elements are numbers

	Text    string   // the text of the control
	Options []Option // the options of Choice, Yes and Many
	// Empty says what the control means if it is empty. Empties lists the meanings that the user can
	// choose from. If Empties has no elements, the only meaning is NotSent.
	Empty   string
	Empties []string
	Fields  []*Field // the fields of Group
	Error   string   // the fault of the value; "" for none

	pointer string
	order   int  // the number of the field in the form, starting at 1, in the order of the page
	unread  bool // Read could not read the value
}

// Option is one of the choices of a field.
type Option struct {
	Value    string // the JSON value
	Title    string // text for people
	Selected bool
}

// Options are the options of Make.
type Options struct {
	// ID is the prefix of the ids of the fields; "" means "f". A page with several forms needs a
	// different prefix for each form.
	ID string
	// If Defaults is true, Make fills in the default values. If it is false, the fields stay empty,
	// and the server applies the default values.
	Defaults bool
	// If Titles is true, the label of a field is its title. If a field has no title, the label is
	// the name.
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
	made    int // the number of fields so far; this is the Field.order of the last field
	refused int // the number of groups that had too many members
	size    int // bytes of the schema
	work    int // an estimate of the bytes of the schema that were searched so far

	examples schema.Examples
	types    schema.TypeFinder
}

// Make returns the form for raw, which is the schema of an object. It never fails: if the schema
// cannot have fields, the form has only JSON text.
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

// plain follows references, and each allOf that contains only one schema. Some schema generators
// write such an allOf.
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

// group returns the fields of an object. ok is false if the form would have too many fields.
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
		m.work += 2 * m.size // to follow a reference, plain searches the whole schema
	}
	if m.work > maxWork {
		f.Kind, f.Type = JSON, "any JSON value"
		return f
	}
	to := plain(p.View)
	m.work += 30 * len(to.Raw()) // the code below searches this schema about 30 times
	text := func(name string, limit int) string {
		s := p.Text(name) // a member beside $ref has precedence over the member in the target
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

// example returns a short example of a value for a schema, as JSON text. It returns "" if there is
// none.
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

// idOf returns the id of a field: the prefix id, a hash of key if the field is in a group, and the
// position of the field. key is the Key of the group.
func idOf(id, key string, i int) string {
	if key != "" {
		// The names of groups can be long or have unusual characters, so the id contains only a hash.
		h := uint64(14695981039346656037)
		for _, c := range []byte(key) {
			h = (h ^ uint64(c)) * 1099511628211
		}
		id += strconv.FormatUint(h, 36) + "-"
	}
	return id + strconv.Itoa(i+1)
}

// step returns a member name as one step of Field.Key. The result has no invisible characters, and
// no characters that a browser would change, such as line ends and invalid UTF-8.
func step(name string) string {
	quoted := excerpt.JSON(jsonrpc.AppendQuote(nil, name))
	return strings.NewReplacer("~", "~0", "/", "~1").Replace(string(quoted[1 : len(quoted)-1]))
}

// shown returns a text in which characters that a person cannot see are escaped. The titles of
// options need this, because a browser shows them without escapes.
func shown(text string) string {
	quoted := jsonrpc.AppendQuote(nil, text)
	if safe := excerpt.JSON(quoted); len(safe) != len(quoted) {
		return string(safe)
	}
	return text
}

// pointerStep returns a member name as one step of a JSON pointer (RFC 6901).
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

// control sets the kind of a field, and the members of Field that depend on the kind.
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
		m.object(f, v, depth)
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

// object does the same as control for an object. The field keeps its kind if a group of fields cannot
// express the object, or if the form has too many groups.
func (m *maker) object(f *Field, v schema.View, depth int) {
	if depth+1 >= maxGroups || m.refused >= maxRefused || open(v) && v.JSON("properties") == nil || len(v.Alternatives()) > 0 || len(v.All()) > 0 {
		return
	}
	before := m.fields
	fields, ok := m.group(v, f.Key, depth+1)
	if !ok {
		m.fields = before
		m.refused++ // maxRefused limits this number, because counting the members of a group takes long
		return
	}
	if len(fields) > 0 {
		f.Kind, f.Fields = Group, fields
		if !f.Required {
			f.Empties = append(f.Empties, Blank)
		}
	}
}

// array does the same as control for an array. It returns the description of the type, and the
// limits.
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

// scalars reports whether all choices are strings, numbers, booleans or null, and none is longer
// than maxAbout bytes.
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

// hints has an example for each format that people may not know by heart.
var hints = map[string]string{
	"date-time": "2026-11-22T14:30:00Z", "time": "14:30:00Z", "duration": "PT30M", "email": "name@example.com", "uri": "https://example.com/",
	"ipv4": "192.0.2.1", "uuid": "123e4567-e89b-12d3-a456-426614174000", "hostname": "example.com",
}

// textKind returns the kind of a field for a string.
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
		out = nil // the form shows the word "required", which means the same
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

// numberOf returns the number in the member key of a schema, as the schema writes it. It returns ""
// if the member is missing or is not a number.
func numberOf(v schema.View, key string) string {
	if n := jsonrpc.ValueOf(v.JSON(key)); n.Kind() == '0' {
		return excerpt.Cut(string(n.Raw()), 40)
	}
	return ""
}

// span describes a lower and an upper limit, for example "1 to 100" or "at least 1 element".
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
