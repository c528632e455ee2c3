package streamhttp

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/textproto"
	"sync/atomic"

	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/base/trails"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp/mirror"
	"github.com/dragoman-mcp/dragoman/internal/transport"
	"github.com/dragoman-mcp/dragoman/internal/transport/httplink"
)

// An exchange with a server can fail with these errors, with a transport.StatusError, and with
// errors of net/http.
var (
	// ErrNoAnswer means that the HTTP response ended before it contained the JSON-RPC answer. The
	// outcome of the request is unknown.
	ErrNoAnswer = errors.New("the HTTP response ended without the answer to the request")
	// ErrNoListen means that the server has no event stream for GET. This stream is optional.
	ErrNoListen = errors.New("the server has no event stream for GET")
	// ErrSessionLost means that the server no longer knows the client's session.
	ErrSessionLost = errors.New("the session is unknown to the server")
)

// ClientOptions configure a Client. The zero value works.
type ClientOptions struct {
	// HTTP, CAs, Header, Credentials and UserAgent have the same meaning as in httplink.Options.
	HTTP        http.RoundTripper
	CAs         *x509.CertPool
	Header      []transport.HeaderField
	Credentials httplink.Signer
	UserAgent   string
	// Limits apply to each message from the server. If Limits.Bytes is 0, it means 16 MiB.
	// NewClient sets Limits.Tolerant.
	Limits jsonrpc.Limits
	Logger *slog.Logger // receives log records; nil discards them
	// Dropped is called for each message from the server that is dropped: an event that is not
	// JSON-RPC, an answer to another request, a request that the revision forbids, or an event
	// after the answer. Dropped must not block. It may be nil.
	Dropped func(why string)
	// Interrupted is called each time that the event stream of Listen has ended or could not be
	// opened. It must not block. It may be nil.
	Interrupted func()
}

// Client speaks Streamable HTTP to one server, in any revision. The caller passes the rules of the
// revision with each message, as transport.Rules. The only protocol state of a Client is the
// session id. Client starts no goroutine, and is safe for concurrent use.
type Client struct {
	link        *httplink.Link
	limits      jsonrpc.Limits
	log         *slog.Logger
	session     atomic.Pointer[[]string] // the session id as the only element; nil if there is no session
	dropped     func(why string)
	interrupted func() // never nil
	linger      lingering
	reasons     fieldReasons
}

// NewClient returns a Client for an http or https URL. It does not connect.
func NewClient(url string, o ClientOptions) (*Client, error) {
	link, err := httplink.New(url, httplink.Options{HTTP: o.HTTP, CAs: o.CAs, Header: o.Header, Credentials: o.Credentials, UserAgent: o.UserAgent})
	if err != nil {
		return nil, err
	}
	c := &Client{link: link, limits: o.Limits, log: o.Logger, dropped: o.Dropped, interrupted: o.Interrupted}
	if c.interrupted == nil {
		c.interrupted = func() {}
	}
	c.reasons.link = link.Edits()
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

// Close closes idle connections, unless the caller has set ClientOptions.HTTP. Calls in flight
// continue until their contexts end.
func (c *Client) Close() { c.link.Close() }

// Session returns the id of the server's session, or "" if there is no session.
func (c *Client) Session() string {
	if s := c.session.Load(); s != nil {
		return (*s)[0]
	}
	return ""
}

// SetSession sets the session id. "" removes it.
func (c *Client) SetSession(id string) {
	if id == "" {
		c.session.Store(nil)
		return
	}
	c.session.Store(&[]string{id})
}

// maxSession is the maximum length in bytes of a session id.
const maxSession = 4 << 10

// storeSession stores the session id of the response to initialize (2025-11-25
// §Transports, "Session Management").
func (c *Client) storeSession(h http.Header) {
	id := h.Get(mcp.HeaderSession)
	if id == "" {
		return
	}
	if len(id) > maxSession || !visible(id) {
		c.log.Warn("ignored the server's session id, which is invalid", slog.Int("bytes", len(id)))
		return
	}
	c.SetSession(id)
}

// visible reports whether s consists of visible ASCII characters (0x21 to 0x7E).
func visible(s string) bool {
	for i := range len(s) {
		if s[i] <= ' ' || s[i] > '~' {
			return false
		}
	}
	return true
}

// Post sends a notification or a response. It accepts any success status, because servers send 200,
// 202 and 204, sometimes with a body. The error is a *transport.StatusError if the server refused
// the message.
func (c *Client) Post(ctx context.Context, out *transport.Outgoing) error {
	h, set := c.header(out)
	resp, err := c.link.Send(ctx, http.MethodPost, h, out.Body)
	c.exchanged(out, h, set, resp)
	out.Trail.Exchanged(out.Passage, trails.Head{}, out.Response) // the response contains no message
	if err != nil {
		return err
	}
	if !success(resp) {
		return resp.Refused()
	}
	resp.Discard()
	return nil
}

// exchanged records the HTTP heads of a request and its response. h and set are the results of
// c.header. resp is nil if there was no response.
func (c *Client) exchanged(out *transport.Outgoing, h http.Header, set fields, resp *httplink.Response) {
	if out.Trail == nil {
		return
	}
	out.Trail.Exchanged(out.Passage, trails.NewHead(http.MethodPost, c.link.Path(), 0, h, c.reasons.of(set)...), trails.Head{})
	if resp != nil {
		out.Response = trails.NewHead("", "", resp.StatusCode, resp.Header, receivedFields...)
	}
}

// receivedFields are the header fields of a response that are not forwarded.
var receivedFields = []trails.HeadEdit{
	{Why: mcp.WhyConnection},
	{Why: mcp.WhySession, Name: mcp.HeaderSession},
}

// Terminate ends the session at the server, if there is a session, and removes the session id. It
// returns no error if the server does not allow clients to end sessions, or has already ended the
// session (2025-11-25 §Transports, "Session Management" 5).
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

// These header values are the same in every request. They are shared and must not be modified.
var (
	jsonOnly   = []string{"application/json"}
	jsonOrSSE  = []string{"application/json, text/event-stream"}
	eventsOnly = []string{"text/event-stream"}
)

var anyRules transport.Rules

// header returns the HTTP header of the POST that sends out. set contains the fields that Dragoman
// has added.
func (c *Client) header(out *transport.Outgoing) (h http.Header, set fields) {
	rules := out.Rules
	if rules == nil {
		rules = &anyRules
	}
	h = c.link.NewHeader(6 + len(out.Header) + len(out.Params))
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
		set = c.sessionHeaders(h, rules)
	} else if rules.Version != "" {
		// 2025-11-25 §Transports, "Session Management" 4, requires "a new InitializeRequest
		// without a session ID attached".
		h[mcp.HeaderVersion] = []string{rules.Version}
	}
	if len(out.Header) > 0 {
		set |= traceFields
	}
	if rules.MirrorHeaders && out.Method != "" {
		values := [...]string{out.Method, ""}
		h[mcp.HeaderMethod] = values[:1:1]
		set |= mirrorFields
		if out.Name != "" {
			values[1] = mirror.EncodeValue(out.Name)
			h[mcp.HeaderName] = values[1:]
		}
		if out.Forwarded {
			set |= paramsAsSent
		}
		for _, p := range out.Params {
			h[textproto.CanonicalMIMEHeaderKey(p.Name)] = []string{p.Value}
		}
	}
	return h, set
}

func sentBefore(fields []transport.HeaderField, name string) bool {
	for _, f := range fields {
		if textproto.CanonicalMIMEHeaderKey(f.Name) == name {
			return true
		}
	}
	return false
}

// sessionHeaders sets the version and the session id, which all requests after initialize have. It
// returns the fields that it has set.
func (c *Client) sessionHeaders(h http.Header, rules *transport.Rules) (set fields) {
	if rules == nil {
		rules = &anyRules
	}
	if rules.Version != "" {
		h[mcp.HeaderVersion] = []string{rules.Version}
		set |= versionField
	}
	if rules.Sessions {
		if s := c.session.Load(); s != nil {
			h[mcp.HeaderSession] = *s
			set |= sessionField
		}
	}
	return set
}

// drop reports a message from the server that cannot be used. It does not log the content of the
// message.
func (c *Client) drop(why string, m *jsonrpc.Message) {
	if c.dropped != nil {
		c.dropped(why)
	}
	method := ""
	if m != nil {
		method = m.Method
	}
	c.log.Debug("discarded a message from the server", slog.String("why", why), slog.String("method", method))
}

// ended returns the error of a call whose response ended with err before the answer. If ctx has
// ended, the error is the cause of ctx.
func ended(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if errors.Is(err, httplink.ErrTooLarge) {
		return transport.ErrTooLarge
	}
	return fmt.Errorf("%w: %w", ErrNoAnswer, err)
}
