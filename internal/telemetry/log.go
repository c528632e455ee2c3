package telemetry

import (
	"context"
	"log/slog"

	"github.com/dragoman-mcp/dragoman/internal/event"
	"github.com/dragoman-mcp/dragoman/internal/work"
)

// logDepth is how many events wait for the log.
const logDepth = 512

// LogOptions say where events go.
type LogOptions struct {
	// Log gets losses, refusals and renamed items. It is required.
	Log *slog.Logger
	// Step shows a person what is being done for a server while they wait; an empty
	// step says that it is over. Nil shows nothing.
	Step func(server, step string)
	// Trace shows how the handshake with a server went, a line for each step. Nil
	// shows nothing.
	Trace func(server, trace string)
}

// Log writes events as log records and shows steps and handshakes to a person. It calls
// the functions of its options from one goroutine. NewLog makes it, Close ends it.
type Log struct {
	o       LogOptions
	queue   *event.Queue
	running work.Group
}

// NewLog begins to log the events of p.
func NewLog(p *event.Publisher, o LogOptions) *Log {
	want := []event.Kind{event.Loss, event.Refusal, event.Rename}
	if o.Step != nil {
		want = append(want, event.Lifecycle)
	}
	if o.Trace != nil {
		want = append(want, event.Handshake)
	}
	l := &Log{o: o, queue: p.Subscribe(event.Of(want...), logDepth)}
	l.running.Go(l.run)
	return l
}

// Close logs what was published before it and ends the goroutine. It may be called more
// than once.
func (l *Log) Close() {
	l.queue.Close()
	l.running.Close()
	l.running.Wait()
}

// run logs events until the queue is closed and empty.
func (l *Log) run() {
	buf := make([]event.Event, 16)
	for {
		n, missed, err := l.queue.Next(context.Background(), buf)
		if err != nil {
			return
		}
		if missed > 0 {
			l.o.Log.Warn("events were not logged: there were too many at once", "missed", missed)
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
		l.record(e, "clients do not get this", slog.String("server", e.Server), slog.String("what", e.Name), slog.String("why", e.Detail))
	case event.Rename:
		l.record(e, "an item has another name than the usual one",
			slog.String("server", e.Server), slog.String("list", e.Method), slog.String("name", e.Name), slog.String("why", e.Detail))
	case event.Refusal:
		l.record(e, e.Detail, slog.String("server", e.Server), slog.String("principal", e.Who.Key()), slog.String("method", e.Method))
	case event.Lifecycle:
		l.o.Step(e.Server, e.Detail)
	case event.Handshake:
		if e.Server != "" {
			l.o.Trace(e.Server, e.Detail)
		}
	}
}

// record writes a log record with the time and the level of e.
func (l *Log) record(e *event.Event, text string, attrs ...slog.Attr) {
	ctx, h := context.Background(), l.o.Log.Handler()
	if !h.Enabled(ctx, e.Level) {
		return
	}
	r := slog.NewRecord(e.Time, e.Level, text, 0)
	r.AddAttrs(attrs...)
	_ = h.Handle(ctx, r)
}
