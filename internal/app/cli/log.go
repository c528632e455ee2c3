package cli

import (
	"bytes"
	"io"
	"log/slog"
	"strings"

	"github.com/dragoman-mcp/dragoman/internal/base/excerpt"
	"github.com/dragoman-mcp/dragoman/internal/base/logcode"
	"github.com/dragoman-mcp/dragoman/internal/base/logscreen"
	"github.com/dragoman-mcp/dragoman/internal/relay/upstream"
	"github.com/dragoman-mcp/dragoman/internal/setup/config"
	"github.com/dragoman-mcp/dragoman/internal/transport/stdio"
)

// startLog creates the logger of a command. usual is the default level. c is the configuration of
// the log, or nil. Flags take precedence over c. On a terminal, the log is for people, unless the user
// has chosen a format.
func (w *world) startLog(usual slog.Level, c *config.Log) {
	level, json := usual, w.logFormat == "json"
	if c != nil {
		level = c.Level
		if w.logFormat == "" {
			json = c.JSON
		}
	}
	switch {
	case w.traceBytes:
		level = upstream.LevelBytes
	case w.verbose:
		level = slog.LevelDebug
	case w.quiet:
		level = slog.LevelError
	}
	o := &slog.HandlerOptions{Level: level}
	var handler slog.Handler
	switch {
	case json:
		w.status.recordsOnly()
		o.ReplaceAttr = withUnits
		handler = slog.NewJSONHandler(jsonLines{w.status}, o)
	case w.status.terminal && w.logFormat == "":
		w.people = logscreen.New(logscreen.Options{Level: level, Out: w.status, Width: w.status.width, Colour: w.status.colour})
		handler = w.people
	default:
		handler = slog.NewTextHandler(w.status, o)
	}
	w.log = slog.New(logcode.New(handler))
}

// withUnits writes a duration as text with its unit, such as "1.2ms". The JSON handler would write a
// number of nanoseconds.
func withUnits(_ []string, a slog.Attr) slog.Attr {
	if a.Value.Kind() == slog.KindDuration {
		a.Value = slog.StringValue(a.Value.Duration().String())
	}
	return a
}

// jsonLines writes JSON records. It escapes those terminal control characters that the JSON handler
// does not escape.
type jsonLines struct{ to *status }

func (l jsonLines) Write(b []byte) (int, error) {
	if _, err := l.to.print(excerpt.JSON(b)); err != nil {
		return 0, err
	}
	return len(b), nil
}

// wantsRecords reports whether the arguments select JSON records for stderr. It is needed for
// errors that occur before cobra has parsed all flags.
func wantsRecords(args []string) bool {
	format := ""
	for i, word := range args {
		if word == "--" {
			break
		}
		if value, ok := strings.CutPrefix(word, "--log-format="); ok {
			format = value
		} else if word == "--log-format" && i+1 < len(args) {
			format = args[i+1]
		}
	}
	return format == "json"
}

// childLines prints the stderr of a server to Dragoman's stderr, line by line. It puts the name of
// the server before each line, so that the line cannot look like a message of Dragoman.
type childLines struct {
	to   *status
	name string
}

func (l *childLines) Write(b []byte) (int, error) {
	for line := range bytes.Lines(b) {
		text := stdio.Printable(line)
		if l.to.record(slog.LevelInfo, text, slog.String("code", "server_stderr"), slog.String("server", clean(l.name))) {
			continue
		}
		if _, err := io.WriteString(l.to, clean(l.name)+" stderr: "+text+"\n"); err != nil {
			return 0, err
		}
	}
	return len(b), nil
}
