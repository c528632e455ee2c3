package bridge

import (
	"context"
	"errors"
	"strconv"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/dialect"
	"github.com/dragoman-mcp/dragoman/internal/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/mcp"
)

// A legacy server puts the questions of a task live, on the request for its result,
// which it answers when the task is over. A modern client polls, finds the questions
// in the task, and answers them with tasks/update. So we wait for the result in its
// stead, from when the server says that it wants input, and keep the questions for
// its polls: an attended task.

// The bounds of attended tasks.
const (
	maxAttended = 256 // a quota by party
	// firstAsk is how long a poll waits for the first question of a task that wants
	// input.
	firstAsk = 2 * time.Second
)

var (
	errUnattended = errors.New("the client did not ask for its task in time")
	errTaskDone   = errors.New("the task is over")
)

// attendedKey tells the tasks of all clients apart.
func attendedKey(p Task, f *mcp.ClientInfo) string {
	return p.Server.Name() + "\x00" + f.Who.Key() + "\x00" + p.Ref.String()
}

// requestedTask answers a modern client about a task of a legacy server.
func (r *Bridge) requestedTask(ctx context.Context, p Task, c *mcp.Call) (*mcp.Reply, error) {
	switch c.Msg.Method {
	case mcp.MethodUpdateTask:
		return r.updateRequested(ctx, p, c)
	case mcp.MethodCancelTask:
		return r.cancelRequested(ctx, p, c)
	}
	st, failed, err := p.look(ctx, c)
	if err != nil || failed != nil {
		return failed, err
	}
	switch {
	case mcp.TaskOver(st.status):
		return r.inlined(ctx, p, c, &st)
	case st.status == mcp.TaskInput:
		a, err := r.attendTask(p, c)
		if err != nil {
			return nil, err
		}
		a.firstQuestion(ctx)
	}
	t := dialect.Task{Asks: r.questions(p, c)}
	switch {
	case t.Asks != nil:
		t.Status = mcp.TaskInput
	case st.status == mcp.TaskInput:
		// It has not said so far what it wants; input_required must name it all
		// (SEP-2663, "Task Polling" 2).
		t.Status = mcp.TaskWorking
	}
	return st.say(c, t), nil
}

// inlined says what a task that is over has come to, for which 2025-11-25 has a
// request of its own. There a failed task may have a result, which is the case that
// the extension calls completed (SEP-2663, "Task Status").
func (r *Bridge) inlined(ctx context.Context, p Task, c *mcp.Call, st *state) (*mcp.Reply, error) {
	a := r.unattend(attendedKey(p, c.Client))
	if st.status == mcp.TaskCancelled {
		if a != nil {
			a.cancel(errTaskDone)
		}
		return st.say(c, dialect.Task{}), nil
	}
	var reply *mcp.Reply
	var err error
	if a != nil {
		select {
		case <-a.done:
			reply, err = a.reply, a.err
		case <-ctx.Done():
			a.cancel(context.Cause(ctx))
			<-a.done
			if reply, err = a.reply, a.err; err != nil {
				return nil, err
			}
		}
	}
	if a == nil || err != nil {
		reply, err = Send(ctx, p.Server, p.ask(c, mcp.MethodTaskResult), mcp.NoCaller{})
	}
	if err != nil {
		return nil, err
	}
	if reply.Msg.Kind == jsonrpc.Failure {
		// With the code that the call itself would have been answered with.
		raw := dialect.Reply(nil, c, reply)
		m, err := jsonrpc.Scan(raw, jsonrpc.Limits{Bytes: len(raw) + 1, Tolerant: true})
		if err != nil {
			return nil, badAnswer(p.Server, "ended a task without a valid answer")
		}
		return st.say(c, dialect.Task{Status: mcp.TaskFailed, Error: m.Error.Of(raw)}), nil
	}
	reply = bare(reply)
	m, bad := mcp.Rewrite(c.Trail, reply.Msg, &reply.Edits)
	if bad != nil {
		return nil, badAnswer(p.Server, "ended a task without a valid answer")
	}
	return st.say(c, dialect.Task{Status: mcp.TaskCompleted, Result: m.Result.Of(m.Raw)}), nil
}

// attendTask sees to it that somebody waits for the questions of a task.
func (r *Bridge) attendTask(p Task, c *mcp.Call) (*parkedCall, error) {
	key := attendedKey(p, c.Client)
	r.parkMu.Lock()
	defer r.parkMu.Unlock()
	if a := r.attended[key]; a != nil {
		if !isDone(a.done) {
			a.expiry.Reset(stateTTL)
			return a, nil
		}
		a.expiry.Stop()
		r.dropLocked(a)
	}
	if r.closed {
		return nil, errStopping
	}
	who := c.Client.Party()
	if !r.attends.Room(who, maxAttended) {
		return nil, &mcp.Error{
			Origin: mcp.FromGateway, Upstream: p.Server.Name(), Cause: "overloaded", Outcome: mcp.Failed, Retryable: true,
			RetryAfter: time.Second, TooMany: true, Message: "too many of this client's tasks wait for its answers: answer some of them first",
		}
	}
	a := &parkedCall{
		id: key, party: who, done: make(chan struct{}), asked: make(chan struct{}, 1),
		// When a question is asked again, by others after us, it has another key.
		first: c, salt: "-" + strconv.FormatInt(time.Now().UnixMilli(), 36),
	}
	life, cancel := context.WithCancelCause(context.Background())
	a.cancel = cancel
	a.expiry = time.AfterFunc(stateTTL, func() {
		if r.dismiss(a) {
			cancel(errUnattended)
		}
	})
	if r.attended == nil {
		r.attended = make(map[string]*parkedCall)
	}
	r.attended[key] = a
	r.attends.Take(who)
	r.holdLocked(a, c.Msg)
	ask := p.ask(c, mcp.MethodTaskResult)
	r.running.Go(func() {
		defer cancel(nil)
		a.reply, a.err = Send(life, p.Server, ask, (*parkedCaller)(a))
		r.parkMu.Lock()
		defer r.parkMu.Unlock()
		close(a.done)
		switch {
		case a.dropped:
			r.Budget.Give(a.counted)
		case a.reply != nil:
			r.holdLocked(a, a.reply.Msg) // until somebody asks for it
		}
	})
	return a, nil
}

// holdLocked counts a message that an attended task goes on holding.
func (r *Bridge) holdLocked(a *parkedCall, m *jsonrpc.Message) {
	n := int64(len(m.Raw))
	a.counted += n
	r.Budget.Hold(n)
}

// dropLocked takes one out of the table. What it holds is given back now, or once it
// is over.
func (r *Bridge) dropLocked(a *parkedCall) {
	delete(r.attended, a.id)
	r.attends.Give(a.party)
	a.dropped = true
	if isDone(a.done) {
		r.Budget.Give(a.counted)
	}
}

// unattend takes a task out of the table and returns who attended it, nil for
// nobody.
func (r *Bridge) unattend(key string) *parkedCall {
	r.parkMu.Lock()
	defer r.parkMu.Unlock()
	a := r.attended[key]
	if a != nil {
		a.expiry.Stop()
		r.dropLocked(a)
	}
	return a
}

// dismiss takes one out that is still in the table.
func (r *Bridge) dismiss(a *parkedCall) bool {
	r.parkMu.Lock()
	defer r.parkMu.Unlock()
	if r.attended[a.id] != a {
		return false
	}
	r.dropLocked(a)
	return true
}

func (r *Bridge) attendant(p Task, c *mcp.Call) *parkedCall {
	r.parkMu.Lock()
	defer r.parkMu.Unlock()
	return r.attended[attendedKey(p, c.Client)]
}

// firstQuestion waits a little for the questions that the server is about to ask.
// Those that come later the next poll finds.
func (p *parkedCall) firstQuestion(ctx context.Context) {
	p.mu.Lock()
	asked := p.counter > 0
	p.mu.Unlock()
	if asked {
		return
	}
	t := time.NewTimer(firstAsk)
	defer t.Stop()
	select {
	case <-p.asked:
		p.gather()
	case <-p.done:
	case <-t.C:
	case <-ctx.Done():
	}
}

// questions returns the open questions of a task as inputRequests, nil for none.
func (r *Bridge) questions(p Task, c *mcp.Call) []byte {
	a := r.attendant(p, c)
	if a == nil || isDone(a.done) {
		return nil
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.open) == 0 {
		return nil
	}
	return a.inputRequests([]byte{})
}

// updateRequested takes a client's answers. Keys that no question waits under are
// ignored (SEP-2663, "Task Update Requests").
func (r *Bridge) updateRequested(ctx context.Context, p Task, c *mcp.Call) (*mcp.Reply, error) {
	raw, answers := c.Msg.Raw, c.Msg.Param("inputResponses")
	if jsonrpc.KindOf(raw, answers) != '{' {
		return nil, &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: "inputResponses must be an object"}
	}
	a := r.attendant(p, c)
	if a == nil || isDone(a.done) {
		// Nothing is open; whether there is such a task its server knows.
		_, failed, err := p.look(ctx, c)
		if err != nil || failed != nil {
			return failed, err
		}
		return acknowledged(), nil
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if bad := a.check(raw, answers); bad != nil {
		return nil, bad
	}
	a.answer(raw, answers)
	return acknowledged(), nil
}

// cancelRequested cancels a task. That one which is over cannot be is an error in
// 2025-11-25 and none in the extension.
func (r *Bridge) cancelRequested(ctx context.Context, p Task, c *mcp.Call) (*mcp.Reply, error) {
	reply, err := Send(ctx, p.Server, p.ask(c, mcp.MethodCancelTask), mcp.NoCaller{})
	if err != nil {
		return nil, err
	}
	if reply.Code() == jsonrpc.CodeInvalidParams {
		st, failed, err := p.look(ctx, c)
		if err != nil || failed != nil {
			return failed, err
		}
		if mcp.TaskOver(st.status) {
			return acknowledged(), nil
		}
	}
	if reply.Code() != 0 {
		return reply, nil
	}
	if a := r.unattend(attendedKey(p, c.Client)); a != nil {
		a.cancel(errTaskDone)
	}
	return acknowledged(), nil
}

func acknowledged() *mcp.Reply { return mcp.Answer([]byte(`{"resultType":"complete"}`)) }
