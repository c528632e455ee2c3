package codex

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/base/excerpt"
	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
)

// These constants are the intervals and timeouts of a turn.
const (
	pace     = 100 * time.Millisecond // minimum time between two progress messages
	beat     = 20 * time.Second       // time between keep-alive messages while a turn is silent
	patience = 5 * time.Minute        // keep-alives end when the worker has sent no event for this long
	// beginTimeout is the timeout of the request that starts a turn. The answer to this request
	// means that the turn has begun.
	beginTimeout = 30 * time.Second
	// interruptTimeout is how long to wait for the end of an interrupted turn.
	interruptTimeout = 5 * time.Second
)

// These constants limit what a turn keeps in memory. The first two are in bytes, and the other two
// are numbers of entries.
const (
	maxDelta   = 64 << 10 // progress text that was not sent yet
	maxPartial = 1 << 20  // text of a message that is not complete
	maxPatches = 64       // file changes that may still need approval
	maxNotes   = 16       // notes that Dragoman adds to the result
)

// turn is the state of one tool call, which runs one turn in a thread of the worker.
type turn struct {
	b      *bridge
	id     jsonrpc.ID // the id of the client's request, which is also the progress token
	cancel context.CancelCauseFunc
	ctx    context.Context
	wake   chan struct{} // capacity 1; signals that there is something to send, or that the turn has ended

	mu       sync.Mutex
	words    words // the protocol generation of this turn; the turn ignores events of the other generation
	thread   string
	turn     string // id of the turn; "" until the worker has sent it
	known    bool   // the field turn is final, even if it is ""
	early    *event // the event for the end of the turn, if it arrived before the turn's id
	listener string // id of the conversation listener; only for older workers
	delta    []byte // progress text that was not sent yet
	dropped  bool   // some progress text was dropped because of maxDelta
	partial  []byte
	message  string // the last complete message from the agent
	status   string // how the turn ended; "" while it runs
	problem  string // why the turn failed
	notes    []string
	patches  map[string]string // file changes by item id
	heard    time.Time

	progress int // number of progress messages that were sent; only follow uses it
}

// callTool starts a tool call. It registers the turn before it returns, so that a cancellation
// right after the call finds the turn.
func (b *bridge) callTool(m *jsonrpc.Message) {
	name := text(m.Raw, m.Params, "name")
	a, wrong, known := readArguments(name, m)
	if !known {
		b.refuse(m, jsonrpc.CodeInvalidParams, "unknown tool: "+excerpt.Line(name, 80))
		return
	}
	t := &turn{b: b, id: m.ID, wake: make(chan struct{}, 1), heard: time.Now(), patches: map[string]string{}}
	b.mu.Lock()
	switch {
	case !b.complete:
		wrong = "Codex is still starting. Try again."
	case len(b.calls) >= maxTurns:
		wrong = "Codex already runs the maximum number of turns. Try again when one of them has ended."
	case b.calls[m.ID] != nil:
		b.mu.Unlock()
		b.refuse(m, jsonrpc.CodeInvalidRequest, "the id is in use")
		return
	}
	if wrong != "" || b.closing {
		b.mu.Unlock()
		b.say(jsonrpc.AppendResult(nil, m.ID, answer("", "", true, wrong)))
		return
	}
	t.ctx, t.cancel = context.WithCancelCause(b.life)
	b.calls[m.ID] = t
	b.running.Go(func() {
		result := t.run(a)
		cause := context.Cause(t.ctx)
		b.mu.Lock()
		delete(b.calls, m.ID)
		b.mu.Unlock()
		t.cancel(nil)
		if cause == nil {
			b.answer(m, result)
		}
	})
	b.mu.Unlock()
}

// run runs the turn in a thread and returns the result of the call. callTool ignores the result if
// t.ctx has ended.
func (t *turn) run(a *arguments) []byte {
	w, err := t.enter(a)
	if err == nil {
		defer t.leave()
		if w, err = t.begin(w, a); err == nil {
			defer w.finish(t.b, t)
		}
	}
	if err != nil {
		thread := t.threadID()
		if a.thread != "" {
			thread = "" // do not return the thread id: the caller already has it, and the thread may not exist
		}
		return answer(thread, "", true, advice(err, a))
	}
	if !t.follow() {
		t.stop(w)
	}
	return t.result()
}

// enter opens a thread if the call does not name one. It reserves the thread for this turn, and
// returns the protocol generation of the worker.
func (t *turn) enter(a *arguments) (words, error) {
	w := t.b.words()
	thread := a.thread
	if thread == "" {
		var err error
		thread, err = w.open(t.ctx, t.b, a)
		if isUnknown(err) {
			// The worker does not support this method, so it may belong to the other generation.
			other := otherThan(w)
			if id, again := other.open(t.ctx, t.b, a); !isUnknown(again) {
				w, thread, err = other, id, again
				t.b.settle(w)
			}
		}
		if err != nil {
			return w, err
		}
	}
	t.b.mu.Lock()
	defer t.b.mu.Unlock()
	if t.b.threads[thread] != nil {
		// A worker would treat a second prompt as part of the running turn.
		return w, problem("A turn is already running in this thread. Wait for its result, or start another thread with the tool codex.")
	}
	t.b.threads[thread] = t
	t.mu.Lock()
	t.thread = thread
	t.mu.Unlock()
	return w, nil
}

// leave makes the thread available to other turns.
func (t *turn) leave() {
	t.b.mu.Lock()
	defer t.b.mu.Unlock()
	delete(t.b.threads, t.threadID())
	for id, x := range t.b.children {
		if x == t {
			delete(t.b.children, id)
		}
	}
}

// begin starts the turn, and returns the protocol generation that the turn uses. If the worker has
// not loaded the thread, begin resumes the thread and tries again.
func (t *turn) begin(w words, a *arguments) (words, error) {
	// This context does not end with the call, because only the worker's answer shows whether a
	// turn has started that must be interrupted.
	ctx, stop := context.WithTimeoutCause(t.b.life, beginTimeout, problem("Codex did not confirm the start of the turn before the timeout. The turn may be running."))
	defer stop()
	t.speak(w)
	err := w.begin(ctx, t.b, t, a)
	if isUnknown(err) {
		other := otherThan(w)
		t.speak(other)
		if again := other.begin(ctx, t.b, t, a); !isUnknown(again) {
			w, err = other, again
			t.b.settle(w)
		} else {
			t.speak(w)
		}
	}
	if isAbsent(err) && a.thread != "" {
		switch resumed := w.resume(ctx, t.b, a.thread); {
		case resumed == nil:
			err = w.begin(ctx, t.b, t, a)
		case !isUnknown(resumed):
			err = resumed
		}
	}
	return w, err
}

// follow sends progress until the turn ends. It returns false if the call is cancelled before the
// turn ends.
func (t *turn) follow() bool {
	life := time.NewTicker(beat)
	defer life.Stop()
	due := time.NewTimer(pace)
	due.Stop()
	defer due.Stop()
	var last time.Time
	waiting := false
	for {
		select {
		case <-t.wake:
			switch since := time.Since(last); {
			case t.over():
				t.send()
				return true
			case waiting:
			case since < pace:
				due.Reset(pace - since)
				waiting = true
			default:
				t.send()
				last = time.Now()
			}
		case <-due.C:
			t.send()
			last, waiting = time.Now(), false
		case <-life.C:
			if t.silent() < patience {
				t.report("")
			}
		case <-t.ctx.Done():
			return t.over()
		}
	}
}

// stop interrupts the turn and waits for its end, with a timeout. Until the turn has ended, the
// worker would treat another prompt as part of this turn.
func (t *turn) stop(w words) {
	ctx, cancel := context.WithTimeout(t.b.life, interruptTimeout)
	defer cancel()
	if err := w.interrupt(ctx, t.b, t); err != nil {
		if ctx.Err() == nil {
			t.b.server.o.Log.Debug("codex turn was not interrupted", "server", t.b.server.o.Server, "cause", err.Error())
		}
		return
	}
	for !t.over() {
		select {
		case <-t.wake:
		case <-ctx.Done():
			return
		}
	}
}

// report sends a progress notification. A notification without text only prevents an idle timeout
// of the call.
func (t *turn) report(text string) {
	t.progress++
	o := (&object{}).member("progressToken", []byte(t.id)).member("progress", strconv.AppendInt(nil, int64(t.progress), 10))
	if text != "" {
		o.text("message", text)
	}
	t.b.say(jsonrpc.AppendNotification(nil, mcp.NoteProgress, o.json()))
}

// send reports the text that has arrived since the last report.
func (t *turn) send() {
	t.mu.Lock()
	text := string(t.delta)
	if t.dropped {
		text += " …"
	}
	t.delta, t.dropped = t.delta[:0], false
	t.mu.Unlock()
	if text != "" {
		t.report(text)
	}
}

// speak sets the protocol generation of the turn. take ignores events of the other generation.
func (t *turn) speak(w words) {
	t.mu.Lock()
	t.words = w
	t.mu.Unlock()
}

// take handles an event of the thread. It runs on the goroutine that reads from the worker.
func (t *turn) take(w words, e *event) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.words != w || t.status != "" {
		return // the turn has ended, or the event is in the other protocol; some workers send each event in both
	}
	t.heard = time.Now()
	if t.turn != "" && e.turn != "" && e.turn != t.turn {
		return // the event belongs to an earlier turn that was cancelled
	}
	switch e.kind {
	case started:
		t.learnLocked(e.turn)
	case delta:
		t.addLocked(e.text)
		if len(t.partial)+len(e.text) <= maxPartial {
			t.partial = append(t.partial, e.text...)
		}
	case message:
		t.message, t.partial = e.text, nil
	case step:
		t.lineLocked(e.text)
	case changes:
		if _, again := t.patches[e.item]; again || len(t.patches) < maxPatches && len(e.item) <= maxID {
			t.patches[e.item] = e.text
		}
		t.lineLocked("changes files")
	case trouble:
		t.problem = e.text
		t.lineLocked("error: " + e.text)
	case ended:
		if t.known {
			t.endLocked(e)
		} else {
			t.early = e
		}
	}
	t.signal()
}

// learn sets the id of the turn. The id is "" if the worker does not send one.
func (t *turn) learn(id string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.learnLocked(id)
	t.signal()
}

func (t *turn) learnLocked(id string) {
	if t.turn == "" {
		t.turn = id
	}
	t.known = true
	e := t.early
	t.early = nil
	if e != nil && t.status == "" && (e.turn == "" || t.turn == "" || e.turn == t.turn) {
		t.endLocked(e)
	}
}

func (t *turn) endLocked(e *event) {
	t.status = e.status
	switch {
	case e.status == failed:
		t.problem = e.text
	case e.text != "" && t.message == "":
		t.message = e.text
	}
}

func (t *turn) addLocked(text string) {
	if len(t.delta)+len(text) > maxDelta {
		t.dropped = true
		return
	}
	t.delta = append(t.delta, text...)
}

// lineLocked adds text to the progress on a separate line.
func (t *turn) lineLocked(text string) {
	if n := len(t.delta); n > 0 && t.delta[n-1] != '\n' {
		text = "\n" + text
	}
	t.addLocked(text + "\n")
}

func (t *turn) signal() {
	select {
	case t.wake <- struct{}{}:
	default:
	}
}

func (t *turn) over() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.status != ""
}

func (t *turn) silent() time.Duration {
	t.mu.Lock()
	defer t.mu.Unlock()
	return time.Since(t.heard)
}

func (t *turn) is(turn string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.turn == turn
}

func (t *turn) threadID() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.thread
}

func (t *turn) turnID() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.turn
}

func (t *turn) patch(item string) string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.patches[item]
}

// note adds a sentence to the result.
func (t *turn) note(s string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.notes) < maxNotes {
		t.notes = append(t.notes, s)
	}
}

func (t *turn) subscribed(id string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.listener = id
}

func (t *turn) subscription() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.listener
}

// result builds the result of a turn that has ended.
func (t *turn) result() []byte {
	t.mu.Lock()
	defer t.mu.Unlock()
	said := t.message
	if said == "" {
		said = string(t.partial)
	}
	var notes []string
	if t.status == completed {
		t.b.server.proved()
	}
	switch {
	case t.status == completed && said == "":
		notes = append(notes, "Codex has finished the turn without a message.")
	case t.status == completed:
	case t.status == interrupted:
		notes = append(notes, "The turn was interrupted before it ended. Call codex-reply to continue the thread.")
	case t.problem != "":
		notes = append(notes, "Codex could not finish the turn: "+t.problem)
	default:
		notes = append(notes, fmt.Sprintf("Codex ended the turn with the status %q.", excerpt.Line(t.status, 40)))
	}
	return answer(t.thread, said, t.status != completed, append(notes, t.notes...)...)
}

// problem is a sentence for the model that called the tool.
type problem string

func (p problem) Error() string { return string(p) }

// advice returns the explanation of an error for the model.
func advice(err error, a *arguments) string {
	var r *refusal
	if errors.As(err, &r) && a.thread != "" {
		if strings.Contains(r.message, "active writer") {
			return "Another Codex process, which belongs to another client, has the thread " + excerpt.Line(a.thread, 80) + " open. Continue in that client, or start a new thread with the tool codex."
		}
		if r.absent() || strings.Contains(r.message, "no rollout found") {
			return "Codex has no thread " + excerpt.Line(a.thread, 80) + " (" + r.message + "). Start a new thread with the tool codex."
		}
	}
	return err.Error()
}
