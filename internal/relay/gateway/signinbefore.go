package gateway

import (
	"context"
	"sync"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
	"github.com/dragoman-mcp/dragoman/internal/relay/catalog"
)

// This file is about what clients get from a server before somebody has signed in to it: the answer to their
// handshake, and lists.

// signInPage returns a client's list of a server that can't be listed before somebody has signed in: that of
// the tools contains the tool with which they do, and the others are empty. It returns nil for a list that the
// server has answered, except one of a capability that the server turns out not to have: the client was
// told that there are all of them before anybody knew; see helloBefore.
func (x runner) signInPage(r *route, reply *mcp.Reply, err error) *mcp.Reply {
	key, tools := keyOf(r.Server, r.Client), r.Msg.Method == mcp.MethodListTools
	list := append(jsonrpc.AppendQuote([]byte{'{'}, r.Method.ListKey), ":["...)
	switch {
	case x.signer.needed(err) != nil && tools:
		x.signer.hand(key, true)
		list = append(list, catalog.SignInTool(catalog.SignIn, r.Server)...)
	case x.signer.needed(err) != nil:
	case err != nil:
		return nil
	case reply.Code() == jsonrpc.CodeMethodNotFound:
		x.bridge.ReportLoss(r.Server, r.Msg.Method, "the server does not have this list, which clients were told before somebody had signed in; it is empty")
	default:
		if tools {
			x.signer.hand(key, false)
		}
		return nil
	}
	return mcp.Answer(append(list, "]}"...))
}

// greet returns the server information for a client of a server for which somebody has to sign in first. began
// is when the client's request came. If the person isn't done in time, the client gets what is known from an
// earlier handshake, or else that there may be everything.
func (g *Single) greet(ctx context.Context, f *mcp.ClientInfo, began time.Time, why error) (*mcp.ServerInfo, error) {
	if g.SignIn.AtHandshake {
		wait, stop := context.WithDeadline(ctx, began.Add(helloLimit)) // an issuer may be slow, too
		defer stop()
		if a, err := g.SignIn.Signer.SignIn(wait, f.Who, g.Upstream.Name()); err == nil {
			a.browse()
			select {
			case <-a.Done:
				g.SignIn.signed(g.Upstream, f)
				if h, err := g.Upstream.Hello(ctx, f); g.SignIn.needed(err) == nil {
					return h, err
				}
			case <-wait.Done():
			}
		}
		if ctx.Err() != nil {
			return nil, why
		}
	}
	h := g.known.get(g.Upstream.Scope(f), g.Kept)
	if h == nil {
		h = &mcp.ServerInfo{Info: g.SignIn.Info, Instructions: []byte(`""`)}
	}
	return helloBefore(h), nil
}

// knownHellos is the server information from earlier handshakes, by credential scope. The zero value is ready
// to use.
type knownHellos struct {
	mu  sync.Mutex
	all map[string]*mcp.ServerInfo
}

// get returns what is known, from this process or, for the scope "", from an earlier one. kept may be nil.
func (k *knownHellos) get(scope string, kept catalog.Keeper) *mcp.ServerInfo {
	k.mu.Lock()
	h := k.all[scope]
	k.mu.Unlock()
	if h != nil || scope != "" || kept == nil {
		return h
	}
	items, read := kept.Recall(keptHello)
	if read.IsZero() || len(items) != 1 {
		return nil
	}
	v := jsonrpc.ValueOf(items[0])
	return &mcp.ServerInfo{Info: v.Get("info").Raw(), Capabilities: v.Get("capabilities").Raw(), Instructions: v.Get("instructions").Raw()}
}

func (k *knownHellos) set(scope string, h *mcp.ServerInfo, kept catalog.Keeper) {
	k.mu.Lock()
	k.all = put(k.all, scope, h)
	k.mu.Unlock()
	if scope != "" || kept == nil || h.Info == nil || h.Capabilities == nil {
		return
	}
	out := append(append([]byte(`{"info":`), h.Info...), `,"capabilities":`...)
	out = append(append(out, h.Capabilities...), `,"instructions":`...)
	if h.Instructions == nil {
		out = append(out, `""`...)
	}
	kept.Keep(keptHello, [][]byte{append(append(out, h.Instructions...), '}')}, time.Now())
}

// keptHello is the name under which server information is kept.
const keptHello = "hello"

// helloBefore returns server information, of an earlier handshake or made by us, for a client of a server that
// can't say yet what it has. The client can't be told later, so it's told that there may be everything, and
// that it hears of it.
func helloBefore(h *mcp.ServerInfo) *mcp.ServerInfo {
	out, caps := *h, h.Capabilities
	if jsonrpc.ValueOf(caps).Kind() != '{' {
		caps = []byte("{}")
	}
	var set []jsonrpc.Field
	for _, list := range []string{"prompts", "resources", "tools"} {
		have := jsonrpc.Find(caps, jsonrpc.Whole(caps), list).Of(caps)
		if jsonrpc.ValueOf(have).Kind() != '{' {
			have = []byte("{}")
		}
		var e jsonrpc.Edits
		e.Object(mcp.WhyCapabilities, have, jsonrpc.Whole(have), nil, jsonrpc.Field{Key: "listChanged", Value: []byte("true")})
		set = append(set, jsonrpc.Field{Key: list, Value: jsonrpc.Splice(nil, have, &e)})
	}
	var e jsonrpc.Edits
	e.Object(mcp.WhyCapabilities, caps, jsonrpc.Whole(caps), nil, set...)
	out.Capabilities, out.Raw = jsonrpc.Splice(nil, caps, &e), nil
	return &out
}
