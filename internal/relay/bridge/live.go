package bridge

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/base/trails"
	"github.com/dragoman-mcp/dragoman/internal/base/work"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
)

// maxRounds is the maximum number of times that one call may ask for input.
const maxRounds = 10

// relayLive sends the input requests of a modern server's input_required result to a legacy client
// as live requests, or to somebody elsewhere if the client can't show them. Then it retries the call with the answers and the unchanged requestState. It
// repeats these steps until the server returns another kind of result (2026-07-28 §MRTR, "Client
// Requirements").
func (b *Bridge) relayLive(ctx context.Context, v *visit, a *mcp.Attempt, k mcp.Caller, reply *mcp.Reply) (*mcp.Reply, error) {
	u, c := v.server, a.Call
	next := *a
	for round := 0; ; round++ {
		if round == maxRounds {
			return nil, badAnswer(u, fmt.Sprintf("sent input_required more than %d times for one call", maxRounds))
		}
		m := reply.Msg
		asks := m.ResultMember("inputRequests")
		v.release() // release the session, because the user may take long to answer
		var answers []byte
		if empty(m.Raw, asks) {
			// A requestState without input requests means that the server is overloaded. Wait
			// before the retry.
			if err := work.Sleep(ctx, min(100*time.Millisecond<<round, 5*time.Second)); err != nil {
				return nil, err
			}
		} else {
			var err error
			if answers, err = askAll(ctx, c.Trail, b.observe(u.Name(), c, elsewhere(c, u.Name(), a.Name, k)), m.Raw, asks, c.Client.Revision); err != nil {
				return nil, unanswered(u, err)
			}
		}
		next.Retry = nil
		if answers != nil {
			next.Retry = append(next.Retry, jsonrpc.Field{Key: "inputResponses", Value: answers})
		}
		if state := m.ResultMember("requestState"); !state.IsZero() {
			next.Retry = append(next.Retry, jsonrpc.Field{Key: "requestState", Value: state.Of(m.Raw)})
		}
		var err error
		if reply, err = v.call(ctx, &next, k); err != nil {
			return nil, err
		}
		if reply.ResultType() != mcp.ResultInputRequired {
			return reply, nil
		}
		if err := b.checkInputRequired(u, a, reply); err != nil {
			return nil, err
		}
		if c.Client.Revision.Can(mcp.InputRequired) && !empty(reply.Msg.Raw, reply.Msg.ResultMember("inputRequests")) {
			if _, all := beyond(c, reply); !all {
				return b.askModern(ctx, u, a, k, reply)
			}
		}
	}
}

func empty(raw []byte, object jsonrpc.Span) bool {
	for range jsonrpc.Members(raw, object) {
		return false
	}
	return true
}

// errDeclined means that the client answered a server request with an error.
var errDeclined = errors.New("the client answered a server request with an error")

// maxPerRound is the maximum number of input requests in one round.
const maxPerRound = 32

var errTooMany = errors.New("too many input requests in one round")

// askAll sends all input requests of a round to the client concurrently. It returns the answers as
// an InputResponses object. If one of the requests is not valid, askAll sends none of them.
func askAll(ctx context.Context, t *trails.Trail, k mcp.Caller, raw []byte, asks jsonrpc.Span, to mcp.Revision) ([]byte, error) {
	type asked struct {
		key    []byte
		m      *jsonrpc.Message
		answer []byte
		err    error
	}
	var all []*asked
	for ask := range jsonrpc.Members(raw, asks) {
		if len(all) == maxPerRound {
			return nil, errTooMany
		}
		q, err := toRequest(t, raw, ask.Value, to)
		if err != nil {
			return nil, err
		}
		all = append(all, &asked{key: ask.Key.Of(raw), m: q})
	}
	var wait sync.WaitGroup
	for _, a := range all {
		wait.Go(func() {
			m, err := k.Ask(ctx, a.m)
			switch {
			case err != nil:
				a.err = err
			case m.Kind == jsonrpc.Failure:
				a.err = errDeclined
			default:
				a.answer = m.Result.Of(m.Raw)
			}
		})
	}
	wait.Wait()
	out := []byte{'{'}
	for i, a := range all {
		if a.err != nil {
			return nil, a.err
		}
		if i > 0 {
			out = append(out, ',')
		}
		out = append(append(append(out, a.key...), ':'), a.answer...)
	}
	return append(out, '}'), nil
}

// toRequest converts an input request, {"method":…,"params":…}, to a request in the client's
// revision. It fails if the result is not a valid request.
func toRequest(t *trails.Trail, raw []byte, at jsonrpc.Span, to mcp.Revision) (*jsonrpc.Message, error) {
	var e jsonrpc.Edits
	// The request is made from the whole result, so that the trail shows the origin of the request.
	e.Replace(mcp.WhyQuestion, jsonrpc.Span{Start: 0, End: at.Start}, nil)
	e.Replace(mcp.WhyQuestion, jsonrpc.Span{Start: at.End, End: len(raw)}, nil)
	if params := jsonrpc.Find(raw, at, "params"); to.Can(mcp.ElicitationIDs) && isURLMode(raw, params) {
		// 2025-11-25 §Elicitation, "URL Mode Elicitation Requests": the request must have a unique
		// elicitationId. A server of 2026-07-28 sends no elicitationId, so the client never gets a
		// completion notification for this one.
		e.Object(mcp.WhyElicitationID, raw, params, nil, jsonrpc.Field{Key: "elicitationId", Value: jsonrpc.AppendQuote(nil, rand.Text())})
	}
	e.Object(mcp.WhyQuestion, raw, at, nil,
		jsonrpc.Field{Key: "jsonrpc", Value: []byte(`"2.0"`)}, jsonrpc.Field{Key: "id", Value: []byte("0")})
	out := t.Splice(nil, raw, &e)
	m, err := jsonrpc.Scan(out, jsonrpc.Limits{Bytes: len(out) + 1})
	if err != nil || m.Kind != jsonrpc.Request {
		return nil, errNotRequest
	}
	return m, nil
}

// isURLMode reports whether params are the params of an elicitation in URL mode that has no
// elicitationId.
func isURLMode(raw []byte, params jsonrpc.Span) bool {
	mode, _ := jsonrpc.Text(raw, jsonrpc.Find(raw, params, "mode"))
	return mode == "url" && jsonrpc.Find(raw, params, "elicitationId").IsZero()
}

var errNotRequest = errors.New("an input request is invalid")

func unanswered(u Server, err error) error {
	if errors.Is(err, errNotRequest) {
		return badAnswer(u, "sent input_required with an invalid input request")
	}
	if errors.Is(err, mcp.ErrCannotAsk) {
		return &mcp.Error{
			Origin: mcp.FromGateway, Upstream: u.Name(), Cause: "cannot_ask", Outcome: mcp.Failed, Err: err,
			Message: fmt.Sprintf("server %q asks for input in a way that this client does not support", u.Name()),
		}
	}
	if why := (*mcp.NoAnswer)(nil); errors.As(err, &why) {
		return &mcp.Error{
			Origin: mcp.FromGateway, Upstream: u.Name(), Cause: why.Cause, Outcome: mcp.Failed, Err: err,
			Message: fmt.Sprintf("server %q asked for input that this client can't show, and the question %s", u.Name(), why.Why),
		}
	}
	return &mcp.Error{
		Origin: mcp.FromClient, Upstream: u.Name(), Cause: "unanswered", Outcome: mcp.Failed, Err: err,
		Message: fmt.Sprintf("server %q asked for input, and the client did not answer", u.Name()),
	}
}
