package conn

import (
	"context"
	"errors"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"

	"github.com/dragoman-mcp/dragoman/internal/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/mcp"
)

// flow is what comes back for one call before its answer: it puts it into the
// client's words and hands it on. The goroutine of the call uses it, and take may
// be called by that of a standing stream beside it.
type flow struct {
	server *Conn
	call   *mcp.Attempt
	sink   mcp.Caller
	n      int64
	ctx    context.Context // the call's; its end takes open questions back

	timer   *time.Timer
	idle    time.Duration
	hardEnd time.Time    // zero for none
	status  int          // of the HTTP response that was an error's, 0 for none
	open    atomic.Int32 // questions that wait for a person, who may take longer than the idle time

	taking sync.Mutex    // held while a message is passed on: one at a time
	over   bool          // the call has its answer
	pace   *rate.Limiter // of progress; nil before the first
	ahead  bool          // some of its progress was further than that of earlier attempts
}

// The deadlines of a call where the options say nothing.
const (
	defaultIdle = 60 * time.Second
	defaultHard = 10 * time.Minute
)

var (
	errIdle   = errors.New("nothing was heard in time")
	errHard   = errors.New("the call took too long in all")
	errClosed = errors.New("the connection to the server was closed")
)

// limit puts the deadlines on a call's context. A listen has none, and neither has
// what waits for the end of a task, which the server must not answer before
// (2025-11-25 §Tasks, "Result Retrieval" 3).
func (f *flow) limit(ctx context.Context) (context.Context, func()) {
	if m := f.call.Msg.Method; m == mcp.MethodListen || m == mcp.MethodTaskResult {
		return ctx, func() {}
	}
	idle, hard := f.server.opts.Idle, f.server.opts.Hard
	if times := f.server.opts.Times; times != nil {
		idle, hard = times()
	}
	if idle == 0 {
		idle = defaultIdle
	}
	if hard == 0 {
		hard = defaultHard
	}
	ctx, cancel := context.WithCancelCause(ctx)
	f.idle = idle
	if hard > 0 {
		f.hardEnd = time.Now().Add(hard)
	}
	if wait, ok := f.wait(); ok {
		f.timer = time.AfterFunc(wait, func() {
			switch {
			case !f.hardEnd.IsZero() && !time.Now().Before(f.hardEnd):
				cancel(errHard)
			case f.open.Load() > 0:
				f.alive()
			default:
				cancel(errIdle)
			}
		})
	}
	return ctx, func() {
		if f.timer != nil {
			f.timer.Stop()
		}
		cancel(nil)
	}
}

// wait returns how long the call may go on if nothing more is heard.
func (f *flow) wait() (time.Duration, bool) {
	switch {
	case f.hardEnd.IsZero():
		return f.idle, f.idle > 0
	case f.idle <= 0:
		return time.Until(f.hardEnd), true
	}
	return min(f.idle, time.Until(f.hardEnd)), true
}

// alive starts the idle time anew.
func (f *flow) alive() {
	if f.timer == nil {
		return
	}
	if wait, ok := f.wait(); ok {
		f.timer.Reset(wait)
	}
}

// finish says that the call is over: nothing is passed on any more.
func (f *flow) finish() {
	f.taking.Lock()
	f.over = true
	f.taking.Unlock()
}

// take passes on one message that belongs to the call.
func (f *flow) take(m *jsonrpc.Message) {
	f.taking.Lock()
	defer f.taking.Unlock()
	if f.over {
		if m.Kind == jsonrpc.Request {
			f.server.refuse(m, callEnded)
		}
		return
	}
	switch m.Kind {
	case jsonrpc.Result, jsonrpc.Failure: // on the stream of another request
		f.server.unaskedMessage(m)
		return
	case jsonrpc.Request:
		f.alive()
		f.server.question(m, f)
		return
	}
	f.alive()
	switch m.Method {
	case mcp.NoteProgress:
		f.takeProgress(m)
	case mcp.NoteMessage:
		f.takeLog(m)
	case mcp.NoteCancelled:
		f.server.takeBack(m)
	default:
		f.forward(m)
	}
}

// trail returns the trail of the call, nil when there is no call.
func (f *flow) trail() *jsonrpc.Trail {
	if f == nil || f.call == nil {
		return nil
	}
	return f.call.Trail
}

// forward passes on a notification. The one thing of this hop in it is the id of
// the listen that it belongs to (2026-07-28 §Subscriptions, "Receiving
// Notifications").
func (f *flow) forward(m *jsonrpc.Message) {
	if m.Method == mcp.NoteElicitComplete && !f.call.Client.Revision.Can(mcp.ElicitationIDs) {
		// 2026-07-28 §Key Changes: removed, like the id that it names. The client learns
		// of the end when it sends the call again.
		return
	}
	meta := m.Param(mcp.KeyMeta)
	at := jsonrpc.Find(m.Raw, meta, mcp.KeySubscriptionID)
	if at.IsZero() {
		if f.server.opts.Notice != nil && !belongsToCall(m.Method) {
			f.server.opts.Notice(m, 0)
			return
		}
		f.sink.Notify(m.Raw)
		return
	}
	var e jsonrpc.Edits
	e.Replace(mcp.WhySubscription, at, []byte(f.call.Msg.ID))
	f.sink.Notify(f.call.Trail.Splice(make([]byte, 0, len(m.Raw)+16), m.Raw, &e))
}

// belongsToCall reports whether a notification on a call's stream is about the
// call. List changes and updates may travel there too, and are everybody's; that a
// task has changed is not about the call that it is told on.
func belongsToCall(method string) bool {
	switch method {
	case mcp.NoteToolsChanged, mcp.NoteResourcesChanged, mcp.NotePromptsChanged, mcp.NoteResourceUpdated, mcp.NoteTaskStatus:
		return false
	}
	return true
}

// takeProgress gives progress the client's token. What has no taker, goes backwards
// or comes in floods is dropped. The value "MUST increase with each notification"
// (§Progress, all revisions), also for a client whose call we send several times: a
// later attempt is passed on once it is further than all earlier ones.
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
	var e jsonrpc.Edits
	e.Replace(mcp.WhyProgressToken, at[0], f.call.Token.Of(f.call.Msg.Raw))
	f.sink.Notify(f.call.Trail.Splice(make([]byte, 0, len(m.Raw)+32), m.Raw, &e))
}

// takeLog passes on a log message that the client wants: a modern one only when
// it asked for the level with this request (2026-07-28 §Logging), a legacy one
// unless it chose a more severe level.
func (f *flow) takeLog(m *jsonrpc.Message) {
	if mcp.WantsLog(f.call.Client.Revision, f.call.Level, m) {
		f.sink.Notify(m.Raw)
	}
}
