package httpdoor

import (
	"io"
	"net/http"

	"github.com/dragoman-mcp/dragoman/internal/base/excerpt"
)

// NotFound answers a request for an unknown path or an unknown project. It sends 404 and one line
// that names the endpoints. Many clients show this line to their user. The usual cause is a
// configured URL without /mcp.
func NotFound(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h["Content-Type"] = []string{"text/plain; charset=utf-8"}
	h["X-Content-Type-Options"] = nosniff
	w.WriteHeader(http.StatusNotFound)
	if r.Method != http.MethodHead {
		_, _ = io.WriteString(w, Nothing(r.URL.Path)+"\n")
	}
}

// Nothing returns what NotFound says about a path.
func Nothing(path string) string {
	return "there is nothing at " + excerpt.Quote(path, 128) + ": MCP clients connect to /mcp, or to /sse for HTTP+SSE"
}
