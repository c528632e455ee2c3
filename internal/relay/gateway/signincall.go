package gateway

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/base/failure"
	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
	"github.com/dragoman-mcp/dragoman/internal/relay/bridge"
)

// stepSignIn is the name of the question in a requestState; see policy.Ask.
const stepSignIn = "sign_in"

// signIn is the sign-in for one call.
type signIn struct {
	runner
	*SigningIn
	route  *route
	caller mcp.Caller
	ticks  int // number of notifications of progress
}

// signedRun runs a route. If somebody has to sign in first, it asks them, and runs the route again.
func (x runner) signedRun(ctx context.Context, r *route, k mcp.Caller) (reply *mcp.Reply, err error) {
	for i := range 2 {
		if reply, err = x.runOrSignIn(ctx, r, k); x.signer.needed(err) == nil || r.server == nil {
			if i == 0 && r.server != nil && r.answered(stepSignIn) != nil {
				x.signer.signed(r.server, r.Client) // the person was done before the client's retry came
			}
			return reply, err
		}
		if reply, err = x.askSignIn(ctx, r, k); reply != nil || err != nil {
			return reply, err
		}
		if r.unfound != nil {
			return nil, errSignedIn
		}
		if r.signsIn {
			return signedInReply(r), nil
		}
	}
	return x.run(ctx, r, k)
}

// errSignedIn means that the name of the item may be found now, since somebody has signed in.
var errSignedIn = errors.New("somebody has signed in")

// runOrSignIn runs a route, unless it's known that somebody has to sign in first.
func (x runner) runOrSignIn(ctx context.Context, r *route, k mcp.Caller) (*mcp.Reply, error) {
	switch {
	case r.unfound != nil:
		return nil, r.unfound
	case r.signsIn:
		return nil, signInError(r.Server, nil)
	}
	return x.run(ctx, r, k)
}

// signInError returns the error that somebody has to sign in, and the reason why nobody can, if there is
// one.
func signInError(server string, why error) *mcp.Error {
	f := failure.Of(why, failure.Facts{Class: failure.NeedsSignIn, Server: server, Cause: "auth_required"})
	return &mcp.Error{Origin: mcp.FromGateway, Upstream: server, Cause: "auth_required", Outcome: mcp.NotSent, Failure: f, Message: f.Text(), Err: why}
}

// askSignIn asks the person behind a call to sign in. With neither a reply nor an error, they have done so.
func (x runner) askSignIn(ctx context.Context, r *route, k mcp.Caller) (*mcp.Reply, error) {
	key := keyOf(r.Server, r.Client)
	last := r.answered(stepSignIn)
	switch {
	case last.Action() == "decline", last.Action() == "cancel":
		x.signer.decline(key)
		return r.refuse(declinedText(r.Server))
	case x.signer.hasDeclined(key):
		return r.refuse(declinedText(r.Server))
	}
	if last != nil {
		_, id := promised(last.State)
		if why := x.signer.failed(id); why != nil {
			return r.refuse(signInError(r.Server, why).Message)
		}
	}
	a, err := x.signer.Signer.SignIn(ctx, r.Client.Who, r.Server)
	if err != nil {
		e := signInError(r.Server, err)
		if r.Msg.Method == mcp.MethodCallTool {
			return r.refuse(e.Message)
		}
		return nil, e
	}
	s := &signIn{runner: x, SigningIn: a, route: r, caller: k}
	url := (&mcp.Question{URL: a.Link}).CanReach(r.Client) && r.Method != nil && r.Method.MayAsk
	switch {
	case a.over():
		return s.ended()
	case last == nil && !url:
		a.browse() // a client that can show the link opens it; two tabs would be one too many
		return s.tell()
	case bridge.MayDefer(r.Call):
		return s.deferred(ctx, last)
	}
	return s.live(ctx)
}

// deferred asks a modern client. Its retry comes as soon as the person agrees to open the link, mostly long
// before they have signed in. So the retry waits, and if that takes too long, the client gets a state without
// a question, and comes back.
func (s *signIn) deferred(ctx context.Context, last *mcp.Answered) (*mcp.Reply, error) {
	asked := last != nil && len(last.Result) > 0
	if asked {
		if expiry, _ := promised(last.State); time.Now().Unix() > expiry {
			return s.route.refuse(fmt.Sprintf("nobody signed in to %s in time; call again to get another link", s.route.Server))
		}
	}
	open := mcp.Answered{Step: stepSignIn, State: append(binary.BigEndian.AppendUint64(nil, uint64(s.Expires.Unix())), s.id()...)}
	q := bridge.Asking{Question: s.question(""), Passed: len(s.policy), Unfound: s.route.unfound != nil}
	q.Answers = append(s.route.answersBut(stepSignIn), open)
	var first, done bool
	var err error
	if late := time.Now().Add(s.hold()); !asked {
		first, done, err = s.turn(ctx, late)
	} else {
		s.signer.stays(s.SigningIn, s.route.Client)
		if done, err = s.wait(ctx, late, nil, nil); err != nil {
			s.signer.unasked(s.SigningIn, s.route.Client, true)
		}
	}
	switch {
	case err != nil:
		return nil, err
	case done:
		return s.ended()
	case first:
		_, reply, err := s.bridge.Ask(ctx, s.route.server, &s.route.Attempt, q, s.caller)
		return reply, err
	}
	if last != nil {
		q.Answers[len(q.Answers)-1] = *last
	}
	return s.bridge.Defer(s.route.server, &s.route.Attempt, q)
}

// promised returns when the link ends that a client has got, and its SigningIn.id, from the state of its retry.
func promised(state []byte) (expiry int64, id string) {
	if len(state) < 8 {
		return 0, ""
	}
	return int64(binary.BigEndian.Uint64(state)), string(state[8:])
}

// errNotAccepted is the error of a question that the person didn't agree to.
var errNotAccepted = errors.New("the person doesn't want to sign in")

// errAskerGone means that the client has given up the call that has shown the link.
var errAskerGone = errors.New("the call that has asked is over")

// live asks a legacy client while its call waits. If the client has a progress token, the call waits as long
// as the link lives. Otherwise, the client would give up sooner, so it gets the link as the result in time.
func (s *signIn) live(ctx context.Context) (*mcp.Reply, error) {
	late := time.Now().Add(s.hold())
	switch first, done, err := s.turn(ctx, late); {
	case err != nil:
		return nil, err
	case done:
		return s.ended()
	case first:
		return s.show(ctx, late)
	}
	return s.tell()
}

// turn waits until the sign-in has ended, at most until late, or until it's the call's turn to show the link.
func (s *signIn) turn(ctx context.Context, late time.Time) (first, done bool, err error) {
	for {
		first, gone := s.signer.first(s.SigningIn, s.route.Client)
		if first {
			return true, false, nil
		}
		if done, err = s.wait(ctx, late, nil, gone); !errors.Is(err, errAskerGone) {
			return false, done, err
		}
	}
}

// show asks a legacy client.
func (s *signIn) show(ctx context.Context, late time.Time) (*mcp.Reply, error) {
	if !s.route.Token.IsZero() {
		late = s.Expires
	}
	id, answer := rand.Text(), make(chan error, 1)
	asking, stop := context.WithCancel(ctx)
	var running sync.WaitGroup
	defer running.Wait()
	defer stop()
	running.Go(func() { s.askLive(asking, id, answer) })
	done, err := s.wait(ctx, late, answer, nil)
	if !done {
		s.signer.unasked(s.SigningIn, s.route.Client, ctx.Err() != nil)
	}
	switch {
	case done:
		s.caller.Notify(mcp.NewNote(mcp.NoteElicitComplete, append(jsonrpc.AppendQuote([]byte(`{"elicitationId":`), id), '}')))
		return s.ended()
	case errors.Is(err, errNotAccepted):
		s.signer.decline(keyOf(s.route.Server, s.route.Client))
		return s.route.refuse(declinedText(s.route.Server))
	case err != nil:
		return nil, err
	}
	return s.tell()
}

// askLive shows the link. It sends to answer if the person or the client does not accept it: an error, or
// nil if the client could not show it.
func (s *signIn) askLive(ctx context.Context, id string, answer chan<- error) {
	q := bridge.Asking{Question: s.question(id), Answers: []mcp.Answered{{Step: stepSignIn}}}
	result, _, err := s.bridge.Ask(ctx, s.route.server, &s.route.Attempt, q, s.caller)
	switch {
	case err != nil:
		answer <- nil
	case (&mcp.Answered{Result: result}).Action() != "accept":
		answer <- errNotAccepted
	}
}

// wait waits until the sign-in has ended. It gives up at the time limit, with what answer contains, or with
// errAskerGone when gone is closed.
func (s *signIn) wait(ctx context.Context, limit time.Time, answer <-chan error, gone <-chan struct{}) (done bool, err error) {
	late, tick := time.NewTimer(time.Until(limit)), time.NewTicker(waitProgress)
	defer late.Stop()
	defer tick.Stop()
	for {
		select {
		case <-s.Done:
			return true, nil
		case err := <-answer:
			return false, err
		case <-gone:
			return false, errAskerGone
		case <-tick.C:
			s.tellProgress()
		case <-late.C:
			return false, nil
		case <-ctx.Done():
			return false, &mcp.Error{
				Origin: mcp.FromClient, Upstream: s.route.Server, Cause: "cancelled", Outcome: mcp.NotSent, Err: context.Cause(ctx),
				Message: "the request ended before anybody had signed in",
			}
		}
	}
}

// tellProgress sends a notification, so that the client doesn't give up. Its value is small, because those of
// the server have to be larger.
func (s *signIn) tellProgress() {
	if s.route.Token.IsZero() {
		return
	}
	if s.route.away != nil {
		s.route.away.tell("waiting for you to sign in to " + s.route.Server)
		return
	}
	s.ticks++
	value := float64(s.ticks) / 1000
	s.route.Progress = &value
	params := append([]byte(`{"progressToken":`), s.route.Token.Of(s.route.Msg.Raw)...)
	params = strconv.AppendFloat(append(params, `,"progress":`...), value, 'f', -1, 64)
	if s.route.Client.Revision.Can(mcp.ProgressMessages) {
		params = jsonrpc.AppendQuote(append(params, `,"message":`...), "waiting for you to sign in to "+s.route.Server)
	}
	s.caller.Notify(mcp.NewNote(mcp.NoteProgress, append(params, '}')))
}

// ended returns nothing if the person is signed in, and else the client's answer.
func (s *signIn) ended() (*mcp.Reply, error) {
	if err := s.Err(); err != nil {
		return s.route.refuse(signInError(s.route.Server, err).Message)
	}
	s.signer.signed(s.route.server, s.route.Client)
	return nil, nil
}

func (s *signIn) question(id string) *mcp.Question {
	return &mcp.Question{Message: fmt.Sprintf("Sign in to %s, so that your call can go on.", s.route.Server), URL: s.Link, ID: id}
}

// tell returns the link as the answer to the call.
func (s *signIn) tell() (*mcp.Reply, error) {
	minutes := max(1, int(time.Until(s.Expires).Round(time.Minute)/time.Minute))
	text := fmt.Sprintf("%s needs you to sign in. Open %s within %d minutes, then call again.", s.route.Server, s.Link, minutes)
	data := jsonrpc.AppendQuote([]byte(`{"server":`), s.route.Server)
	data = jsonrpc.AppendQuote(append(data, `,"link":`...), s.Link)
	data = append(jsonrpc.AppendQuote(append(data, `,"expires":`...), s.Expires.UTC().Format(time.RFC3339)), '}')
	if s.route.toolResult() {
		return toolError(text, append(append([]byte(`,"_meta":{"`+mcp.KeySignIn+`":`), data...), '}')), nil
	}
	e := signInError(s.route.Server, nil)
	e.Message, e.Data = text, data
	return nil, e
}

func declinedText(server string) string {
	return fmt.Sprintf("sign-in to %s was declined; nobody is asked again for %d minutes", server, declinedFor/time.Minute)
}

// toolResult reports whether the answer to the call is the result of a tool.
func (r *route) toolResult() bool {
	return r.Msg.Method == mcp.MethodCallTool && r.Msg.Param("task").IsZero()
}

// refuse returns the answer to a call that is not sent.
func (r *route) refuse(why string) (*mcp.Reply, error) {
	if r.toolResult() {
		return toolError(why, nil), nil
	}
	e := signInError(r.Server, nil)
	e.Message = why
	return nil, e
}

// toolError returns the result of a tool that has failed. more are further members of the result.
func toolError(text string, more []byte) *mcp.Reply {
	return mcp.Answer(append(append(textResult(text), `,"isError":true`...), append(more, '}')...))
}

// textResult returns the beginning of the result of a tool.
func textResult(text string) []byte {
	return append(jsonrpc.AppendQuote([]byte(`{"content":[{"type":"text","text":`), text), "}]"...)
}

// signedInReply is the result of the tool sign_in.
func signedInReply(r *route) *mcp.Reply {
	return mcp.Answer(append(textResult(fmt.Sprintf("You are signed in to %s. List its tools again to use them.", r.Server)), '}'))
}

// answered returns the answer to the question of a step that a retry brings, or nil.
func (r *route) answered(step string) *mcp.Answered {
	for i := len(r.answers) - 1; i >= 0; i-- {
		if r.answers[i].Step == step {
			return &r.answers[i]
		}
	}
	return nil
}

// answersBut returns the answers to the questions of all other steps.
func (r *route) answersBut(step string) (all []mcp.Answered) {
	for _, a := range r.answers {
		if a.Step != step {
			all = append(all, a)
		}
	}
	return all
}
