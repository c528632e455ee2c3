package gateway

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strconv"
	"sync"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/base/excerpt"
	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
	"github.com/dragoman-mcp/dragoman/internal/relay/policy"
	"github.com/dragoman-mcp/dragoman/internal/relay/questions"
)

// This file is about questions that the client of a call can't show to anybody. If the project has a box for them,
// they wait there for a person, and the call waits too.

// lent returns a client as servers shall see it: somebody answers all elicitations if there is a box.
func lent(box *questions.Box, f *mcp.ClientInfo) *mcp.ClientInfo {
	if box == nil || f == nil {
		return f
	}
	return f.WithElicitation()
}

// elsewhere is the client of a request that may wait for a person elsewhere. It tells the client with notifications of
// progress that its call goes on.
type elsewhere struct {
	mcp.Caller
	box  *questions.Box
	call *mcp.Call

	// turn is held while progress is sent: its values "MUST increase with each notification" (§Progress, all
	// revisions), whoever sends it. It guards the two fields below.
	turn  chan struct{}
	last  float64 // the largest value that the client has got
	ticks int     // how many of them were ours

	mu    sync.Mutex
	heard []policy.Heard // oldest first
}

// mostHeard is how many answers of people an audit gets to see of one call.
const mostHeard = 32

// elsewhere lets the call c ask people elsewhere, and returns its caller from now on.
func (x runner) elsewhere(c *mcp.Call, k mcp.Caller) *elsewhere {
	e := &elsewhere{Caller: k, box: x.questions, call: c, turn: make(chan struct{}, 1), last: math.Inf(-1)}
	c.Client, c.Elsewhere = lent(x.questions, c.Client), e.ask
	return e
}

// Notify passes progress on unless the client has got more from us meanwhile.
func (e *elsewhere) Notify(n *mcp.Note) {
	if n.Msg.Method != mcp.NoteProgress {
		e.Caller.Notify(n)
		return
	}
	value, err := strconv.ParseFloat(string(n.Msg.Param("progress").Of(n.Msg.Raw)), 64)
	e.turn <- struct{}{}
	defer func() { <-e.turn }()
	if err == nil && value <= e.last && e.ticks > 0 {
		return
	}
	if err == nil {
		e.last = max(e.last, value)
	}
	e.Caller.Notify(n)
}

// tell sends progress of our own. Its steps are small, because the server's values have to be larger.
func (e *elsewhere) tell(text string) {
	c := e.call
	if c.Token.IsZero() {
		return
	}
	e.turn <- struct{}{}
	defer func() { <-e.turn }()
	e.ticks++
	if e.last = max(e.last, 0) + 1.0/1024; e.last+1.0/1024 == e.last {
		return // the server's values are so large that none fits between them
	}
	params := append([]byte(`{"progressToken":`), c.Token.Of(c.Msg.Raw)...)
	params = strconv.AppendFloat(append(params, `,"progress":`...), e.last, 'f', -1, 64)
	if c.Client.Revision.Can(mcp.ProgressMessages) {
		params = jsonrpc.AppendQuote(append(params, `,"message":`...), text)
	}
	e.Caller.Notify(mcp.NewNote(mcp.NoteProgress, append(params, '}')))
}

// ask implements mcp.Elsewhere, for servers' questions.
func (e *elsewhere) ask(ctx context.Context, server, item string, params jsonrpc.Value) ([]byte, error) {
	q, err := questions.New(params)
	if err != nil {
		return nil, err
	}
	q.Server, q.Item = server, item
	a, err := e.wait(ctx, q)
	return a.Result, err
}

// wait lets a question wait for its answer.
func (e *elsewhere) wait(ctx context.Context, q questions.Question) (a questions.Answer, err error) {
	f := e.call.Client
	q.Who, q.Call = f.Who, e.call.Number
	q.Party, q.Machine = f.Program()
	q.Until = mcp.AnswerBy(ctx)
	name, _ := jsonrpc.ValueOf(f.Info).Get("name").Text()
	q.Client = excerpt.Line(name, 128)
	what := "waiting for a person who answers a question of " + q.Server
	if q.Rule {
		what = "waiting for a person who confirms the call"
	}
	asking, stop := context.WithCancel(ctx)
	var running sync.WaitGroup
	running.Go(func() {
		tick := time.NewTicker(waitProgress)
		defer tick.Stop()
		for {
			e.tell(what)
			select {
			case <-tick.C:
			case <-asking.Done():
				return
			}
		}
	})
	a, err = e.box.Ask(ctx, q)
	stop()
	running.Wait()
	e.mu.Lock()
	defer e.mu.Unlock()
	if a.Action != "" && len(e.heard) < mostHeard {
		e.heard = append(e.heard, policy.Heard{Kind: q.Kind(), Action: a.Action, By: a.By})
	}
	return a, err
}

// confirm asks somebody elsewhere the question of a step. The error is meant for the client.
func (e *elsewhere) confirm(ctx context.Context, r *route, q *mcp.Question) (result []byte, err error) {
	a, err := e.wait(ctx, questions.Question{Rule: true, Server: r.Server, Item: r.Name, Message: q.Message})
	if err == nil {
		return a.Result, nil
	}
	out := &mcp.Error{Origin: mcp.FromClient, Upstream: r.Server, Cause: "cancelled", Outcome: mcp.NotSent, Err: err, Message: "the request ended before a person had confirmed it"}
	if why := (*mcp.NoAnswer)(nil); errors.As(err, &why) {
		out.Origin, out.Cause = mcp.FromGateway, why.Cause
		out.Message = fmt.Sprintf("the call was not sent: a person has to confirm it first, and the question %s", why.Why)
	}
	return nil, out
}

// answers returns what people have answered about the call. e may be nil.
func (e *elsewhere) answers() []policy.Heard {
	if e == nil {
		return nil
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.heard
}
