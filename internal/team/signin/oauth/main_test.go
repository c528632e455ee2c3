package oauth

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/dragoman-mcp/dragoman/internal/testkit/leaktest"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

// web answers requests by their URL and remembers them. A page is "STATUS body", a function, or an error.
type web struct {
	pages map[string]any
	asked []string     // method and URL
	forms []url.Values // of requests with a form
	heads []http.Header
}

func (w *web) Do(ctx context.Context, req *http.Request) (*Answer, error) {
	at := req.URL.String()
	w.asked = append(w.asked, req.Method+" "+at)
	w.heads = append(w.heads, req.Header)
	body := ""
	if req.Body != nil {
		raw, _ := io.ReadAll(req.Body)
		body = string(raw)
	}
	form, _ := url.ParseQuery(body)
	w.forms = append(w.forms, form)
	switch page := w.pages[at].(type) {
	case func(body string, req *http.Request) string:
		return answer(page(body, req), at), nil
	case string:
		return answer(page, at), nil
	case error:
		return nil, page
	}
	return answer("404 not found", at), nil
}

// answer makes an Answer of "STATUS body". A body may begin with header lines, each ended by a line feed.
func answer(page, at string) *Answer {
	a := &Answer{Header: http.Header{}, URL: at}
	status, body, _ := strings.Cut(page, " ")
	_, _ = fmt.Sscan(status, &a.Status)
	for {
		name, rest, ok := strings.Cut(body, ": ")
		line, after, end := strings.Cut(rest, "\n")
		if !ok || !end || strings.ContainsAny(name, " {<\"\n") {
			break
		}
		a.Header.Set(name, line)
		body = after
	}
	a.Body = []byte(body)
	return a
}

// codeOf names an error: the code of a Fault, the code of an Error, weather, or what it says.
func codeOf(err error) string {
	var f *Fault
	var e *Error
	switch {
	case err == nil:
		return ""
	case errors.As(err, &f):
		return string(f.Code)
	case Weather(err):
		return "weather"
	case errors.As(err, &e):
		return "refused " + e.Code
	}
	return err.Error()
}

// clean fails the test if an error has something that must not be shown.
func clean(t *testing.T, err error, hidden ...string) {
	t.Helper()
	if err == nil {
		return
	}
	text := err.Error() + fmt.Sprintf("%v %+v %#v", err, err, err)
	for _, h := range hidden {
		if strings.Contains(text, h) {
			t.Errorf("the error %q shows %q", text, h)
		}
	}
	if strings.ContainsAny(err.Error(), "\n\r\x1b\u202e") {
		t.Errorf("the error %q isn't safe to print", err)
	}
}
