package bridge

import (
	"context"
	"errors"
	"fmt"

	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp/mirror"
)

// Exchange relays a call to its server and returns the answer. It also handles requests for input
// and tasks. The attempt contains the names that the server uses. res is the result of Open for the
// call.
func (b *Bridge) Exchange(ctx context.Context, u Server, a *mcp.Attempt, res Resume, k mcp.Caller) (*mcp.Reply, error) {
	if !a.Sole {
		k = &askingCaller{k, u.Name(), a.Trail}
		if a.Client.Revision.Can(mcp.ExperimentalTasks) && a.Client.Declares("tasks") {
			k = withoutTaskList{k}
		}
	}
	a.Server, a.Agreed = u.Name(), res.once
	v := visit{server: u, client: a.Client, need: mcp.NeedOf(a.Call)}
	v.need.Session = a.Session
	defer v.release()
	reply, err := b.relay(ctx, &v, a, res, k)
	if errors.Is(err, mcp.ErrChanged) {
		reply, err = b.relay(ctx, &v, a, res, k)
	}
	a.To, a.Waited = v.to, v.waited
	if err == nil && !a.Sole {
		sayWhoAsks(a.Call, reply, u.Name())
	}
	return reply, err
}

func (b *Bridge) relay(ctx context.Context, v *visit, a *mcp.Attempt, res Resume, k mcp.Caller) (*mcp.Reply, error) {
	if a.Msg.Method == mcp.MethodCallTool {
		return b.withTasks(ctx, v, a, res, k)
	}
	return b.withInput(ctx, v, a, res, k)
}

// withInput relays a call to its server and returns the answer. It also relays the server's
// requests for input and sends the client's answers.
func (b *Bridge) withInput(ctx context.Context, v *visit, a *mcp.Attempt, res Resume, k mcp.Caller) (*mcp.Reply, error) {
	u, c := v.server, a.Call
	if c.HTTP && c.Client.Revision.Can(mcp.MirroredHeaders) && c.Msg.Method == mcp.MethodCallTool && a.Via == "" && res.kind != 'P' {
		// 2026-07-28 §Streamable HTTP, "Server Behavior for Custom Headers": the process that
		// handles the body must check the headers, even if the server does not use the headers. A client that calls
		// the tool through another one mirrors nothing of it.
		l, err := v.open(ctx)
		if err != nil {
			return nil, err
		}
		if tool := l.Tool(ctx, a.Name); tool.Known {
			if bad := mirror.CheckHeaders(tool.Params, a.Args, c.Headers); bad != nil {
				return nil, bad
			}
		}
	}
	reply, err := b.sendOrResume(ctx, v, a, res, k)
	for round := 0; err == nil && reply.Code() == mcp.CodeURLElicitationRequired; round++ {
		if err := b.checkURLs(u, a, reply); err != nil {
			return nil, err
		}
		if c.Elsewhere == nil || c.Client.Shows(true) || res.kind == 'P' || round == maxRounds {
			break
		}
		v.release()
		if opened, err := b.opensElsewhere(ctx, u, a, reply); err != nil {
			return nil, err
		} else if !opened {
			break
		}
		reply, err = b.sendOrResume(ctx, v, a, res, k) // the server has not executed it (2025-11-25 §Elicitation, "URL Elicitation Required")
	}
	if err != nil {
		return nil, err
	}
	if reply.From.Legacy() && c.Client.Revision.Can(mcp.InputRequired) {
		return b.fromLegacy(u, a, reply)
	}
	if !reply.From.Can(mcp.InputRequired) || reply.ResultType() != mcp.ResultInputRequired {
		return reply, nil
	}
	if err := b.checkInputRequired(u, a, reply); err != nil {
		return nil, err
	}
	if c.Client.Revision.Can(mcp.InputRequired) {
		if _, all := beyond(c, reply); !all {
			v.release()
			return b.askModern(ctx, u, a, k, reply)
		}
	}
	return b.relayLive(ctx, v, a, k, reply)
}

// checkURLs checks the pages in an error that requires URL elicitations first.
func (b *Bridge) checkURLs(u Server, a *mcp.Attempt, reply *mcp.Reply) error {
	for e := range jsonrpc.Elements(reply.Msg.Raw, urlsOf(reply)) {
		if why := b.Own.URLProblem(reply.Msg.Raw, e); why != "" {
			return b.unsafeURL(u, why)
		}
		if a.Passes != nil {
			if err := checkQuestion(u, a, jsonrpc.NewRequest("0", mcp.MethodElicit, e.Of(reply.Msg.Raw))); err != nil {
				return err
			}
		}
	}
	return nil
}

// fromLegacy checks whether a legacy server's answer asks a modern client for input. If it does,
// fromLegacy converts the answer.
func (b *Bridge) fromLegacy(u Server, a *mcp.Attempt, reply *mcp.Reply) (*mcp.Reply, error) {
	c := a.Call
	switch {
	case reply.Code() == mcp.CodeURLElicitationRequired:
		if asked, err := b.urlsNeeded(u, a, reply); asked != nil || err != nil {
			return asked, err
		}
	case askedInAnswer(c, reply):
		if err := b.checkInputRequired(u, a, reply); err != nil {
			return nil, err
		}
		if err := b.CheckQuestions(u, c.Client, reply.Msg.Raw, reply.Msg.ResultMember("inputRequests")); err != nil {
			return nil, err // nobody answers those elsewhere
		}
		return b.carryAsked(u, a, reply)
	}
	return reply, nil
}

// askedInAnswer reports whether a legacy server's result asks for input in the modern form. Some
// servers that speak both eras send a limited number of live requests on a legacy session. They put
// further requests into the result, with or without the modern result type. checkInputRequired
// decides whether such a result is allowed.
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

// carryAsked passes the input requests in a legacy server's answer on to the client. The client
// always gets a requestState, even if the server did not send one. In the retry, the requestState
// proves that the server asked for input. Without this proof, Dragoman must not send answers to the
// server.
func (b *Bridge) carryAsked(u Server, a *mcp.Attempt, reply *mcp.Reply) (*mcp.Reply, error) {
	m := reply.Msg
	state, err := b.mint(u, a.Call, sealKind('S', a.Agreed), m.ResultMember("requestState").Of(m.Raw))
	if err != nil {
		return nil, err
	}
	out := []byte(`{"resultType":"input_required",`)
	if asks := m.ResultMember("inputRequests"); !asks.IsZero() {
		out = append(append(append(out, `"inputRequests":`...), asks.Of(m.Raw)...), ',')
	}
	out = jsonrpc.AppendQuote(append(out, `"requestState":`...), state)
	asked := newInputRequired(append(out, '}'))
	a.Trail.Carry(mcp.WhyQuestion, m.Raw, m.ResultMember("inputRequests"), asked.Msg.Raw)
	return asked, nil
}

// sendOrResume sends a sendOrResume to its server. If the request is a retry of a parked sendOrResume, it resumes the
// parked sendOrResume instead.
func (b *Bridge) sendOrResume(ctx context.Context, v *visit, a *mcp.Attempt, res Resume, k mcp.Caller) (*mcp.Reply, error) {
	switch {
	case !a.Client.Revision.Can(mcp.InputRequired):
		return v.call(ctx, a, k)
	case res.kind == 'P':
		v.release()
		return b.resume(ctx, v.server, a.Call, k, string(res.inner))
	case res.kind == 'S':
		next := *a
		next.Answers = true
		if len(res.inner) == 0 {
			next.Edits.Object(mcp.WhyState, a.Msg.Raw, a.Msg.Params, func(k []byte) bool { return string(k) == "requestState" })
		} else {
			// The server gets its own state back, byte for byte.
			next.Edits.Replace(mcp.WhyState, a.Msg.Param("requestState"), res.inner)
		}
		a = &next
	case res.kind == 'E':
		a = withAnswers(a, res.inner)
	case res.kind == 'A', res.kind == 'W':
		// The state and the answers are Dragoman's own, so the server must not see them.
		next := *a
		next.Edits.Object(mcp.WhyState, a.Msg.Raw, a.Msg.Params, func(k []byte) bool {
			return string(k) == "requestState" || string(k) == "inputResponses"
		})
		a = &next
	}
	leave, err := b.takeState(v.server, res)
	if err != nil {
		return nil, err
	}
	if res.kind != 0 && res.call != 0 {
		a.Resume(res.call)
	}
	l, err := v.open(ctx)
	if err != nil {
		leave()
		return nil, err
	}
	if mayPark(a.Call) && l.Revision().Can(mcp.AskedMidCall) {
		v.lease = nil // the parked call releases the lease
		return b.start(ctx, v.server, l, a, k, leave)
	}
	defer leave()
	return l.Call(ctx, a, passing(a, k))
}

// checkInputRequired checks an input_required result of a server (2026-07-28 §MRTR, "Server
// Requirements").
func (b *Bridge) checkInputRequired(u Server, a *mcp.Attempt, reply *mcp.Reply) error {
	c, m := a.Call, reply.Msg
	if c.Method == nil || !c.Method.MayAsk {
		return badAnswer(u, "answered with input_required, which is not allowed for "+c.Msg.Method)
	}
	asks := m.ResultMember("inputRequests")
	if asks.IsZero() && m.ResultMember("requestState").IsZero() {
		return badAnswer(u, "sent input_required with neither inputRequests nor requestState")
	}
	if kind := jsonrpc.KindOf(m.Raw, asks); kind != 0 && kind != '{' {
		return badAnswer(u, "sent input_required with an invalid input request")
	}
	if err := b.checkQuestions(u, c.Client, m.Raw, asks); err != nil {
		return err
	}
	return checkPassing(u, a, m.Raw, asks)
}

// CheckQuestions returns an error if an input request must not be shown to any client, or needs a
// capability that the client f has not declared. asks is an object of input requests, or absent.
func (b *Bridge) CheckQuestions(u Server, f *mcp.ClientInfo, raw []byte, asks jsonrpc.Span) error {
	return b.checkQuestions(u, f.Itself(), raw, asks)
}

// checkQuestions does the same as CheckQuestions, and also allows what is answered elsewhere.
func (b *Bridge) checkQuestions(u Server, f *mcp.ClientInfo, raw []byte, asks jsonrpc.Span) error {
	missing := map[string]bool{}
	for ask := range jsonrpc.Members(raw, asks) {
		method, _ := jsonrpc.Text(raw, jsonrpc.Find(raw, ask.Value, "method"))
		capability := mcp.AskCapability(method)
		if capability == "" {
			return badAnswer(u, "sent an input request with an unknown method")
		}
		if method == mcp.MethodElicit {
			if why := b.Own.URLProblem(raw, jsonrpc.Find(raw, ask.Value, "params")); why != "" {
				return b.unsafeURL(u, why)
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
		code = jsonrpc.CodeInvalidRequest // older revisions do not have CodeMissingCapability
	}
	return &jsonrpc.Error{
		Code:    code,
		Message: fmt.Sprintf("server %q needs a capability that the client has not declared", u.Name()),
		Data:    append(append([]byte(`{"requiredCapabilities":`), need...), '}'),
	}
}

// unsafeURL reports a loss, and returns the error for a call whose server asked the client to open
// an unsafe URL.
func (b *Bridge) unsafeURL(u Server, why string) error {
	b.ReportLoss(u.Name(), mcp.MethodElicit, why)
	return &mcp.Error{
		Origin: mcp.FromUpstream, Upstream: u.Name(), Cause: "unsafe_url", Outcome: mcp.Failed,
		Message: fmt.Sprintf("server %q asked the user to open a web page, but Dragoman did not show the request: %s", u.Name(), why), Op: "relay " + u.Name(),
	}
}

func badAnswer(u Server, what string) error {
	return &mcp.Error{
		Origin: mcp.FromUpstream, Upstream: u.Name(), Cause: "bad_response", Outcome: mcp.OutcomeUnknown,
		Message: fmt.Sprintf("server %q broke the protocol: it %s", u.Name(), what), Op: "relay " + u.Name(),
	}
}
