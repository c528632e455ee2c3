package requirements

import (
	"encoding/xml"
	"fmt"
	"io"
	"strings"

	"github.com/dragoman-mcp/dragoman/internal/server/requirements/store"
)

// Identifiers of the definitions in a ReqIF file. They are the same in all files, so that a tool
// that imports several files recognises the definitions.
const (
	reqifNamespace = "http://www.omg.org/spec/ReqIF/20110401/reqif.xsd"
	textType       = "dt-text"
	itemType       = "st-item"
	relationTypes  = "rt-"
	specType       = "st-specification"
)

// reqifEnum is an attribute of an item with a fixed set of values.
type reqifEnum struct {
	name   string
	values []string
	of     func(store.Item) string
}

func reqifEnums() []reqifEnum {
	return []reqifEnum{
		{"Kind", strs(store.Kinds()), func(it store.Item) string { return string(it.Kind) }},
		{"Status", strs(statuses()), func(it store.Item) string { return string(it.Status) }},
		{"Type", store.Types(), func(it store.Item) string { return it.Type }},
		{"Priority", store.Priorities(), func(it store.Item) string { return it.Priority }},
	}
}

// reqifTexts are the text attributes of an item, with the names that requirements tools know.
var reqifTexts = []struct {
	name string
	of   func(store.Item) string
}{
	{"ReqIF.ForeignID", func(it store.Item) string { return it.ID }},
	{"ReqIF.Name", func(it store.Item) string { return it.Title }},
	{"ReqIF.Text", func(it store.Item) string { return it.Description }},
}

func strs[T ~string](all []T) []string {
	list := make([]string, len(all))
	for i, one := range all {
		list[i] = string(one)
	}
	return list
}

// node is an XML element.
type node struct {
	XMLName  xml.Name
	Attrs    []xml.Attr `xml:",any,attr"`
	Text     string     `xml:",chardata"`
	Children []*node
}

// element returns an XML element. attrs contains names and values in turn.
func element(name string, attrs []string, children ...*node) *node {
	n := &node{XMLName: xml.Name{Local: name}, Children: children}
	for i := 0; i+1 < len(attrs); i += 2 {
		n.Attrs = append(n.Attrs, xml.Attr{Name: xml.Name{Local: attrs[i]}, Value: attrs[i+1]})
	}
	return n
}

// leaf returns an XML element that contains only a text.
func leaf(name, text string) *node { return &node{XMLName: xml.Name{Local: name}, Text: text} }

// named returns the XML attributes that identify an object: its identifier, its name and the time
// of its last change.
func named(id, name, changed string) []string {
	return []string{"IDENTIFIER", id, "LONG-NAME", name, "LAST-CHANGE", changed}
}

// writeReqIF writes a ReqIF file. The version in the file is 1.0, because later versions of the
// standard keep this number. Items become spec objects with texts and enumerations, relations
// become spec relations, and the hierarchy becomes one specification. Comments become an attribute
// of their item, because ReqIF has no comments.
func writeReqIF(w io.Writer, d store.Dump, version string) error {
	defined := "2026-11-22T00:00:00Z" // the time of the definitions, which are the same in each file
	latest := defined
	for _, it := range d.Items {
		latest = max(latest, it.Updated)
	}
	remarks := map[string][]string{}
	for _, c := range d.Comments {
		state := "open"
		if c.Resolved {
			state = "resolved"
		}
		remarks[c.Item] = append(remarks[c.Item], fmt.Sprintf("%s %s (%s, %s): %s", c.ID, c.Author.Name, c.Created, state, c.Text))
	}

	datatypes, types := reqifTypes(defined)
	objects := []*node{}
	for _, it := range d.Items {
		objects = append(objects, reqifObject(it, strings.Join(remarks[it.ID], "\n\n")))
	}
	relations := []*node{}
	for _, r := range d.Relations {
		relations = append(relations, element("SPEC-RELATION", []string{"IDENTIFIER", r.ID, "LAST-CHANGE", r.Created},
			element("TYPE", nil, leaf("SPEC-RELATION-TYPE-REF", relationTypes+r.Type)),
			element("SOURCE", nil, leaf("SPEC-OBJECT-REF", r.Source)), element("TARGET", nil, leaf("SPEC-OBJECT-REF", r.Target))))
	}
	specification := element("SPECIFICATION", named("specification", "Requirements", latest),
		element("TYPE", nil, leaf("SPECIFICATION-TYPE-REF", specType)), hierarchy(d))

	header := element("REQ-IF-HEADER", []string{"IDENTIFIER", "header"},
		leaf("CREATION-TIME", latest), leaf("REQ-IF-TOOL-ID", "dragoman "+version), leaf("REQ-IF-VERSION", "1.0"),
		leaf("SOURCE-TOOL-ID", "dragoman server requirements"), leaf("TITLE", "Requirements"))
	content := element("REQ-IF-CONTENT", nil,
		element("DATATYPES", nil, datatypes...), element("SPEC-TYPES", nil, types...), element("SPEC-OBJECTS", nil, objects...),
		element("SPEC-RELATIONS", nil, relations...), element("SPECIFICATIONS", nil, specification))
	file := element("REQ-IF", []string{"xmlns", reqifNamespace},
		element("THE-HEADER", nil, header), element("CORE-CONTENT", nil, content))
	if _, err := io.WriteString(w, xml.Header); err != nil {
		return err
	}
	enc := xml.NewEncoder(w)
	enc.Indent("", "  ")
	if err := enc.Encode(file); err != nil {
		return err
	}
	_, err := io.WriteString(w, "\n")
	return err
}

// reqifTypes returns the definitions of the data types, and of the types of items, relations and the
// specification. defined is the time of their last change.
func reqifTypes(defined string) (datatypes, types []*node) {
	datatypes = []*node{element("DATATYPE-DEFINITION-STRING", append(named(textType, "Text", defined), "MAX-LENGTH", fmt.Sprint(64<<20)))}
	attributes := []*node{}
	for _, a := range append(textNames(), "Comments") {
		attributes = append(attributes, element("ATTRIBUTE-DEFINITION-STRING", named("ad-"+a, a, defined),
			element("TYPE", nil, leaf("DATATYPE-DEFINITION-STRING-REF", textType))))
	}
	for _, e := range reqifEnums() {
		id := "dt-" + e.name
		values := []*node{}
		for i, v := range e.values {
			values = append(values, element("ENUM-VALUE", named("ev-"+e.name+"-"+v, v, defined),
				element("PROPERTIES", nil, element("EMBEDDED-VALUE", []string{"KEY", fmt.Sprint(i), "OTHER-CONTENT", v}))))
		}
		datatypes = append(datatypes, element("DATATYPE-DEFINITION-ENUMERATION", named(id, e.name, defined), element("SPECIFIED-VALUES", nil, values...)))
		attributes = append(attributes, element("ATTRIBUTE-DEFINITION-ENUMERATION", append(named("ad-"+e.name, e.name, defined), "MULTI-VALUED", "false"),
			element("TYPE", nil, leaf("DATATYPE-DEFINITION-ENUMERATION-REF", id))))
	}
	types = []*node{element("SPEC-OBJECT-TYPE", named(itemType, "Item", defined), element("SPEC-ATTRIBUTES", nil, attributes...))}
	for _, r := range store.RelationTypes() {
		types = append(types, element("SPEC-RELATION-TYPE", named(relationTypes+r, r, defined)))
	}
	types = append(types, element("SPECIFICATION-TYPE", named(specType, "Specification", defined)))
	return datatypes, types
}

func textNames() []string {
	names := []string{}
	for _, a := range reqifTexts {
		names = append(names, a.name)
	}
	return names
}

func reqifObject(it store.Item, comments string) *node {
	values := []*node{}
	value := func(name, text string) {
		if text != "" {
			values = append(values, element("ATTRIBUTE-VALUE-STRING", []string{"THE-VALUE", text},
				element("DEFINITION", nil, leaf("ATTRIBUTE-DEFINITION-STRING-REF", "ad-"+name))))
		}
	}
	for _, a := range reqifTexts {
		value(a.name, a.of(it))
	}
	value("Comments", comments)
	for _, e := range reqifEnums() {
		if v := e.of(it); v != "" {
			values = append(values, element("ATTRIBUTE-VALUE-ENUMERATION", nil,
				element("DEFINITION", nil, leaf("ATTRIBUTE-DEFINITION-ENUMERATION-REF", "ad-"+e.name)),
				element("VALUES", nil, leaf("ENUM-VALUE-REF", "ev-"+e.name+"-"+v))))
		}
	}
	return element("SPEC-OBJECT", named(it.ID, it.Title, it.Updated),
		element("TYPE", nil, leaf("SPEC-OBJECT-TYPE-REF", itemType)), element("VALUES", nil, values...))
}

// hierarchy returns the items as a tree of XML elements.
func hierarchy(d store.Dump) *node {
	top := element("CHILDREN", nil)
	path := []*node{top} // for each depth, the element that gets the next item
	walk(d, "", func(it store.Item, depth int) bool {
		n := element("SPEC-HIERARCHY", []string{"IDENTIFIER", "h-" + it.ID, "LAST-CHANGE", it.Updated},
			element("OBJECT", nil, leaf("SPEC-OBJECT-REF", it.ID)))
		if depth > 0 && len(path) == depth { // the item is the first child of its parent
			parent := path[depth-1].Children[len(path[depth-1].Children)-1]
			children := element("CHILDREN", nil)
			parent.Children = append(parent.Children, children)
			path = append(path, children)
		}
		path = path[:depth+1]
		path[depth].Children = append(path[depth].Children, n)
		return true
	})
	return top
}
