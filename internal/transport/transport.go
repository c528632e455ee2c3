package transport

import (
	"context"
	"errors"
	"fmt"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/dragoman-mcp/dragoman/internal/identity"
	"github.com/dragoman-mcp/dragoman/internal/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/mcp"
	"github.com/dragoman-mcp/dragoman/internal/mcp/mirror"
)

// Pipe is a link on which messages of all kinds travel in both directions: a
// child's standard streams, our own, the pair of streams of HTTP+SSE, a pipe in
// memory.
type Pipe interface {
	// Read blocks for the next message. A *jsonrpc.Error reports a frame that was
	// refused; the pipe goes on after it. Any other error is final; io.EOF is the
	// clean end. Only one goroutine may read.
	Read() (*jsonrpc.Message, error)
	// Write sends one message, without a line end, and waits for as long as the
	// other end does not take it. It is safe for concurrent use and does not keep b.
	// An error that wraps ErrNotSent says that no byte of b has left.
	Write(b []byte) error
	// Send is Write for a message that somebody waits for. It returns when ctx ends,
	// and when quit is closed and no byte of b has left; quit may be nil. A message of
	// which no byte has left is withdrawn then: the error wraps ErrNotSent, and the
	// cause of ctx or ErrStalled. One that has left in part is finished by the pipe
	// itself when the other end goes on reading.
	Send(ctx context.Context, quit <-chan struct{}, b []byte) error
	// Queue takes over a message for which nobody waits and does not wait for the
	// other end. The error wraps ErrFull when too much waits already.
	Queue(b []byte) error
	// Stalled returns for how long the other end has taken nothing although something
	// waits for it, and whether it has taken a part of a message; 0 while nothing
	// waits, and on links that cannot tell.
	Stalled() (d time.Duration, midway bool)
	// Close ends both directions and unblocks Read. It is idempotent.
	Close() error
}

// ErrNotSent is wrapped by the errors of a send of which no byte has left, so
// that sending again cannot run anything twice.
var ErrNotSent = errors.New("not sent")

// ErrStalled is wrapped by the errors of messages that were withdrawn because the
// other end has stopped reading.
var ErrStalled = errors.New("the other end has stopped reading")

// ErrFull is wrapped by the error of a message that was dropped because too many
// wait for an end that does not read. It wraps ErrNotSent.
var ErrFull = fmt.Errorf("%w: too much waits for the other end", ErrNotSent)

// HeaderField is one mirrored header, its value already encoded (2026-07-28
// Streamable HTTP, "Value Encoding").
type HeaderField = mirror.Header

// ---- Towards clients: what a server half (a door) hands its traffic to.

// Peer is what a door knows about who is at it.
type Peer struct {
	Transport string              // "stdio", "http", "sse" or "inmem"
	Who       *identity.Principal // who authenticated; nil or identity.Local while nobody has to
	Remote    string              // network address without port, "" on stdio
	Endpoint  string              // the route's name, as configured at the door
}

// Acceptor makes conversations. It is implemented above the transports.
type Acceptor interface {
	// Accept begins a conversation. out is where messages go that belong to no
	// request; it is nil for a conversation of a single request. Accept does not
	// block.
	Accept(p Peer, out Outbox) Conversation
}

// Incoming is one message from a client.
type Incoming struct {
	Msg *jsonrpc.Message
	// Version is the MCP-Protocol-Version header, "" when absent or not HTTP.
	Version string
	// Params are the Mcp-Param-* headers as they arrived.
	Params []HeaderField
	// HTTP says that mirrored headers are due where the revision has them.
	HTTP bool
	// Opening is what mcp.Classify said of Msg, where the door has asked it and
	// made mcp.CheckModern; the zero Opening leaves both to the conversation.
	Opening mcp.Opening
}

// Conversation is the exchange with one client: a legacy session, one pipe, or
// one modern HTTP request. Its methods are safe for concurrent use.
type Conversation interface {
	// Request serves one request and returns after r.Finish, or after ctx ended
	// and what the request had started is over.
	Request(ctx context.Context, in Incoming, r Responder)
	// OneWay takes a notification or a response. The error says that a door with
	// statuses should refuse it (a *jsonrpc.Error), otherwise it is accepted.
	OneWay(ctx context.Context, in Incoming) error
	// Close ends the conversation: the client is gone or said so. It cancels what
	// is in flight and is idempotent.
	Close(cause error)
}

// Expecter is a Conversation to which a request can be announced by the goroutine
// that has read it, before another serves it. Without that a cancellation that is
// read right behind the request could overtake it and be lost.
type Expecter interface {
	// Expect does not block. What it returns serves the request as Request does, and
	// must be called once.
	Expect(ctx context.Context, in Incoming) (serve func(Responder))
}

// Expect announces a request to a conversation, where that is an Expecter. What it
// returns serves the request, and must be called once.
func Expect(ctx context.Context, c Conversation, in Incoming) (serve func(Responder)) {
	if e, ok := c.(Expecter); ok {
		return e.Expect(ctx, in)
	}
	return func(r Responder) { c.Request(ctx, in, r) }
}

// Responder takes what goes back for one request. Calls must not overlap; what
// they are given is not kept.
type Responder interface {
	// Event sends a message before the answer. On HTTP it turns the response into
	// a stream of events.
	Event(b []byte) error
	// Finish sends the answer, exactly once. code is the answer's error code, 0
	// for a result; HTTP takes its status from it. An empty b ends the response
	// without an answer: the request was cancelled.
	Finish(b []byte, code int64) error
}

// Postponer is a Responder whose link has a word of its own for a request that is
// refused because its sender has as much as it may have: HTTP's status 429.
type Postponer interface {
	// Postpone is called before Finish, whose answer says the same to those that read
	// it. after is how long to wait before trying again. It does nothing once an
	// event was sent.
	Postpone(after time.Duration)
}

// Queuer is a Responder whose link can hold an event back without holding its
// sender.
type Queuer interface {
	// Queue is Event for a message that the client can do without, such as progress.
	// It does not wait for the client, and drops the message when too much waits.
	Queue(b []byte) error
	// Send is Event for a message that is needed until ctx ends, such as a question.
	Send(ctx context.Context, b []byte) error
}

// Outbox takes messages that belong to no request: the GET stream of a session,
// standard output. Send is safe for concurrent use, does not keep b and does not wait
// for the client; ErrNoStream says that the client has no such stream open, ErrFull
// that too much waits for it.
type Outbox interface {
	Send(b []byte) error
}

// ErrNoStream is returned by an Outbox to whose client no stream is open.
var ErrNoStream = errors.New("the client has no stream open for this")

// ---- Towards servers: the client half of Streamable HTTP.

// Rules are what HTTP does differently per revision. They are filled from mcp's
// feature table by whoever knows the revision. The zero value is the shape of
// 2025-03-26: sessions, a GET stream, no headers.
type Rules struct {
	Version         string // sent as MCP-Protocol-Version; "" sends none
	Sessions        bool   // keep and send Mcp-Session-Id, end with DELETE
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
	Name   string        // what Mcp-Name mirrors, not yet encoded; "" for none
	Params []HeaderField // Mcp-Param-*
	Header []HeaderField // further headers of this message alone
	Rules  *Rules
}

// Inbox takes what arrives from a server before an answer, or outside of any
// request: notifications, in legacy revisions requests, and from servers that confuse
// their clients the answers to other requests. It is called by one goroutine at a time
// for one stream and must not block for long.
type Inbox func(*jsonrpc.Message)

// StatusError is an HTTP answer that is not a success, or that is a success but
// not MCP.
type StatusError struct {
	Status      int
	ContentType string
	Body        []byte        // at most 64 KiB of it
	RetryAfter  time.Duration // 0 when not given
	Challenge   string        // WWW-Authenticate
	// Msg is the body as a JSON-RPC message, nil when it is none.
	Msg *jsonrpc.Message
}

func (e *StatusError) Error() string {
	if e.Status >= 200 && e.Status < 300 {
		return fmt.Sprintf("HTTP status %d without an MCP answer", e.Status)
	}
	return fmt.Sprintf("HTTP status %d", e.Status)
}

// Excerpt returns the beginning of the body for people to read: at most 200
// bytes, on one line, without control characters or broken UTF-8.
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
