package conn

import (
	"context"

	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
	"github.com/dragoman-mcp/dragoman/internal/relay/handshake"
	"github.com/dragoman-mcp/dragoman/internal/transport"
)

// OpenPipe opens a connection to the server at the other end of a pipe. It takes ownership of
// the pipe, and closes it on any error. The errors come from package handshake.
func OpenPipe(ctx context.Context, p transport.Pipe, offer handshake.Offer, o Options) (*Conn, error) {
	c := newConn(o)
	l := newPipeConn(c, p)
	offer.HTTP = false
	return c.open(ctx, l, offer)
}

// OpenHTTP opens a connection to the server at a Streamable HTTP endpoint. The errors come from
// package handshake.
func OpenHTTP(ctx context.Context, h Poster, offer handshake.Offer, o Options) (*Conn, error) {
	c := newConn(o)
	l := newHTTPConn(c, h)
	offer.HTTP = true
	c, err := c.open(ctx, l, offer)
	if err != nil {
		return nil, err
	}
	l.listen()
	return c, nil
}

func (c *Conn) open(ctx context.Context, l handshake.Link, offer handshake.Offer) (*Conn, error) {
	if offer.ClientInfo == nil {
		offer.ClientInfo = c.opts.Info
	}
	if offer.Capabilities == nil {
		offer.Capabilities = c.opts.Capabilities
	}
	offer.Capabilities = mcp.ForHop(offer.Capabilities, c.opts.Extension)
	out, err := handshake.Open(ctx, l, offer)
	if err != nil {
		_ = c.Close(err)
		return nil, err
	}
	c.lacks = undeclared(out)
	c.opening.Store(out)
	return c, nil
}
