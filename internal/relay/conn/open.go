package conn

import (
	"context"

	"github.com/dragoman-mcp/dragoman/internal/relay/handshake"
	"github.com/dragoman-mcp/dragoman/internal/transport"
)

// OpenPipe opens a connection to the server at the other end of a pipe. It takes ownership of
// the pipe, and closes it on any error. The errors come from package handshake.
func OpenPipe(ctx context.Context, p transport.Pipe, offer handshake.Offer, o Options) (*Conn, error) {
	s := newConn(o)
	l := newPipeConn(s, p)
	offer.HTTP = false
	return s.open(ctx, l, offer)
}

// OpenHTTP opens a connection to the server at a Streamable HTTP endpoint. The errors come from
// package handshake.
func OpenHTTP(ctx context.Context, h Poster, offer handshake.Offer, o Options) (*Conn, error) {
	s := newConn(o)
	l := newHTTPConn(s, h)
	offer.HTTP = true
	s, err := s.open(ctx, l, offer)
	if err != nil {
		return nil, err
	}
	l.listen()
	return s, nil
}

func (s *Conn) open(ctx context.Context, l handshake.Link, offer handshake.Offer) (*Conn, error) {
	if offer.ClientInfo == nil {
		offer.ClientInfo = s.opts.Info
	}
	if offer.Capabilities == nil {
		offer.Capabilities = s.opts.Capabilities
	}
	out, err := handshake.Open(ctx, l, offer)
	if err != nil {
		_ = s.Close(err)
		return nil, err
	}
	s.lacks = undeclared(out)
	s.opening.Store(out)
	return s, nil
}
