package telemetry

import (
	"cmp"
	"context"
	"log/slog"
	"slices"
	"sync"

	"github.com/dragoman-mcp/dragoman/internal/base/loglimit"
	"github.com/dragoman-mcp/dragoman/internal/base/work"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
	"github.com/dragoman-mcp/dragoman/internal/relay/event"
)

// logDepth bounds the number of events that wait to be logged.
const logDepth = 512

// LogOptions configure a Log.
type LogOptions struct {
	// Log receives losses, refusals, renamed items, changed tools, the handshakes and the invalid messages of clients
	// as records. At level debug, Log also receives the steps of handshakes with servers, and lines
	// from the servers' stderr. Nil means no log.
	Log *slog.Logger
	// Step shows a waiting user the current step of opening a server. When the opening has ended,
	// step is "". Step may be nil.
	Step func(server, step string)
	// Trace shows a waiting user the trace of a handshake with a server. Each step is one line.
	// Trace may be nil.
	Trace func(server, trace string)
	// Clean returns the function that masks the secrets of a project's server. It's for losses, renamed
	// items and changed tools, which contain names from the server, such as a URI with a password. If
	// Clean or its result is nil, nothing is masked.
	Clean func(project, server string) func(text string) string
}

// Log writes events as log records, and shows a waiting user how a server starts. It calls Step and
// Trace one at a time. NewLog starts a goroutine, and Close stops it.
type Log struct {
	o       LogOptions
	queue   *event.Queue
	turn    sync.Mutex // held by the goroutine that takes events from the queue and writes them
	running work.Group
}

// NewLog returns a Log that handles all further events of p.
func NewLog(p *event.Publisher, o LogOptions) *Log {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	want := []event.Kind{event.Loss, event.Refusal, event.Rename, event.Changed, event.Pinned, event.Question, event.Handshake, event.BadMessage}
	if o.Log.Enabled(context.Background(), slog.LevelDebug) {
		want = append(want, event.Step, event.Stderr)
	}
	if o.Step != nil {
		want = append(want, event.Lifecycle)
	}
	l := &Log{o: o, queue: p.Subscribe(event.Of(want...), logDepth)}
	l.running.Go(l.run)
	return l
}

// Close logs the events that were published before Close, and waits until the goroutine has ended.
// Close may be called more than once.
func (l *Log) Close() {
	l.queue.Close()
	l.running.Close()
	l.running.Wait()
}

// InOrder returns a logger that writes to Log, after the events that were published before the
// record. So the steps of a handshake stand before the record that says how it ended, although
// another goroutine writes them. The callbacks Step and Trace must not use this logger.
func (l *Log) InOrder() *slog.Logger { return slog.New(inOrder{l.o.Log.Handler(), l}) }

// inOrder is the handler of [Log.InOrder].
type inOrder struct {
	slog.Handler
	log *Log
}

func (h inOrder) Handle(ctx context.Context, r slog.Record) error {
	h.log.catchUp()
	return h.Handler.Handle(ctx, r)
}

func (h inOrder) WithAttrs(attrs []slog.Attr) slog.Handler {
	return inOrder{h.Handler.WithAttrs(attrs), h.log}
}

func (h inOrder) WithGroup(name string) slog.Handler {
	return inOrder{h.Handler.WithGroup(name), h.log}
}

// run logs events until the queue is closed and empty.
func (l *Log) run() {
	for l.queue.Wait(context.Background()) == nil {
		l.catchUp()
	}
}

// catchUp logs the events in the queue. It stops after as many events as the queue holds, so a
// caller isn't kept by events that are published meanwhile.
func (l *Log) catchUp() {
	l.turn.Lock()
	defer l.turn.Unlock()
	var buf [16]event.Event
	for range logDepth / len(buf) {
		n, missed := l.queue.Take(buf[:])
		if n == 0 {
			return
		}
		if missed > 0 {
			l.o.Log.Warn("too many events at once; some were not logged", "missed", missed)
		}
		for i := range buf[:n] {
			l.write(&buf[i])
			buf[i] = event.Event{}
		}
	}
}

// write logs or shows one event.
func (l *Log) write(e *event.Event) {
	switch e.Kind {
	case event.Loss:
		if e.Level < slog.LevelWarn {
			attrs := make([]slog.Attr, 0, 3)
			if e.Server != "" {
				attrs = append(attrs, slog.String("server", e.Server))
			}
			l.record(e, "loss", append(attrs, slog.String("what", e.Name), slog.String("why", e.Detail))...)
			return
		}
		l.record(e, "not sent to clients", slog.String("server", e.Server), slog.String("what", e.Name), slog.String("why", e.Detail))
	case event.Rename:
		l.record(e, "renamed an item",
			slog.String("server", e.Server), slog.String("list", e.Method), slog.String("name", e.Name), slog.String("why", e.Detail))
	case event.Changed:
		l.record(e, "tools of a server have changed", slog.String("server", e.Server), slog.String("what", e.Detail),
			slog.Int("changed", e.Change.Changes), slog.Int("added", e.Change.Additions), slog.Int("removed", e.Change.Removals))
	case event.Pinned:
		l.record(e, "definitions have changed since they were approved", slog.String("server", e.Server), slog.String("what", e.Name), slog.String("then", e.Detail), slog.Int("definitions", e.In))
	case event.Question:
		l.question(e)
	case event.Refusal:
		l.record(e, e.Detail, slog.String("server", e.Server), slog.String("principal", e.Who.Key()), slog.String("method", e.Method), slog.String("code", "request_refused"))
	case event.BadMessage:
		attrs := []slog.Attr{
			slog.String("remote", e.Name), slog.String("why", e.Detail), slog.Int64("error_code", e.Code),
			project(e),
		}
		if e.Method != "" {
			attrs = append(attrs, slog.String("method", e.Method))
		}
		l.record(e, "a client sent a message that is not valid", attrs...)
	case event.Step:
		attrs := []slog.Attr{slog.String("server", e.Server), slog.Int("n", e.Step.N), slog.String("sent", e.Step.Sent)}
		if e.Step.Got != "" {
			attrs = append(attrs, slog.String("got", e.Step.Got), slog.String("reason", e.Step.Reason))
		}
		if e.Step.For != "" {
			attrs = append(attrs, slog.String("for", e.Step.For))
		}
		if e.Step.Bytes != "" {
			attrs = append(attrs, slog.String("bytes", e.Step.Bytes))
		}
		l.record(e, "handshake step", attrs...)
	case event.Stderr:
		l.record(e, "server stderr", slog.String("server", e.Server), slog.String("line", e.Detail))
	case event.Lifecycle:
		l.o.Step(shownServer(e), e.Detail)
	case event.Handshake:
		switch {
		case e.OfClient():
			l.opening(e)
		case e.Server != "" && l.o.Trace != nil:
			l.o.Trace(shownServer(e), e.Detail)
		}
	}
}

// opening logs the handshake of a client. Package loglimit writes only the first few records of a
// client each minute, and a count of the others.
func (l *Log) opening(e *event.Event) {
	attrs := []slog.Attr{
		loglimit.Peer("client", e.Opening.Client), slog.String("client_version", e.Opening.Version),
		slog.String("requested", cmp.Or(e.Opening.Requested, "none")), slog.String("revision", revisionOf(e)),
		loglimit.Peer("outcome", string(e.Outcome)), loglimit.Measured("took", slog.DurationValue(e.Took)),
		slog.String("remote", e.Opening.Remote), project(e),
	}
	if e.Method != mcp.MethodInitialize {
		attrs = append(attrs, slog.String("method", e.Method))
	}
	if e.Code != 0 {
		attrs = append(attrs, slog.Int64("error_code", e.Code))
	}
	l.record(e, "initialize", attrs...)
}

// revisionOf returns the revision that a client got in its handshake, or "none".
func revisionOf(e *event.Event) string {
	if e.From == mcp.Unknown {
		return "none"
	}
	return e.From.String()
}

// shownServer returns what people call the server of an event.
func shownServer(e *event.Event) string {
	if e.Project == "" || e.Project == event.DefaultProject {
		return e.Server
	}
	return e.Project + "/" + e.Server
}

// projectOf returns the attribute that says whose a record is, unless it's one of the default project or
// attrs have it already.
func projectOf(project string, attrs []slog.Attr) []slog.Attr {
	if project == "" || project == event.DefaultProject || slices.ContainsFunc(attrs, func(a slog.Attr) bool { return a.Key == "project" }) {
		return nil
	}
	return []slog.Attr{loglimit.Peer("project", project)}
}

// project returns the attribute that says whose an event is. Records of different projects are counted
// apart.
func project(e *event.Event) slog.Attr {
	if own := projectOf(e.Project, nil); own != nil {
		return own[0]
	}
	return slog.String("project", event.DefaultProject)
}

// record writes a log record with the time and the level of e.
func (l *Log) record(e *event.Event, text string, attrs ...slog.Attr) {
	ctx, h := context.Background(), l.o.Log.Handler()
	if !h.Enabled(ctx, e.Level) {
		return
	}
	switch e.Kind {
	case event.Loss, event.Rename, event.Changed, event.Pinned, event.Question:
		l.mask(e, attrs)
	}
	r := slog.NewRecord(e.Time, e.Level, text, 0)
	r.AddAttrs(projectOf(e.Project, attrs)...)
	r.AddAttrs(attrs...)
	_ = h.Handle(ctx, r)
}

// question records that a question waits for a person, or waits no more.
func (l *Log) question(e *event.Event) {
	attrs := []slog.Attr{slog.String("server", e.Server), slog.String("kind", e.Method), slog.String("name", e.Name)}
	switch e.Outcome {
	case "":
		l.record(e, "a question waits for a person", append(attrs, slog.String("principal", e.Who.Key()))...)
	case event.OK:
		l.record(e, "a question was answered", append(attrs, slog.String("answer", e.Detail), slog.String("by", e.Who.Key()), slog.Duration("took", e.Took))...)
	default:
		l.record(e, "a question has no answer", append(attrs, slog.String("why", e.Detail), slog.Duration("took", e.Took))...)
	}
}

// mask masks the secrets of the event's server in the attributes that may have come from it.
func (l *Log) mask(e *event.Event, attrs []slog.Attr) {
	clean := cleaner(l.o.Clean, e)
	for i, a := range attrs {
		if a.Key == "name" || a.Key == "what" || a.Key == "why" || a.Key == "then" {
			attrs[i].Value = slog.StringValue(clean(a.Value.String()))
		}
	}
}

// cleaner returns the result of LogOptions.Clean for an event, or a function that masks nothing.
func cleaner(of func(project, server string) func(text string) string, e *event.Event) func(text string) string {
	if of != nil {
		if clean := of(e.Project, e.Server); clean != nil {
			return clean
		}
	}
	return func(text string) string { return text }
}
