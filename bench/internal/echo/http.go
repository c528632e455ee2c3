package echo

import (
	"context"
	"fmt"
	"net"
	"strings"
	"sync/atomic"

	"github.com/valyala/fasthttp"

	"github.com/dragoman-mcp/dragoman/bench/internal/words"
)

// sessionPrefix is the beginning of the session ids that this server creates.
const sessionPrefix = "bench-"

// HTTP is the echo server over Streamable HTTP, at the path /mcp. At /events, it sends results as
// event streams. At /closed, it answers only requests with a token, which may be any. At /large, it lists 5,000 tools.
type HTTP struct {
	Era      words.Era
	sessions atomic.Uint64
}

// Serve answers requests on ln until ctx ends. Connections stay open until their clients close them.
func (s *HTTP) Serve(ctx context.Context, ln net.Listener) error {
	server := &fasthttp.Server{NoDefaultServerHeader: true, NoDefaultDate: true, MaxRequestBodySize: maxMessage, Handler: s.handle}
	stop := context.AfterFunc(ctx, func() { _ = ln.Close() })
	defer stop()
	if err := server.Serve(ln); err != nil && ctx.Err() == nil {
		return err
	}
	return nil
}

func (s *HTTP) handle(c *fasthttp.RequestCtx) {
	a, session := s.answer(c)
	c.SetStatusCode(a.status)
	if a.status == 405 {
		c.Response.Header.Set("Allow", "POST")
	}
	if session != "" {
		c.Response.Header.Set("Mcp-Session-Id", session)
	}
	if a.body == nil {
		c.Response.Header.SetNoDefaultContentType(true)
		return
	}
	if a.status == 200 && string(c.Path()) == "/events" {
		c.SetContentType("text/event-stream")
		c.Response.AppendBodyString("event: message\ndata: ")
		c.Response.AppendBody(a.body)
		c.Response.AppendBodyString("\n\n")
		return
	}
	c.SetContentType("application/json")
	c.Response.SwapBody(a.body)
}

// answer returns the answer to a request, and the id of the new session, or "" if it creates none.
func (s *HTTP) answer(c *fasthttp.RequestCtx) (answer, string) {
	switch path := string(c.Path()); {
	case path == "/closed" && len(c.Request.Header.Peek("Authorization")) == 0:
		return answer{status: 401}, ""
	case path != "/mcp" && path != "/events" && path != "/closed" && path != "/large":
		return answer{status: 404}, ""
	}
	if !c.IsPost() {
		// 2026-07-28 §Streamable HTTP, "Earlier Streamable HTTP Revisions": GET and DELETE get
		// the status 405. 2025-11-25 §Transports: GET gets 405 if the server offers no stream.
		if s.Era == words.Legacy && c.IsDelete() {
			return answer{status: 200}, ""
		}
		return answer{status: 405}, ""
	}
	dst := c.Response.SwapBody(nil)[:0]
	msg := parse(c.PostBody())
	if msg != nil && msg.Method == "tools/list" && string(c.Path()) == "/large" {
		return listLarge(dst, s.Era, msg), ""
	}
	if s.Era == words.Modern || msg == nil {
		return reply(dst, s.Era, msg), ""
	}
	if msg.Method == "initialize" {
		return reply(dst, s.Era, msg), fmt.Sprintf("%s%016x", sessionPrefix, s.sessions.Add(1))
	}
	// Real legacy servers refuse a modern request with one of the first two answers below.
	header := func(name string) string { return string(c.Request.Header.Peek(name)) }
	switch session := header("Mcp-Session-Id"); {
	case header("MCP-Protocol-Version") == words.ModernVersion:
		return failure(dst, "null", -32000, "Bad Request: Unsupported protocol version", 400), ""
	case session == "":
		return failure(dst, "null", -32000, "Bad Request: No valid session ID provided", 400), ""
	case !strings.HasPrefix(session, sessionPrefix):
		// 2025-11-25 §Transports, "Session Management": a request with an unknown session id
		// gets the status 404.
		return failure(dst, "null", -32001, "Session not found", 404), ""
	}
	return reply(dst, s.Era, msg), ""
}
