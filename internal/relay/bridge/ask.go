package bridge

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
	"github.com/dragoman-mcp/dragoman/internal/transport"
)

// This file is about questions of Dragoman's own, which a step of the policy asks before a call is
// sent. They take the same two ways to the person as the questions of servers: live, or as
// input_required. But no call waits at a server meanwhile, and nothing is parked: everything that a
// retry needs is in the sealed requestState.

// Asking is a question of Dragoman's own about a call.
type Asking struct {
	Question *mcp.Question
	// Answers are the answers that the call has got so far, oldest first, and at the end the open
	// question, without its Result.
	Answers []mcp.Answered
	// Passed is the number of steps that have let the call pass.
	Passed int
	// Unfound means that the name of the item is not known to belong to the server yet.
	Unfound bool
}

// errNoAnswer is the cause of a context if a person takes too long to answer.
var errNoAnswer = errors.New("nobody answered the question in time")

// Ask asks the person behind the client. A legacy client is asked while its call waits, and Ask
// returns the answer, an ElicitResult. A modern client gets the reply: it is input_required, and
// [Bridge.Answers] finds the answer in the client's retry. u is the server that shall get the call,
// and may be nil. The error of Ask is meant for the client. Until Ask returns, nothing of the call
// has been sent to a server.
func (b *Bridge) Ask(ctx context.Context, u Server, a *mcp.Attempt, q Asking, k mcp.Caller) (answer []byte, reply *mcp.Reply, err error) {
	open := &q.Answers[len(q.Answers)-1]
	if len(q.Answers) > maxRounds {
		return nil, nil, &mcp.Error{
			Origin: mcp.FromGateway, Upstream: a.Server, Cause: "unanswered", Outcome: mcp.NotSent,
			Message: fmt.Sprintf("the call was not sent: the user was asked %d times about it without a usable answer", maxRounds),
		}
	}
	modern := a.Client.Revision.Can(mcp.InputRequired)
	if !q.Question.CanReach(a.Client) || modern && (u == nil || !mayPark(a.Call)) {
		return nil, nil, notAskable(a, q.Question, mcp.ErrCannotAsk)
	}
	key := keyOfStep(open.Step)
	asks := q.Question.AppendJSON(append(jsonrpc.AppendQuote([]byte{'{'}, key), ':'), a.Client.Revision)
	asks = append(asks, '}')
	if modern {
		state, err := b.mint(u, a.Call, sealKind('A', b.once(a, q)), packAsking(a.Name, q))
		if err != nil {
			return nil, nil, err
		}
		out := append([]byte(`{"resultType":"input_required","inputRequests":`), asks...)
		out = jsonrpc.AppendQuote(append(out, `,"requestState":`...), state)
		return nil, newInputRequired(append(out, '}')), nil
	}
	ctx, cancel := context.WithTimeoutCause(ctx, stateTTL, errNoAnswer)
	defer cancel()
	all, err := askAll(ctx, nil, k, asks, jsonrpc.Whole(asks), a.Client.Revision)
	if errors.Is(err, mcp.ErrCannotAsk) {
		return nil, nil, notAskable(a, q.Question, err)
	}
	at := jsonrpc.Find(all, jsonrpc.Whole(all), key)
	if err == nil && !validAnswer(mcp.MethodElicit, all, at) {
		err = errors.New("the answer is not valid")
	}
	if err != nil {
		return nil, nil, &mcp.Error{
			Origin: mcp.FromClient, Upstream: a.Server, Cause: "unanswered", Outcome: mcp.NotSent, Err: err,
			Message: "the call was not sent: the user has to answer a question first, and the client did not answer",
		}
	}
	return at.Of(all), nil, nil
}

// once reports whether the state of a question is good for one use. The memory of what was used is in one process.
// So if there are others, it isn't needed for a link, by which nobody agrees to a call: what came of it is known to all.
func (b *Bridge) once(a *mcp.Attempt, q Asking) bool {
	return a.Agreed || q.Question.URL == "" || b.mark(anchor) == anchor
}

// Defer makes a modern client come back, without asking anybody. [Bridge.Answers] then returns q, whose
// questions all have been answered or need no answer. It is for a call that waits for something that a
// person does elsewhere, for longer than clients wait for an answer (2026-07-28 §MRTR: an input_required
// without inputRequests).
func (b *Bridge) Defer(u Server, a *mcp.Attempt, q Asking) (*mcp.Reply, error) {
	state, err := b.mint(u, a.Call, sealKind('W', b.once(a, q)), packAsking(a.Name, q))
	if err != nil {
		return nil, err
	}
	out := jsonrpc.AppendQuote([]byte(`{"resultType":"input_required","requestState":`), state)
	return newInputRequired(append(out, '}')), nil
}

// MayDefer reports whether the client comes back with a requestState for a call.
func MayDefer(c *mcp.Call) bool { return mayPark(c) }

// notAskable returns the error for a client that cannot show the question to anybody. It contains
// the question, because that may be enough to help oneself, for example by opening the link.
func notAskable(a *mcp.Attempt, q *mcp.Question, why error) error {
	text := q.Message
	if q.URL != "" {
		text += " (" + q.URL + ")"
	}
	return &mcp.Error{
		Origin: mcp.FromGateway, Upstream: a.Server, Cause: "cannot_ask", Outcome: mcp.NotSent, Err: why,
		Message: "the call was not sent: the user has to answer a question first, which this client cannot show: " + text,
	}
}

// Answers returns the questions of Dragoman's own that a retry answers, with the answers, or nil if
// the state is about something else. If the retry lacks the answer, the result is empty, so that the
// person is asked again from the beginning.
//
// After Answers, the retry has used its requestState, if the state is good for one use. Those are the
// states of Dragoman's own questions, and all that follow for the same call: the person agreed to one
// call. Another retry with the state is refused, unless [Bridge.Unused] gives the state back.
func (b *Bridge) Answers(u Server, a *mcp.Attempt, res Resume) (*Asking, error) {
	switch {
	case res.kind == 'A', res.kind == 'W':
	case !res.once, res.kind == 'P': // a parked call is continued once anyway
		return nil, nil
	default:
		return nil, b.spend(a.Client.Party(), u, res)
	}
	name, q, ok := unpackAsking(res.inner)
	if !ok || name != a.Name && !q.Unfound {
		// The client's name for the item is part of the seal. But since the state was made, another
		// item may have got this name.
		b.publishRefusal(a.Call, u.Name())
		return nil, errState
	}
	if res.kind == 'W' {
		return &q, b.use(a, u, res)
	}
	raw, answers := a.Msg.Raw, a.Msg.Param("inputResponses")
	if kind := jsonrpc.KindOf(raw, answers); kind != 0 && kind != '{' {
		return nil, errNoObject
	}
	last := &q.Answers[len(q.Answers)-1]
	key := keyOfStep(last.Step)
	at := jsonrpc.Find(raw, answers, key)
	if at.IsZero() {
		return &Asking{}, nil
	}
	if !validAnswer(mcp.MethodElicit, raw, at) {
		return nil, badInput(key)
	}
	if err := b.use(a, u, res); err != nil {
		return nil, err
	}
	last.Result = at.Of(raw)
	return &q, nil
}

// use spends a state that is good for one use, and continues the call that got it.
func (b *Bridge) use(a *mcp.Attempt, u Server, res Resume) error {
	var err error
	if res.once {
		err = b.spend(a.Client.Party(), u, res)
	}
	if err == nil && res.call != 0 {
		a.Resume(res.call)
	}
	return err
}

// keyOfStep returns the key of a step's question among the input requests.
func keyOfStep(step string) string { return "user_" + step }

// packAsking returns the content of a requestState of kind 'A' or 'W'. name is the server's own name of
// the item.
func packAsking(name string, q Asking) []byte {
	part := func(b, text []byte) []byte { return append(binary.AppendUvarint(b, uint64(len(text))), text...) }
	unfound := uint64(0)
	if q.Unfound {
		unfound = 1
	}
	b := part(binary.AppendUvarint(nil, uint64(q.Passed)<<1|unfound), []byte(name))
	for _, x := range q.Answers {
		b = part(part(part(b, []byte(x.Step)), x.State), x.Result)
	}
	return b
}

// unpackAsking is the inverse of packAsking. The bytes were sealed, so they are what packAsking has
// returned, unless another version of the program has sealed them.
func unpackAsking(b []byte) (name string, q Asking, ok bool) {
	ok = true
	number := func() uint64 {
		n, size := binary.Uvarint(b)
		if size <= 0 {
			ok, b = false, nil
			return 0
		}
		b = b[size:]
		return n
	}
	part := func() []byte {
		n := number()
		if n > uint64(len(b)) {
			ok, b = false, nil
			return nil
		}
		text := b[:n:n]
		b = b[n:]
		return text
	}
	n := number()
	q.Passed, q.Unfound = int(n>>1), n&1 != 0
	name = string(part())
	for len(b) > 0 {
		q.Answers = append(q.Answers, mcp.Answered{Step: string(part()), State: part(), Result: part()})
	}
	return name, q, ok && len(q.Answers) > 0
}

// spent remembers the requestStates that are good for one use and have been used, until they expire.
// Bridge.mu guards it. The zero value is ready to use.
type spent struct {
	used   map[stateID]*use
	order  []*use // oldest first
	places transport.Quota
}

// use is the use of one state.
type use struct {
	id    stateID
	party string
	until time.Time // no state is valid for longer
	free  bool      // the state was given back; see Unused
}

// maxSpent bounds the states in spent. The parties share the places fairly.
const maxSpent = 1 << 14

// errSpent is the answer to a retry whose state was used before.
var errSpent = &jsonrpc.Error{
	Code:    jsonrpc.CodeInvalidParams,
	Message: "this requestState has been used: the user's answer is good for one call, which the server may have executed; send the original request again to ask the user again",
	Data:    []byte(`{"origin":"gateway","cause":"state_used","outcome":"unknown","retryable":false}`),
}

// spend uses a state up. It fails if the state has been used before.
func (b *Bridge) spend(party string, u Server, res Resume) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	s, now := &b.spent, time.Now()
	for len(s.order) > 0 && now.After(s.order[0].until) {
		delete(s.used, s.order[0].id)
		s.places.Give(s.order[0].party)
		s.order = s.order[1:]
	}
	if before := s.used[res.id]; before != nil {
		if !before.free {
			return errSpent
		}
		before.free = false
		return nil
	}
	if !s.places.Room(party, maxSpent) {
		return &mcp.Error{
			Origin: mcp.FromGateway, Upstream: u.Name(), Cause: "overloaded", Outcome: mcp.NotSent, Retryable: true, RetryAfter: time.Minute,
			Message: "too many questions were answered in the last minutes; try again later",
		}
	}
	if s.used == nil {
		s.used = make(map[stateID]*use)
	}
	next := &use{id: res.id, party: party, until: now.Add(stateTTL)}
	s.used[next.id] = next
	s.order = append(s.order, next)
	s.places.Take(party)
	return nil
}

// Unused gives a state back that a retry has used, because nothing came of the retry: nobody looked
// at the answer, or nothing could be sent to the server. The client may send the retry again.
func (b *Bridge) Unused(res Resume) {
	if !res.once {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if before := b.spent.used[res.id]; before != nil {
		before.free = true
	}
}

// validAnswer reports whether the value at is a possible answer to a request of a server with this
// method.
func validAnswer(method string, raw []byte, at jsonrpc.Span) bool {
	if jsonrpc.KindOf(raw, at) != '{' {
		return false
	}
	if method != mcp.MethodElicit {
		return true
	}
	action, _ := jsonrpc.Text(raw, jsonrpc.Find(raw, at, "action"))
	return action == "accept" || action == "decline" || action == "cancel"
}

var errNoObject = &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: "inputResponses must be an object"}

// badInput returns the error for a retry whose answer with this key is not valid.
func badInput(key string) error {
	return &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: fmt.Sprintf("inputResponses: %s is not a valid answer to its input request", key)}
}
