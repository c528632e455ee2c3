package bridge

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
	"github.com/dragoman-mcp/dragoman/internal/transport"
)

// These constants limit parked calls. The parties share the slots of the first three limits fairly;
// see slotsOf.
const (
	maxParked        = 512 // the maximum number of parked calls of all servers together
	maxParkedAtOne   = 48  // the maximum number of parked calls of one server, which may have 64 sessions
	maxParkedInLanes = 12  // the maximum number of parked calls of one pool of sessions, which may have 16 sessions
	maxHeldLogs      = 64
	maxHeldLogBytes  = 256 << 10 // the maximum size of the held log messages of one call
)

// parkedCall is a call of a modern client to a legacy server that may be parked. While the call is
// parked, the server waits for the answer to a server request. The client has received
// input_required, and may retry with the answer.
type parkedCall struct {
	askedCall
	agreed bool // see mcp.Attempt.Agreed

	// Bridge.parkMu guards the following fields.
	kept   bool   // a retry may still get the answer: the call is in Bridge.parked, or a retry is being checked
	size   int64  // the size of the answer in bytes; set while the call is in Bridge.finished
	waited bool   // the call has been parked: the budget counts its first request, and the call has slots
	slots  []slot // the call keeps these slots until it ends
	server string // server and since describe the last time that the call was parked
	since  time.Time
}

var (
	errParkExpired = errors.New("the client did not retry the call with its answers before the timeout")
	errParkLost    = &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams,
		Message: "the call that this requestState belongs to has ended or was lost; the server may have executed it",
		Data:    []byte(`{"origin":"gateway","cause":"park_lost","outcome":"unknown","retryable":false}`)}
)

// mayPark reports whether a call may be parked: its method allows input_required, and its client
// has declared a capability for server requests.
func mayPark(c *mcp.Call) bool {
	return c.Method != nil && c.Method.MayAsk && c.Client.Revision.Can(mcp.InputRequired) &&
		(c.Client.Declares("elicitation") || c.Client.Declares("sampling") || c.Client.Declares("roots"))
}

// start runs a call so that it can be parked, and waits for the answer or the first server request.
// It calls leave when the call has ended.
func (b *Bridge) start(ctx context.Context, u Server, l Lease, a *mcp.Attempt, k mcp.Caller, leave func()) (*mcp.Reply, error) {
	p := &parkedCall{askedCall: newAskedCall(rand.Text(), a.Call), agreed: a.Agreed}
	p.caller, p.call = k, a.Call
	life, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	p.cancel = cancel
	b.parkMu.Lock()
	if b.closed {
		b.parkMu.Unlock()
		cancel(nil)
		l.Release()
		leave()
		return nil, errStopping
	}
	b.running.Go(func() {
		defer cancel(nil)
		p.reply, p.err = l.Call(life, a, passing(a, (*askedCaller)(&p.askedCall)))
		l.Release()
		leave()
		close(p.done)
		b.finishCall(p)
	})
	b.parkMu.Unlock()
	return b.attend(ctx, u, a.Call, p)
}

var errStopping = &mcp.Error{Origin: mcp.FromGateway, Cause: "shutdown", Outcome: mcp.NotSent, Message: "Dragoman is stopping"}

// attend waits until the call has an answer or the server has sent a request. If the server has
// sent a request, attend parks the call. c is the call of the attached request.
func (b *Bridge) attend(ctx context.Context, u Server, c *mcp.Call, p *parkedCall) (*mcp.Reply, error) {
	for {
		select {
		case <-p.done:
			return p.reply, p.err
		case <-p.asked:
			p.gather()
		case <-ctx.Done():
			// The client has disconnected. Cancel the call at the server.
			p.cancel(context.Cause(ctx))
			<-p.done
			return p.reply, p.err
		}
		switch {
		case isDone(p.done):
			return p.reply, p.err
		case p.waits():
			return b.park(u, c, p)
		}
		// No server request is open: the server has cancelled its request or has already received
		// the answer.
	}
}

func isDone(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// park returns input_required with the open server requests and detaches the client's request.
func (b *Bridge) park(u Server, c *mcp.Call, p *parkedCall) (*mcp.Reply, error) {
	state, err := b.mint(u, c, sealKind('P', p.agreed), []byte(p.id))
	if err != nil {
		p.cancel(err)
		<-p.done
		return nil, err
	}
	b.parkMu.Lock()
	if b.parked == nil {
		b.parked = make(map[string]*parkedCall)
	}
	if isDone(p.done) {
		b.parkMu.Unlock()
		return p.reply, p.err
	}
	closed, fits := b.closed, b.admitLocked(p, u, c.Client)
	var out []byte
	if !closed && fits {
		p.kept = true
		p.server, p.since = u.Name(), time.Now()
		// Set everything before a retry can find the call in b.parked.
		out = p.leave(state, func() { b.expire(p) })
		b.parked[p.id] = p
	}
	b.parkMu.Unlock()
	switch {
	case closed:
		return p.refuse(errStopping)
	case !fits:
		return p.refuse(&mcp.Error{
			Origin: mcp.FromGateway, Upstream: u.Name(), Cause: "overloaded", Outcome: mcp.OutcomeUnknown,
			Retryable: true, RetryAfter: 10 * time.Second,
			Message: fmt.Sprintf("server %q asks for input, but too many calls are already waiting for answers; answer those calls, or try again later", u.Name()),
		})
	}
	reply := newInputRequired(out)
	p.first.Trail.Carry(mcp.WhyQuestion, out, jsonrpc.Whole(out), reply.Msg.Raw)
	return reply, nil
}

// refuse ends a call that cannot be parked. If the call ends with an answer anyway, refuse returns
// this answer. Otherwise it returns why.
func (p *parkedCall) refuse(why error) (*mcp.Reply, error) {
	p.cancel(why)
	<-p.done
	if p.err == nil {
		return p.reply, nil
	}
	return nil, why
}

// slot is the reservation of one parked call in a quota of Bridge.places.
type slot struct {
	key, party string
	most       int
	own        bool // only this party uses the quota
}

// slotsOf returns the slots that a parked call needs in three quotas: the quota of all servers
// together, the quota of the call's server, and the quota of the call's pool of sessions. The pool
// has a quota because a parked call on a pipe uses a session of the pool exclusively. Each
// principal has its own pool. A parked call never loses its slots: when a party has used its share,
// its next call is refused.
func slotsOf(u Server, f *mcp.ClientInfo) []slot {
	who := f.Party()
	lanes := "lanes " + u.Name() + "\x00" + f.Who.SeatKey() + "\x00" + string(mcp.CanonicalCapabilities(f.Capabilities))
	return []slot{
		{"all", who, maxParked, false},
		{"server " + u.Name(), who, maxParkedAtOne, false},
		{lanes, who, maxParkedInLanes, f.Who.SeatKey() != ""},
	}
}

// admitLocked takes the slots for a call and reports whether all of them were free. A call that was
// parked before already has its slots, and a call that has ended needs none. When admitLocked has
// taken the slots, the budget counts the memory of the first request of the call.
func (b *Bridge) admitLocked(p *parkedCall, u Server, f *mcp.ClientInfo) bool {
	if p.waited || isDone(p.done) {
		return true
	}
	slots := slotsOf(u, f)
	for _, x := range slots {
		q := b.places[x.key]
		switch {
		case q == nil:
		case x.own && q.All() < x.most:
		case !q.Room(x.party, x.most):
			return false
		}
	}
	if b.places == nil {
		b.places = make(map[string]*transport.Quota)
	}
	for _, x := range slots {
		q := b.places[x.key]
		if q == nil {
			q = &transport.Quota{}
			b.places[x.key] = q
		}
		q.Take(x.party)
	}
	p.waited, p.slots = true, slots
	b.Budget.Hold(int64(len(p.first.Msg.Raw)))
	return true
}

// finishCall releases the resources of a call that has ended, and keeps its answer if a retry may
// get it.
func (b *Bridge) finishCall(p *parkedCall) {
	b.parkMu.Lock()
	defer b.parkMu.Unlock()
	if p.kept {
		for _, x := range b.finished.addLocked(p, b.Budget) {
			x.kept = false
			delete(b.parked, x.id) // the retry of a dropped call gets errParkLost
			x.mu.Lock()
			x.expiry.Stop()
			x.mu.Unlock()
		}
	}
	if p.waited {
		p.waited = false
		for _, x := range p.slots {
			q := b.places[x.key]
			if q.Give(x.party); q.All() == 0 {
				delete(b.places, x.key)
			}
		}
		b.Budget.Give(int64(len(p.first.Msg.Raw)))
	}
}

// leave detaches the client's request. It returns the input_required result for this request, which
// contains the open server requests. If the client does not retry within stateTTL, expire is
// called.
func (p *parkedCall) leave(state string, expire func()) []byte {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.caller, p.call = nil, nil
	out, parts := p.inputRequests([]byte(`{"resultType":"input_required","inputRequests":`))
	out = jsonrpc.AppendQuote(append(out, `,"requestState":`...), state)
	p.expiry = time.AfterFunc(stateTTL, expire)
	out = append(out, '}')
	for _, part := range parts {
		p.first.Trail.Carry(mcp.WhyQuestion, part, jsonrpc.Whole(part), out)
	}
	return out
}

// expire ends a parked call whose client did not retry in time. The client does not have to retry
// (2026-07-28 §MRTR, "Server Requirements" 8).
func (b *Bridge) expire(p *parkedCall) {
	if b.claim(p.id) != nil {
		b.unkeep(p)
		p.cancel(errParkExpired)
	}
}

// unkeep records that no further retry may get the answer of the call, because no retry will come
// or because a retry is already attached.
func (b *Bridge) unkeep(p *parkedCall) {
	b.parkMu.Lock()
	defer b.parkMu.Unlock()
	p.kept = false
	b.finished.removeLocked(p, b.Budget)
}

// claim removes a parked call from b.parked and returns it, or nil if the call is not there. The
// caller then has exclusive access to the call.
func (b *Bridge) claim(id string) *parkedCall {
	b.parkMu.Lock()
	defer b.parkMu.Unlock()
	p := b.parked[id]
	delete(b.parked, id)
	return p
}

// resume continues a parked call when its client retries.
func (b *Bridge) resume(ctx context.Context, u Server, c *mcp.Call, k mcp.Caller, id string) (*mcp.Reply, error) {
	answers := c.Msg.Param("inputResponses")
	if kind := jsonrpc.KindOf(c.Msg.Raw, answers); kind != 0 && kind != '{' {
		return nil, errNoObject
	}
	p := b.claim(id)
	if p == nil {
		return nil, errParkLost
	}
	c.Resume(p.first.Number)
	p.mu.Lock()
	p.expiry.Stop()
	bad := p.check(c.Msg.Raw, answers)
	if bad != nil {
		p.expiry.Reset(stateTTL)
		p.mu.Unlock()
		return nil, b.putBack(p, bad)
	}
	// First send the held messages to the client. The server sends further messages only after it
	// has received the answers.
	for len(p.held) > 0 {
		held := p.held
		p.held, p.heldLen = nil, 0
		p.mu.Unlock()
		for i := range held {
			k.Notify(&held[i])
		}
		p.mu.Lock()
	}
	p.caller, p.call = k, c
	p.answer(c.Msg.Raw, answers)
	left := p.open
	p.mu.Unlock()
	b.unkeep(p)
	if len(left) > 0 {
		// 2026-07-28 §MRTR, "Error Handling": ask again for the missing answers.
		select {
		case <-p.done:
			return p.reply, p.err
		default:
			return b.park(u, c, p)
		}
	}
	return b.attend(ctx, u, c, p)
}

// putBack parks a claimed call again after a retry of the call was refused, and returns the error
// for the retry.
func (b *Bridge) putBack(p *parkedCall, bad error) error {
	b.parkMu.Lock()
	closed, kept := b.closed, p.kept
	if !closed && kept {
		b.parked[p.id] = p
	}
	b.parkMu.Unlock()
	if !closed && !kept {
		p.expiry.Stop() // the call has ended and was dropped to make room
		return errParkLost
	}
	if closed {
		// Close has run after this retry claimed the call, so Close has not ended the call.
		p.expiry.Stop()
		p.cancel(errStopping)
		return errStopping
	}
	return bad
}

// Close ends all parked calls and attended tasks and waits for them.
func (b *Bridge) Close() {
	b.parkMu.Lock()
	b.closed = true
	var all []*askedCall
	for _, p := range b.parked {
		p.kept = false
		all = append(all, &p.askedCall)
	}
	b.parked = nil
	for len(b.finished.order) > 0 {
		b.finished.removeLocked(b.finished.order[0], b.Budget)
	}
	for _, a := range b.attended {
		b.dropLocked(a)
		all = append(all, &a.askedCall)
	}
	b.parkMu.Unlock()
	for _, p := range all {
		p.mu.Lock()
		p.expiry.Stop()
		p.mu.Unlock()
		p.cancel(errStopping)
	}
	b.running.Wait()
}

// Parked returns the number of calls that wait for a retry of the client.
func (b *Bridge) Parked() int {
	b.parkMu.Lock()
	defer b.parkMu.Unlock()
	return len(b.parked)
}

// Attended returns the number of attended tasks. An attended task is a task of a legacy server:
// Dragoman waits for the server requests of the task while a modern client polls.
func (b *Bridge) Attended() int {
	b.parkMu.Lock()
	defer b.parkMu.Unlock()
	return b.attends.All()
}
