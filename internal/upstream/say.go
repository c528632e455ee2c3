package upstream

import (
	"context"
	"log/slog"
)

// logLine is a line of the log that is due when the lock is given back: whoever writes it
// may wait for a terminal, and everybody would wait with it.
type logLine struct {
	level slog.Level
	text  string
	attrs []any
}

// sayLocked logs a line about the server, at the next unlock.
func (u *Upstream) sayLocked(level slog.Level, text string, attrs ...any) {
	u.lines = append(u.lines, logLine{level, text, append([]any{"server", u.spec.Name}, attrs...)})
}

// unlock gives mu back and logs what is due. Whoever calls a function that says
// something must use it in place of mu.Unlock.
func (u *Upstream) unlock() {
	lines := u.takeLinesLocked()
	u.mu.Unlock()
	u.write(lines)
}

// takeLinesLocked returns what is due, for those who have something to do first.
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
