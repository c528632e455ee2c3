package tab

import (
	"net/http"
	"net/url"
	"strings"

	"golang.org/x/net/html"
)

// document has the parts of a page that lead to others.
type document struct {
	forms   []*form
	links   []button
	refresh string // the URL of a meta refresh
}

type form struct {
	method, action string
	fields         url.Values
	buttons        []button
}

// button is a button of a form, or a link, whose action is its address.
type button struct{ name, value, text, action string }

func read(p *Page) (*document, error) {
	root, err := html.Parse(strings.NewReader(p.Body))
	if err != nil {
		return nil, err
	}
	d := &document{}
	d.walk(root, nil)
	return d, nil
}

func (d *document) walk(n *html.Node, f *form) {
	if n.Type == html.ElementNode {
		f = d.element(n, f)
	}
	for c := range n.ChildNodes() {
		d.walk(c, f)
	}
}

// element takes what a visit needs from one element, and returns the form that its children are in.
func (d *document) element(n *html.Node, f *form) *form {
	a := attributes(n)
	switch n.Data {
	case "form":
		f = &form{method: strings.ToUpper(a["method"]), action: a["action"], fields: url.Values{}}
		d.forms = append(d.forms, f)
	case "a":
		if a["href"] != "" {
			d.links = append(d.links, button{text: text(n), action: a["href"]})
		}
	case "meta":
		if _, to, ok := strings.Cut(strings.ToLower(a["content"]), "url="); ok && strings.EqualFold(a["http-equiv"], "refresh") {
			d.refresh = a["content"][len(a["content"])-len(to):]
		}
	}
	if f == nil {
		return nil
	}
	_, disabled := a["disabled"]
	switch kind := strings.ToLower(a["type"]); {
	case disabled:
	case n.Data == "button" && (kind == "" || kind == "submit"), n.Data == "input" && (kind == "submit" || kind == "image"):
		f.buttons = append(f.buttons, button{a["name"], a["value"], text(n), a["formaction"]})
	case n.Data == "input" && a["name"] != "":
		_, checked := a["checked"]
		if box := kind == "checkbox" || kind == "radio"; !box || checked {
			f.fields.Add(a["name"], or(a["value"], box, "on"))
		}
	case n.Data == "textarea":
		f.fields.Add(a["name"], text(n))
	case n.Data == "option":
		d.option(n, f, a)
	}
	return f
}

// option takes the selected option of a list, or its first.
func (d *document) option(n *html.Node, f *form, a map[string]string) {
	list := n.Parent
	for list != nil && list.Data != "select" {
		list = list.Parent
	}
	if list == nil {
		return
	}
	name := attributes(list)["name"]
	_, selected := a["selected"]
	value, given := a["value"]
	if !given {
		value = text(n)
	}
	if selected || !f.fields.Has(name) {
		f.fields.Set(name, value)
	}
}

func or(value string, box bool, instead string) string {
	if value == "" && box {
		return instead
	}
	return value
}

// press returns the navigation that the script makes on this page, or nil if it has nothing to press.
func (d *document) press(r *request, at *url.URL, s Script) (*request, error) {
	for _, wanted := range s.Press {
		for _, f := range d.forms {
			for _, b := range f.buttons {
				if b.is(wanted) {
					return f.submit(r, at, b, s)
				}
			}
		}
		for _, l := range d.links {
			if l.is(wanted) {
				return visit(r, at, l.action)
			}
		}
	}
	for _, f := range d.forms {
		for _, b := range f.buttons {
			return f.submit(r, at, b, s)
		}
	}
	if d.refresh != "" {
		return visit(r, at, d.refresh)
	}
	return nil, nil
}

func (b button) is(wanted string) bool {
	return strings.Contains(b.text, wanted) || b.value == wanted
}

func (f *form) submit(r *request, at *url.URL, b button, s Script) (*request, error) {
	action := f.action
	if b.action != "" {
		action = b.action
	}
	to, err := at.Parse(action)
	if err != nil {
		return nil, err
	}
	if b.name != "" {
		f.fields.Add(b.name, b.value)
	}
	for name, value := range s.Fill {
		if f.fields.Has(name) {
			f.fields.Set(name, value)
		}
	}
	if f.method == http.MethodPost {
		return r.to(f.method, to, f.fields.Encode(), at), nil
	}
	to.RawQuery = f.fields.Encode()
	return r.to(http.MethodGet, to, "", at), nil
}

func visit(r *request, at *url.URL, link string) (*request, error) {
	to, err := at.Parse(strings.Trim(link, `'" `))
	if err != nil {
		return nil, err
	}
	return r.to(http.MethodGet, to, "", at), nil
}

func attributes(n *html.Node) map[string]string {
	all := map[string]string{}
	for _, a := range n.Attr {
		all[a.Key] = a.Val
	}
	return all
}

// text returns the text of an element and of those in it.
func text(n *html.Node) string {
	var b strings.Builder
	for c := range n.Descendants() {
		if c.Type == html.TextNode {
			b.WriteString(c.Data)
		}
	}
	return strings.Join(strings.Fields(b.String()), " ")
}
