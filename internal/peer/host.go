package peer

import (
	"context"
	"errors"

	"github.com/dragoman-mcp/dragoman/internal/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/mcp"
)

// Host is what stands behind a client's conversation and answers it: the gateway.
type Host interface {
	// Hello returns what a client is told when it opens. It may block until the
	// servers behind have answered, or as long as ctx.
	Hello(ctx context.Context, f *mcp.ClientFacts) (*mcp.Hello, error)
	// Call answers one request, every method but those of the handshake itself.
	// The error is turned into a Failure with mcp.Wire.
	Call(ctx context.Context, c *mcp.Call, s Sink) (*mcp.Reply, error)
	// Notice takes a client's notification that is not about our own conversation.
	Notice(ctx context.Context, f *mcp.ClientFacts, m *jsonrpc.Message)
	// Attach says that a legacy client has finished its handshake and hears
	// standing notices from now on. detach is called once, when it is gone.
	Attach(f *mcp.ClientFacts, s Standing) (detach func())
}

// Sink takes what comes back while a call runs, before its answer.
type Sink interface {
	// Notify passes on a notification, already in this client's words and with its
	// token. It never blocks for longer than the client's link may stall.
	Notify(b []byte)
	// Ask puts a server's request to the client and waits for the answer. m is the
	// server's own message; the answer carries m's id. ErrCannotAsk says that this
	// client cannot be asked while its call runs.
	Ask(ctx context.Context, m *jsonrpc.Message) (*jsonrpc.Message, error)
}

// Standing takes what a client is told outside of any call.
type Standing interface {
	Sink
	// Facts returns what is known of the client now; its log level may change.
	Facts() *mcp.ClientFacts
}

// ErrCannotAsk is returned by the Sink of a client that has no live requests.
var ErrCannotAsk = errors.New("this client cannot be asked while its call runs")

// ErrCancelled is the cause of the context of a call that its client gave up.
var ErrCancelled = errors.New("cancelled by the client")
