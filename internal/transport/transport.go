package transport

import (
	"context"
	"errors"
	"fmt"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/dragoman-mcp/dragoman/internal/failure"
	"github.com/dragoman-mcp/dragoman/internal/identity"
	"github.com/dragoman-mcp/dragoman/internal/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/mcp"
	"github.com/dragoman-mcp/dragoman/internal/mcp/mirror"
)

// Pipe is a connection on which messages of all kinds go in both directions: the
// standard streams of a child or our own, the pair of streams of HTTP+SSE, an in-memory
// pipe.
type Pipe interface {
	// Read waits for the next message. A *jsonrpc.Error reports a refused frame;
	// reading may continue after it. Any other error is final; io.EOF is the clean end.
	// Only one goroutine may read.
	Read() (*jsonrpc.Message, error)
	// Write sends one message, without a line end, and blocks as long as the other end
	// does not accept it. It is safe for concurrent use and does not keep b. An error
	// that wraps ErrNotSent says that no byte of b was sent.
	Write(b []byte) error
	// Send is Write for a message that somebody waits for. It returns when ctx ends, or
	// when quit is closed and no byte of b was sent; quit may be nil. In both cases a
	// message of which no byte was sent is withdrawn: the error wraps ErrNotSent, and
	// the cause of ctx or ErrStalled. The pipe itself finishes a partly sent message
	// once the other end continues to read.
	Send(ctx context.Context, quit <-chan struct{}, b []byte) error
	// Queue accepts a message that nobody waits for. It does not wait for the other
	// end. The error wraps ErrFull if too much is queued already.
	Queue(b []byte) error
	// Stalled returns how long the other end has read nothing although data is pending,
	// and whether it has read a part of a message. It returns 0 if nothing is pending,
	// and on transports that cannot tell.
	Stalled() (d time.Duration, midway bool)
	// Close ends both directions and unblocks Read. It is idempotent.
	Close() error
}

// ErrNotSent is wrapped by the errors of a send of which no byte was sent, so a retry
// cannot execute anything twice.
var ErrNotSent = errors.New("not sent")

// ErrCredentials is wrapped by the errors of requests for which there were no credentials.
// They were not sent.
var ErrCredentials = errors.New("no credentials")

// ErrStalled is wrapped by the errors of messages that were withdrawn because the other
// end stopped reading.
var ErrStalled = errors.New("the other end has stopped reading")

// ErrFull is wrapped by the error of a message that was dropped because too much is
// queued for an end that does not read. It wraps ErrNotSent.
var ErrFull = fmt.Errorf("%w: the queue for the other end is full", ErrNotSent)

// HeaderField is one mirrored header, its value already encoded (2026-07-28
// Streamable HTTP, "Value Encoding").
type HeaderField = mirror.Header

// ---- Towards clients: the interfaces that a server side uses.

// Peer is what a server side knows about a client.
type Peer struct {
	Transport string              // "stdio", "http", "sse" or "inmem"
	Who       *identity.Principal // the authenticated caller; nil or identity.Local without authentication
	Remote    string              // network address without port, "" on stdio
	Endpoint  string              // the name of the endpoint, as configured
}

// Acceptor creates conversations. It is implemented above the transports.
type Acceptor interface {
	// Accept starts a conversation. out takes messages that belong to no request; it is
	// nil for a conversation of a single request. Accept does not block.
	Accept(p Peer, out Outbox) Conversation
}

// Incoming is one message from a client.
type Incoming struct {
	Msg *jsonrpc.Message
	// Version is the MCP-Protocol-Version header, "" if absent or not HTTP.
	Version string
	// Params are the Mcp-Param-* headers as received.
	Params []HeaderField
	// HTTP says that mirrored headers are required if the revision has them.
	HTTP bool
	// Opening is the result of mcp.Classify, if the server side has called it and
	// mcp.CheckModern. The zero Opening leaves both to the conversation.
	Opening mcp.Opening
}

// Conversation is the exchange with one client: a legacy session, one pipe, or
// one modern HTTP request. Its methods are safe for concurrent use.
type Conversation interface {
	// Request serves one request. It returns after r.Finish, or after ctx has ended and
	// all work of the request is done.
	Request(ctx context.Context, in Incoming, r Responder)
	// OneWay handles a notification or a response. A *jsonrpc.Error says that an HTTP
	// server side should refuse it; nil means accepted.
	OneWay(ctx context.Context, in Incoming) error
	// Close ends the conversation when the client is gone or has said so. It cancels
	// requests in flight and is idempotent.
	Close(cause error)
}

// Expecter is a Conversation to which the reading goroutine can announce a request
// before another goroutine serves it. Otherwise a cancellation right behind the request
// could overtake it and be lost.
type Expecter interface {
	// Expect does not block. The returned function serves the request as Request does,
	// and must be called once.
	Expect(ctx context.Context, in Incoming) (serve func(Responder))
}

// Expect announces a request to a conversation that is an Expecter. The returned
// function serves the request, and must be called once.
func Expect(ctx context.Context, c Conversation, in Incoming) (serve func(Responder)) {
	if e, ok := c.(Expecter); ok {
		return e.Expect(ctx, in)
	}
	return func(r Responder) { c.Request(ctx, in, r) }
}

// Responder sends the messages for one request. Calls must not overlap. It does not
// keep its arguments.
type Responder interface {
	// Event sends a message before the answer. Over HTTP it turns the response into an
	// event stream.
	Event(b []byte) error
	// Finish sends the answer, exactly once. code is the answer's error code, 0 for a
	// result; the HTTP status depends on it. An empty b ends the response without an
	// answer, because the request was cancelled.
	Finish(b []byte, code int64) error
}

// Postponer is a Responder whose transport can tell a client to retry later because it
// has reached a limit: HTTP status 429.
type Postponer interface {
	// Postpone is called before Finish, whose answer has the same information. after is
	// the delay before a retry. It has no effect after an event was sent.
	Postpone(after time.Duration)
}

// Queuer is a Responder that can queue an event without blocking its sender.
type Queuer interface {
	// Queue is Event for a message that may be dropped, such as progress. It does not
	// wait for the client, and drops the message if the queue is full.
	Queue(b []byte) error
	// Send is Event for a message that is needed until ctx ends, such as a server
	// request.
	Send(ctx context.Context, b []byte) error
}

// Outbox takes messages that belong to no request: the GET stream of a session, or
// stdout. Send is safe for concurrent use, does not keep b and does not wait for the
// client. ErrNoStream says that the client has no such stream open, ErrFull that its
// queue is full.
type Outbox interface {
	Send(b []byte) error
}

// ErrNoStream is returned by an Outbox whose client has no stream open.
var ErrNoStream = errors.New("the client has no stream open for this")

// ---- Towards servers: the client side of Streamable HTTP.

// Rules are the differences between revisions over HTTP. The caller fills them from
// mcp's feature table. The zero value is that of 2025-03-26: sessions, a GET stream, no
// headers.
type Rules struct {
	Version         string // value of MCP-Protocol-Version; "" sends none
	Sessions        bool   // store and send Mcp-Session-Id, end the session with DELETE
	MirrorHeaders   bool   // Mcp-Method, Mcp-Name and Mcp-Param-* are required
	Resumable       bool   // a broken stream is continued by GET with Last-Event-ID
	CloseIsCancel   bool   // dropping the response stream cancels the request
	RequestsOnSSE   bool   // the server may send requests on a response stream
	ResponsesByPost bool   // the client answers such requests by POST
}

// Outgoing is one message for a server.
type Outgoing struct {
	Body   []byte
	ID     jsonrpc.ID    // of a request, "" otherwise
	Method string        // "" for a response
	Name   string        // the value of Mcp-Name, not yet encoded; "" for none
	Params []HeaderField // Mcp-Param-*
	Header []HeaderField // additional headers of this message
	Rules  *Rules
}

// Inbox receives messages of a server before an answer, or outside of any request:
// notifications, in legacy revisions requests, and, from servers that confuse their
// clients, answers to other requests. For one stream it is called by one goroutine at a
// time. It must not block for long.
type Inbox func(*jsonrpc.Message)

// StatusError is an HTTP response that is not a success, or that is a success but not
// MCP.
type StatusError struct {
	Status      int
	ContentType string
	Body        []byte        // at most 64 KiB of it
	RetryAfter  time.Duration // 0 when not given
	Challenge   string        // WWW-Authenticate
	// Location is the target of a redirect that was not followed, absolute, without user,
	// query and fragment; "" for none.
	Location string
	// Msg is the body as a JSON-RPC message, nil if it is not one.
	Msg *jsonrpc.Message
}

func (e *StatusError) Error() string {
	if e.Status >= 200 && e.Status < 300 {
		return fmt.Sprintf("HTTP status %d without an MCP answer", e.Status)
	}
	return fmt.Sprintf("HTTP status %d", e.Status)
}

// DescribeFailure implements failure.Source.
func (e *StatusError) DescribeFailure(f *failure.Facts) {
	if f.Status != 0 {
		return
	}
	f.Status, f.ContentType, f.Body, f.Challenge, f.Location = e.Status, e.ContentType, e.Body, e.Challenge, e.Location
	if f.RetryAfter == 0 {
		f.RetryAfter = e.RetryAfter
	}
}

// Excerpt returns the beginning of the body as readable text: at most 200 bytes, on one
// line, without control characters or broken UTF-8.
func (e *StatusError) Excerpt() string {
	const most = 200
	b := e.Body[:min(len(e.Body), most)]
	out := make([]byte, 0, len(b))
	for len(b) > 0 && len(out) < most {
		r, n := utf8.DecodeRune(b)
		switch {
		case r == utf8.RuneError && n == 1:
			r = '?'
		case unicode.IsSpace(r):
			r = ' '
		case !unicode.IsPrint(r):
			r = '?'
		}
		b = b[n:]
		if r == ' ' && (len(out) == 0 || out[len(out)-1] == ' ') {
			continue
		}
		out = utf8.AppendRune(out, r)
	}
	return string(out)
}
