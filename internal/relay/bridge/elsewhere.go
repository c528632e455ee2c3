package bridge

import (
	"context"
	"encoding/binary"
	"errors"

	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
)

// This file is about elicitations that the client can't show, and that somebody answers elsewhere; see
// mcp.Call.Elsewhere. They are answered while the call waits at its server, in every era: an answer in input_required is
// played out as for a legacy client.

// elsewhere returns a caller with which somebody elsewhere answers the elicitations of a server that the client of c
// can't show. item is the server's own name of what the call is about, or "".
func elsewhere(c *mcp.Call, server, item string, k mcp.Caller) mcp.Caller {
	if c.Elsewhere == nil {
		return k
	}
	return &elsewhereCaller{k, c, server, item}
}

type elsewhereCaller struct {
	mcp.Caller
	call         *mcp.Call
	server, item string
}

func (k *elsewhereCaller) Ask(ctx context.Context, m *jsonrpc.Message) (*jsonrpc.Message, error) {
	params := m.At(m.Params)
	if m.Method != mcp.MethodElicit || k.call.Client.Shows(isLink(params)) {
		answer, err := k.Caller.Ask(ctx, m)
		if m.Method != mcp.MethodElicit || !errors.Is(err, mcp.ErrCannotAsk) {
			return answer, err
		}
	}
	result, err := k.call.Elsewhere(ctx, k.server, k.item, params)
	if err != nil {
		return nil, err
	}
	return jsonrpc.NewResult(m.ID, result), nil
}

// isLink reports whether the params of an elicitation are those of a link.
func isLink(params jsonrpc.Value) bool {
	mode, _ := params.Get("mode").Text()
	return mode == "url"
}

// beyond reports whether a modern client can't show some of the input requests of an answer, which somebody answers
// elsewhere, and whether it can't show any of them.
func beyond(c *mcp.Call, reply *mcp.Reply) (some, all bool) {
	if c.Elsewhere == nil {
		return false, false
	}
	all = true
	for ask := range jsonrpc.Members(reply.Msg.Raw, reply.Msg.ResultMember("inputRequests")) {
		if shows(c.Client, reply.Msg.Raw, ask.Value) {
			all = false
		} else {
			some = true
		}
	}
	return some, all && some
}

// shows reports whether a client can answer an input request by itself.
func shows(f *mcp.ClientInfo, raw []byte, ask jsonrpc.Span) bool {
	method, _ := jsonrpc.Text(raw, jsonrpc.Find(raw, ask, "method"))
	return method != mcp.MethodElicit || f.Shows(isLink(jsonrpc.ValueOf(jsonrpc.Find(raw, ask, "params").Of(raw))))
}

// askModern passes the input_required of a modern server on to a modern client. What the client can't show is answered
// elsewhere first. The answers are in the sealed state, until the client has the others; see withAnswers. The state is
// good for one use, since a person has given them for one.
func (b *Bridge) askModern(ctx context.Context, u Server, a *mcp.Attempt, k mcp.Caller, reply *mcp.Reply) (*mcp.Reply, error) {
	if some, _ := beyond(a.Call, reply); !some {
		reply.Asks = true
		return b.seal(u, a, reply)
	}
	raw, ours, theirs := reply.Msg.Raw, []byte{'{'}, []byte{'{'}
	for ask := range jsonrpc.Members(raw, reply.Msg.ResultMember("inputRequests")) {
		to := &ours
		if shows(a.Client, raw, ask.Value) {
			to = &theirs
		}
		if len(*to) > 1 {
			*to = append(*to, ',')
		}
		*to = append(append(append(*to, ask.Key.Of(raw)...), ':'), ask.Value.Of(raw)...)
	}
	ours = append(ours, '}')
	answers, err := askAll(ctx, a.Trail, b.observe(u.Name(), a.Call, elsewhere(a.Call, u.Name(), a.Name, k)), ours, jsonrpc.Whole(ours), a.Client.Revision)
	if err != nil {
		return nil, unanswered(u, err)
	}
	inner := append(binary.AppendUvarint(nil, uint64(len(answers))), answers...)
	state, err := b.mint(u, a.Call, sealKind('E', true), append(inner, reply.Msg.ResultMember("requestState").Of(raw)...))
	if err != nil {
		return nil, err
	}
	out := append(append([]byte(`{"resultType":"input_required","inputRequests":`), theirs...), `},"requestState":`...)
	asked := newInputRequired(append(jsonrpc.AppendQuote(out, state), '}'))
	a.Trail.Carry(mcp.WhyQuestion, raw, reply.Msg.ResultMember("inputRequests"), asked.Msg.Raw)
	return asked, nil
}

// withAnswers returns the attempt of a retry that has the client's answers, with those from elsewhere and with the
// server's own state. inner is the content of the state, which askModern has made.
func withAnswers(a *mcp.Attempt, inner []byte) *mcp.Attempt {
	next := *a
	length, n := binary.Uvarint(inner)
	if n <= 0 || length > uint64(len(inner)-n) {
		return &next // another version of the program has made it, and the server refuses what it lacks
	}
	answers, state := inner[n:n+int(length)], inner[n+int(length):]
	if have := a.Msg.Param("inputResponses").Of(a.Msg.Raw); jsonrpc.KindOf(have, jsonrpc.Whole(have)) == '{' {
		var ours []jsonrpc.Field
		for m := range jsonrpc.Members(answers, jsonrpc.Whole(answers)) {
			key, _ := jsonrpc.Text(answers, m.Key)
			ours = append(ours, jsonrpc.Field{Key: key, Value: m.Value.Of(answers)})
		}
		var e jsonrpc.Edits
		e.Object(mcp.WhyQuestion, have, jsonrpc.Whole(have), nil, ours...)
		answers = jsonrpc.Splice(nil, have, &e)
	}
	next.Retry = []jsonrpc.Field{{Key: "inputResponses", Value: answers}}
	if len(state) > 0 {
		next.Retry = append(next.Retry, jsonrpc.Field{Key: "requestState", Value: state})
	}
	return &next
}

// opensElsewhere lets somebody elsewhere open the pages that a server requires before it executes a call. It reports
// whether they have opened all of them, so that the call can be sent again.
func (b *Bridge) opensElsewhere(ctx context.Context, u Server, a *mcp.Attempt, reply *mcp.Reply) (bool, error) {
	raw, n := reply.Msg.Raw, 0
	for e := range jsonrpc.Elements(raw, urlsOf(reply)) {
		if n++; n > maxPerRound {
			return false, unanswered(u, errTooMany)
		}
		result, err := a.Elsewhere(ctx, u.Name(), a.Name, jsonrpc.ValueOf(e.Of(raw)))
		if err != nil {
			return false, unanswered(u, err)
		}
		if (&mcp.Answered{Result: result}).Action() != "accept" {
			return false, nil
		}
	}
	return n > 0, nil
}
