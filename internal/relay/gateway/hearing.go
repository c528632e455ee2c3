package gateway

import (
	"context"

	"github.com/dragoman-mcp/dragoman/internal/base/excerpt"
	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
	"github.com/dragoman-mcp/dragoman/internal/relay/bridge"
)

// noteFilter decides which notifications a client gets from a server.
type noteFilter struct {
	bridge *bridge.Bridge
	client *mcp.ClientInfo
	sole   bool // the client knows only this server
}

// passes reports whether the client gets a notification of a server.
//
// That the user is done at a URL is for the client that got this URL from this server. Others might take
// it for the end of a question of their own, with the same id.
//
// A notification that MCP does not define says something only to a client that knows the vendor. At an
// endpoint of several servers, the user has not chosen the server for that, and the text of one server
// must not reach a model unasked. So there, a client gets such a notification only if it has declared an
// extension of a vendor. Nothing connects the names of notifications and extensions, so any one counts.
func (h noteFilter) passes(server string, m *jsonrpc.Message) bool {
	why := "the client has declared no extension that may define the notification"
	switch {
	case m.Method == mcp.NoteElicitComplete:
		id, _ := jsonrpc.Text(m.Raw, m.Param("elicitationId"))
		if !h.sole {
			id = mcp.ElicitationID(server, id)
		}
		here, anywhere := h.bridge.ShownURL(h.client, server, id)
		if here || anywhere {
			return here
		}
		why = "no client got a question with this id from the server"
	case h.sole, mcp.IsServerNote(m.Method), h.client.KnowsVendors():
		return true
	}
	h.bridge.ReportLoss(server, excerpt.Cut(m.Method, maxRepeated), why)
	return false
}

// filteredCaller is the Caller of a call, without the notifications that its client must not get.
type filteredCaller struct {
	mcp.Caller
	noteFilter
	attempt *mcp.Attempt // says which server has the call
}

func (k *filteredCaller) Notify(n *mcp.Note) {
	server := k.attempt.Server
	if server == "" || k.passes(server, n.Msg) {
		if !k.sole && n.Msg.Method == mcp.NoteElicitComplete {
			mcp.NameElicitation(&n.Edits, n.Msg.Raw, n.Msg.Params, server)
		}
		k.Caller.Notify(n)
	}
}

func (k *filteredCaller) Ask(ctx context.Context, m *jsonrpc.Message) (*jsonrpc.Message, error) {
	if m.Method == mcp.MethodElicit {
		k.bridge.ShowsURL(k.client, k.attempt.Server, m.Raw, m.Params)
	}
	return k.Caller.Ask(ctx, m)
}

// filteredSubscriber is a client that a server asks outside of calls.
type filteredSubscriber struct {
	mcp.Subscriber
	noteFilter
	server string
}

func (s *filteredSubscriber) Ask(ctx context.Context, m *jsonrpc.Message) (*jsonrpc.Message, error) {
	if m.Method == mcp.MethodElicit {
		s.bridge.ShowsURL(s.client, s.server, m.Raw, m.Params)
	}
	return s.Subscriber.Ask(ctx, m)
}
