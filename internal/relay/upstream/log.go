package upstream

import (
	"context"
	"log/slog"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/base/failure"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
	"github.com/dragoman-mcp/dragoman/internal/relay/event"
)

// logLine is a log line that update writes when it has released the lock. Otherwise a slow terminal
// would block all goroutines that need the lock.
type logLine struct {
	level slog.Level
	text  string
	attrs []any
	event string // the detail of the event to publish; "" for none
}

// log makes update log a line about the server.
func (st *state) log(level slog.Level, text string, attrs ...any) {
	st.logEvent(level, text, "", attrs...)
}

// logEvent makes update log a line about the server, and publish an event with the given detail. If
// detail is "", there is no event.
func (st *state) logEvent(level slog.Level, text, detail string, attrs ...any) {
	st.lines = append(st.lines, logLine{level, text, append([]any{"server", st.name}, attrs...), detail})
}

// sameEnd is the minimum time between two full log records about ends of the server for the same
// reason. Other ends within this time get a short record.
const sameEnd = 10 * time.Minute

// endLog describes the last end of the server that was logged in full.
type endLog struct {
	fault Fault
	times int // how often the server has ended for this reason, including the first time
}

// countEnd counts an end of the server. It returns how often the server has ended for the same
// reason since the last full log record. 1 means that this end needs a full record.
func (h *healer) countEnd(f *failure.Failure) int {
	return get(h.core, func(st *state) int {
		e := &st.health.lastEnd
		if !e.fault.same(f) || time.Since(e.fault.At) >= sameEnd {
			*e = endLog{fault: Fault{Text: f.Sentence, At: time.Now(), Failure: f}}
		}
		e.times++
		return e.times
	})
}

// logEnd logs that a session has ended by itself, and the reason. pause is the time before the next
// attempt, or 0 if there is none. If an end for the same reason was logged recently, the record is
// short. logEnd also publishes an event.
func (h *healer) logEnd(s *session, f *failure.Failure, pause time.Duration) {
	attrs := []any{"server", h.spec.Name}
	n := h.countEnd(f)
	if n > 1 {
		attrs = append(attrs, "class", string(f.Class), "times", n)
	} else {
		attrs = append(attrs, f.Attrs()...)
	}
	if pause > 0 {
		attrs = append(attrs, "retry_after", shownPause(pause))
	}
	switch log := h.opts.Log; {
	case s.child != nil && n > 1:
		log.Warn("server ended again", attrs...)
	case s.child != nil:
		log.Warn("server ended", attrs...)
	case n > 1:
		log.Info("connection to server ended again", attrs...)
	default:
		log.Info("connection to server ended", attrs...)
	}
	e := event.Event{Kind: event.Lifecycle, Level: slog.LevelInfo, Server: h.spec.Name, Outcome: event.OK, Detail: f.Sentence}
	if s.child != nil {
		e.Level, e.Outcome = slog.LevelWarn, mcp.Failed
	}
	h.opts.Events.Publish(e)
	h.step("")
}

func (c *core) write(lines []logLine) {
	for _, l := range lines {
		c.opts.Log.Log(context.Background(), l.level, l.text, l.attrs...)
		if l.event != "" {
			outcome := event.OK
			if l.level >= slog.LevelWarn {
				outcome = mcp.Failed
			}
			c.opts.Events.Publish(event.Event{Kind: event.Lifecycle, Level: l.level, Server: c.spec.Name, Outcome: outcome, Detail: l.event})
			c.step("")
		}
	}
}
