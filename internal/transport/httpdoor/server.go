package httpdoor

import (
	"context"
	"net"
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

// Server is a server of net/http whose idle TCP connections and streams have neither buffers nor a
// goroutine. ServeTLS serves without that.
type Server struct {
	http.Server
	watch watch
}

// NewHTTPServer returns a server for h. Its limits protect against clients that send headers
// slowly, send many headers, or do not read. Its write timeout ends 30 s after the headers of a
// request have arrived. Handlers that may need longer must set their own write deadlines, as Stream
// does. The caller may set Addr, ErrorLog and BaseContext before Serve, and must call Close at the
// end.
func NewHTTPServer(h http.Handler) *Server {
	s := &Server{Server: http.Server{
		Handler:           fewHeaders(h),
		ConnContext:       withConn,
		ConnState:         state,
		ReadHeaderTimeout: ReadHeaderTimeout,
		IdleTimeout:       IdleTimeout,
		WriteTimeout:      WriteTimeout,
		// net/http adds 4 KiB to the configured value.
		MaxHeaderBytes: MaxHeaderBytes - 4<<10,
	}}
	s.watch.server, s.watch.after = &s.Server, restAfter
	return s
}

// Serve accepts connections from l until Shutdown or Close.
func (s *Server) Serve(l net.Listener) error {
	return s.Server.Serve(&listener{Listener: l, watch: &s.watch})
}

// Shutdown does what the method of net/http does, and waits for streams too.
func (s *Server) Shutdown(ctx context.Context) error {
	if err := s.Server.Shutdown(ctx); err != nil {
		return err
	}
	return s.watch.wait(ctx)
}

// Close ends the server at once. It doesn't wait for handlers.
func (s *Server) Close() error {
	err := s.Server.Close()
	_ = s.watch.Close()
	s.watch.end()
	return err
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
