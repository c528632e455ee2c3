package cli

import (
	"bytes"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"time"

	"github.com/lmittmann/tint"

	"github.com/dragoman-mcp/dragoman/internal/base/excerpt"
	"github.com/dragoman-mcp/dragoman/internal/base/logcode"
	"github.com/dragoman-mcp/dragoman/internal/relay/upstream"
	"github.com/dragoman-mcp/dragoman/internal/setup/config"
	"github.com/dragoman-mcp/dragoman/internal/transport/stdio"
)

// startLog creates the logger of a command. usual is the default level. c is the configuration of
// the log, or nil. Flags take precedence over c.
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
	case w.status.terminal:
		handler = tint.NewTextHandler(w.status, &tint.Options{
			Level: level, TimeFormat: time.TimeOnly, NoColor: !w.status.colour, ReplaceAttr: withoutEscape,
		})
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

// withoutEscape replaces each escape character in an attribute, and each sequence of the four
// characters \x1b. The coloured handler quotes other control characters, but it writes an escape
// character unchanged, and it converts the four characters \x1b to an escape character. In both
// cases, text from a server or a client could control the terminal.
func withoutEscape(_ []string, a slog.Attr) slog.Attr {
	switch a.Value.Kind() {
	case slog.KindString:
		a.Value = slog.StringValue(escapeSpelled.Replace(a.Value.String()))
	case slog.KindAny:
		switch v := a.Value.Any().(type) {
		case slog.Level, *slog.Source: // these values come from the handler, not from a server or a client
		default:
			a.Value = slog.StringValue(escapeSpelled.Replace(fmt.Sprintf("%+v", v)))
		}
	}
	return a
}

var escapeSpelled = strings.NewReplacer("\x1b", `\x1B`, `\x1b`, `\x1B`)

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
