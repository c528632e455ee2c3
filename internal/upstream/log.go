package upstream

import (
	"context"
	"log/slog"
)

// logLine is a log line that is written after the lock is released: writing may block on a
// terminal, and everyone who needs the lock would wait.
type logLine struct {
	level slog.Level
	text  string
	attrs []any
}

// sayLocked queues a log line about the server until the next unlock.
func (u *Upstream) logLocked(level slog.Level, text string, attrs ...any) {
	u.lines = append(u.lines, logLine{level, text, append([]any{"server", u.spec.Name}, attrs...)})
}

// unlock unlocks mu and writes the queued log lines. Callers of functions that queue lines
// must use it instead of mu.Unlock.
func (u *Upstream) unlock() {
	lines := u.takeLinesLocked()
	u.mu.Unlock()
	u.write(lines)
}

// takeLinesLocked returns the queued lines, for callers that must do something else before
// they write them.
func (u *Upstream) takeLinesLocked() []logLine {
	lines := u.lines
	u.lines = nil
	return lines
}

func (u *Upstream) write(lines []logLine) {
	for _, l := range lines {
		u.opts.Log.Log(context.Background(), l.level, l.text, l.attrs...)
	}
}
