package audit

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/base/excerpt"
	"github.com/dragoman-mcp/dragoman/internal/base/identity"
	"github.com/dragoman-mcp/dragoman/internal/base/work"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
	"github.com/dragoman-mcp/dragoman/internal/relay/finder"
	"github.com/dragoman-mcp/dragoman/internal/relay/policy"
	"github.com/dragoman-mcp/dragoman/internal/team/store"
)

// Level says what a trail has of a request.
type Level uint8

// The levels.
const (
	Off       Level = iota
	Names           // everything but the arguments
	Arguments       // also the arguments of tools and prompts, with secrets masked
)

// Settings are what may change while a trail is in use.
type Settings struct {
	Level  Level
	Refuse bool  // refuse requests that can't be recorded
	Size   int64 // how long a file gets before the next one begins, in bytes
	Files  int   // how many files the folder keeps
}

// Options say where a trail is, and what it needs of others. Only Settings is required.
type Options struct {
	Folder   string          // is created when it's needed; "" means that there is no place
	Settings func() Settings // is called for each request, so it must be quick
	// Clean returns what masks the secrets of a project in a text, and Masker the same for the JSON of arguments.
	Clean  func(project string) func(text string) string
	Masker func(project string) func(raw []byte) []byte
	Store  *store.Store // gets the acts about the files
	// Heads returns the heads that were kept, for Verify; see Trail.Head. It may be nil.
	Heads func(context.Context) ([]Head, error)
	Log   *slog.Logger

	every time.Duration // replaces flushEvery in tests
	sync  func() error  // is called before each write in tests
}

const (
	flushEvery  = time.Second
	mostWaiting = 1 << 14  // the maximum number of lines that wait to be written
	mostBytes   = 8 << 20  // that of the bytes of their arguments
	mostArgs    = 64 << 10 // that of the bytes of the arguments in one line
	mostText    = 512      // that of the bytes of any other text
	actWithin   = 5 * time.Second
)

// Trail records requests in files. Close it after use. Its methods are safe for concurrent use.
type Trail struct {
	o     Options
	ctx   context.Context // ends with Close
	stop  context.CancelFunc
	group work.Group

	wake  chan struct{} // contains a value if something waits to be written
	hurry chan struct{} // contains a value if much does
	asked chan ask      // who waits until everything was written

	state  atomic.Pointer[State]
	head   atomic.Pointer[Head] // of the lines that are on the disk
	full   atomic.Bool
	blocks blocks // for Read

	mu      sync.Mutex
	waiting []entry
	bytes   int // of the arguments in waiting
	left    left
	minute  time.Time // when the minute began in which denied lines are counted
	denied  int       // how many there were
}

// ask is somebody who waits until everything was written.
type ask struct {
	done  chan error // has room for the answer; nil if nobody waits
	begin bool       // there shall be a file, also if nothing is to be written
}

// left counts what isn't in the trail.
type left struct {
	refused int64 // requests that were refused because they couldn't be recorded
	lost    int64 // requests that went on nevertheless
	denied  int64 // lines of Deny
}

// State is what people are told of a trail.
type State struct {
	File    string // the file that is written to; "" if there was nothing to write yet
	Problem error  // why nothing can be written at the moment
	Refused int64  // how many requests were refused because of that
	Lost    int64  // how many went on, and are in no file
}

// New returns a trail. It creates no file before there is something to record.
func New(o Options) *Trail {
	if o.every == 0 {
		o.every = flushEvery
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	t := &Trail{o: o, wake: make(chan struct{}, 1), hurry: make(chan struct{}, 1), asked: make(chan ask)}
	t.state.Store(&State{})
	t.ctx, t.stop = context.WithCancel(context.Background())
	t.group.Go(t.write)
	return t
}

// Close writes what waits, and ends the file.
func (t *Trail) Close() {
	t.stop()
	t.group.Wait()
}

// State returns how the trail is doing.
func (t *Trail) State() State { return *t.state.Load() }

// Head is the last line that a process has written. Whoever keeps it where nobody who can change the files can change it
// finds out with Verify if lines were cut off at the end, also if the process had no time to say where that was.
type Head struct {
	Trail string // the name of the process
	File  int
	Seq   int64
	Sum   []byte
	// False says of one that was kept that it isn't what was kept.
	False bool
}

// Head returns the head of this process. ok is false if it has written nothing.
func (t *Trail) Head() (h Head, ok bool) {
	if x := t.head.Load(); x != nil {
		return *x, true
	}
	return h, false
}

// Settings returns what is in force.
func (t *Trail) Settings() Settings { return t.o.Settings() }

// Flush returns when everything before it was written, or can't be.
func (t *Trail) Flush(ctx context.Context) error { return t.ask(ctx, false) }

func (t *Trail) ask(ctx context.Context, begin bool) error {
	done := make(chan error, 1)
	select {
	case t.asked <- ask{done, begin}:
	case <-t.ctx.Done():
		return nil // it was written, or nobody has asked
	case <-ctx.Done():
		return ctx.Err()
	}
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// errUnrecorded is what clients are told whose requests can't be recorded. Why is in the status.
var errUnrecorded = &mcp.Error{
	Message:   "this request can't be recorded, so it was refused; whoever runs Dragoman sees why with `dragoman status`",
	Cause:     "audit",
	Outcome:   mcp.NotSent,
	Retryable: true,
}

// On implements policy.Switched.
func (t *Trail) On() bool { return t.o.Settings().Level != Off }

// Begin implements policy.Auditor.
func (t *Trail) Begin(ctx context.Context, _ *policy.Call) error {
	s := t.o.Settings()
	if s.Level == Off || !s.Refuse {
		return nil
	}
	now := t.state.Load()
	if now.File == "" && now.Problem == nil && t.ask(ctx, true) != nil {
		now = t.state.Load() // if nobody knows yet whether there can be a file, we look
	}
	if now.Problem == nil && !t.full.Load() {
		return nil
	}
	t.mu.Lock()
	t.left.refused++
	t.mu.Unlock()
	t.call(t.wake)
	return errUnrecorded
}

// End implements policy.Auditor.
func (t *Trail) End(_ context.Context, c *policy.Call, a *policy.Answer) {
	s := t.o.Settings()
	if s.Level == Off {
		return
	}
	e := entry{
		at: time.Now().Add(-a.Took), from: c.Request.Client.Remote, project: c.Project, server: c.Server, method: short(c.Request.Msg.Method), item: short(c.Name),
		outcome: string(a.Outcome), code: a.Code, took: a.Took, resumed: c.Resumed,
	}
	e.by(c.Who)
	if c.Request.Name != c.Name || c.Via != "" {
		e.as = short(cmp.Or(c.Via, c.Request.Name))
	}
	for _, h := range c.Elsewhere {
		if e.answers != "" {
			e.answers += ", "
		}
		e.answers += h.Kind + " " + h.Action + " " + h.By.Subject
	}
	if why := (*mcp.Error)(nil); errors.As(a.Err, &why) {
		e.cause = short(why.Cause)
	}
	if c.Server == "" && c.Name == finder.SearchTools {
		query, _ := c.Args.Get("query").Text()
		e.query = len(query)
	}
	if raw := c.Args.Raw(); s.Level == Arguments && !c.Args.Absent() {
		if e.size = len(raw); e.size <= mostArgs {
			e.args = bytes.Clone(raw)
		}
	}
	t.add(e, s.Refuse)
}

// Deny records that somebody was turned away at a door: from which address, and why. Strangers can cause as many
// lines as they like, so there are only so many in a minute; the others are counted.
func (t *Trail) Deny(what, from string, who *identity.Principal) {
	s := t.o.Settings()
	if s.Level == Off {
		return
	}
	e := entry{at: time.Now(), kind: kindDenied, method: short(what), from: from}
	e.by(who)
	t.add(e, false)
}

// mostDenied is how many lines of Deny there may be in a minute.
const mostDenied = 60

// add lets an entry wait. If there are too many, it's lost, unless its request was only let through because
// there was room.
func (t *Trail) add(e entry, room bool) {
	t.mu.Lock()
	switch n := len(t.waiting); {
	case e.kind == kindDenied && t.tooMany(e.at):
		t.left.denied++
	case !room && (n >= mostWaiting || t.bytes+len(e.args) > mostBytes), n >= 2*mostWaiting, t.bytes > 2*mostBytes:
		t.left.lost++
	default:
		t.waiting = append(t.waiting, e)
		t.bytes += len(e.args)
	}
	much := len(t.waiting) >= mostWaiting/2 || t.bytes >= mostBytes/2
	if len(t.waiting) >= mostWaiting || t.bytes >= mostBytes {
		t.full.Store(true)
	}
	t.mu.Unlock()
	t.call(t.wake)
	if much {
		t.call(t.hurry)
	}
}

// tooMany reports whether there were enough lines of Deny in this minute. The caller has the lock.
func (t *Trail) tooMany(now time.Time) bool {
	if now.Sub(t.minute) >= time.Minute {
		t.minute, t.denied = now, 0
	}
	t.denied++
	return t.denied > mostDenied
}

// take returns what waits.
func (t *Trail) take() (list []entry, l left) {
	t.mu.Lock()
	list, l = t.waiting, t.left
	t.waiting, t.bytes, t.left = make([]entry, 0, min(len(list), 1024)), 0, left{}
	t.full.Store(false)
	t.mu.Unlock()
	return list, l
}

// waits reports whether something waits.
func (t *Trail) waits() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.waiting) > 0 || t.left != left{}
}

func (t *Trail) call(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// write writes what waits, until Close.
func (t *Trail) write() {
	w := &writer{t: t, id: newID()}
	for t.ctx.Err() == nil {
		var q ask
		select {
		case <-t.ctx.Done():
		case q = <-t.asked:
		case <-t.wake:
			q = t.pause()
		}
		err := w.flush(q.begin)
		if q.done != nil {
			q.done <- err
		}
		if err != nil {
			t.call(t.wake) // again, after a pause
		}
	}
	_ = w.flush(false)
	w.finish(whyClosed)
}

// pause waits until it's time to write, or until somebody asks for it.
func (t *Trail) pause() (q ask) {
	timer := time.NewTimer(t.o.every)
	defer timer.Stop()
	hurry := t.hurry
	if t.State().Problem != nil {
		hurry = nil // it would fail again
	}
	select {
	case <-t.ctx.Done():
	case q = <-t.asked:
	case <-hurry:
	case <-timer.C:
	}
	return q
}

// short returns a copy of a text that may be a part of a request.
func short(s string) string { return strings.Clone(excerpt.Cut(s, mostText)) }
