package transport

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/dragoman-mcp/dragoman/internal/base/failure"
	"github.com/dragoman-mcp/dragoman/internal/base/identity"
	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/base/trails"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp/mirror"
)

// Pipe is a connection that transfers messages of all kinds in both directions. Examples are
// the standard streams of a child or of this process, the pair of streams of HTTP+SSE, and a
// pipe in memory.
type Pipe interface {
	// Read waits for the next message. An error that wraps a *jsonrpc.Error means that a frame was
	// refused. Read can then be called again. Any other error is final; io.EOF is the normal end.
	// Only one goroutine at a time may call Read.
	Read() (*jsonrpc.Message, error)
	// Write sends the message b, which has no line end. Write blocks while the other end does not
	// accept the message. Write is safe for concurrent use and does not keep b. If the error wraps
	// ErrNotSent, no byte of b was sent.
	Write(b []byte) error
	// Send does the same as Write, but stops waiting when ctx ends, or when quit is closed before
	// any byte of b was sent. The channel quit may be nil. If Send stops before any byte of b was
	// sent, it withdraws the message. The error then wraps ErrNotSent and either the cause of ctx
	// or ErrStalled. If a part of b was sent, the pipe sends the rest once the other end continues
	// to read.
	Send(ctx context.Context, quit <-chan struct{}, b []byte) error
	// Queue queues a message without waiting for the other end. If the queue is full, the error
	// wraps ErrFull.
	Queue(b []byte) error
	// Stalled reports whether the other end has stopped reading. d is how long the other end has
	// read nothing while data was waiting. midway is true if the other end has read only a part of
	// a message. d is 0 if no data is waiting, and on transports that cannot measure d.
	Stalled() (d time.Duration, midway bool)
	// Close ends both directions and unblocks Read. It may be called more than once.
	Close() error
}

// ErrNotSent means that a failed send has not sent any byte. So a retry cannot execute a request
// twice.
var ErrNotSent = errors.New("not sent")

// ErrCredentials means that a request was not sent because its credentials are missing, or that the
// server has refused them with 401 and there are no others.
var ErrCredentials = errors.New("no credentials")

// ErrStalled means that a message was withdrawn because the other end stopped reading.
var ErrStalled = errors.New("the other side does not read its input")

// ErrFull means that a message was dropped because the other end does not read and the queue is
// full. ErrFull wraps ErrNotSent.
var ErrFull = fmt.Errorf("%w: the queue of messages to the other side is full", ErrNotSent)

// HeaderField is one mirrored header, whose value is already encoded (2026-07-28 Streamable
// HTTP, "Value Encoding").
type HeaderField = mirror.Header

// The following types are for the server sides, which serve clients.

// Peer describes a client, as far as the server side of a transport knows it.
type Peer struct {
	Transport string              // "stdio", "http", "sse" or "inmem"
	Who       *identity.Principal // the authenticated caller; nil or identity.Local without authentication
	Remote    string              // network address without port, "" on stdio
	Endpoint  string              // name of the endpoint, as configured
}

// Acceptor creates conversations. It is implemented outside of the transport packages.
type Acceptor interface {
	// Accept starts a conversation. The parameter out sends messages that do not belong to a
	// request. out is nil for a conversation of a single request. Accept does not block.
	Accept(p Peer, out Outbox) Conversation
}

// Incoming is one message from a client.
type Incoming struct {
	Msg *jsonrpc.Message
	// Version is the MCP-Protocol-Version header. It is "" if the header is absent, and on
	// transports without HTTP.
	Version string
	// Params are the Mcp-Param-* headers as received.
	Params []HeaderField
	// HTTP is true for Streamable HTTP. The mirrored headers are then required, if the revision has
	// them.
	HTTP bool
	// Opening is the result of mcp.Classify if the server side has already classified and checked
	// the message. If Opening is zero, the conversation must call mcp.Classify and mcp.CheckModern.
	Opening mcp.Opening
	// Request is the HTTP request that carried the message; its Method is "" if there was no HTTP
	// request.
	Request Request
	// Failed is the error that the client has heard already. The message is only recorded then; see Record.
	Failed error
}

// Request is an HTTP request of a client. Its header must not be modified.
type Request struct {
	Method, Path string
	Header       map[string][]string
	Edits        []trails.HeadEdit // the fields that are not forwarded; must not be modified
}

// Head returns the head of the request for a trails.Trail. The head is zero if there was no HTTP
// request.
func (r *Request) Head() trails.Head {
	return trails.NewHead(r.Method, r.Path, 0, r.Header, r.Edits...)
}

// Conversation is the exchange with one client: a legacy session, one pipe, or one modern HTTP
// request. Its methods are safe for concurrent use.
type Conversation interface {
	// Request serves one request. It returns after r.Finish, or when ctx has ended and all work of
	// the request is done.
	Request(ctx context.Context, in Incoming, r Responder)
	// OneWay handles a notification or a response. If the error is a *jsonrpc.Error, an HTTP
	// server side should refuse the message. Nil means that the message was accepted.
	OneWay(ctx context.Context, in Incoming) error
	// Close ends the conversation. The server side calls Close when the conversation is over, for
	// example because the client has disconnected. Close cancels requests in flight and may be
	// called more than once.
	Close(cause error)
}

// Expecter is a Conversation that can be told about a request before it is served. The reading
// goroutine announces the request, and another goroutine serves it. Without the announcement, a
// cancellation directly after the request could be handled first, and would be lost.
type Expecter interface {
	// Expect does not block. The returned function serves the request in the same way as Request,
	// and must be called once.
	Expect(ctx context.Context, in Incoming) (serve func(Responder))
}

// Expect announces a request to c if c is an Expecter. In any case, the returned function serves
// the request and must be called once.
func Expect(ctx context.Context, c Conversation, in Incoming) (serve func(Responder)) {
	if e, ok := c.(Expecter); ok {
		return e.Expect(ctx, in)
	}
	return func(r Responder) { c.Request(ctx, in, r) }
}

// Responder sends the messages for one request. Calls must not overlap. A Responder does not keep
// its arguments.
type Responder interface {
	// Event sends a message before the answer. Over HTTP, the first event turns the response into
	// an event stream.
	Event(b []byte) error
	// Finish sends the answer. It must be called exactly once. code is the error code of the
	// answer, or 0 for a result, and determines the HTTP status. If the request was cancelled, b is
	// empty, and the response ends without an answer.
	Finish(b []byte, code int64) error
}

// Postponer is a Responder that can tell a client at its limit to retry later, with HTTP status
// 429.
type Postponer interface {
	// Postpone is called before Finish. The parameter after is the delay before a retry. The answer
	// contains the same delay. Postpone has no effect after an event was sent.
	Postpone(after time.Duration)
}

// Headed is a Responder that sends an HTTP response.
type Headed interface {
	// Head returns the head of the response. Callers call Head after Finish. After the call, the
	// header of the response must not be modified.
	Head() trails.Head
}

// Queuer is a Responder that can queue an event without blocking its sender.
type Queuer interface {
	// Queue does the same as Event for a message that may be dropped, such as progress. It does
	// not wait for the client. If the queue is full, it drops the message.
	Queue(b []byte) error
	// Send does the same as Event for a message that must arrive, such as a server request. It
	// gives up when ctx ends.
	Send(ctx context.Context, b []byte) error
}

// Outbox accepts messages that do not belong to a request. Examples are the GET stream of a
// session, and stdout. Send is safe for concurrent use, does not keep b and does not wait for the
// client. If the client has no stream for such messages open, the error is ErrNoStream. If the
// client's queue is full, the error is ErrFull.
type Outbox interface {
	Send(b []byte) error
}

// ErrNoStream is the error of an Outbox if its client has no stream open.
var ErrNoStream = errors.New("the client has no open event stream")

// OwnFields are the edits of a head of which no field is forwarded, because all fields belong to
// the connection. OwnFields must not be modified.
var OwnFields = []trails.HeadEdit{{Why: mcp.WhyConnection}}

// The following types are for the client side of Streamable HTTP, which talks to servers.

// Rules describe how a revision works over HTTP. The caller fills them in from the feature table of
// mcp. The zero value describes a revision without any of these features.
type Rules struct {
	Version         string // the value of MCP-Protocol-Version; "" means that the header is not sent
	Sessions        bool   // Mcp-Session-Id is stored and sent, and DELETE ends the session
	MirrorHeaders   bool   // Mcp-Method, Mcp-Name and Mcp-Param-* are required
	Resumable       bool   // GET with Last-Event-ID continues a broken stream
	CloseIsCancel   bool   // closing the response stream cancels the request
	RequestsOnSSE   bool   // the server may send requests on a response stream
	ResponsesByPost bool   // the client answers requests of the server by POST
}

// Outgoing is one message for a server.
type Outgoing struct {
	Body   []byte
	ID     jsonrpc.ID    // id of a request, "" for other messages
	Method string        // the method; "" for a response
	Name   string        // the value of Mcp-Name, not yet encoded; "" for none
	Params []HeaderField // the Mcp-Param-* headers
	// Forwarded is true if Params are the headers that the client sent.
	Forwarded bool
	Header    []HeaderField // additional headers of this message
	Rules     *Rules

	// Trail records the HTTP exchange of the message that Passage identifies. If Trail is nil,
	// nothing is recorded. Otherwise the transport sets Response to the head of the HTTP response.
	Trail    *trails.Trail
	Passage  trails.Passage
	Response trails.Head
}

// Inbox gets messages from a server that arrive before an answer or outside requests:
// notifications, requests in legacy revisions, and answers to the requests of other clients, which
// a faulty server may send. For one stream, only one goroutine at a time calls the Inbox. The Inbox
// must not block for long.
type Inbox func(*jsonrpc.Message)

// StatusError is an HTTP response that is not a success, or a successful response that is not MCP.
type StatusError struct {
	Status      int
	ContentType string
	Body        []byte        // at most the first 64 KiB of the body
	RetryAfter  time.Duration // the delay in the header Retry-After; 0 if absent
	// Authenticate has the fields WWW-Authenticate as the server sent them; see Challenges.
	Authenticate []string
	// Signed says that the request had credentials, besides those in the configured headers.
	Signed bool
	// Location is the target of a redirect that was not followed. It is absolute and has no
	// user, query or fragment. It is "" if the response is not a redirect.
	Location string
	// Msg is the body as a JSON-RPC message, or nil if the body is not a message.
	Msg *jsonrpc.Message
}

func (e *StatusError) Error() string {
	if e.Status >= 200 && e.Status < 300 {
		return fmt.Sprintf("HTTP status %d with a body that is not an MCP message", e.Status)
	}
	return fmt.Sprintf("HTTP status %d", e.Status)
}

// DescribeFailure implements failure.Source.
func (e *StatusError) DescribeFailure(f *failure.Facts) {
	if f.Status != 0 {
		return
	}
	f.Status, f.ContentType, f.Body, f.Location = e.Status, e.ContentType, e.Body, e.Location
	f.Challenge = strings.Join(e.Authenticate, ", ")
	f.Credentials = f.Credentials || e.Signed
	if f.RetryAfter == 0 {
		f.RetryAfter = e.RetryAfter
	}
}

// Excerpt returns the beginning of the body as readable text. The excerpt has at most 200 bytes, is
// on one line, and has no control characters or broken UTF-8.
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
