package bridge

import (
	"context"
	"errors"
	"strconv"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/protocol/dialect"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
)

// This file is about attended tasks. A legacy server sends the server requests of a task live,
// while it handles the request tasks/result. The server answers tasks/result when the task has
// ended. A modern client polls instead: the client finds the input requests in the task and answers
// them with tasks/update. So when the server wants input, Dragoman sends tasks/result on behalf of
// the client, and keeps the server requests for the client's polls.

// maxAttended is the maximum number of attended tasks.
const (
	maxAttended = 256 // the parties share this number fairly
	// firstAsk is how long a poll waits for the first server request of a task whose status is
	// input_required.
	firstAsk = 2 * time.Second
)

var (
	errUnattended = errors.New("the client did not poll its task before the timeout")
	errTaskDone   = errors.New("the task has ended")
)

// attendedTask is a task of a legacy server whose outcome Dragoman has asked for, so that the server
// sends its requests. Bridge.parkMu guards the fields that it adds.
type attendedTask struct {
	askedCall
	party   string
	counted int64 // the number of bytes that the budget counts for this task
	dropped bool  // the task is no longer in Bridge.attended
}

// attendedKey returns the key of an attended task, which is unique across all clients.
func attendedKey(p Task, f *mcp.ClientInfo) string {
	return p.Server.Name() + "\x00" + f.Who.SeatKey() + "\x00" + p.Ref.String()
}

// requestedTask answers a modern client's request about a task of a legacy server.
func (b *Bridge) requestedTask(ctx context.Context, p Task, c *mcp.Call) (*mcp.Reply, error) {
	switch c.Msg.Method {
	case mcp.MethodUpdateTask:
		return b.updateRequested(ctx, p, c)
	case mcp.MethodCancelTask:
		return b.cancelRequested(ctx, p, c)
	}
	st, failed, err := p.getState(ctx, c)
	if err != nil || failed != nil {
		return failed, err
	}
	switch {
	case mcp.TaskOver(st.status):
		return b.taskOutcome(ctx, p, c, &st)
	case st.status == mcp.TaskInput:
		a, err := b.attendTask(p, c)
		if err != nil {
			return nil, err
		}
		a.firstQuestion(ctx)
	}
	t := dialect.Task{Asks: b.questions(p, c)}
	switch {
	case t.Asks != nil:
		t.Status = mcp.TaskInput
	case st.status == mcp.TaskInput:
		// The server has not sent its request yet. A task with the status input_required must list
		// all its input requests (SEP-2663, "Task Polling" 2).
		t.Status = mcp.TaskWorking
	}
	return st.toReply(c, t), nil
}

// taskOutcome returns the state of an ended task, including its outcome. 2025-11-25 has a separate
// request for the outcome, and a failed task may have a result in this revision. In the extension,
// such a task is completed (SEP-2663, "Task Status").
func (b *Bridge) taskOutcome(ctx context.Context, p Task, c *mcp.Call, st *state) (*mcp.Reply, error) {
	a := b.unattend(attendedKey(p, c.Client))
	if st.status == mcp.TaskCancelled {
		if a != nil {
			a.cancel(errTaskDone)
		}
		return st.toReply(c, dialect.Task{}), nil
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
		// The error gets the code that the client would have got if the call had failed without a
		// task.
		raw := dialect.Reply(nil, c, reply)
		m, err := jsonrpc.Scan(raw, jsonrpc.Limits{Bytes: len(raw) + 1, Tolerant: true})
		if err != nil {
			return nil, badAnswer(p.Server, "ended a task without a valid result")
		}
		return st.toReply(c, dialect.Task{Status: mcp.TaskFailed, Error: m.Error.Of(raw)}), nil
	}
	reply = withoutRelatedTask(reply)
	var e jsonrpc.Edits
	e.AddAll(reply.Edits)
	m, bad := mcp.Rewrite(c.Trail, reply.Msg, &e)
	if bad != nil {
		return nil, badAnswer(p.Server, "ended a task without a valid result")
	}
	return st.toReply(c, dialect.Task{Status: mcp.TaskCompleted, Result: m.Result.Of(m.Raw)}), nil
}

// attendTask returns the attended task of p. If no goroutine waits for the task's server requests,
// attendTask starts one.
func (b *Bridge) attendTask(p Task, c *mcp.Call) (*attendedTask, error) {
	key := attendedKey(p, c.Client)
	b.parkMu.Lock()
	defer b.parkMu.Unlock()
	if a := b.attended[key]; a != nil {
		if !isDone(a.done) {
			a.expiry.Reset(stateTTL)
			return a, nil
		}
		a.expiry.Stop()
		b.dropLocked(a)
	}
	if b.closed {
		return nil, errStopping
	}
	who := c.Client.Party()
	if !b.attends.Room(who, maxAttended) {
		return nil, &mcp.Error{
			Origin: mcp.FromGateway, Upstream: p.Server.Name(), Cause: "overloaded", Outcome: mcp.Failed, Retryable: true,
			RetryAfter: time.Second, TooMany: true, Message: "too many tasks of this client are waiting for answers; answer some of them first",
		}
	}
	a := &attendedTask{askedCall: newAskedCall(key, c), party: who}
	// The salt gives the server requests of each attended task different keys.
	a.salt = "-" + strconv.FormatInt(time.Now().UnixMilli(), 36)
	life, cancel := context.WithCancelCause(context.Background())
	a.cancel = cancel
	a.expiry = time.AfterFunc(stateTTL, func() {
		if b.dismiss(a) {
			cancel(errUnattended)
		}
	})
	if b.attended == nil {
		b.attended = make(map[string]*attendedTask)
	}
	b.attended[key] = a
	b.attends.Take(who)
	b.holdLocked(a, c.Msg)
	ask := p.ask(c, mcp.MethodTaskResult)
	b.running.Go(func() {
		defer cancel(nil)
		a.reply, a.err = Send(life, p.Server, ask, elsewhere(c, p.Server.Name(), "", (*askedCaller)(&a.askedCall)))
		b.parkMu.Lock()
		defer b.parkMu.Unlock()
		close(a.done)
		switch {
		case a.dropped:
			b.Budget.Give(a.counted)
		case a.reply != nil:
			b.holdLocked(a, a.reply.Msg) // a client may still fetch the reply
		}
	})
	return a, nil
}

// holdLocked counts the memory of a message that an attended task keeps.
func (b *Bridge) holdLocked(a *attendedTask, m *jsonrpc.Message) {
	n := int64(len(m.Raw))
	a.counted += n
	b.Budget.Hold(n)
}

// dropLocked removes an attended task from b.attended. The budget stops counting the memory of the
// task when the request tasks/result ends, or at once if this request has already ended.
func (b *Bridge) dropLocked(a *attendedTask) {
	delete(b.attended, a.id)
	b.attends.Give(a.party)
	a.dropped = true
	if isDone(a.done) {
		b.Budget.Give(a.counted)
	}
}

// unattend removes an attended task from b.attended and returns the task. It returns nil if
// b.attended does not contain the task.
func (b *Bridge) unattend(key string) *attendedTask {
	b.parkMu.Lock()
	defer b.parkMu.Unlock()
	a := b.attended[key]
	if a != nil {
		a.expiry.Stop()
		b.dropLocked(a)
	}
	return a
}

// dismiss removes an attended task from b.attended and reports whether b.attended contained the
// task.
func (b *Bridge) dismiss(a *attendedTask) bool {
	b.parkMu.Lock()
	defer b.parkMu.Unlock()
	if b.attended[a.id] != a {
		return false
	}
	b.dropLocked(a)
	return true
}

func (b *Bridge) attendedBy(p Task, c *mcp.Call) *attendedTask {
	b.parkMu.Lock()
	defer b.parkMu.Unlock()
	return b.attended[attendedKey(p, c.Client)]
}

// questions returns the open server requests of a task as an inputRequests object, or nil if no
// server request is open.
func (b *Bridge) questions(p Task, c *mcp.Call) []byte {
	a := b.attendedBy(p, c)
	if a == nil || isDone(a.done) {
		return nil
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.open) == 0 {
		return nil
	}
	asks, _ := a.inputRequests([]byte{})
	return asks
}

// updateRequested passes a client's answers to the attended task. It ignores unknown keys
// (SEP-2663, "Task Update Requests").
func (b *Bridge) updateRequested(ctx context.Context, p Task, c *mcp.Call) (*mcp.Reply, error) {
	raw, answers := c.Msg.Raw, c.Msg.Param("inputResponses")
	if jsonrpc.KindOf(raw, answers) != '{' {
		return nil, &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: "inputResponses must be an object"}
	}
	a := b.attendedBy(p, c)
	if a == nil || isDone(a.done) {
		// No server request is open. Find out from the server whether the task exists.
		_, failed, err := p.getState(ctx, c)
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

// cancelRequested cancels a task. Cancelling an ended task is an error in 2025-11-25 but
// not in the extension.
func (b *Bridge) cancelRequested(ctx context.Context, p Task, c *mcp.Call) (*mcp.Reply, error) {
	reply, err := Send(ctx, p.Server, p.ask(c, mcp.MethodCancelTask), mcp.NoCaller{})
	if err != nil {
		return nil, err
	}
	if reply.Code() == jsonrpc.CodeInvalidParams {
		st, failed, err := p.getState(ctx, c)
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
	if a := b.unattend(attendedKey(p, c.Client)); a != nil {
		a.cancel(errTaskDone)
	}
	return acknowledged(), nil
}

func acknowledged() *mcp.Reply { return mcp.Answer([]byte(`{"resultType":"complete"}`)) }
