package bridge

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"maps"
	"sync"
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
// input_required, and may retry with the answer. An attended task is a parkedCall too.
//
// The call runs in its own goroutine, because it can outlive the client's request. At most one
// request of the client is attached to the call at any time.
type parkedCall struct {
	id     string
	cancel context.CancelCauseFunc
	done   chan struct{} // closed after reply or err is set

	reply *mcp.Reply
	err   error

	mu      sync.Mutex
	asked   chan struct{} // capacity 1; signals a new server request
	open    []*openQuestion
	counter int         // the number of server requests so far
	caller  mcp.Caller  // the caller of the attached request; nil if no request is attached
	call    *mcp.Call   // the call of the attached request; nil if no request is attached
	held    []mcp.Note  // log messages that arrived while no request of the client was attached
	heldLen int         // the total size of held in bytes
	expiry  *time.Timer // fires if the client does not retry in time; runs while no request is attached
	first   *mcp.Call   // the first request of the call; the server's progress notifications contain the token of this request
	agreed  bool        // see mcp.Attempt.Agreed
	salt    string      // suffix that makes the keys of server requests unique across calls

	// Bridge.parkMu guards the following fields.
	kept   bool   // a retry may still get the answer: the call is in Bridge.parked, or a retry is being checked
	size   int64  // the size of the answer in bytes; set while the call is in Bridge.finished
	waited bool   // the call has been parked: the budget counts its first request, and the call has slots
	slots  []slot // the call keeps these slots until it ends
	server string // server and since describe the last time that the call was parked
	since  time.Time

	// The following fields are for attended tasks. Bridge.parkMu guards them.
	party   string
	counted int64 // the number of bytes that the budget counts for this task
	dropped bool  // the task is no longer in Bridge.attended
}

// openQuestion is a server request that waits for the client's answer.
type openQuestion struct {
	key    string
	m      *jsonrpc.Message
	answer chan given // capacity 1
}

// given is the answer to a server request: a result object in the client's retry. raw is the retry,
// and at is the position of the object.
type given struct {
	raw []byte
	at  jsonrpc.Span
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
	p := &parkedCall{
		id: rand.Text(), done: make(chan struct{}), asked: make(chan struct{}, 1),
		caller: k, call: a.Call, first: a.Call, agreed: a.Agreed,
	}
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
		p.reply, p.err = l.Call(life, a, passing(a, (*parkedCaller)(p)))
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

// waits reports whether a server request is open.
func (p *parkedCall) waits() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.open) > 0
}

// gatherTime is how long gather waits for further server requests after the first one. A server may
// send several requests at once, and the client should get them together.
const gatherTime = 15 * time.Millisecond

func (p *parkedCall) gather() {
	t := time.NewTimer(gatherTime)
	defer t.Stop()
	for {
		select {
		case <-p.asked:
		case <-p.done:
			return
		case <-t.C:
			return
		}
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
		// Set everything before a retry can find the call in r.parked.
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

// inputRequests appends an object with the open server requests to out, and also returns the server
// requests as a list. The caller must hold p.mu.
func (p *parkedCall) inputRequests(out []byte) (object []byte, parts [][]byte) {
	out = append(out, '{')
	for i, q := range p.open {
		if i > 0 {
			out = append(out, ',')
		}
		out = append(jsonrpc.AppendQuote(out, q.key), ':')
		part := request(p.first.Trail, q.m)
		parts, out = append(parts, part), append(out, part...)
	}
	return append(out, '}'), parts
}

// answer passes the client's answers to the server. The caller must hold p.mu, and the method check
// must have accepted the answers.
func (p *parkedCall) answer(raw []byte, answers jsonrpc.Span) {
	var left []*openQuestion
	for _, q := range p.open {
		at := jsonrpc.Find(raw, answers, q.key)
		if at.IsZero() {
			left = append(left, q)
			continue
		}
		q.answer <- given{raw, at}
	}
	p.open = left
}

// request converts a request of a server to an input request, which has only the method and the
// params.
func request(t *jsonrpc.Trail, m *jsonrpc.Message) []byte {
	var e jsonrpc.Edits
	var set []jsonrpc.Field
	if m.Params.IsZero() {
		// params may be absent in an input request, but some clients require them.
		set = append(set, jsonrpc.Field{Key: "params", Value: []byte("{}")})
	}
	e.Object(mcp.WhyQuestion, m.Raw, jsonrpc.Whole(m.Raw), func(k []byte) bool { return string(k) == "jsonrpc" || string(k) == "id" }, set...)
	if meta := m.Param(mcp.KeyMeta); !mcp.RelatedTask(m.Raw, meta).IsZero() {
		// The metadata of the request names a task. The client may not know this task, so the name
		// is removed.
		e.Object(mcp.WhyRelatedTask, m.Raw, meta, func(k []byte) bool { return string(k) == mcp.KeyRelatedTask })
	}
	return bytes.TrimSpace(t.Splice(make([]byte, 0, len(m.Raw)), m.Raw, &e))
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

// claim removes a parked call from r.parked and returns it, or nil if the call is not there. The
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

// check returns an error if one of the answers is not a valid result for its server request.
func (p *parkedCall) check(raw []byte, answers jsonrpc.Span) error {
	for _, q := range p.open {
		at := jsonrpc.Find(raw, answers, q.key)
		if at.IsZero() {
			continue
		}
		if !validAnswer(q.m.Method, raw, at) {
			return badInput(q.key)
		}
	}
	return nil
}

// parkedCaller is the caller of a call that may be parked.
type parkedCaller parkedCall

// Notify sends notifications to the client while a request is attached. At other times it drops
// progress notifications and keeps a limited number of other notifications.
func (k *parkedCaller) Notify(n *mcp.Note) {
	p := (*parkedCall)(k)
	p.mu.Lock()
	s, c := p.caller, p.call
	if s == nil {
		size := len(n.Msg.Raw)
		if len(p.held) < maxHeldLogs && p.heldLen+size <= maxHeldLogBytes && n.Msg.Method != mcp.NoteProgress {
			p.held = append(p.held, *n)
			p.heldLen += size
		}
		p.mu.Unlock()
		return
	}
	p.mu.Unlock()
	if c == p.first || n.Msg.Method != mcp.NoteProgress {
		s.Notify(n)
	} else if !c.Token.IsZero() {
		// The server uses the progress token of the first request. The client expects the token
		// of the attached request.
		own := mcp.Note{Msg: n.Msg}
		own.Edits.Replace(mcp.WhyProgressToken, n.Msg.Param("progressToken"), c.Token.Of(c.Msg.Raw))
		s.Notify(&own)
	}
}

// keyOf returns a key for a server request, which is unique within the call. A legacy request has
// no key. The key describes the request, which helps clients and people who read logs. For example,
// user_name is the key of a form with the field "name".
func (p *parkedCall) keyOf(m *jsonrpc.Message) string {
	var key string
	switch m.Method {
	case mcp.MethodSample:
		key = "model_message"
	case mcp.MethodListRoots:
		key = "client_roots"
	default:
		key = "user_" + onlyField(m)
		if mode, _ := jsonrpc.Text(m.Raw, m.Param("mode")); mode == "url" {
			key = keyOfURL
		}
	}
	p.counter++
	return numbered(key, p.counter) + p.salt
}

const keyOfURL = "user_visit"

func numbered(key string, n int) string {
	if n == 1 {
		return key
	}
	return fmt.Sprintf("%s.%d", key, n)
}

// onlyField returns the name of the only field of a form. It returns "input" if the form does not
// have exactly one field, or if the name is not a plain word.
func onlyField(m *jsonrpc.Message) string {
	const other = "input"
	schema := m.Param("requestedSchema")
	name, n := other, 0
	for f := range jsonrpc.Members(m.Raw, jsonrpc.Find(m.Raw, schema, "properties")) {
		if n++; n > 1 {
			return other
		}
		name, _ = jsonrpc.Text(m.Raw, f.Key)
	}
	if len(name) == 0 || len(name) > 40 {
		return other
	}
	for _, c := range []byte(name) {
		if c != '_' && c != '-' && (c < '0' || c > '9') && (c < 'A' || c > 'Z') && (c < 'a' || c > 'z') {
			return other
		}
	}
	return name
}

// Ask waits until a retry of the client contains the answer, and returns the answer.
func (k *parkedCaller) Ask(ctx context.Context, m *jsonrpc.Message) (*jsonrpc.Message, error) {
	p := (*parkedCall)(k)
	capability := mcp.AskCapability(m.Method)
	if capability == "" || !p.first.Client.Declares(capability) {
		return nil, mcp.ErrCannotAsk
	}
	q := &openQuestion{m: m, answer: make(chan given, 1)}
	p.mu.Lock()
	q.key = p.keyOf(m)
	p.open = append(p.open, q)
	p.mu.Unlock()
	select {
	case p.asked <- struct{}{}:
	default:
	}
	select {
	case a := <-q.answer:
		answer := jsonrpc.NewResult(m.ID, a.at.Of(a.raw))
		p.first.Trail.Carry(mcp.WhyQuestion, a.raw, a.at, answer.Raw)
		return answer, nil
	case <-ctx.Done():
		p.mu.Lock()
		for i, x := range p.open {
			if x == q {
				p.open = append(p.open[:i:i], p.open[i+1:]...)
				break
			}
		}
		p.mu.Unlock()
		return nil, context.Cause(ctx)
	}
}

// Close ends all parked calls and attended tasks and waits for them.
func (b *Bridge) Close() {
	b.parkMu.Lock()
	b.closed = true
	all, attended := b.parked, maps.Clone(b.attended)
	b.parked = nil
	for _, p := range all {
		p.kept = false
	}
	for len(b.finished.order) > 0 {
		b.finished.removeLocked(b.finished.order[0], b.Budget)
	}
	for _, a := range attended {
		b.dropLocked(a)
	}
	b.parkMu.Unlock()
	for _, list := range [...]map[string]*parkedCall{all, attended} {
		for _, p := range list {
			p.mu.Lock()
			p.expiry.Stop()
			p.mu.Unlock()
			p.cancel(errStopping)
		}
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

// urlsOf returns the elicitations in a URLElicitationRequired error.
func urlsOf(reply *mcp.Reply) jsonrpc.Span {
	raw := reply.Msg.Raw
	return jsonrpc.Find(raw, jsonrpc.Find(raw, reply.Msg.Error, "data"), "elicitations")
}

// urlsNeeded converts the error of a 2025-11-25 server that requires URL elicitations first to
// input_required (2025-11-25 §Elicitation, "URL Elicitation Required"). It parks nothing, because
// the retry is a new call. urlsNeeded returns nil if the client cannot open URLs, or if the error
// contains no URL.
func (b *Bridge) urlsNeeded(u Server, a *mcp.Attempt, reply *mcp.Reply) (*mcp.Reply, error) {
	c := a.Call
	raw := reply.Msg.Raw
	if !mayPark(c) || !c.Client.Declares("elicitation") {
		return nil, nil
	}
	list := urlsOf(reply)
	out := []byte(`{"resultType":"input_required","inputRequests":{`)
	n := 0
	for e := range jsonrpc.Elements(raw, list) {
		if jsonrpc.Find(raw, e, "url").IsZero() {
			continue
		}
		if n++; n > 1 {
			out = append(out, ',')
		}
		out = jsonrpc.AppendQuote(out, numbered(keyOfURL, n))
		out = append(out, `:{"method":"elicitation/create","params":`...)
		out = append(append(out, e.Of(raw)...), '}')
	}
	if n == 0 {
		return nil, nil
	}
	state, err := b.mint(u, c, sealKind('U', a.Agreed), nil)
	if err != nil {
		return nil, err
	}
	out = jsonrpc.AppendQuote(append(out, `},"requestState":`...), state)
	return newInputRequired(append(out, '}')), nil
}
