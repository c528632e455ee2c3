package httpdoor

import (
	"net/http"
	"strings"
)

// maxQuery is the maximum number of bytes that a path from the function Path keeps in memory, in
// addition to its own bytes.
const maxQuery = 64

// Path returns the path of a request. Callers use it to keep the path after the request has ended.
// net/http takes the path from the request line without copying it, so the path would keep a long
// query in memory. In that case, Path returns a copy.
func Path(r *http.Request) string {
	if len(r.RequestURI) > len(r.URL.Path)+maxQuery {
		return strings.Clone(r.URL.Path)
	}
	return r.URL.Path
}
