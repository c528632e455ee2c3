package httpdoor

import (
	"net/http"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
)

// Limits of the servers that NewHTTPServer returns.
const (
	ReadHeaderTimeout = 10 * time.Second
	IdleTimeout       = 120 * time.Second
	WriteTimeout      = 30 * time.Second
	MaxHeaderBytes    = 32 << 10
	MaxHeaderLines    = 256
)

// NewHTTPServer returns a server for h. Its limits protect against clients that send headers
// slowly, send many headers, or do not read. Its write timeout ends 30 s after the headers of a
// request have arrived. Handlers that may need longer must set their own write deadlines, as Stream
// does. The caller may set Addr, ErrorLog and BaseContext, and must serve a listener from Listen.
func NewHTTPServer(h http.Handler) *http.Server {
	return &http.Server{
		Handler:           fewHeaders(h),
		ConnContext:       withConn,
		ReadHeaderTimeout: ReadHeaderTimeout,
		IdleTimeout:       IdleTimeout,
		WriteTimeout:      WriteTimeout,
		// net/http adds 4 KiB to the configured value.
		MaxHeaderBytes: MaxHeaderBytes - 4<<10,
	}
}

func fewHeaders(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		lines := 0
		for _, values := range r.Header {
			lines += len(values)
		}
		if lines > MaxHeaderLines {
			RefuseAndClose(w, http.StatusRequestHeaderFieldsTooLarge, "", &jsonrpc.Error{Code: jsonrpc.CodeInvalidRequest, Message: "too many header lines"})
			return
		}
		if ambiguous(r) {
			// RFC 9112 §6.1: the server must close the connection after the response.
			w.Header()["Connection"] = closing
		}
		next.ServeHTTP(w, r)
	})
}
