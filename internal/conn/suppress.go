package conn

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/dialect"
	"github.com/dragoman-mcp/dragoman/internal/event"
	"github.com/dragoman-mcp/dragoman/internal/excerpt"
	"github.com/dragoman-mcp/dragoman/internal/handshake"
	"github.com/dragoman-mcp/dragoman/internal/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/mcp"
)

// What is in this file keeps from a server what it cannot bear: calls that it has
// not offered to answer, or is known to die of, and calls that come too early.

// undeclared returns the capabilities that a legacy server has not declared although
// it has declared others, nil for none. Of one that declares nothing at all nothing
// follows: there are servers that leave it out and have tools. A modern one answers
// what it does not have.
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
			continue // nobody could declare it
		}
		if jsonrpc.Find(caps, jsonrpc.Whole(caps), name).IsZero() {
			lacks[name] = true
		}
	}
	return lacks
}

// suppress answers a call that is not to be sent, nil where it is.
func (s *Conn) suppress(opened *handshake.Outcome, c *mcp.Attempt) *mcp.Reply {
	m := c.Msg
	switch {
	case m.Method == mcp.MethodCallTool:
		if m.Params.IsZero() && opened.Revision.Legacy() {
			// Servers die of it that look for the name without looking whether there
			// are parameters.
			return mcp.Fail(&jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: "params.name must be a string"})
		}
	case m.Method == mcp.MethodListTools && opened.Tools != nil:
		return &mcp.Reply{Msg: opened.Tools, From: opened.Revision, Server: opened.Hello.Info}
	}
	if opened.Dialect.Suppresses(m.Method) {
		return mcp.Fail(mcp.MethodNotFound(excerpt.Name(m.Method)))
	}
	if c.Method != nil && len(s.lacks) > 0 && s.lacks[c.Method.Capability] {
		// §Lifecycle, "Operation", of all legacy revisions: only what was negotiated is
		// used. Some servers never answer the rest.
		e := mcp.MethodNotFound(excerpt.Name(m.Method))
		e.Message += " (the server offers no " + c.Method.Capability + ")"
		return mcp.Fail(e)
	}
	return nil
}

// tooLong is the error of a call that the server would die of reading.
func (s *Conn) tooLong(c *mcp.Attempt, p *dialect.Profile, size int) *mcp.Error {
	return &mcp.Error{
		Code: jsonrpc.CodeInvalidParams, Origin: mcp.FromClient, Upstream: s.opts.Name, Cause: "too_large", Outcome: mcp.NotSent,
		Message: fmt.Sprintf("the request has %d bytes, and this server reads no more than %d", size+1, p.MaxMessage),
		Op:      "call " + s.opts.Name + " " + excerpt.Name(c.Msg.Method),
	}
}

// untilReady is Call while the server has answered none yet: one that says that it
// has not taken in notifications/initialized is asked again, three times at most.
// What it refused so it has not looked at.
func (s *Conn) untilReady(ctx context.Context, opened *handshake.Outcome, c *mcp.Attempt, sink mcp.Caller) (*mcp.Reply, error) {
	var reply *mcp.Reply
	wait := func(ctx context.Context, d time.Duration) error {
		s.waiting(reply, c, d)
		t := time.NewTimer(d)
		defer t.Stop()
		select {
		case <-t.C:
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	m, err := handshake.UntilReady(ctx, wait, opened.NotReady, func() (*jsonrpc.Message, error) {
		var err error
		if reply, err = s.attempt(ctx, opened, c, sink); err != nil {
			return nil, err
		}
		return reply.Msg, nil
	})
	if err != nil {
		return nil, err
	}
	if m.Kind == jsonrpc.Result {
		s.ready.Store(true)
	}
	return reply, nil
}

func (s *Conn) waiting(reply *mcp.Reply, c *mcp.Attempt, d time.Duration) {
	said, _ := jsonrpc.Text(reply.Msg.Raw, jsonrpc.Find(reply.Msg.Raw, reply.Msg.Error, "message"))
	text := fmt.Sprintf("%s -> error %d %q; it waits for %s, so again in %s", excerpt.Name(c.Msg.Method), reply.Code(), excerpt.Name(said), mcp.NoteInitialized, d)
	s.opts.Log.Info("server is not ready", "server", s.opts.Name, "step", text)
	s.opts.Events.Publish(event.Event{
		Kind: event.Handshake, Level: slog.LevelInfo, Who: c.Client.Who, Server: s.opts.Name, Method: c.Msg.Method,
		From: c.Client.Revision, To: reply.From, Call: c.Number, Code: reply.Code(), Outcome: mcp.Failed, Detail: text + "\n",
	})
}
