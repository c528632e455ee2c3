package upstream

import (
	"context"
	"log/slog"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/base/failure"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
	"github.com/dragoman-mcp/dragoman/internal/relay/event"
)

// logLine is a log line that is written after Upstream.mu is released. If it were written under mu,
// a slow terminal would block all goroutines that need mu.
type logLine struct {
	level slog.Level
	text  string
	attrs []any
	event string // the detail of the event to publish; "" for none
}

// logLocked queues a log line about the server. unlock writes the queued lines.
func (u *Upstream) logLocked(level slog.Level, text string, attrs ...any) {
	u.tellLocked(level, text, "", attrs...)
}

// tellLocked queues a log line about the server, and an event with the given detail. If detail is
// "", there is no event.
func (u *Upstream) tellLocked(level slog.Level, text, detail string, attrs ...any) {
	u.lines = append(u.lines, logLine{level, text, append([]any{"server", u.spec.Name}, attrs...), detail})
}

// unlock unlocks mu and writes the queued log lines. Callers of functions that queue lines must
// call unlock instead of mu.Unlock.
func (u *Upstream) unlock() {
	lines := u.takeLinesLocked()
	u.mu.Unlock()
	u.write(lines)
}

// takeLinesLocked empties the queue of log lines and returns the lines. It is for callers that do
// other work before they write the lines.
func (u *Upstream) takeLinesLocked() []logLine {
	lines := u.lines
	u.lines = nil
	return lines
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
func (u *Upstream) countEnd(f *failure.Failure) int {
	u.mu.Lock()
	defer u.mu.Unlock()
	if e := &u.lastEnd; e.fault.same(f) && time.Since(e.fault.At) < sameEnd {
		e.times++
		return e.times
	}
	u.lastEnd = endLog{Fault{Text: f.Sentence, At: time.Now(), Failure: f}, 1}
	return 1
}

// logEnd logs that a session has ended by itself, and the reason. pause is the time before the next
// attempt, or 0 if there is none. If an end for the same reason was logged recently, the record is
// short. logEnd also publishes an event.
func (u *Upstream) logEnd(s *session, f *failure.Failure, pause time.Duration) {
	attrs := []any{"server", u.spec.Name}
	n := u.countEnd(f)
	if n > 1 {
		attrs = append(attrs, "class", string(f.Class), "times", n)
	} else {
		attrs = append(attrs, f.Attrs()...)
	}
	if pause > 0 {
		attrs = append(attrs, "retry_after", shownPause(pause))
	}
	switch log := u.opts.Log; {
	case s.child != nil && n > 1:
		log.Warn("server ended again", attrs...)
	case s.child != nil:
		log.Warn("server ended", attrs...)
	case n > 1:
		log.Info("connection to server ended again", attrs...)
	default:
		log.Info("connection to server ended", attrs...)
	}
	e := event.Event{Kind: event.Lifecycle, Level: slog.LevelInfo, Server: u.spec.Name, Outcome: event.OK, Detail: f.Sentence}
	if s.child != nil {
		e.Level, e.Outcome = slog.LevelWarn, mcp.Failed
	}
	u.opts.Events.Publish(e)
	u.step("")
}

func (u *Upstream) write(lines []logLine) {
	for _, l := range lines {
		u.opts.Log.Log(context.Background(), l.level, l.text, l.attrs...)
		if l.event != "" {
			outcome := event.OK
			if l.level >= slog.LevelWarn {
				outcome = mcp.Failed
			}
			u.opts.Events.Publish(event.Event{Kind: event.Lifecycle, Level: l.level, Server: u.spec.Name, Outcome: outcome, Detail: l.event})
			u.step("")
		}
	}
}
