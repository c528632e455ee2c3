package bridge

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/mcp"
	"github.com/dragoman-mcp/dragoman/internal/work"
)

// maxRounds bounds how often one call may ask for input.
const maxRounds = 10

// playLive puts the questions of a modern server's input_required result to a
// legacy client as requests of its own era, and sends the call again with the
// answers and the state as the server wrote it, until the server is content
// (2026-07-28 §MRTR, "Client Requirements").
func (r *Bridge) playLive(ctx context.Context, v *visit, a *mcp.Attempt, s mcp.Caller, reply *mcp.Reply) (*mcp.Reply, error) {
	u, c := v.server, a.Call
	next := *a
	for round := 0; ; round++ {
		if round == maxRounds {
			return nil, badAnswer(u, fmt.Sprintf("asked for input more than %d times", maxRounds))
		}
		m := reply.Msg
		asks := m.ResultMember("inputRequests")
		v.release() // a person may take long
		var answers []byte
		if empty(m.Raw, asks) {
			// Only a state: the server sheds load. It is not asked again at once.
			if err := work.Sleep(ctx, min(100*time.Millisecond<<round, 5*time.Second)); err != nil {
				return nil, err
			}
		} else {
			var err error
			if answers, err = putAll(ctx, c.Trail, r.observe(u.Name(), c, s), m.Raw, asks, c.Client.Revision); err != nil {
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
		if reply, err = v.call(ctx, &next, s); err != nil {
			return nil, err
		}
		if reply.ResultType() != mcp.ResultInputRequired {
			return reply, nil
		}
		if err := r.checkInputRequired(u, c, reply); err != nil {
			return nil, err
		}
	}
}

func empty(raw []byte, object jsonrpc.Span) bool {
	for range jsonrpc.Members(raw, object) {
		return false
	}
	return true
}

// errDeclined is a question that the client answered with an error.
var errDeclined = errors.New("the client answered a question with an error")

// maxAbreast bounds the questions of one round.
const maxAbreast = 32

var errTooMany = errors.New("too many questions in one round")

// putAll puts all questions of a round to the client, at the same time, and returns
// the answers as an InputResponses object. A round of which it cannot put each is put
// to nobody.
func putAll(ctx context.Context, t *jsonrpc.Trail, s mcp.Caller, raw []byte, asks jsonrpc.Span, to mcp.Revision) ([]byte, error) {
	type asked struct {
		key    []byte
		m      *jsonrpc.Message
		answer []byte
		err    error
	}
	var all []*asked
	for ask := range jsonrpc.Members(raw, asks) {
		if len(all) == maxAbreast {
			return nil, errTooMany
		}
		q, err := question(t, raw, ask.Value, to)
		if err != nil {
			return nil, err
		}
		all = append(all, &asked{key: ask.Key.Of(raw), m: q})
	}
	var wait sync.WaitGroup
	for _, a := range all {
		wait.Go(func() {
			m, err := s.Ask(ctx, a.m)
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

// question turns an input request, {"method":…,"params":…}, into a message for a
// client of a revision. The error says that it is none.
func question(t *jsonrpc.Trail, raw []byte, at jsonrpc.Span, to mcp.Revision) (*jsonrpc.Message, error) {
	var e jsonrpc.Edits
	body := at.Of(raw)
	if params := jsonrpc.Find(body, jsonrpc.Whole(body), "params"); to.Can(mcp.ElicitationIDs) && isPage(body, params) {
		// 2025-11-25 §Elicitation, "URL Mode Elicitation Requests": due and unique.
		// A server of 2026-07-28 has none, so nobody will ever report this one's end.
		e.Object(mcp.WhyElicitationID, body, params, nil, jsonrpc.Field{Key: "elicitationId", Value: jsonrpc.AppendQuote(nil, rand.Text())})
	}
	e.Object(mcp.WhyQuestion, body, jsonrpc.Whole(body), nil,
		jsonrpc.Field{Key: "jsonrpc", Value: []byte(`"2.0"`)}, jsonrpc.Field{Key: "id", Value: []byte("0")})
	out := t.Splice(nil, body, &e)
	m, err := jsonrpc.Scan(out, jsonrpc.Limits{Bytes: len(out) + 1})
	if err != nil || m.Kind != jsonrpc.Request {
		return nil, errNoQuestion
	}
	return m, nil
}

// isPage reports whether params ask for a visit to a page, without an id.
func isPage(raw []byte, params jsonrpc.Span) bool {
	mode, _ := jsonrpc.Text(raw, jsonrpc.Find(raw, params, "mode"))
	return mode == "url" && jsonrpc.Find(raw, params, "elicitationId").IsZero()
}

var errNoQuestion = errors.New("an input request is no request")

func unanswered(u Server, err error) error {
	if errors.Is(err, errNoQuestion) {
		return badAnswer(u, "asked for input in a form that is no question")
	}
	if errors.Is(err, mcp.ErrCannotAsk) {
		return &mcp.Error{
			Origin: mcp.FromGateway, Upstream: u.Name(), Cause: "cannot_ask", Outcome: mcp.Failed, Err: err,
			Message: fmt.Sprintf("server %q needs input that this client cannot be asked for", u.Name()),
		}
	}
	return &mcp.Error{
		Origin: mcp.FromClient, Upstream: u.Name(), Cause: "unanswered", Outcome: mcp.Failed, Err: err,
		Message: fmt.Sprintf("server %q needs input and did not get it", u.Name()),
	}
}
