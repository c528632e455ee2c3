package conn

import (
	"context"
	"errors"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/base/trails"
	"github.com/dragoman-mcp/dragoman/internal/protocol/dialect"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
	"github.com/dragoman-mcp/dragoman/internal/transport"
	"golang.org/x/time/rate"
)

// flow handles the messages that arrive for one call before the answer. It converts these messages
// for the client and passes them on. The goroutine of the call calls take for each message. The
// goroutine of a standalone SSE stream may also call take.
type flow struct {
	server *Conn
	call   *mcp.Attempt
	caller mcp.Caller
	n      int64
	ctx    context.Context // context of the call; its end cancels the call's open server requests
	cancel context.CancelCauseFunc

	// What the attempt needs on its way is here, so that it takes no allocations of its own.
	stamp dialect.Stamp
	out   transport.Outgoing
	wait  pending // only for a pipe

	timer   *time.Timer
	began   time.Time
	idle    time.Duration
	idleEnd atomic.Int64 // end of the idle timeout, in nanoseconds after began; 0 before the first message
	hardEnd time.Time    // zero if there is no total timeout
	status  int          // HTTP status of an error response; 0 for none
	open    atomic.Int32 // number of open server requests; the idle timeout does not apply while there are any

	taking sync.Mutex    // held while a message is passed on, so that messages are passed on one at a time
	note   *mcp.Note     // reused for each notification; nil before the first notification
	over   bool          // whether the call has ended
	pace   *rate.Limiter // limits the rate of progress notifications; nil before the first of them
	ahead  bool          // whether progress of this attempt has exceeded that of all earlier attempts
}

// These are the default timeouts of a call.
const (
	defaultIdle = 60 * time.Second
	defaultHard = 10 * time.Minute
)

var (
	errIdle   = errors.New("no message from the server within the idle timeout")
	errHard   = errors.New("the call exceeded its total timeout")
	errClosed = errors.New("the connection to the server was closed")
)

// begin sets the context of a call, and applies the timeouts to it; end ends it. subscriptions/listen
// has no timeout. tasks/result has no timeout either, because the server must not answer it before the
// task has ended (2025-11-25 §Tasks, "Result Retrieval" 3).
func (f *flow) begin(ctx context.Context) {
	f.ctx, f.cancel = context.WithCancelCause(ctx)
	if m := f.call.Msg.Method; m == mcp.MethodListen || m == mcp.MethodTaskResult {
		return
	}
	idle, hard := f.server.times()
	f.idle, f.began = idle, time.Now()
	if hard > 0 {
		f.hardEnd = f.began.Add(hard)
	}
	if wait, ok := f.rest(); ok {
		f.timer = time.AfterFunc(wait, f.late)
	}
}

// late runs when the timer of the call has expired.
func (f *flow) late() {
	switch {
	case !f.hardEnd.IsZero() && !time.Now().Before(f.hardEnd):
		f.cancel(errHard)
	case f.open.Load() > 0:
		f.resetIdle()
	case time.Since(f.began) < time.Duration(f.idleEnd.Load()):
		// A message has just arrived, and resetIdle sets the timer again.
	default:
		f.cancel(errIdle)
	}
}

func (f *flow) end() {
	if f.timer != nil {
		f.timer.Stop()
	}
	f.cancel(nil)
}

// rest returns the time until the call times out if no further message arrives. It returns false if
// the call has no timeout.
func (f *flow) rest() (time.Duration, bool) {
	switch {
	case f.hardEnd.IsZero():
		return f.idle, f.idle > 0
	case f.idle <= 0:
		return time.Until(f.hardEnd), true
	}
	return min(f.idle, time.Until(f.hardEnd)), true
}

// timeToDecide is how long a server has at the most after a question that nobody has answered, before its call times
// out.
const timeToDecide = 30 * time.Second

// answerBy returns the context of a question of the server, which must not wait for somebody elsewhere as long as the
// call has time: the server is told first, and decides what becomes of the call.
func (f *flow) answerBy(ctx context.Context) context.Context {
	if f.hardEnd.IsZero() {
		return ctx
	}
	return mcp.WithAnswerBy(ctx, f.hardEnd.Add(-min(timeToDecide, time.Until(f.hardEnd)/20)))
}

// resetIdle restarts the idle timeout.
func (f *flow) resetIdle() {
	if f.timer == nil {
		return
	}
	if wait, ok := f.rest(); ok {
		f.idleEnd.Store(int64(time.Since(f.began) + wait))
		f.timer.Reset(wait)
	}
}

// finish marks the call as ended. After that, take passes on no messages to the client.
func (f *flow) finish() {
	f.taking.Lock()
	f.over = true
	f.taking.Unlock()
}

// take handles one message that belongs to the call.
func (f *flow) take(m *jsonrpc.Message) {
	var peers []*flow
	if m.Kind == jsonrpc.Request {
		peers = f.server.link.peers(m, f)
	}
	f.taking.Lock()
	defer f.taking.Unlock()
	if f.over {
		if m.Kind == jsonrpc.Request {
			f.server.refuse(m, callEnded)
		}
		return
	}
	if m.Kind == jsonrpc.Request {
		f.resetIdle()
		f.server.serveRequest(m, f, peers)
		return
	}
	f.received(m.Raw, trails.Head{})
	if m.Kind != jsonrpc.Notification { // an answer to another request, on this stream
		f.server.unaskedMessage(m)
		return
	}
	f.resetIdle()
	switch m.Method {
	case mcp.NoteProgress:
		f.takeProgress(m)
	case mcp.NoteMessage:
		f.takeLog(m)
	case mcp.NoteCancelled:
		f.server.cancelRequest(m)
	default:
		f.forward(m)
	}
}

// received records a message that the server has sent for the call. response is the head of
// the HTTP response; it is zero if there is none.
func (f *flow) received(raw []byte, response trails.Head) {
	if t := f.trail(); t != nil {
		t.Exchanged(t.Received(trails.ServerWire, raw, trails.Head{}), trails.Head{}, response)
	}
}

// trail returns the trail of the call, or nil if there is no call.
func (f *flow) trail() *trails.Trail {
	if f == nil || f.call == nil {
		return nil
	}
	return f.call.Trail
}

// forward passes on a notification. If the notification belongs to a listen, forward replaces the
// id of the listen. No other part of a notification depends on the connection (2026-07-28
// §Subscriptions, "Receiving Notifications").
func (f *flow) forward(m *jsonrpc.Message) {
	if m.Method == mcp.NoteElicitComplete && !f.call.Client.Revision.Can(mcp.ElicitationIDs) {
		// 2026-07-28 §Key Changes removes this notification and the elicitation id in it. The client
		// learns about the completion when it retries the call.
		return
	}
	meta := m.Param(mcp.KeyMeta)
	at := jsonrpc.Find(m.Raw, meta, mcp.KeySubscriptionID)
	if at.IsZero() {
		if f.server.opts.Notice != nil && !belongsToCall(m.Method) {
			f.server.opts.Notice(m, 0)
			return
		}
		f.caller.Notify(f.noteOf(m))
		return
	}
	n := f.noteOf(m)
	n.Edits.Replace(mcp.WhySubscription, at, []byte(f.call.Msg.ID))
	f.caller.Notify(n)
}

// noteOf returns the Note for a notification of the call. The Note is valid until the next call of
// noteOf, which reuses it.
func (f *flow) noteOf(m *jsonrpc.Message) *mcp.Note {
	if f.note == nil {
		f.note = &mcp.Note{}
	}
	f.note.Msg, f.note.Edits = m, jsonrpc.Edits{}
	return f.note
}

// belongsToCall reports whether a notification on a call's stream is about the call. Notifications
// of list changes and resource updates may also arrive on this stream, but concern all clients. A
// task status notification is not about the call on whose stream it arrives.
func belongsToCall(method string) bool {
	switch method {
	case mcp.NoteToolsChanged, mcp.NoteResourcesChanged, mcp.NotePromptsChanged, mcp.NoteResourceUpdated, mcp.NoteTaskStatus:
		return false
	}
	return true
}

// takeProgress passes on progress with the client's token. It drops progress that the client
// did not request, that decreases, or that exceeds the rate limit. The value "MUST increase
// with each notification" (§Progress, all revisions), even if the call is sent several times. So
// takeProgress passes on the progress of a retry only if the value exceeds the values of all earlier
// attempts.
func (f *flow) takeProgress(m *jsonrpc.Message) {
	if f.call.Token.IsZero() {
		return
	}
	var at [2]jsonrpc.Span
	jsonrpc.FindAll(m.Raw, m.Params, []string{"progressToken", "progress"}, at[:])
	if at[0].IsZero() {
		return
	}
	p, err := strconv.ParseFloat(string(at[1].Of(m.Raw)), 64)
	if err == nil {
		if f.call.Progress == nil {
			f.call.Progress = new(float64)
		} else if p < *f.call.Progress || p == *f.call.Progress && !f.ahead {
			return
		}
		*f.call.Progress, f.ahead = p, true
	}
	if f.pace == nil {
		f.pace = rate.NewLimiter(20, 100)
	}
	if !f.pace.Allow() {
		return
	}
	n := f.noteOf(m)
	n.Edits.Replace(mcp.WhyProgressToken, at[0], f.call.Token.Of(f.call.Msg.Raw))
	f.caller.Notify(n)
}

// takeLog passes on a log message that the client wants. A modern client gets the message only if
// the request asked for the level of the message or a less severe level (2026-07-28 §Logging). A
// legacy client gets the message unless the client has set a more severe level.
func (f *flow) takeLog(m *jsonrpc.Message) {
	if mcp.WantsLog(f.call.Client.Revision, f.call.Level, m) {
		f.caller.Notify(f.noteOf(m))
	}
}
