package conn

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/base/excerpt"
	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/base/work"
	"github.com/dragoman-mcp/dragoman/internal/protocol/dialect"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
	"github.com/dragoman-mcp/dragoman/internal/relay/event"
	"github.com/dragoman-mcp/dragoman/internal/relay/handshake"
)

// This file protects a server from requests that it cannot handle. These are requests that need a
// capability that the server has not declared, requests that crash the server, and calls that come
// too early.

// undeclared returns the capabilities that a legacy server has not declared. It returns nil if the
// server has declared no capabilities at all, because some servers have tools but omit the
// capabilities. It also returns nil for a modern server, because a modern server answers a request for
// an unknown method with an error.
func undeclared(o *handshake.Outcome) map[string]bool {
	if !o.Revision.Legacy() {
		return nil
	}
	caps := o.Hello.Capabilities
	some := false
	for range jsonrpc.Members(caps, jsonrpc.Whole(caps)) {
		some = true
		break
	}
	if !some {
		return nil
	}
	lacks := map[string]bool{}
	for _, name := range []string{"tools", "prompts", "resources", "logging", "completions"} {
		if name == "completions" && !o.Revision.Can(mcp.Completions) {
			continue // the revision does not have this capability
		}
		if jsonrpc.Find(caps, jsonrpc.Whole(caps), name).IsZero() {
			lacks[name] = true
		}
	}
	return lacks
}

// suppress returns the reply to a call that must not be sent to the server. It returns nil for a call
// that may be sent.
func (c *Conn) suppress(opened *handshake.Outcome, a *mcp.Attempt) *mcp.Reply {
	m := a.Msg
	switch {
	case m.Method == mcp.MethodCallTool:
		if m.Params.IsZero() && opened.Revision.Legacy() {
			// Some servers crash because they read params.name without checking that params exists.
			return mcp.Fail(&jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: "params.name must be a string"})
		}
	case m.Method == mcp.MethodListTools && opened.Tools != nil:
		return &mcp.Reply{Msg: opened.Tools, From: opened.Revision, Server: opened.Hello.Info, Cut: opened.Tools.Cut}
	}
	if opened.Dialect.Suppresses(m.Method) {
		return mcp.Fail(mcp.MethodNotFound(excerpt.Name(m.Method)))
	}
	if a.Method != nil && len(c.lacks) > 0 && c.lacks[a.Method.Capability] {
		// §Lifecycle, "Operation", of all legacy revisions: only negotiated capabilities may be
		// used. Some servers never answer a request that needs another capability.
		e := mcp.MethodNotFound(excerpt.Name(m.Method))
		e.Message += " (the server has not declared the capability " + a.Method.Capability + ")"
		return mcp.Fail(e)
	}
	return nil
}

// leftOut returns the error for a call of a tool that no list shows, because its x-mcp-header is invalid
// (2026-07-28 §Streamable HTTP, "Schema Extension").
func leftOut(a *mcp.Attempt, why error) *jsonrpc.Error {
	return &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: "Unknown tool: " + excerpt.Name(a.Name) + " (its x-mcp-header is invalid: " + why.Error() + ")"}
}

// tooLong returns the error for a call that is longer than the server can read.
func (c *Conn) tooLong(a *mcp.Attempt, p *dialect.Profile, size int) *mcp.Error {
	return &mcp.Error{
		Code: jsonrpc.CodeInvalidParams, Origin: mcp.FromClient, Upstream: c.opts.Name, Cause: "too_large", Outcome: mcp.NotSent,
		Message: fmt.Sprintf("the request has %d bytes, but this server accepts at most %d", size+1, p.MaxMessage),
		Op:      "call " + c.opts.Name + " " + excerpt.Name(a.Msg.Method),
	}
}

// untilReady sends a call to a server that has not answered any call with a result yet. If the server
// says that it has not processed notifications/initialized, untilReady retries the call, up to three
// times. A retry is safe, because the server has not executed a call that it refused in this way.
func (c *Conn) untilReady(ctx context.Context, opened *handshake.Outcome, a *mcp.Attempt, k mcp.Caller) (*mcp.Reply, error) {
	var reply *mcp.Reply
	wait := func(ctx context.Context, d time.Duration) error {
		c.logNotReady(reply, a, d)
		return work.Sleep(ctx, d)
	}
	m, err := handshake.UntilReady(ctx, wait, opened.NotReady, func() (*jsonrpc.Message, error) {
		var err error
		if reply, err = c.attempt(ctx, opened, a, k); err != nil {
			return nil, err
		}
		return reply.Msg, nil
	})
	if err != nil {
		return nil, err
	}
	if m.Kind == jsonrpc.Result {
		c.ready.Store(true)
	}
	return reply, nil
}

func (c *Conn) logNotReady(reply *mcp.Reply, a *mcp.Attempt, d time.Duration) {
	said, _ := jsonrpc.Text(reply.Msg.Raw, jsonrpc.Find(reply.Msg.Raw, reply.Msg.Error, "message"))
	text := fmt.Sprintf("%s -> error %d %q; the server waits for %s; retrying in %s", c.shown(a.Msg.Method), reply.Code(), c.shown(said), mcp.NoteInitialized, d)
	c.opts.Log.Info("server is not ready", "server", c.opts.Name, "step", text)
	c.opts.Events.Publish(event.Event{
		Kind: event.Handshake, Level: slog.LevelInfo, Who: a.Client.Who, Server: c.opts.Name, Method: a.Msg.Method,
		From: a.Client.Revision, To: reply.From, Call: a.Number, Code: reply.Code(), Outcome: mcp.Failed, Detail: text + "\n",
	})
}
