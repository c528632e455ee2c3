package admin

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"path"
	"strings"
	"testing"
)

// TestPathName checks that each name becomes one path element that neither a client nor a mux
// changes. The element is decoded to the same name, and two names never have the same element.
func TestPathName(t *testing.T) {
	mux, got := http.NewServeMux(), ""
	mux.HandleFunc("GET /servers/{name}/tools/{tool}", func(_ http.ResponseWriter, r *http.Request) {
		ReadPathNames(r)
		got = r.PathValue("tool")
	})
	of := map[string]string{}
	for _, name := range []string{
		"read", "", ".", "..", "...", "....", "~", "~.", "~..", "~~..", "~...", "~a", "a/b", "/", "//", "../..", "a/../b", `\`, "%2e%2e", "%", "?", "#", " ", "+", "ä", "a\nb", "a b/c?d#e", ".~", "~/",
	} {
		element := PathName(name)
		if was, ok := of[element]; ok {
			t.Errorf("%q and %q are both %s", name, was, element)
		}
		of[element] = name
		target := "/servers/files/tools/" + element
		u, err := url.Parse(target)
		if err != nil {
			t.Errorf("%q: %v", name, err)
			continue
		}
		// A browser treats %2e as a dot, and removes the elements "." and "..".
		if seen := path.Clean(strings.ReplaceAll(strings.ToLower(element), "%2e", ".")); strings.Contains(element, "/") || seen == "." || seen == ".." {
			t.Errorf("%q: a client changes %s", name, element)
		}
		got = "(none)"
		w := httptest.NewRecorder()
		mux.ServeHTTP(w, httptest.NewRequest("GET", u.String(), nil))
		if got != name {
			t.Errorf("%q is read as %q from %s: %d %s", name, got, element, w.Code, w.Header().Get("Location"))
		}
	}
}
