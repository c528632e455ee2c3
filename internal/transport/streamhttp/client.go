package streamhttp

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/textproto"
	"sync/atomic"

	"github.com/dragoman-mcp/dragoman/internal/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/mcp"
	"github.com/dragoman-mcp/dragoman/internal/mcp/mirror"
	"github.com/dragoman-mcp/dragoman/internal/transport"
	"github.com/dragoman-mcp/dragoman/internal/transport/httplink"
)

// The ways in which an exchange with a server fails beyond what net/http and
// transport.StatusError say.
var (
	// ErrNoAnswer: the response ended before the answer. What became of the
	// request is unknown.
	ErrNoAnswer = errors.New("the response ended before the answer")
	// ErrTooLarge: an answer or event went beyond the size limit.
	ErrTooLarge = transport.ErrTooLarge
	// ErrNoListen: the server has no standing stream, which it need not have.
	ErrNoListen = errors.New("the server offers no standing stream")
	// ErrSessionLost: the server does not know our session any more.
	ErrSessionLost = errors.New("the session is unknown to the server")
)

// ClientOptions configure a Client. The zero value works.
type ClientOptions struct {
	// HTTP, Header and UserAgent are those of httplink.Options.
	HTTP      http.RoundTripper
	Header    []transport.HeaderField
	UserAgent string
	// Limits bound one message from the server. Bytes 0 means 16 MiB. They are
	// always tolerant.
	Limits jsonrpc.Limits
	Logger *slog.Logger // nil discards
	// Dropped hears of each message from the server that nobody could use: an event
	// that is not JSON-RPC, an answer to another request, a request where the revision
	// forbids them, an event after the answer. It must not block. Nil hears nothing.
	Dropped func(why string)
}

// Client speaks Streamable HTTP to one server, in any revision: what differs
// comes with each message as transport.Rules. It remembers nothing but the
// session's id and starts no goroutine. Safe for concurrent use.
type Client struct {
	link    *httplink.Link
	limits  jsonrpc.Limits
	log     *slog.Logger
	session atomic.Pointer[[]string] // nil for none; else of one element
	dropped func(why string)
	linger  lingering
}

// NewClient returns a Client for an http or https URL. It connects to nothing.
func NewClient(url string, o ClientOptions) (*Client, error) {
	link, err := httplink.New(url, httplink.Options{HTTP: o.HTTP, Header: o.Header, UserAgent: o.UserAgent})
	if err != nil {
		return nil, err
	}
	c := &Client{link: link, limits: o.Limits, log: o.Logger, dropped: o.Dropped}
	c.linger.time = lingerTime
	c.limits.Tolerant = true
	if c.limits.Bytes <= 0 {
		c.limits.Bytes = 16 << 20
	}
	if c.log == nil {
		c.log = slog.New(slog.DiscardHandler)
	}
	return c, nil
}

// DefaultTransport returns what a Client uses when it is given no transport, for
// those who want to change something in it.
func DefaultTransport() *http.Transport { return httplink.DefaultTransport() }

// Close ends idle connections, unless they belong to a transport that the Client
// was given. Calls in flight go on until their contexts end.
func (c *Client) Close() { c.link.Close() }

// Session returns the id of the session that the server began, "" for none.
func (c *Client) Session() string {
	if s := c.session.Load(); s != nil {
		return (*s)[0]
	}
	return ""
}

// SetSession makes id the session's; "" forgets it.
func (c *Client) SetSession(id string) {
	if id == "" {
		c.session.Store(nil)
		return
	}
	c.session.Store(&[]string{id})
}

// maxSession is the longest session id that we keep, in bytes.
const maxSession = 4 << 10

// learn takes the session's id from the response to initialize (2025-11-25
// §Transports, "Session Management").
func (c *Client) learn(h http.Header) {
	id := h.Get(mcp.HeaderSession)
	if id == "" {
		return
	}
	if len(id) > maxSession || !visible(id) {
		c.log.Warn("session id of the server is invalid and was ignored", slog.Int("bytes", len(id)))
		return
	}
	c.SetSession(id)
}

// visible reports whether s is visible ASCII (0x21 to 0x7E).
func visible(s string) bool {
	for i := range len(s) {
		if s[i] <= ' ' || s[i] > '~' {
			return false
		}
	}
	return true
}

// Post sends a notification or a response, to which there is no answer. Any
// success will do: servers send 200, 202 and 204, some with a body. The error is a
// *transport.StatusError when the server refused it.
func (c *Client) Post(ctx context.Context, out *transport.Outgoing) error {
	resp, err := c.link.Send(ctx, http.MethodPost, c.header(out), out.Body)
	if err != nil {
		return err
	}
	if !success(resp) {
		return resp.Refused()
	}
	resp.Discard()
	return nil
}

// Terminate ends the session at the server, if there is one, and forgets it. A
// server may refuse to end sessions or have done it already: neither is an error
// (2025-11-25 §Transports, "Session Management" 5).
func (c *Client) Terminate(ctx context.Context, rules *transport.Rules) error {
	if c.Session() == "" {
		return nil
	}
	h := c.link.NewHeader(2)
	c.sessionHeaders(h, rules)
	c.SetSession("")
	resp, err := c.link.Send(ctx, http.MethodDelete, h, nil)
	if err != nil {
		return err
	}
	switch {
	case success(resp), resp.StatusCode == http.StatusMethodNotAllowed, resp.StatusCode == http.StatusNotFound:
		resp.Discard()
		return nil
	}
	return resp.Refused()
}

func success(r *httplink.Response) bool { return r.StatusCode >= 200 && r.StatusCode < 300 }

// The values of headers that are the same on every request. They are shared, so
// nobody may write to them.
var (
	jsonOnly   = []string{"application/json"}
	jsonOrSSE  = []string{"application/json, text/event-stream"}
	eventsOnly = []string{"text/event-stream"}
)

var anyRules transport.Rules

// header makes the header of a POST.
func (c *Client) header(out *transport.Outgoing) http.Header {
	rules := out.Rules
	if rules == nil {
		rules = &anyRules
	}
	h := c.link.NewHeader(6 + len(out.Header) + len(out.Params))
	for i, f := range out.Header {
		name := textproto.CanonicalMIMEHeaderKey(f.Name)
		if i > 0 && sentBefore(out.Header[:i], name) {
			h[name] = append(h[name], f.Value)
		} else {
			h[name] = []string{f.Value}
		}
	}
	h["Content-Type"] = jsonOnly
	h["Accept"] = jsonOrSSE
	if out.Method != mcp.MethodInitialize {
		c.sessionHeaders(h, rules)
	} else if rules.Version != "" {
		// "a new InitializeRequest without a session ID attached" (2025-11-25
		// §Transports, "Session Management" 4).
		h[mcp.HeaderVersion] = []string{rules.Version}
	}
	if rules.MirrorHeaders && out.Method != "" {
		values := [...]string{out.Method, ""}
		h[mcp.HeaderMethod] = values[:1:1]
		if out.Name != "" {
			values[1] = mirror.EncodeValue(out.Name)
			h[mcp.HeaderName] = values[1:]
		}
		for _, p := range out.Params {
			h[textproto.CanonicalMIMEHeaderKey(p.Name)] = []string{p.Value}
		}
	}
	return h
}

func sentBefore(fields []transport.HeaderField, name string) bool {
	for _, f := range fields {
		if textproto.CanonicalMIMEHeaderKey(f.Name) == name {
			return true
		}
	}
	return false
}

// sessionHeaders sets what every request after initialize carries.
func (c *Client) sessionHeaders(h http.Header, rules *transport.Rules) {
	if rules == nil {
		rules = &anyRules
	}
	if rules.Version != "" {
		h[mcp.HeaderVersion] = []string{rules.Version}
	}
	if rules.Sessions {
		if s := c.session.Load(); s != nil {
			h[mcp.HeaderSession] = *s
		}
	}
}

// drop tells of a message from the server that nobody could use, without its content.
func (c *Client) drop(why string, m *jsonrpc.Message) {
	if c.dropped != nil {
		c.dropped(why)
	}
	method := ""
	if m != nil {
		method = m.Method
	}
	c.log.Debug("dropped a message from the server", slog.String("why", why), slog.String("method", method))
}

// ended makes the error of a call whose context may be over.
func ended(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if errors.Is(err, httplink.ErrTooLarge) {
		return ErrTooLarge
	}
	return fmt.Errorf("%w: %w", ErrNoAnswer, err)
}
