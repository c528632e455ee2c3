package bridge

import (
	"context"
	"errors"
	"fmt"

	"github.com/dragoman-mcp/dragoman/internal/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/mcp"
	"github.com/dragoman-mcp/dragoman/internal/mcp/mirror"
)

// Exchange takes a call to its server and the answer back, rounds of questions and
// tasks included. The call's edits already say what the server calls things.
func (r *Bridge) Exchange(ctx context.Context, u Server, c *mcp.Call, s mcp.Caller) (*mcp.Reply, error) {
	if !c.Sole && c.Client.Revision.Can(mcp.ExperimentalTasks) && c.Client.Declares("tasks") {
		s = apart{s}
	}
	c.Server = u.Name()
	if c.Msg.Method == mcp.MethodCallTool {
		return r.callTool(ctx, u, c, s)
	}
	return r.rounds(ctx, u, c, s)
}

// rounds takes a call to its server and the answer back, with the rounds of
// questions in between.
func (r *Bridge) rounds(ctx context.Context, u Server, c *mcp.Call, s mcp.Caller) (*mcp.Reply, error) {
	if c.HTTP && c.Client.Revision.Can(mcp.MirroredHeaders) && c.Msg.Method == mcp.MethodCallTool {
		// 2026-07-28 §Streamable HTTP, "Server Behavior for Custom Headers":
		// whoever processes the body must check them, known or not to the server.
		if params, known := u.ToolParams(ctx, c.Client, c.Name); known {
			if bad := mirror.CheckHeaders(params, c.Msg.Raw, c.Msg.Param("arguments"), c.Headers); bad != nil {
				return nil, bad
			}
		}
	}
	reply, err := r.call(ctx, u, c, s)
	if err != nil {
		return nil, err
	}
	if reply.Code() == mcp.CodeURLElicitationRequired {
		for e := range jsonrpc.Elements(reply.Msg.Raw, urlsOf(reply)) {
			if why := mcp.URLProblem(reply.Msg.Raw, e); why != "" {
				return nil, r.unfitVisit(u, why)
			}
		}
	}
	if reply.From.Legacy() && c.Client.Revision.Can(mcp.InputRequired) {
		return r.fromLegacy(u, c, reply)
	}
	if !reply.From.Can(mcp.InputRequired) || reply.ResultType() != mcp.ResultInputRequired {
		return reply, nil
	}
	if err := r.checkInputRequired(u, c, reply); err != nil {
		return nil, err
	}
	if c.Client.Revision.Can(mcp.InputRequired) {
		reply.Asks = true
		return r.seal(u, c, reply)
	}
	return r.playLive(ctx, u, c, s, reply)
}

// fromLegacy looks in a legacy server's answer for what a modern client has to do
// before there is one.
func (r *Bridge) fromLegacy(u Server, c *mcp.Call, reply *mcp.Reply) (*mcp.Reply, error) {
	switch {
	case reply.Code() == mcp.CodeURLElicitationRequired:
		if asked, err := r.urlsNeeded(u, c, reply); asked != nil || err != nil {
			return asked, err
		}
	case askedInAnswer(c, reply):
		if err := r.checkInputRequired(u, c, reply); err != nil {
			return nil, err
		}
		return r.carryAsked(u, c, reply)
	}
	return reply, nil
}

// askedInAnswer reports whether a legacy server's result asks for something in the
// newer form. There are servers of both eras that fall back to live questions on an
// older session, and run out of them: what they ask next stands in their answer,
// with the newer result type or without any. Whether they may ask it is for
// checkInputRequired to say.
func askedInAnswer(c *mcp.Call, reply *mcp.Reply) bool {
	if reply.ResultType() == mcp.ResultInputRequired {
		return true
	}
	m := reply.Msg
	if m.Kind != jsonrpc.Result || c.Method == nil || !c.Method.MayAsk {
		return false
	}
	for ask := range jsonrpc.Members(m.Raw, m.ResultMember("inputRequests")) {
		method, _ := jsonrpc.Text(m.Raw, jsonrpc.Find(m.Raw, ask.Value, "method"))
		if mcp.AskCapability(method) != "" {
			return true
		}
	}
	return false
}

// carryAsked passes on what a legacy server has asked in its answer. The server
// gets answers only to what it has asked in this way, so that the client is always
// given a state to prove that it did.
func (r *Bridge) carryAsked(u Server, c *mcp.Call, reply *mcp.Reply) (*mcp.Reply, error) {
	m := reply.Msg
	state, err := r.mint(u, c, 'S', m.ResultMember("requestState").Of(m.Raw))
	if err != nil {
		return nil, err
	}
	out := []byte(`{"resultType":"input_required",`)
	if asks := m.ResultMember("inputRequests"); !asks.IsZero() {
		out = append(append(append(out, `"inputRequests":`...), asks.Of(m.Raw)...), ',')
	}
	out = jsonrpc.AppendQuote(append(out, `"requestState":`...), state)
	return newInputRequired(append(out, '}')), nil
}

// call sends a call to its server, or goes on with the one that a retry belongs
// to.
func (r *Bridge) call(ctx context.Context, u Server, c *mcp.Call, s mcp.Caller) (*mcp.Reply, error) {
	if c.Client.Revision.Can(mcp.InputRequired) {
		state, err := r.open(u, c)
		kind, inner := state.kind, state.inner
		switch {
		case err != nil:
			if errors.Is(err, error(errState)) {
				r.refuse(c, u.Name())
			}
			return nil, err
		case kind == 'P':
			return r.resume(ctx, u, c, s, string(inner))
		case kind == 'S' && len(inner) == 0:
			c.Edits.Object(mcp.WhyState, c.Msg.Raw, c.Msg.Params, func(k []byte) bool { return string(k) == "requestState" })
			c.Answers = true
		case kind == 'S':
			// The server's own state, to the byte.
			c.Edits.Replace(mcp.WhyState, c.Msg.Param("requestState"), inner)
			c.Answers = true
		}
		leave, err := r.takeState(u, state)
		if err != nil {
			return nil, err
		}
		if mayPark(c) {
			return r.start(ctx, u, c, s, leave)
		}
		defer leave()
	}
	return u.Call(ctx, c, s)
}

// checkInputRequired holds a server to what an input_required result may be
// (2026-07-28 §MRTR, "Server Requirements").
func (r *Bridge) checkInputRequired(u Server, c *mcp.Call, reply *mcp.Reply) error {
	m := reply.Msg
	if c.Method == nil || !c.Method.MayAsk {
		return badAnswer(u, "asked for input on "+c.Msg.Method)
	}
	asks := m.ResultMember("inputRequests")
	if asks.IsZero() && m.ResultMember("requestState").IsZero() {
		return badAnswer(u, "asked for input without saying which")
	}
	if kind := jsonrpc.KindOf(m.Raw, asks); kind != 0 && kind != '{' {
		return badAnswer(u, "asked for input in a form that is no question")
	}
	return r.CheckQuestions(u, c.Client, m.Raw, asks)
}

// CheckQuestions refuses input requests that no client may be shown, and those that
// this one has not declared. asks is an object of them, or absent.
func (r *Bridge) CheckQuestions(u Server, f *mcp.ClientInfo, raw []byte, asks jsonrpc.Span) error {
	missing := map[string]bool{}
	for ask := range jsonrpc.Members(raw, asks) {
		method, _ := jsonrpc.Text(raw, jsonrpc.Find(raw, ask.Value, "method"))
		capability := mcp.AskCapability(method)
		if capability == "" {
			return badAnswer(u, "asked with a method that is no question")
		}
		if method == mcp.MethodElicit {
			if why := mcp.URLProblem(raw, jsonrpc.Find(raw, ask.Value, "params")); why != "" {
				return r.unfitVisit(u, why)
			}
		}
		if !f.Declares(capability) {
			missing[capability] = true
		}
	}
	if len(missing) == 0 {
		return nil
	}
	need := []byte{'{'}
	for _, k := range []string{"elicitation", "roots", "sampling"} {
		if missing[k] {
			if len(need) > 1 {
				need = append(need, ',')
			}
			need = append(append(append(need, '"'), k...), `":{}`...)
		}
	}
	need = append(need, '}')
	code := int64(mcp.CodeMissingCapability)
	if !f.Revision.Can(mcp.InputRequired) {
		code = jsonrpc.CodeInvalidRequest // the code came with the modern revisions
	}
	return &jsonrpc.Error{
		Code:    code,
		Message: fmt.Sprintf("server %q needs something of the client that it has not declared", u.Name()),
		Data:    append(append([]byte(`{"requiredCapabilities":`), need...), '}'),
	}
}

// unfitVisit is the answer to a call for which a person would have been sent where
// nobody should go.
func (r *Bridge) unfitVisit(u Server, why string) error {
	r.TellLost(u.Name(), mcp.MethodElicit, why)
	return &mcp.Error{
		Origin: mcp.FromUpstream, Upstream: u.Name(), Cause: "unsafe_url", Outcome: mcp.Failed,
		Message: fmt.Sprintf("server %q asked to send the user to a page, and the request is not shown: %s", u.Name(), why), Op: "relay " + u.Name(),
	}
}

func badAnswer(u Server, what string) error {
	return &mcp.Error{
		Origin: mcp.FromUpstream, Upstream: u.Name(), Cause: "bad_response", Outcome: mcp.OutcomeUnknown,
		Message: fmt.Sprintf("server %q broke the protocol: it %s", u.Name(), what), Op: "relay " + u.Name(),
	}
}
