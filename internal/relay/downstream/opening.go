package downstream

import (
	"bytes"
	"cmp"
	"log/slog"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/base/excerpt"
	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
	"github.com/dragoman-mcp/dragoman/internal/relay/event"
	"github.com/dragoman-mcp/dragoman/internal/transport"
)

// opened publishes an event about m, an initialize or server/discover request that arrived at the
// time start. f describes the client and its negotiated revision. err is not nil if the handshake
// failed.
func (c *Session) opened(m *jsonrpc.Message, f *mcp.ClientInfo, start time.Time, err error) {
	e := event.Event{From: f.Revision, Took: time.Since(start), Outcome: event.OK}
	opening := openingOf(m)
	switch {
	case err != nil:
		bad := mcp.WireHandshake(err)
		e.Outcome, e.Code, e.Detail = mcp.Failed, bad.Code, excerpt.MaskSecrets(excerpt.Line(bad.Message, 512))
	case opening.Requested != "" && opening.Requested != f.Revision.String():
		e.Outcome = event.Negotiated
		e.Detail = "The client asked for " + opening.Requested + "."
	}
	c.endpoint.publishOpening(c.peer(), m.Method, opening, e)
}

// refused publishes an event about m. bad is the error with which Dragoman refuses m.
func (c *Session) refused(m *jsonrpc.Message, bad *jsonrpc.Error) {
	c.endpoint.Refused(transport.RefusedMessage{Peer: c.peer(), Method: m.Method, Msg: m, Err: bad})
}

// peer describes the client, with only those fields of transport.Peer that events need.
func (c *Session) peer() transport.Peer {
	return transport.Peer{Transport: c.transport, Who: c.who, Remote: c.remote}
}

// Refused publishes an event about a message that was refused: a failed handshake if it is an
// initialize or server/discover request, and otherwise an [event.BadMessage]. A request that is
// valid except for its revision is reported only if it is a handshake, because a client may try
// several revisions. Refused implements transport.RefusalWatcher.
func (r *Endpoint) Refused(o transport.RefusedMessage) {
	if o.Method != mcp.MethodInitialize && o.Method != mcp.MethodDiscover {
		if !isVersionError(o.Err) && r.Events.Wants(event.BadMessage) {
			r.Events.Publish(event.Event{
				Kind: event.BadMessage, Level: slog.LevelInfo, Who: o.Peer.Who, Method: o.Method, Name: cmp.Or(o.Peer.Remote, o.Peer.Transport),
				Outcome: event.Malformed, Code: o.Err.Code, Detail: excerpt.MaskSecrets(excerpt.Line(o.Err.Message, 512)),
			})
		}
		return
	}
	e := event.Event{Outcome: event.Malformed, Code: o.Err.Code, Detail: o.Err.Message}
	switch {
	case o.Limited:
		e.Outcome = event.RateLimited
	case isVersionError(o.Err):
		e.Outcome = event.UnsupportedVersion
	}
	r.publishOpening(o.Peer, o.Method, openingOf(o.Msg), e)
}

// isVersionError reports whether an error from Dragoman says that a revision is not supported.
func isVersionError(e *jsonrpc.Error) bool {
	return e.Code == mcp.CodeUnsupportedVersion || bytes.Contains(e.Data, []byte(versionCode))
}

// publishOpening publishes an event about the handshake of a client. e contains the result of the
// handshake. publishOpening sets the other fields.
func (r *Endpoint) publishOpening(p transport.Peer, method string, o *event.Opening, e event.Event) {
	if !r.Events.Wants(event.Handshake) {
		return
	}
	o.Remote = cmp.Or(p.Remote, p.Transport)
	e.Kind, e.Level, e.Who, e.Method, e.Name, e.Opening = event.Handshake, slog.LevelInfo, p.Who, method, o.Client, o
	if e.Outcome == event.UnsupportedVersion {
		e.Level = slog.LevelWarn // a person has to update the client, or configure Dragoman to accept its revision
	}
	r.Events.Publish(e)
}

// openingOf reads what the client says about itself in initialize or server/discover. m may be
// nil.
func openingOf(m *jsonrpc.Message) *event.Opening {
	o := &event.Opening{Client: unknownName, Version: unknownName}
	if m == nil {
		return o
	}
	info, date := m.Param("clientInfo"), m.Param("protocolVersion")
	if m.Method == mcp.MethodDiscover {
		meta := m.Param(mcp.KeyMeta)
		info, date = jsonrpc.Find(m.Raw, meta, mcp.KeyClientInfo), jsonrpc.Find(m.Raw, meta, mcp.KeyVersion)
	}
	text := func(at jsonrpc.Span) string {
		s, _ := jsonrpc.Text(m.Raw, at)
		return excerpt.MaskSecrets(excerpt.Name(s))
	}
	if name := text(jsonrpc.Find(m.Raw, info, "name")); name != "" {
		o.Client = name
	}
	if version := text(jsonrpc.Find(m.Raw, info, "version")); version != "" {
		o.Version = version
	}
	o.Requested = text(date)
	return o
}

const unknownName = "unknown"

var _ transport.RefusalWatcher = (*Endpoint)(nil)
