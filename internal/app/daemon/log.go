package daemon

import (
	"log/slog"
	"strings"
	"syscall"

	"github.com/dragoman-mcp/dragoman/internal/base/excerpt"
	"github.com/dragoman-mcp/dragoman/internal/base/loglimit"
)

// limitLog returns a logger for records that clients and servers can cause. The logger limits how
// many of these records it writes, so that clients and servers cannot flood the log. The caller
// must call flush when it no longer uses the logger.
func limitLog(log *slog.Logger) (limited *slog.Logger, flush func()) {
	h := loglimit.New(log.Handler())
	return slog.New(h), h.Close
}

// callLevel returns the level of the records of calls.
func callLevel(wanted bool) slog.Level {
	if wanted {
		return slog.LevelInfo
	}
	return slog.LevelDebug
}

// serverLog receives the log lines of an http.Server. It logs a failure to accept connections as a
// warning, because net/http tries again after a pause. It logs a panic as an error, and all other
// lines as debug records.
type serverLog struct{ log *slog.Logger }

func (l serverLog) Write(b []byte) (int, error) {
	line := strings.TrimSpace(string(b))
	if cause, ok := strings.CutPrefix(line, "http: Accept error: "); ok {
		cause, _, _ = strings.Cut(cause, "; retrying in ")
		if strings.HasSuffix(cause, syscall.EMFILE.Error()) || strings.HasSuffix(cause, syscall.ENFILE.Error()) {
			l.log.Warn("no free file descriptors: new connections wait; raise the limit of open files (ulimit -n)", "cause", cause)
		} else {
			l.log.Warn("cannot accept connections for now", "cause", cause)
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
