package httpdoor

import (
	"bufio"
	"net/http"
	"strings"
	"testing"
	"unsafe"
)

// TestPathKeepsNoQuery checks that the path of a request with a long query is a copy, and that the
// path of any other request is not copied.
func TestPathKeepsNoQuery(t *testing.T) {
	for target, copied := range map[string]bool{
		"/mcp":                                false,
		"/mcp?project=a":                      false,
		"/mcp?" + strings.Repeat("q", 28<<10): true,
		"http://" + strings.Repeat("h", 4<<10) + "/mcp": true,
	} {
		r, err := http.ReadRequest(bufio.NewReader(strings.NewReader("POST " + target + " HTTP/1.1\r\nHost: h\r\n\r\n")))
		if err != nil {
			t.Fatal(err)
		}
		path := Path(r)
		if path != "/mcp" {
			t.Errorf("%.40q has the path %q", target, path)
		}
		if same := unsafe.StringData(path) == unsafe.StringData(r.URL.Path); same == copied {
			t.Errorf("%.40q: copied is %t, want %t", target, !same, copied)
		}
	}
}
