package mirror

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"

	"github.com/dragoman-mcp/dragoman/internal/base/excerpt"
	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
)

const (
	annotation = "x-mcp-header"
	prefix     = "Mcp-Param-"
)

// MaxParams is the maximum number of mirrored parameters of one tool. The specification sets no
// limit, but HTTP implementations limit the total size of the headers.
const MaxParams = 64

// maxRepeated limits how many bytes of text from a peer are quoted in an error or a log.
const maxRepeated = 128

// Param is a parameter that is mirrored in a header.
type Param struct {
	Name string   // the value of x-mcp-header, which is the header name without Mcp-Param-
	Path []string // the path to the parameter's value in the arguments
	Type string   // "integer", "string" or "boolean"

	// Header is the whole header name, Mcp-Param-{Name}.
	Header string
}

// SchemaError is the reason why the x-mcp-header in a tool's inputSchema is invalid. A client of
// 2026-07-28 over HTTP must not accept such a tool.
type SchemaError struct {
	At     string // quoted JSON pointer to the schema that contains x-mcp-header, or "the root"
	Reason string
}

func (e *SchemaError) Error() string {
	return annotation + " at " + e.At + " " + e.Reason
}

// ParseParams returns the parameters that an inputSchema mirrors, in the order of the schema.
// schema is the span of the inputSchema in raw. ParseParams returns nil if the schema is absent or
// not an object. The error is a *SchemaError for the first annotation that violates a constraint of
// 2026-07-28 §Streamable HTTP, "Schema Extension". raw must have been scanned by package jsonrpc.
func ParseParams(raw []byte, schema jsonrpc.Span) ([]Param, error) {
	text := schema.Of(raw)
	if !bytes.Contains(text, []byte(annotation)) && bytes.IndexByte(text, '\\') < 0 {
		return nil, nil // fast path: most schemas do not contain x-mcp-header
	}
	p := parser{raw: raw}
	if err := p.schema(schema, nil, nil, true); err != nil {
		return nil, err
	}
	return p.params, nil
}

type parser struct {
	raw    []byte
	params []Param
}

// schema checks the schema s. at contains all names and indices on the way from the root to s, and
// path contains only the property names. reachable says that every keyword on the way is
// "properties". The recursion depth is bounded, because the scan of raw limits the nesting.
func (p *parser) schema(s jsonrpc.Span, at, path []string, reachable bool) error {
	for m := range jsonrpc.Members(p.raw, s) {
		key, _ := jsonrpc.Text(p.raw, m.Key)
		var err error
		switch key {
		case annotation:
			err = p.annotated(s, m.Value, at, path, reachable)
		case "const", "default", "enum", "example", "examples":
			// Skip these members, because they contain values instead of schemas.
		case "properties":
			for prop := range jsonrpc.Members(p.raw, m.Value) {
				name, _ := jsonrpc.Text(p.raw, prop.Key)
				if err = p.schema(prop.Value, grown(at, key, name), grown(path, name), reachable); err != nil {
					break
				}
			}
		case "patternProperties", "dependentSchemas", "dependencies", "$defs", "definitions":
			err = p.named(m.Value, grown(at, key))
		default:
			err = p.other(m.Value, grown(at, key))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// named checks an object whose members are schemas. The names of these members are not
// keywords.
func (p *parser) named(s jsonrpc.Span, at []string) error {
	for m := range jsonrpc.Members(p.raw, s) {
		name, _ := jsonrpc.Text(p.raw, m.Key)
		if err := p.other(m.Value, grown(at, name)); err != nil {
			return err
		}
	}
	return nil
}

// other checks a value that is a schema or contains schemas. It calls the method schema with
// reachable set to false.
func (p *parser) other(s jsonrpc.Span, at []string) error {
	switch jsonrpc.KindOf(p.raw, s) {
	case '{':
		return p.schema(s, at, nil, false)
	case '[':
		i := 0
		for e := range jsonrpc.Elements(p.raw, s) {
			if err := p.other(e, grown(at, strconv.Itoa(i))); err != nil {
				return err
			}
			i++
		}
	}
	return nil
}

// annotated checks one annotation of the schema s and records the parameter.
func (p *parser) annotated(s, value jsonrpc.Span, at, path []string, reachable bool) error {
	refuse := func(reason string) error {
		return &SchemaError{At: pointer(at), Reason: reason}
	}
	name, ok := jsonrpc.Text(p.raw, value)
	switch {
	case !ok:
		return refuse("is not a string")
	case name == "":
		return refuse("is empty")
	case !isToken(name):
		return refuse("is not a header name: " + strconv.Quote(excerpt.Cut(name, maxRepeated)))
	case !reachable:
		return refuse("has a path from the root with a keyword other than properties")
	case len(path) == 0:
		return refuse("must be on a property, not on the root of the schema")
	}
	typ, ok := jsonrpc.Text(p.raw, jsonrpc.Find(p.raw, s, "type"))
	switch {
	case !ok:
		return refuse("must be on a property with exactly one type: string, integer or boolean")
	case typ != "integer" && typ != "string" && typ != "boolean":
		return refuse("is on a property of type " + strconv.Quote(excerpt.Cut(typ, maxRepeated)))
	}
	for _, q := range p.params {
		if strings.EqualFold(q.Name, name) {
			return refuse(fmt.Sprintf("%q is used twice", excerpt.Cut(name, maxRepeated)))
		}
	}
	if len(p.params) == MaxParams {
		return refuse("exceeds the limit for one schema, which is " + strconv.Itoa(MaxParams) + " headers")
	}
	p.params = append(p.params, Param{Name: name, Path: path, Type: typ, Header: prefix + name})
	return nil
}

// grown returns path with names appended. The result shares no memory with path.
func grown(path []string, names ...string) []string {
	out := make([]string, 0, len(path)+len(names))
	return append(append(out, path...), names...)
}

func pointer(at []string) string {
	if len(at) == 0 {
		return "the root"
	}
	escape := strings.NewReplacer("~", "~0", "/", "~1")
	s := ""
	for _, name := range at {
		s += "/" + escape.Replace(name)
	}
	return strconv.Quote(excerpt.Cut(s, maxRepeated))
}

// isToken reports whether s is an HTTP token, which is 1*tchar (RFC 9110 §5.6.2).
func isToken(s string) bool {
	for i := range len(s) {
		switch c := s[i]; {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9':
		case strings.IndexByte("!#$%&'*+-.^_`|~", c) >= 0:
		default:
			return false
		}
	}
	return s != ""
}
