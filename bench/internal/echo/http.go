package echo

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"strconv"
	"sync"
	"sync/atomic"

	"github.com/dragoman-mcp/dragoman/bench/internal/wire"
	"github.com/dragoman-mcp/dragoman/bench/internal/words"
)

// sessionPrefix is the beginning of the session ids that this server creates.
const sessionPrefix = "bench-"

// HTTP is the echo server over Streamable HTTP, at the path /mcp.
type HTTP struct {
	Era words.Era

	sessions atomic.Uint64
	mu       sync.Mutex
	conns    map[net.Conn]struct{}
}

// Serve answers requests on ln until ctx ends. Then it closes every connection and waits until
// their goroutines have ended. It may be called only once.
func (s *HTTP) Serve(ctx context.Context, ln net.Listener) error {
	s.conns = make(map[net.Conn]struct{})
	var wg sync.WaitGroup
	defer wg.Wait()
	stop := context.AfterFunc(ctx, func() {
		_ = ln.Close()
		s.mu.Lock()
		defer s.mu.Unlock()
		for c := range s.conns {
			_ = c.Close() // does not block, because SO_LINGER is not set
		}
		s.conns = nil
	})
	defer stop()
	for {
		conn, err := ln.Accept()
		if err != nil {
			if ctx.Err() != nil {
				return nil
			}
			return err
		}
		s.mu.Lock()
		if s.conns == nil {
			s.mu.Unlock()
			_ = conn.Close()
			return nil
		}
		s.conns[conn] = struct{}{}
		s.mu.Unlock()
		wg.Go(func() {
			s.converse(conn)
			_ = conn.Close()
			s.mu.Lock()
			delete(s.conns, conn)
			s.mu.Unlock()
		})
	}
}

// converse answers the requests on one connection, one at a time.
func (s *HTTP) converse(conn net.Conn) {
	r := wire.NewReader(conn)
	var q wire.Request
	var body, out []byte
	for {
		if err := r.Request(&q, conn); err != nil {
			return
		}
		a, session := s.handle(body[:0], &q)
		out = head(out[:0], a, session, q.Close)
		if a.body != nil {
			body = a.body
			out = append(out, a.body...)
		}
		if _, err := conn.Write(out); err != nil || q.Close {
			return
		}
	}
}

// handle returns the answer to q, and the id of the new session, or "" if q creates none.
func (s *HTTP) handle(dst []byte, q *wire.Request) (answer, string) {
	if string(q.Path) != "/mcp" {
		return answer{status: 404}, ""
	}
	if string(q.Method) != "POST" {
		// 2026-07-28 §Streamable HTTP, "Earlier Streamable HTTP Revisions": GET and DELETE get
		// the status 405. 2025-11-25 §Transports: GET gets 405 if the server offers no stream.
		if s.Era == words.Legacy && string(q.Method) == "DELETE" {
			return answer{status: 200}, ""
		}
		return answer{status: 405}, ""
	}
	msg := parse(q.Body)
	if s.Era == words.Modern || !msg.valid {
		return reply(dst, s.Era, msg), ""
	}
	if string(msg.method) == "initialize" {
		a := reply(dst, s.Era, msg)
		return a, fmt.Sprintf("%s%016x", sessionPrefix, s.sessions.Add(1))
	}
	// Real legacy servers refuse a modern request with one of the first two answers below.
	switch {
	case string(q.Version) == words.ModernVersion:
		return failure(dst, []byte("null"), -32000, "Bad Request: Unsupported protocol version", 400), ""
	case len(q.Session) == 0:
		return failure(dst, []byte("null"), -32000, "Bad Request: No valid session ID provided", 400), ""
	case !bytes.HasPrefix(q.Session, []byte(sessionPrefix)):
		// 2025-11-25 §Transports, "Session Management": a request with an unknown session id
		// gets the status 404.
		return failure(dst, []byte("null"), -32001, "Session not found", 404), ""
	}
	return reply(dst, s.Era, msg), ""
}

func head(dst []byte, a answer, session string, last bool) []byte {
	switch a.status {
	case 200:
		dst = append(dst, "HTTP/1.1 200 OK\r\n"...)
	case 202:
		dst = append(dst, "HTTP/1.1 202 Accepted\r\n"...)
	case 400:
		dst = append(dst, "HTTP/1.1 400 Bad Request\r\n"...)
	case 404:
		dst = append(dst, "HTTP/1.1 404 Not Found\r\n"...)
	case 405:
		dst = append(dst, "HTTP/1.1 405 Method Not Allowed\r\nAllow: POST\r\n"...)
	}
	if a.body != nil {
		dst = append(dst, "Content-Type: application/json\r\n"...)
	}
	if session != "" {
		dst = append(dst, "Mcp-Session-Id: "...)
		dst = append(dst, session...)
		dst = append(dst, "\r\n"...)
	}
	if last {
		dst = append(dst, "Connection: close\r\n"...)
	}
	dst = append(dst, "Content-Length: "...)
	dst = strconv.AppendInt(dst, int64(len(a.body)), 10)
	return append(dst, "\r\n\r\n"...)
}
