package httpdoor

import (
	"net/http"
	"strings"
)

// maxQuery is the number of bytes beside the path that a kept path may hold in memory.
const maxQuery = 64

// Path returns the path of a request, to be kept after the request. net/http cuts the path from the
// request line, so the path would keep a long query in memory. Path copies the path in that case.
func Path(r *http.Request) string {
	if len(r.RequestURI) > len(r.URL.Path)+maxQuery {
		return strings.Clone(r.URL.Path)
	}
	return r.URL.Path
}
