package daemon

import (
	"log/slog"
	"strings"
	"syscall"

	"github.com/dragoman-mcp/dragoman/internal/excerpt"
	"github.com/dragoman-mcp/dragoman/internal/loglimit"
)

// limitLog returns a logger for whatever clients and servers can cause, which a flood
// of theirs does not fill. flush must be called at the end.
func limitLog(log *slog.Logger) (limited *slog.Logger, flush func()) {
	h := loglimit.New(log.Handler())
	return slog.New(h), h.Close
}

// serverLog takes the lines that net/http's server logs. Most tell of what a single
// client did and are for who looks for it. That connections cannot be accepted, which
// it tries again after a pause, is for everybody.
type serverLog struct{ log *slog.Logger }

func (l serverLog) Write(b []byte) (int, error) {
	line := strings.TrimSpace(string(b))
	if cause, ok := strings.CutPrefix(line, "http: Accept error: "); ok {
		cause, _, _ = strings.Cut(cause, "; retrying in ")
		if strings.HasSuffix(cause, syscall.EMFILE.Error()) || strings.HasSuffix(cause, syscall.ENFILE.Error()) {
			l.log.Warn("file descriptors have run out: new connections wait until some are closed; raise the limit (ulimit -n)", "cause", cause)
		} else {
			l.log.Warn("connections cannot be accepted for now", "cause", cause)
		}
		return len(b), nil
	}
	if strings.HasPrefix(line, "http: panic serving ") {
		l.log.Error("panic while serving a request", "detail", excerpt.Line(line, 4<<10))
		return len(b), nil
	}
	l.log.Debug("HTTP server", "detail", excerpt.Line(line, 500))
	return len(b), nil
}
