package oauth

import (
	"context"
	"fmt"
	"net/http"
	"strconv"
	"strings"

	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
)

// limits bound each document and answer of a peer. The largest metadata that we know, of identity providers
// with hundreds of scopes, has 20 KiB.
var limits = jsonrpc.Limits{Bytes: 256 << 10, Depth: 16, Tokens: 16384}

// document is a JSON object of a peer. Its methods read members, for which null is the same as absence, and
// remember the first that has another type than it should.
type document struct {
	v   jsonrpc.Value
	err error
}

// parse reads raw as one JSON object in which no name occurs twice.
func parse(raw []byte) (*document, error) {
	if err := jsonrpc.Valid(raw, limits); err != nil {
		return nil, err
	}
	d := &document{v: jsonrpc.ValueOf(raw)}
	if d.v.Kind() != '{' {
		return nil, fmt.Errorf("it is not a JSON object")
	}
	return d, nil
}

func (d *document) member(name string) (v jsonrpc.Value, ok bool) {
	v = d.v.Get(name)
	return v, !v.Absent() && v.Kind() != 'n'
}

func (d *document) wrong(name, want string) {
	if d.err == nil {
		d.err = fmt.Errorf("its %s is not %s", name, want)
	}
}

// text returns a string, or "" if there is none.
func (d *document) text(name string) string {
	v, ok := d.member(name)
	if !ok {
		return ""
	}
	s, ok := v.Text()
	if !ok {
		d.wrong(name, "a string")
	}
	return s
}

// list returns an array of strings. It is nil if there is none, and not nil if there is an empty one.
func (d *document) list(name string) []string {
	v, ok := d.member(name)
	if !ok {
		return nil
	}
	all := []string{}
	if v.Kind() != '[' {
		d.wrong(name, "an array of strings")
	}
	for x := range v.Elements() {
		s, ok := x.Text()
		if !ok {
			d.wrong(name, "an array of strings")
		}
		all = append(all, s)
	}
	return all
}

func (d *document) flag(name string) bool {
	v, ok := d.member(name)
	if !ok {
		return false
	}
	b, ok := v.Bool()
	if !ok {
		d.wrong(name, "true or false")
	}
	return b
}

// seconds returns a whole number. Some issuers, Entra's first version among them, write it as a string.
func (d *document) seconds(name string) (n int64, ok bool) {
	v, ok := d.member(name)
	if !ok {
		return 0, false
	}
	n, ok = v.Int()
	if s, text := v.Text(); text {
		var err error
		n, err = strconv.ParseInt(s, 10, 64)
		ok = err == nil
	}
	if !ok {
		d.wrong(name, "a whole number")
	}
	return n, ok
}

// get fetches a document, which what names in errors. missing means that there is none at this URL: a
// status of 4xx, but not one that asks us to try again later.
func get(ctx context.Context, d Doer, at, what string) (raw []byte, missing bool, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, at, nil)
	if err != nil {
		return nil, false, fault(DocumentInvalid, at, "%s has no valid URL", what)
	}
	req.Header.Set("Accept", "application/json")
	a, err := d.Do(ctx, req)
	switch {
	case err != nil:
		return nil, false, undone(at, DocumentInvalid, err)
	case a.Status == http.StatusOK && isMarkup(a):
		return nil, false, fault(DocumentNotJSON, at, "%s at %s is a web page and not JSON", what, show(at)).
			next("ask whoever runs it to serve the JSON document there, or to answer 404")
	case a.Status == http.StatusOK:
		return a.Body, false, nil
	case isWeather(a.Status):
		return nil, false, trouble(at, a)
	case a.Status/100 == 4:
		return nil, true, nil
	case a.Status/100 == 3:
		return nil, false, fault(DocumentMoved, at, "%s at %s is a redirect that we don't follow (HTTP %d)", what, show(at), a.Status)
	}
	return nil, false, fault(DocumentInvalid, at, "%s at %s was answered with HTTP %d", what, show(at), a.Status)
}

// isMarkup reports whether an answer is a page for people.
func isMarkup(a *Answer) bool {
	return strings.HasPrefix(strings.ToLower(a.Header.Get("Content-Type")), "text/html") ||
		strings.HasPrefix(strings.TrimLeft(string(a.Body[:min(len(a.Body), 64)]), "\ufeff \t\r\n"), "<")
}

// broken returns the Fault of a document that can't be read.
func broken(at, what string, err error) *Fault {
	f := fault(DocumentInvalid, at, "%s at %s can't be used: %v", what, show(at), err)
	return f.next("ask whoever runs it to mend the document")
}
